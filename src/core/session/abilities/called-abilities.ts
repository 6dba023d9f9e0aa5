import { AppError } from '../../../contract/error.ts'
import type { ExecutionCreate } from '../../../contract/execution.ts'
import type { AbilityCopy } from '../executions/rows.ts'
import type { ExecutionGiven } from './abilities.ts'

/** All of them travel in one message. */
const maxNested = 50
const maxCharacters = 1_500_000

/** Null: there is none of this name. */
export type FindAbility = (name: string, version: number | null) => Promise<AbilityCopy | null>

/** An ability with copies of all that its workflow steps may call, as they are now. */
export async function withCalledAbilities(
  find: FindAbility,
  create: ExecutionCreate,
): Promise<ExecutionGiven> {
  const ability = await find(create.ability, create.version ?? null)
  if (ability === null) throw new AppError('not_found', `There is no ability "${create.ability}"`)
  const found = new Map([[ability.name, ability]])
  for (const name of calledBy(ability)) await follow(find, name, found)
  mustFit(ability.name, [...found.values()])
  return { create, ability, nested: [...found.values()].slice(1) }
}

/** What is not there is left out: its step fails and says so. */
async function follow(
  find: FindAbility,
  name: string,
  found: Map<string, AbilityCopy>,
): Promise<void> {
  if (found.has(name) || found.size > maxNested) return
  const ability = await find(name, null)
  if (ability === null) return
  found.set(name, ability)
  for (const called of calledBy(ability)) await follow(find, called, found)
}

const calledBy = ({ definition }: AbilityCopy): string[] =>
  definition.steps.flatMap((step) => (step.type === 'workflow' ? [step.workflow] : []))

function mustFit(name: string, abilities: readonly AbilityCopy[]): void {
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
