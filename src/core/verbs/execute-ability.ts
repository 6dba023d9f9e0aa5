import { AppError } from '../../contract/error.ts'
import type { AbilityPlan, Execution, ExecutionCreate } from '../../contract/execution.ts'
import type { Db } from '../ports.ts'
import { findRunnable, noAbility, type RunnableAbility } from '../registry/abilities/abilities.ts'
import type { ExecutionGiven } from '../session/abilities/abilities.ts'
import type { SessionApi } from '../session/session.ts'
import type { Caller } from '../session/record/caller.ts'

interface ExecutePorts {
  db: Db
  session: Pick<SessionApi, 'self' | 'abilities'>
}

/** All of them travel in one message. */
const maxNested = 50
const maxCharacters = 1_500_000

/** Begins an ability in a session, with copies of it and of all that its workflow steps may call as they are now. */
export async function executeAbility(
  { db, session }: ExecutePorts,
  caller: Caller,
  create: ExecutionCreate,
  idempotencyKey: string | null,
): Promise<Execution> {
  const { project } = await session.self.view(caller)
  const { organisationId } = caller
  const given = await loadAbilities(db, { organisationId, project }, create)
  return session.abilities.execute(caller, given, idempotencyKey)
}

/** What it would do in a session, as everything is now. */
export async function planAbility(
  { db, session }: ExecutePorts,
  caller: Caller,
  create: ExecutionCreate,
): Promise<AbilityPlan> {
  const { project } = await session.self.view(caller)
  const { organisationId } = caller
  const given = await loadAbilities(db, { organisationId, project }, create)
  return session.abilities.plan(caller, given)
}

/** What the session's project has counts before what its organisation has. */
export async function loadAbilities(
  db: Db,
  owner: { organisationId: string; project: string },
  create: ExecutionCreate,
): Promise<ExecutionGiven> {
  const ability = await findRunnable(db, owner, create.ability, create.version ?? null)
  if (ability === null) throw noAbility(create.ability)
  const found = new Map([[ability.name, ability]])
  for (const name of calledBy([...found.values()])) await follow(db, owner, name, found)
  const nested = [...found.values()].slice(1)
  mustFit(ability.name, [...found.values()])
  return { create, ability, nested }
}

/** What is not stored is left out: its step fails and says so. */
async function follow(
  db: Db,
  owner: { organisationId: string; project: string },
  name: string,
  found: Map<string, RunnableAbility>,
): Promise<void> {
  if (found.has(name) || found.size > maxNested) return
  const ability = await findRunnable(db, owner, name)
  if (ability === null) return
  found.set(name, ability)
  for (const called of calledBy([ability])) await follow(db, owner, called, found)
}

const calledBy = (abilities: readonly RunnableAbility[]): string[] =>
  abilities.flatMap(({ definition }) =>
    definition.steps.flatMap((step) => (step.type === 'workflow' ? [step.workflow] : [])),
  )

function mustFit(name: string, abilities: readonly RunnableAbility[]): void {
  const characters = abilities.reduce(
    (sum, { definition }) => sum + JSON.stringify(definition).length,
    0,
  )
  if (abilities.length <= maxNested && characters <= maxCharacters) return
  throw new AppError(
    'unprocessable',
    `Cannot execute "${name}": with what it calls it is too large, at most ${maxNested} abilities and ${maxCharacters} characters`,
  )
}
