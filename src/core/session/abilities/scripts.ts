import type { Layout } from '../../../contract/manifest.ts'
import type { ScriptStep } from '../../../contract/ability.ts'
import type { IsolationPlan, Operation } from '../../../contract/operation.ts'
import type { Decision } from '../../../contract/permission.ts'
import { isNumberReference } from '../../abilities/scripts/numbers.ts'
import {
  fillPlaceholders,
  type Filling,
  type Reference,
} from '../../abilities/scripts/placeholders.ts'
import { cutOutput } from '../../abilities/outputs.ts'
import { pinPaths, withPinnedPaths } from '../../abilities/pinned-paths.ts'
import { byteLength, isByteLengthOver } from '../../../contract/byte-length.ts'
import { judgeScriptResult, type Outcome } from '../../abilities/script-result.ts'
import { fillScriptSlots } from '../../abilities/scripts/filling.ts'
import { readScriptSlots } from '../../abilities/scripts/slots.ts'
import { mustApproval } from '../approvals/rows.ts'
import type { StepRow } from '../executions/rows.ts'
import type { SessionPolicy } from '../gate/policy.ts'
import { abandonAttempt, attemptsOfOperation } from '../operations/attempts.ts'
import type { StepOfAbility } from '../operations/judge.ts'
import type { Operations } from '../operations/operations.ts'
import { mustOperation, secretPrefix } from '../operations/rows.ts'
import { secretAsText } from '../record/secrets.ts'
import {
  stepAsker,
  type Begun,
  hookCommand,
  stepDefinition,
  type Moving,
  stepOutputs,
  stepRefused,
  type StepWork,
  stepTimeout,
} from './step-work.ts'

/** In one variable of a process there is room for 128 KiB. */
const maxVariable = 120_000
const maxOutputsJson = 100_000

/**
 * Script steps and hooks. Each try is one operation: decided by the session's policy as the same command of the agent
 * would be, held by its isolation plan, begun at most once. An attempt of which nobody knows how it ended is told as
 * unknown, and is not tried again by itself.
 */
export class Scripts implements StepWork {
  readonly #operations: Operations
  readonly #policy: SessionPolicy

  constructor(operations: Operations, policy: SessionPolicy) {
    this.#operations = operations
    this.#policy = policy
  }

  begin(moving: Moving, row: StepRow): Begun {
    const made = this.operationOf(moving, row)
    if ('problem' in made) return stepRefused(made.problem)
    const { sql, now, execution } = moving
    const subject = this.#operations.start(sql, now, stepAsker(execution), {
      runId: execution.run_id,
      operation: made.operation,
      step: this.#stepOf(moving),
    })
    return { subject, deadlineAt: null }
  }

  #stepOf({ execution, copy }: Moving): StepOfAbility {
    return {
      folder: this.#folder(execution.hash),
      grant: execution.plan_approval_id,
      checkpoint: copy.definition.settings.approval === 'checkpoint',
    }
  }

  /** What would be decided about it now. Decides nothing and writes nothing. */
  foresee(moving: Moving, row: StepRow): Foreseen | { problem: string } {
    const made = this.operationOf(moving, row)
    if ('problem' in made) return made
    const { command = '' } = made.operation
    const { record, plan } = this.#operations.foresee(made.operation, this.#stepOf(moving))
    const { notPinned } = pinPaths(command, moving.copy.files)
    return { command, decision: record.decision, reason: record.reason, plan, notPinned }
  }

  /** What would run now, with every value in its place. */
  operationOf(moving: Moving, row: StepRow): { operation: Operation } | { problem: string } {
    const step = scriptOf(moving, row)
    const { inputs } = moving.copy.definition
    const isNumeric = (reference: Reference) => isNumberReference(reference, inputs)
    const read = readScriptSlots(step.run, { isNumeric, environment: step.env })
    if ('problems' in read) return { problem: read.problems.join('. ') }
    const filled = fillScriptSlots(read, moving.filling, new Map(secretNames(moving)))
    if ('problem' in filled) return filled
    const environment = this.#environment(moving, step)
    const problem = environmentProblem(environment)
    if (problem !== null) return { problem }
    const operation: Operation = {
      category: 'shell',
      operation: 'run',
      // Written out, so that the policy knows what it runs.
      command: withPinnedPaths(
        filled.script,
        moving.copy.files,
        this.#folder(moving.execution.hash),
      ),
      ability: moving.execution.hash,
      ...(step.cwd === undefined ? {} : { cwd: step.cwd }),
      streams: 'apart',
      ...(step.validation?.file_exists === undefined
        ? {}
        : { looksFor: step.validation.file_exists }),
      environment,
      risks: [],
      timeoutMs: step.timeoutMs,
      network: step.network,
    }
    return { operation }
  }

  #environment(moving: Moving, { env }: Pick<ScriptStep, 'env'>): Record<string, string> {
    const { filling, steps, execution, secrets } = moving
    const inputs = { ...filling.inputs, ...secrets }
    const own = Object.entries(env).map(([name, text]) => [
      name,
      fillPlaceholders(text, { ...filling, inputs }),
    ])
    const hidden = secretNames(moving).map(([name, variable]) => [
      variable,
      secretAsText(inputs[name]),
    ])
    return {
      ...Object.fromEntries(own),
      ...Object.fromEntries(hidden),
      ABILITY_DIR: this.#folder(execution.hash),
      ABILITY_INPUTS_JSON: JSON.stringify(inputs),
      ABILITY_STEP_OUTPUTS_JSON: outputsJson(steps),
    }
  }

  #folder(hash: string): string {
    return executionFolder(this.#policy.place().layout, hash)
  }

  look(moving: Moving, row: StepRow): Outcome | null {
    const { sql, now } = moving
    const attempt = attemptsOfOperation(sql, row.subject ?? '').at(-1)
    if (attempt === undefined) {
      const operation = mustOperation(sql, row.subject ?? '')
      if (operation.decision === 'deny') return stepRefused(`Denied by policy: ${operation.reason}`)
      const { state, resolution_reason: why } = mustApproval(sql, operation.approval_id ?? '')
      if (state === 'approved') this.#operations.startApproved(sql, now, operation.id)
      return state === 'rejected' || state === 'cancelled'
        ? stepRefused(`Rejected: ${why ?? state}`)
        : null
    }
    if (attempt.status === 'abandoned')
      return { ok: false, failure: 'failed', error: `Abandoned: ${attempt.reason ?? ''}` }
    if (attempt.report) return judgeScriptResult(scriptOf(moving, row), attempt.report)
    if (attempt.suspectSince === null) return null
    const error = `It may or may not have run: ${attempt.reason ?? 'no result in time'}`
    return { ok: false, failure: 'unknown', error }
  }

  /** An attempt that nobody knows of is given up; one that runs is stopped. */
  letGo({ sql, now }: Moving, { subject }: StepRow, why: string): void {
    const active = attemptsOfOperation(sql, subject ?? '').find(
      ({ status }) => status === 'reserved',
    )
    if (active) abandonAttempt(sql, now, active.id, { actor: 'ability', reason: why })
  }
}

/** What no program can be given. */
function environmentProblem(environment: Readonly<Record<string, string>>): string | null {
  for (const [name, value] of Object.entries(environment)) {
    if (isByteLengthOver(value, maxVariable))
      return `${name} has more than the ${maxVariable} bytes that a program can be given`
    if (value.includes('\u0000') || !value.isWellFormed())
      return `${name} has characters that no program can be given`
  }
  return null
}

/** By the name of each secret input: the variable that a script has it in. */
const secretNames = ({ secrets }: Moving): [string, string][] =>
  Object.keys(secrets).map((name, at) => [name, `${secretPrefix}${at + 1}`])

/** What a plan says of a script. */
export interface Foreseen {
  command: string
  decision: Decision
  reason: string
  plan: IsolationPlan
  notPinned: string[]
}

type Script = Pick<ScriptStep, 'id' | 'run' | 'cwd' | 'env' | 'validation'> & {
  timeoutMs: number
  network: boolean
}

/** A hook is a script with nothing but its command. */
function scriptOf(moving: Moving, row: StepRow): Script {
  const step = stepDefinition(moving, row)
  const timeoutMs = stepTimeout(step)
  const { network } = moving.copy.definition.settings
  if (step?.type === 'script')
    return {
      ...withFilledPlaces(step, moving.filling),
      timeoutMs,
      network: step.network ?? network,
    }
  const run = hookCommand(moving.copy.definition.hooks, row)
  return { id: row.id, run, cwd: undefined, env: {}, validation: undefined, timeoutMs, network }
}

/** Where it runs, and what it is expected to leave and to say. */
function withFilledPlaces(step: ScriptStep, filling: Filling): ScriptStep {
  const fill = (text: string) => fillPlaceholders(text, filling)
  const { cwd, validation } = step
  const filled = Object.entries(validation ?? {}).map(([name, one]) => [
    name,
    typeof one === 'string' ? fill(one) : one,
  ])
  return {
    ...step,
    ...(cwd !== undefined && { cwd: fill(cwd) }),
    ...(validation !== undefined && { validation: Object.fromEntries(filled) }),
  }
}

/** Each output is cut until all of them fit. */
function outputsJson(steps: readonly StepRow[]): string {
  const outputs = stepOutputs(steps)
  for (let most = 50_000; most > 50; most = Math.floor(most / 2)) {
    const shorter = Object.entries(outputs).map(([id, one]) => [
      id,
      { ...one, output: cut(one.output, most), error: cut(one.error, most) },
    ])
    const json = JSON.stringify(Object.fromEntries(shorter))
    if (byteLength(json) <= maxOutputsJson) return json
  }
  return '{}'
}

const cut = (text: string | null, most: number) => (text === null ? null : cutOutput(text, most))

/**
 * Where the sandbox has the pinned folder of an ability, read-only: what a script of it knows as $ABILITY_DIR. It lies in
 * the agent's own folder, which OpenCode and scripts cannot write where their user is another one.
 */
const executionFolder = (
  layout: Pick<Layout, 'configDir'> | null | undefined,
  hash: string,
): string => `${layout?.configDir ?? '/home/user/.config/gantry'}/abilities/${hash.slice(0, 32)}`
