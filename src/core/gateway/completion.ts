import { canonicalJson } from '../../contract/canonical.ts'
import type { ToolResult } from '../../contract/tool.ts'
import type { AutomationCompleteArgs } from '../../contract/tools/automation-complete.ts'

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

export function toCompletion(sessionId: string, args: AutomationCompleteArgs): IncomingCompletion {
  const { run_id: runId, completion_id: completionId, ...payload } = args
  return { sessionId, runId, completionId, payload }
}

/** Equal as JSON, whatever the order of keys. */
export const samePayload = (a: unknown, b: unknown): boolean => canonicalJson(a) === canonicalJson(b)

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
  return samePayload(completion.payload, incoming.payload) ? { kind: 'no-op' } : { kind: 'mismatch' }
}

export function completionAnswer(
  decision: CompletionDecision,
  { runId, completionId, payload }: IncomingCompletion,
): ToolResult {
  const refused = (text: string, reason: CompletionDecision['kind']): ToolResult => ({
    success: false,
    result: `Cannot complete run "${runId}": ${text}`,
    data: { reason },
  })
  switch (decision.kind) {
    case 'record':
    case 'no-op':
      return {
        success: true,
        result: `Run "${runId}" is completed: ${payload.outcome}`,
        data: { runId, completionId, outcome: payload.outcome },
      }
    case 'mismatch':
      return refused(`completion "${completionId}" was recorded with other content`, 'mismatch')
    case 'already-recorded':
      return refused(`completion "${decision.completionId}" is already recorded`, 'already-recorded')
    // Answered alike, so that nobody can find out which runs other sessions have.
    case 'other-session':
    case 'bad-run':
      return refused('it is not a run of this session', 'bad-run')
  }
}
