import type { CompletionOutcome } from '../../../contract/tools/automation-complete.ts'
import { setDeadline } from '../../actor/deadlines.ts'
import {
  type CompletableRun,
  type CompletionDecision,
  type CompletionPayload,
  decideCompletion,
  type IncomingCompletion,
} from '../calls/tools/completion.ts'
import { addToOutbox } from '../../actor/outbox.ts'
import type { Sql } from '../../ports.ts'
import { activeExecutionStep } from '../executions/active.ts'
import { insertRun } from '../runs/rows.ts'
import type { Answer } from '../../../contract/ask.ts'
import { appendEvent } from '../log/events.ts'
import { sealRun } from '../steps/stop-run.ts'
import { runningTurn } from '../turns/rows.ts'

interface AutomationRunRecord {
  id: string
  state: 'running' | CompletionOutcome
  outcome: CompletionOutcome | null
  completionId: string | null
  payload: CompletionPayload | null
  createdAt: number
  completedAt: number | null
}

interface Row {
  id: string
  state: AutomationRunRecord['state']
  outcome: CompletionOutcome | null
  completion_id: string | null
  payload: string | null
  created_at: number
  completed_at: number | null
}

/** The answer must reach the agent before its sandbox is stopped. */
const closeAfterMs = 2000
/** The turn that completed the run may have last words; its end hurries the close. */
const lastWordsMs = 60_000

/** What the automation's words are among the words of runs. */
const endOf = { succeeded: 'completed', failed: 'failed', needs_human: 'blocked' } as const

/** An automation's run is a run like any other; only its endpoint keeps its own words. */
export function startAutomationRun(sql: Sql, now: number, id: string, runId: string): void {
  sql.run(
    `insert into automation_run (id, run_id, state, created_at) values (?, ?, 'running', ?)`,
    id,
    runId,
    now,
  )
  const intent = `Automation "${id}"`
  insertRun(sql, now, runId, { intent, workflow: 'automation', implicit: false })
  projectAutomationRun(sql, now)
}

export function loadAutomationRun(sql: Sql): AutomationRunRecord | null {
  const row = sql.all<Row>('select * from automation_run')[0]
  if (!row) return null
  return {
    id: row.id,
    state: row.state,
    outcome: row.outcome,
    completionId: row.completion_id,
    payload: row.payload === null ? null : (JSON.parse(row.payload) as CompletionPayload),
    createdAt: row.created_at,
    completedAt: row.completed_at,
  }
}

/** One transaction: what is decided here is recorded here, and the session's end is promised with it. */
export function completeAutomationRun(
  sql: Sql,
  now: number,
  sessionId: string,
  incoming: IncomingCompletion,
): { decision: CompletionDecision; answers: Answer[] } {
  const decision = decideAutomationRun(sql, sessionId, incoming)
  if (decision.kind !== 'record') return { decision, answers: [] }
  // With the run the session would end, and with it the steps that are left.
  const active = activeExecutionStep(sql)
  if (active?.level === 'strict')
    return { decision: { kind: 'held', ability: active.ability }, answers: [] }
  const { outcome } = incoming.payload
  sql.run(
    'update automation_run set state = ?, outcome = ?, completion_id = ?, payload = ?, completed_at = ?',
    outcome,
    outcome,
    incoming.completionId,
    JSON.stringify(incoming.payload),
    now,
  )
  appendEvent(sql, now, 'automation.completed', {
    runId: incoming.runId,
    completionId: incoming.completionId,
    outcome,
  })
  const answers = endItsRun(sql, now, incoming.payload)
  projectAutomationRun(sql, now)
  setDeadline(sql, 'close', now + (runningTurn(sql) ? lastWordsMs : closeAfterMs))
  return { decision, answers }
}

/** What waits in it is over; its turn may have last words. */
function endItsRun(sql: Sql, now: number, { outcome, summary }: CompletionPayload): Answer[] {
  const runId = sql.all<{ run_id: string | null }>('select run_id from automation_run')[0]?.run_id
  if (!runId) return []
  const reason =
    outcome === 'needs_human' ? outcome : (summary?.slice(0, 2000).toWellFormed() ?? null)
  const end = { status: endOf[outcome], reason, actor: 'automation.complete', owner: null }
  return sealRun(sql, now, runId, end)
}

export function decideAutomationRun(
  sql: Sql,
  sessionId: string,
  incoming: IncomingCompletion,
): CompletionDecision {
  return decideCompletion(completable(sql, sessionId), incoming)
}

function completable(sql: Sql, sessionId: string): CompletableRun | null {
  const run = loadAutomationRun(sql)
  if (!run) return null
  const completion =
    run.completionId !== null && run.payload !== null
      ? { completionId: run.completionId, payload: run.payload }
      : null
  return { runId: run.id, sessionId, completion }
}

export function projectAutomationRun(sql: Sql, now: number): void {
  const run = loadAutomationRun(sql)
  if (!run) return
  const { configurationId } = sql.all<{ configurationId: string | null }>(
    'select configuration_id as configurationId from session',
  )[0] ?? { configurationId: null }
  addToOutbox(sql, now, 'automation_run', {
    ...run,
    configurationId,
    payload: run.payload && JSON.stringify(run.payload),
  })
}
