import { budgetCostMicros, type StepTokens } from '../../../contract/budget.ts'
import type { EventData } from '../../../contract/events.ts'
import type { AgentEvent } from '../../../contract/link.ts'
import type { ModelPrice } from '../../../contract/model-table.ts'
import { TurnPatch } from '../../../contract/patch.ts'
import { requestEnvVariablesTool } from '../../../contract/tools/request-env-variables.ts'
import type { Sql } from '../../ports.ts'
import {
  addReportedToModelCalls,
  compareModelCalls,
  isCountedByModelCalls,
} from '../budget/model-calls.ts'
import { addSpending } from '../budget/spending.ts'
import { listPins } from '../pins/pins.ts'
import { recordAgentOnRun, recordOnRun } from '../runs/rows.ts'
import { abortReason } from '../turns/aborts.ts'
import type { Answer } from '../../../contract/ask.ts'
import { saveDiff } from '../changes/diff.ts'
import { receiveEnvRequest } from '../env/requests.ts'
import { noteToldPart, noteToldStep } from '../evidence/told.ts'
import { savePatch } from '../changes/patches.ts'
import { loadSession } from '../record/record.ts'
import { followSkillUsage, skillTool } from '../skills/usage.ts'
import { saveSkillText } from '../skills/texts.ts'
import { stopRun } from '../steps/stop-run.ts'
import { runOfTurn } from '../runs/rows.ts'
import { addTurnTokens, endTurn, runningTurn } from '../turns/rows.ts'

/** What an agent's event changes beyond the log. True if the turn has ended with it. */
export function followAgentEvent(
  sql: Sql,
  now: number,
  event: AgentEvent,
  price: ModelPrice | null,
): boolean {
  switch (event.kind) {
    case 'tool.started':
      toolStarted(sql, now, event.data as EventData<'tool.started'>)
      return false
    case 'tool.completed':
    case 'tool.failed':
      toolEnded(sql, now, event.kind, event.data as EventData<'tool.failed'>)
      return false
    case 'step.finished':
      noteToldStep(sql, event.data as EventData<'step.finished'>)
      stepFinished(sql, now, event.data as EventData<'step.finished'>, price)
      return false
    case 'skill.read':
      saveSkillText(sql, now, event.data as EventData<'skill.read'>)
      return false
    case 'turn.ended':
      return turnEnded(sql, now, event.data as EventData<'turn.ended'>)
    default:
      return false
  }
}

const runOf = (sql: Sql, turnId: string | null): string | null =>
  (turnId === null ? runningTurn(sql)?.run_id : runOfTurn(sql, turnId)) ?? null

function toolStarted(sql: Sql, now: number, data: EventData<'tool.started'>): void {
  noteToldPart(sql, data, null)
  const { turnId, tool, messageId, callId, input } = data
  if (tool === requestEnvVariablesTool.fileName)
    receiveEnvRequest(sql, now, `${messageId}/${callId}`, input)
  const runId = runOf(sql, turnId)
  if (!runId) return
  recordOnRun(sql, now, runId, 'tool.requested', { tool, callId })
  if (tool === skillTool) followSkillUsage(sql, now, runId, input, 'selected')
  if (tool === 'task') followTask(sql, now, runId, input)
}

/** The agent sends one of its subagents. */
function followTask(sql: Sql, now: number, runId: string, input: unknown): void {
  const name = (input as { subagent_type?: unknown } | null)?.subagent_type
  const pin = listPins(sql).find((one) => one.kind === 'subagent' && one.name === name)
  if (pin) recordAgentOnRun(sql, now, runId, pin)
}

function toolEnded(
  sql: Sql,
  now: number,
  kind: 'tool.completed' | 'tool.failed',
  data: EventData<'tool.failed'>,
): void {
  noteToldPart(sql, data, kind === 'tool.completed' ? 'completed' : 'failed')
  const { turnId, tool, callId, input, durationMs, error } = data
  const runId = runOf(sql, turnId)
  if (!runId) return
  const failure = kind === 'tool.failed' ? { error: error.slice(0, 2000).toWellFormed() } : {}
  recordOnRun(sql, now, runId, kind, { tool, callId, durationMs, ...failure })
  if (tool === skillTool && kind === 'tool.completed')
    followSkillUsage(sql, now, runId, input, 'injected')
}

function stepFinished(
  sql: Sql,
  now: number,
  { turnId, tokens }: EventData<'step.finished'>,
  price: ModelPrice | null,
): void {
  const counts = countsOf(tokens)
  const counted = Object.values(counts).reduce((sum, count) => sum + count, 0)
  if (turnId) {
    addTurnTokens(sql, turnId, counts.input, counts.output)
    addReportedToModelCalls(sql, turnId, counted)
    // The control plane has counted this turn's calls itself: what the sandbox says is only compared, at the end.
    if (isCountedByModelCalls(sql, turnId)) return
  }
  const moneyMicros = price ? budgetCostMicros(price, counts) : 0
  addSpending(sql, now, { tokens: counted, moneyMicros })
}

/** Nothing that a sandbox says gives budget back. */
function countsOf(tokens: StepTokens): StepTokens {
  const count = (tokens: number) => Math.max(0, Math.round(tokens))
  const { input, output, reasoning, cacheRead, cacheWrite } = tokens
  return {
    input: count(input),
    output: count(output),
    reasoning: count(reasoning),
    cacheRead: count(cacheRead),
    cacheWrite: count(cacheWrite),
  }
}

/** The run is not to be trusted any more: nothing else of it runs, and its turn is aborted, whether or not the agent does so. */
export function followGateBypassEvent(
  sql: Sql,
  now: number,
  generation: number,
  { turnId, tool, callId }: EventData<'gate.bypassed'>,
): Answer[] {
  const runId = runOf(sql, turnId)
  if (!runId) return []
  const reason = `Tool "${tool}" ran without a decision`
  recordOnRun(sql, now, runId, 'error.recorded', { error: reason, tool, callId })
  const end = { status: 'blocked', reason, actor: 'gate', owner: null } as const
  return stopRun(sql, now, generation, runId, end)
}

function turnEnded(sql: Sql, now: number, end: EventData<'turn.ended'>): boolean {
  const { generation } = loadSession(sql)
  if (end.diff) saveDiff(sql, now, generation, end.diff)
  const patch = TurnPatch.safeParse(end.patch)
  if (patch.success) savePatch(sql, now, { turnId: end.turnId, generation, patch: patch.data })
  // Whoever aborted it has said why; the sandbox only repeats it.
  const reason = (end.state === 'aborted' ? abortReason(sql, end.turnId) : null) ?? end.reason
  const hasEnded = endTurn(sql, now, { ...end, reason })
  if (hasEnded) compareModelCalls(sql, now, end.turnId)
  return hasEnded
}
