import type { InputValues } from '../../../contract/ability.ts'
import { checkInputs } from '../../abilities/inputs.ts'
import { hasStepEnded } from '../../abilities/engine.ts'
import {
  fillPlaceholders,
  type Filling,
  placeholdersOf,
} from '../../abilities/scripts/placeholders.ts'
import type { Outcome } from '../../abilities/script-result.ts'
import type { Sql } from '../../ports.ts'
import {
  type ExecutionRow,
  findExecutionCopy,
  findExecution,
  type StepRow,
  executionSteps,
} from '../executions/rows.ts'
import { mustRun } from '../runs/rows.ts'
import { endRunWait, addRunWait } from '../runs/waits.ts'
import {
  type Begun,
  stepDefinition,
  type Moving,
  stepRefused,
  type StepWork,
  stepTimeout,
} from './step-work.ts'
import { saveAbilitySecrets, secretRows } from './secrets.ts'
import {
  maskInputs,
  executionStartHash,
  problemsText,
  secretsAmong,
  startExecution,
  type NewStart,
} from './execution-start.ts'

interface ChildrenParts {
  newId: (prefix: 'exe' | 'run') => string
  /** After it was begun: if its plan is to be approved, somebody is asked. */
  begun: (sql: Sql, now: number, id: string) => void
  end: (sql: Sql, now: number, child: ExecutionRow, why: string) => void
}

const maxDepth = 10

/**
 * Workflow steps: another ability as an execution of its own, with a run of its own, whose parent is this one. It works
 * with the copy that was made when the outermost one began. While it waits for a person, so does its parent's run.
 */
export class Children implements StepWork {
  readonly #parts: ChildrenParts

  constructor(parts: ChildrenParts) {
    this.#parts = parts
  }

  begin(moving: Moving, row: StepRow): Begun {
    const step = stepDefinition(moving, row)
    if (step?.type !== 'workflow') return stepRefused('It is no workflow')
    const { sql, now, execution, filling, secrets } = moving
    const nested = JSON.parse(execution.nested) as Record<string, string>
    const hash = Object.hasOwn(nested, step.workflow) ? nested[step.workflow] : undefined
    const copy = hash === undefined ? null : findExecutionCopy(sql, hash, step.workflow)
    if (copy === null) return stepRefused(`Nested ability '${step.workflow}' not found`)
    const chain = chainOf(sql, execution)
    if (chain.includes(copy.name))
      return stepRefused(`Abilities call each other: ${[...chain, copy.name].join(' → ')}`)
    if (chain.length >= maxDepth)
      return stepRefused(`More than ${maxDepth} abilities in each other`)
    const given = fillInputs(step.inputs, { ...filling, inputs: { ...filling.inputs, ...secrets } })
    const checked = checkInputs(copy.definition.inputs, given)
    if ('problems' in checked)
      return stepRefused(`Input validation failed: ${problemsText(checked.problems)}`)
    const passed = passedSecrets(step.inputs, Object.keys(secrets))
    if (passed === null) return stepRefused('A secret input is passed on alone: "{{inputs.NAME}}"')
    const bare = Object.keys(secretsAmong(copy.definition, checked.values)).find(
      (name) => !Object.hasOwn(passed, name),
    )
    if (bare !== undefined)
      return stepRefused(
        `Input '${bare}' of '${copy.name}' is secret: it is given by a secret input, as "{{inputs.NAME}}"`,
      )
    const inputs = maskInputs(copy.definition, checked.values, Object.keys(passed))
    const start: NewStart = {
      ...{ id: this.#parts.newId('exe'), runId: this.#parts.newId('run'), ability: copy, nested },
      ...{ inputs, words: execution.words, starter: execution.starter },
      planHash: executionStartHash(copy, { nested, inputs, words: execution.words }),
      parent: { id: execution.id, stepId: row.id },
    }
    startExecution(sql, now, start)
    const sealed = new Map(secretRows(sql, execution.id).map((one) => [one.name, one.sealed]))
    const own = Object.entries(passed).map(([name, from]) => [name, sealed.get(from) ?? ''])
    saveAbilitySecrets(sql, start.id, Object.fromEntries(own) as Record<string, string>)
    this.#parts.begun(sql, now, start.id)
    return { subject: start.id, deadlineAt: now + stepTimeout(step) }
  }

  look({ sql, now, execution }: Moving, { subject }: StepRow): Outcome | null {
    const child = findExecution(sql, subject ?? '')
    if (!child) return stepRefused('Its execution is gone')
    const { id, ability, state, error } = child
    const run = mustRun(sql, child.run_id)
    if (run.status === 'needs-human')
      addRunWait(sql, now, execution.run_id, id, `Ability ${ability} waits: ${run.reason ?? ''}`)
    else endRunWait(sql, now, execution.run_id, id, `Ability ${ability} goes on`)
    if (state === 'completed') return { ok: true, output: lastOutput(sql, id) }
    if (state === 'failed')
      return { ok: false, failure: 'failed', error: `Ability '${ability}' failed: ${error ?? ''}` }
    return state === 'cancelled'
      ? stepRefused(`Ability '${ability}': ${error ?? 'cancelled'}`)
      : null
  }

  letGo({ sql, now }: Moving, { subject }: StepRow, why: string): void {
    const child = findExecution(sql, subject ?? '')
    if (child) this.#parts.end(sql, now, child, why)
  }
}

/** From the outermost to this one. */
function chainOf(sql: Sql, execution: ExecutionRow): string[] {
  const parent = execution.parent_id === null ? undefined : findExecution(sql, execution.parent_id)
  return [...(parent ? chainOf(sql, parent) : []), execution.ability]
}

/** By the child's input: the secret of the parent that it is given. Null: one is part of another text. */
function passedSecrets(
  given: Readonly<Record<string, unknown>>,
  secrets: readonly string[],
): Record<string, string> | null {
  const passed: Record<string, string> = {}
  for (const [name, value] of Object.entries(given)) {
    const used = placeholdersOf(JSON.stringify(value)).flatMap(({ reference }) =>
      reference.kind === 'input' && secrets.includes(reference.name) ? [reference.name] : [],
    )
    const [first] = used
    if (first === undefined) continue
    if (typeof value !== 'string' || placeholdersOf(value)[0]?.text !== value.trim()) return null
    passed[name] = first
  }
  return passed
}

/** A value that is one placeholder alone keeps its type: a number stays a number. */
function fillInputs(given: Readonly<Record<string, unknown>>, filling: Filling): InputValues {
  return Object.fromEntries(
    Object.entries(given).map(([name, value]) => [name, fillValue(value, filling)]),
  )
}

function fillValue(value: unknown, filling: Filling): unknown {
  if (typeof value === 'string') {
    const [only] = placeholdersOf(value)
    const isWhole = only?.text === value.trim() && only.reference.kind === 'input'
    if (!isWhole || only.reference.kind !== 'input') return fillPlaceholders(value, filling)
    const { name } = only.reference
    return Object.hasOwn(filling.inputs, name) ? filling.inputs[name] : undefined
  }
  if (Array.isArray(value)) return value.map((one) => fillValue(one, filling))
  return typeof value === 'object' && value !== null
    ? fillInputs(value as Record<string, unknown>, filling)
    : value
}

/** What the last of its steps that has completed has said. */
function lastOutput(sql: Sql, executionId: string): string {
  const done = executionSteps(sql, executionId).filter(
    ({ part, state }) => part === 'step' && hasStepEnded(state) && state === 'completed',
  )
  return done.at(-1)?.output ?? ''
}
