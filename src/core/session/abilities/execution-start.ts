import type { AbilityDocument, InputValues } from '../../../contract/ability.ts'
import { canonicalJson } from '../../../contract/canonical.ts'
import { AppError } from '../../../contract/error.ts'
import type { ExecutionCreate } from '../../../contract/execution.ts'
import { parseDuration } from '../../abilities/durations.ts'
import { checkInputs } from '../../abilities/inputs.ts'
import { hashText } from '../../hash.ts'
import type { Sql } from '../../ports.ts'
import { type AbilityCopy, insertExecution, type NewExecution } from '../executions/rows.ts'
import { abilityWorkflow, changeRun, insertRun } from '../runs/rows.ts'
import { masked } from './secrets.ts'

/** What an execution begins with. Its secret inputs are elsewhere. */
export interface NewStart {
  id: string
  runId: string
  ability: AbilityCopy
  /** By name, the hashes of those that its workflow steps may call. */
  nested: Readonly<Record<string, string>>
  inputs: InputValues
  words: string
  starter: string
  planHash: string
  parent: { id: string; stepId: string } | null
}

/** Everything but its ids. */
export type PreparedStart = Omit<NewStart, 'id' | 'runId' | 'starter' | 'parent'> & {
  copies: readonly AbilityCopy[]
  sealed: Readonly<Record<string, string>>
}

/** Inside a commit: its run, its row and its steps. If its plan is to be approved it waits. */
export function startExecution(sql: Sql, now: number, start: NewStart): NewExecution {
  const { id, runId, ability, parent } = start
  const { settings } = ability.definition
  const part = parent === null ? '' : ` (step ${parent.stepId} of ${parent.id})`
  insertRun(sql, now, runId, {
    ...{ intent: `Ability ${ability.name}${part}`, workflow: abilityWorkflow, implicit: false },
  })
  changeRun(sql, now, runId, 'start', null)
  const totalMs = settings.timeout === undefined ? null : parseDuration(settings.timeout)
  const row: NewExecution = {
    ...{ id, ability: ability.name, hash: ability.hash, version: ability.version },
    ...{ parent_id: parent?.id ?? null, parent_step: parent?.stepId ?? null, run_id: runId },
    state: settings.approval === 'plan' ? 'planned' : 'running',
    ...{ starter: start.starter, inputs: JSON.stringify(start.inputs), words: start.words },
    nested: JSON.stringify(start.nested),
    plan_hash: start.planHash,
    deadline_at: totalMs === null ? null : now + totalMs,
    started_at: now,
  }
  insertExecution(sql, now, row, ability.definition)
  return row
}

/** What an approval of the plan holds for: this ability, those that it calls, these inputs (secret ones are masked) and words. */
export function executionStartHash(
  { hash }: Pick<AbilityCopy, 'hash'>,
  { nested, inputs, words }: Pick<NewStart, 'nested' | 'inputs' | 'words'>,
): string {
  return hashText(canonicalJson([hash, nested, inputs, ...(words === '' ? [] : [words])]))
}

/** With defaults; or refuses, with every mistake. */
export function executionStartInputs(
  { inputs }: Pick<AbilityDocument, 'inputs'>,
  given: ExecutionCreate['inputs'],
): InputValues {
  const checked = checkInputs(inputs, given)
  if ('values' in checked) return checked.values
  throw new AppError(
    'unprocessable',
    `Input validation failed: ${problemsText(checked.problems)}`,
    checked.problems.map(({ path, code, message }) => ({ path, message: `${code}: ${message}` })),
  )
}

export const problemsText = (problems: readonly { path: string; message: string }[]): string =>
  problems.map(({ path, message }) => `${path}: ${message}`).join('; ')

/** The values of inputs that are not to be shown. */
export const secretsAmong = (
  { inputs }: Pick<AbilityDocument, 'inputs'>,
  values: InputValues,
): InputValues =>
  Object.fromEntries(Object.entries(values).filter(([name]) => inputs[name]?.secret === true))

/** As they are kept and shown. */
export const maskInputs = (
  { inputs }: Pick<AbilityDocument, 'inputs'>,
  values: InputValues,
  alsoSecret: readonly string[] = [],
): InputValues =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      inputs[name]?.secret === true || alsoSecret.includes(name) ? masked : value,
    ]),
  )
