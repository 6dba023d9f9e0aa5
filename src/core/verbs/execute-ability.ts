import type { AbilityPlan, Execution, ExecutionCreate } from '../../contract/execution.ts'
import { withCalledAbilities } from '../session/abilities/called-abilities.ts'
import type { Caller } from '../session/record/caller.ts'
import type { SessionApi } from '../session/session.ts'

type Session = Pick<SessionApi, 'offers' | 'abilities'>

/** Begins an ability in a session, with copies of it and of all that its workflow steps may call as they are now. */
export async function executeAbility(
  session: Session,
  caller: Caller,
  create: ExecutionCreate,
  idempotencyKey: string | null,
): Promise<Execution> {
  const known =
    idempotencyKey === null
      ? null
      : await session.abilities.executed(caller, create, idempotencyKey)
  if (known !== null) return known
  const given = await abilityFor(session, caller, create)
  return session.abilities.execute(caller, given, idempotencyKey)
}

/** What it would do in a session, as everything is now. */
export async function planAbilityToExecute(
  session: Session,
  caller: Caller,
  create: ExecutionCreate,
): Promise<AbilityPlan> {
  return session.abilities.plan(caller, await abilityFor(session, caller, create))
}

const abilityFor = (session: Session, caller: Caller, create: ExecutionCreate) =>
  withCalledAbilities((name, version) => session.offers.find(caller, name, version), create)
