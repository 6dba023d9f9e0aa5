import type { Execution, ExecutionCreate } from '../../contract/execution.ts'
import { withCalled } from '../session/abilities/called.ts'
import type { Caller } from '../session/record/caller.ts'
import type { SessionApi } from '../session/session.ts'

/** Begins an ability in a session, with copies of it and of all that its workflow steps may call as they are now. */
export async function executeAbility(
  session: Pick<SessionApi, 'offers' | 'abilities'>,
  caller: Caller,
  create: ExecutionCreate,
  idempotencyKey: string | null,
): Promise<Execution> {
  const given = await withCalled(
    (name, version) => session.offers.find(caller, name, version),
    create,
  )
  return session.abilities.execute(caller, given, idempotencyKey)
}
