import { canonicalJson } from '../../../../contract/canonical.ts'
import type { ToolResult } from '../../../../contract/tool.ts'
import type { AutomationCompleteArgs } from '../../../../contract/tools/automation-complete.ts'

/** What is known of the run that a completion names. */
export interface CompletableRun {
  runId: string
  sessionId: string
  completion: { completionId: string; payload: CompletionPayload } | null
}

/** What two calls with one completion id must agree on. */
export type CompletionPayload = Omit<AutomationCompleteArgs, 'run_id' | 'completion_id'>

export interface IncomingCompletion {
  sessionId: string
  runId: string
  completionId: string
  payload: CompletionPayload
}

export type CompletionDecision =
  | { kind: 'record' }
  | { kind: 'no-op' }
  | { kind: 'mismatch' }
  | { kind: 'already-recorded'; completionId: string }
  | { kind: 'other-session' }
  | { kind: 'bad-run' }
  /** An ability that cannot be left is at work. */
  | { kind: 'held'; ability: string }

export function toCompletion(sessionId: string, args: AutomationCompleteArgs): IncomingCompletion {
  const { run_id: runId, completion_id: completionId, ...payload } = args
  return { sessionId, runId, completionId, payload }
}

/** Equal as JSON, whatever the order of keys. */
export const samePayload = (a: unknown, b: unknown): boolean =>
  canonicalJson(a) === canonicalJson(b)

/** To be called, and its `record` carried out, in one transaction on the run. `existing` is null if there is no such run. */
export function decideCompletion(
  existing: CompletableRun | null,
  incoming: IncomingCompletion,
): CompletionDecision {
  if (!existing || existing.runId !== incoming.runId) return { kind: 'bad-run' }
  if (existing.sessionId !== incoming.sessionId) return { kind: 'other-session' }
  const { completion } = existing
  if (!completion) return { kind: 'record' }
  if (completion.completionId !== incoming.completionId) {
    return { kind: 'already-recorded', completionId: completion.completionId }
  }
  return samePayload(completion.payload, incoming.payload)
    ? { kind: 'no-op' }
    : { kind: 'mismatch' }
}

export function completionAnswer(
  decision: CompletionDecision,
  { runId, completionId, payload }: IncomingCompletion,
): ToolResult {
  if (decision.kind === 'record' || decision.kind === 'no-op') {
    return {
      success: true,
      result: `Run "${runId}" is completed: ${payload.outcome}`,
      data: { runId, completionId, outcome: payload.outcome },
    }
  }
  const { reason, text } = refusalOf(decision, completionId)
  return { success: false, result: `Cannot complete run "${runId}": ${text}`, data: { reason } }
}

type Refusal = Exclude<CompletionDecision, { kind: 'record' | 'no-op' }>

function refusalOf(decision: Refusal, completionId: string): { reason: string; text: string } {
  if (decision.kind === 'mismatch') {
    const text = `completion "${completionId}" was recorded with other content`
    return { reason: decision.kind, text }
  }
  if (decision.kind === 'already-recorded') {
    const text = `completion "${decision.completionId}" is already recorded`
    return { reason: decision.kind, text }
  }
  if (decision.kind === 'held') {
    const text = `the ability "${decision.ability}" is at work and is strict. Complete the run with another completion_id once it has ended; ability_cancel asks a person to end it`
    return { reason: decision.kind, text }
  }
  // A run of another session is answered like none at all, so that nobody can find out which runs there are.
  return { reason: 'bad-run', text: 'it is not a run of this session' }
}
