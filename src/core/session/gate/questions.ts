import { ownedId } from '../../../contract/ids.ts'
import { canonicalJson } from '../../../contract/canonical.ts'
import type { ApprovalTerms } from '../../../contract/policy.ts'
import { type Answer, type GateDecision, permissionTool } from '../../../contract/ask.ts'
import type { UpMessage } from '../../../contract/link.ts'
import type { PermissionRecord } from '../../../contract/permission-record.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Sql } from '../../ports.ts'
import type { AskedTool } from '../../abilities/enforcement.ts'
import { hideSecretLike } from '../../redaction/redaction.ts'
import {
  type ApprovalRow,
  type NewApproval,
  openApproval,
  recordAnsweredApproval,
  pendingApproval,
  settleApproval,
} from '../approvals/rows.ts'
import { addGrant } from '../approvals/grants.ts'
import { addSpending, spentReasons } from '../budget/spending.ts'
import { recordOnRun } from '../runs/rows.ts'
import { hashText } from '../../hash.ts'
import { appendEvent } from '../log/events.ts'
import { abilityRule, evalRule } from './judges.ts'
import { loadSession } from '../record/record.ts'
import { runOfTurn } from '../runs/rows.ts'

interface AskRow {
  n: number
  id: string
  generation: number
  turn_id: string | null
  tool: string
  call_id: string
  /** The whole question while it waits for a budget, else null. */
  input: string
  state: 'open' | 'answered'
  decision: GateDecision | null
  reason: string | null
  asked_at: number
}

interface Decided {
  decision: GateDecision
  reason: string
  rule: string
  actor: string
}

export type Question = Extract<UpMessage, { t: 'ask' }> & {
  /** Its hash is not that of the input that it shows. */
  misnamed?: boolean
}

/** What was decided about a question, with all that went into it. */
export interface Verdict {
  record: PermissionRecord
  /** Who is to be asked, where the decision is ask. */
  terms: ApprovalTerms
  /** Why nothing may run now: the question waits until there is budget, or its deadline. */
  spent: string | null
}

/** How long a question waits for a budget. */
const budgetPatienceMs = 600_000

/**
 * Where its paths really lead is part of it: behind a link there may be something else tomorrow. So is what is shown of an
 * input that is not shown in full, because nobody can compare its hash.
 */
export function questionHash({ tool, input, inputHash, shortened, realPaths = [] }: Question) {
  const shown = shortened === true ? [{ shown: canonicalJson(input ?? null) }] : []
  return hashText(JSON.stringify([tool, inputHash, ...realPaths.toSorted(), ...shown]))
}

/** The answer if there is one already; null while the question is parked. Asking again is harmless. */
export function receiveQuestion(
  sql: Sql,
  now: number,
  question: Question,
  asker: Asker,
  decide: () => Verdict,
): Answer | null {
  const verdict = decide()
  const decision = verdict.spent === null ? verdict.record.decision : 'ask'
  const { reason, rule } = verdict.record
  const answer = decision === 'ask' ? null : { decision, reason, rule, actor: 'rule' }
  if (!insertAsk(sql, now, question, asker, answer)) {
    const known = loadAsk(sql, question.askId)
    return known ? answerOf(known) : null
  }
  if (!answer) return followVerdict(sql, now, question, asker, verdict)
  // Answered at once, as most are: the same as below in half the statements.
  const decisionSeq =
    asker.runId && recordOnRun(sql, now, asker.runId, 'permission-decision', { ...verdict.record })
  if (asker.runId && decisionSeq && rule.startsWith(evalRule))
    recordEvalAnswer(sql, now, question, { ...asker, runId: asker.runId }, verdict, decisionSeq)
  // What OpenCode asks is about a call that was counted before.
  if (decision === 'allow' && question.tool !== permissionTool)
    addSpending(sql, now, { toolCalls: 1 })
  tellDecided(sql, now, { ...question, askedAt: now }, answer)
  return { askId: question.askId, decision: answer.decision, reason }
}

interface Asker {
  generation: number
  turnId: string | null
  runId: string | null
}

function followVerdict(
  sql: Sql,
  now: number,
  question: Question,
  asker: Asker,
  verdict: Verdict,
): Answer | null {
  if (verdict.spent !== null) {
    parkForBudget(sql, question)
    return null
  }
  const { decision, reason, rule } = verdict.record
  const decisionSeq =
    asker.runId && recordOnRun(sql, now, asker.runId, 'permission-decision', { ...verdict.record })
  // A question that nobody can be asked about, for want of a run, is refused.
  if (decision !== 'ask' || !asker.runId || !decisionSeq) {
    const final = decision === 'allow' ? 'allow' : 'deny'
    return settleAsk(sql, now, question.askId, { decision: final, reason, rule, actor: 'rule' })
  }
  park(sql, now, question, { ...asker, runId: asker.runId }, verdict, decisionSeq)
  return null
}

/** Kept whole: it is decided once there is budget. */
function parkForBudget(sql: Sql, question: Question): void {
  sql.run('update asks set input = ? where id = ?', JSON.stringify(question), question.askId)
  armPatience(sql)
}

const parked = `asks where state = 'open' and input <> 'null'`

export const hasParkedQuestion = (sql: Sql): boolean =>
  sql.all(`select 1 from ${parked} limit 1`).length > 0

/** Each waits for its own time. */
function armPatience(sql: Sql): void {
  const [first] = sql.all<{ at: number | null }>(`select min(asked_at) as at from ${parked}`)
  if (first?.at == null) clearDeadline(sql, 'budget.ask')
  else setDeadline(sql, 'budget.ask', first.at + budgetPatienceMs)
}

/** There may be budget again. Whatever still finds none goes on waiting; `short`: though none is known to be spent. */
export function decideParkedQuestions(
  sql: Sql,
  now: number,
  decide: (question: Question, turnId: string | null) => Verdict,
): { answers: Answer[]; short: boolean } {
  const rows = sql.all<AskRow>(`select * from ${parked} order by n`)
  const answers = rows.flatMap((row) => {
    const question = JSON.parse(row.input) as Question
    const verdict = decide(question, row.turn_id)
    if (verdict.spent !== null) return []
    sql.run(`update asks set input = 'null' where n = ?`, row.n)
    const { generation, turn_id: turnId } = row
    const asker = { generation, turnId, runId: turnId && runOfTurn(sql, turnId) }
    return followVerdict(sql, now, question, asker, verdict) ?? []
  })
  armPatience(sql)
  return { answers, short: hasParkedQuestion(sql) && spentReasons(sql, now).length === 0 }
}

/** Nobody has raised the budget in time. */
export function denyParkedQuestions(sql: Sql, now: number): Answer[] {
  const reason = 'The budget is spent, and nobody has raised it'
  const overdue = sql.all<AskRow>(
    `select * from ${parked} and asked_at <= ? order by n`,
    now - budgetPatienceMs,
  )
  const denial = { decision: 'deny', reason, rule: 'budget', actor: 'deadline' } as const
  const answers = overdue.flatMap((row) => settleAsk(sql, now, row.id, denial) ?? [])
  armPatience(sql)
  return answers
}

/** False if it is known already. */
function insertAsk(
  sql: Sql,
  now: number,
  question: Question,
  asker: { generation: number; turnId: string | null },
  answer: Decided | null,
): boolean {
  const inserted = sql.all(
    `insert into asks (id, generation, turn_id, tool, call_id, input, input_hash, asked_at, state, decision, reason, actor,
       answered_at)
     values (?, ?, ?, ?, ?, 'null', ?, ?, ?, ?, ?, ?, ?) on conflict do nothing returning n`,
    question.askId,
    asker.generation,
    asker.turnId,
    question.tool,
    question.callId,
    question.inputHash,
    now,
    answer ? 'answered' : 'open',
    answer?.decision ?? null,
    answer?.reason ?? null,
    answer?.actor ?? null,
    answer ? now : null,
  )
  return inserted.length > 0
}

/** What a person would have been asked. Nothing waits for it. */
function recordEvalAnswer(
  sql: Sql,
  now: number,
  question: Question,
  asker: { generation: number; runId: string },
  verdict: Verdict,
  decisionSeq: number,
): void {
  const { decision, reason, rule } = verdict.record
  const isAllowed = decision === 'allow'
  const row = recordAnsweredApproval(
    sql,
    now,
    { ...approvalFor(sql, question, asker, verdict, decisionSeq), kind: 'eval' },
    { state: isAllowed ? 'approved' : 'rejected', actor: 'eval', owner: null, reason },
  )
  if (isAllowed && rule === `${evalRule}always`)
    addGrant(sql, now, row, { scope: 'session', expiresInSeconds: 86_400 })
}

function approvalFor(
  sql: Sql,
  question: Question,
  asker: { generation: number; runId: string },
  verdict: Verdict,
  decisionSeq: number,
): NewApproval {
  return {
    // The question's own characters: asked again after a crash, it is the same approval.
    id: ownedId('apr', loadSession(sql).id, question.askId.slice(-8)),
    runId: asker.runId,
    kind: 'gate',
    asker: { kind: 'sandbox', id: String(asker.generation), owner: null },
    subject: question.askId,
    title: question.tool,
    operation: { tool: question.tool, input: question.input ?? null },
    operationHash: questionHash(question),
    decisionSeq,
    decision: verdict.record,
    terms: verdict.terms,
    resumable: false,
  }
}

function park(
  sql: Sql,
  now: number,
  question: Question,
  asker: { generation: number; runId: string },
  verdict: Verdict,
  decisionSeq: number,
): void {
  const approval = openApproval(sql, now, approvalFor(sql, question, asker, verdict, decisionSeq))
  appendEvent(sql, now, 'gate.asked', {
    askId: question.askId,
    approvalId: approval.id,
    tool: question.tool,
    callId: question.callId,
    input: hideSecretLike(question.input ?? null),
    deadlineAt: approval.deadline_at,
  })
  // Counted while it waits, so that what is approved later is still within the budget.
  addSpending(sql, now, { toolCalls: 1 })
}

/** An answer counts once: whoever comes second learns what was decided. */
function settleAsk(sql: Sql, now: number, askId: string, answer: Decided): Answer | null {
  const row = loadAsk(sql, askId)
  if (!row || row.state !== 'open') return row ? answerOf(row) : null
  sql.run(
    `update asks set state = 'answered', input = 'null', decision = ?, reason = ?, actor = ?, answered_at = ?
     where n = ?`,
    answer.decision,
    answer.reason,
    answer.actor,
    now,
    row.n,
  )
  const counted = sql.all('select 1 from approvals where subject = ? limit 1', askId).length > 0
  const calls = Number(answer.decision === 'allow') - Number(counted)
  if (calls !== 0) addSpending(sql, now, { toolCalls: calls })
  const { tool, call_id: callId, asked_at: askedAt } = row
  tellDecided(sql, now, { askId, tool, callId, askedAt }, answer)
  return { askId, decision: answer.decision, reason: answer.reason }
}

interface Asked {
  askId: string
  tool: string
  callId: string
  askedAt: number
}

function tellDecided(sql: Sql, now: number, asked: Asked, answer: Decided): void {
  const { askId, tool, callId, askedAt } = asked
  appendEvent(sql, now, 'gate.decided', { askId, tool, callId, ...answer, waitedMs: now - askedAt })
}

/**
 * A gate's approval has been resolved: its parked call learns of it. An ability that has begun since then may still have
 * something against it.
 */
export function answerApprovedQuestion(
  sql: Sql,
  now: number,
  approval: ApprovalRow,
  refusedByAbility: (asked: AskedTool) => string | null,
): Answer | null {
  if (approval.kind !== 'gate' || approval.state === 'pending') return null
  const ask = approval.state === 'approved' ? loadAsk(sql, approval.subject) : undefined
  const refusal = ask ? refusedByAbility({ tool: ask.tool, turnId: ask.turn_id }) : null
  if (refusal !== null) {
    const actor = approval.actor ?? ''
    const denial = { decision: 'deny', reason: refusal, rule: abilityRule, actor } as const
    return settleAsk(sql, now, approval.subject, denial)
  }
  return settleAsk(sql, now, approval.subject, {
    decision: approval.state === 'approved' ? 'allow' : 'deny',
    reason: approval.resolution_reason ?? '',
    rule: approval.rule,
    actor: approval.actor ?? '',
  })
}

/** First of all that ends a turn: nothing parked may run afterwards, and a late answer finds it answered. */
export function denyOpenQuestions(sql: Sql, now: number, reason: string, actor: string): Answer[] {
  const open = sql.all<AskRow>(`select * from asks where state = 'open' order by n`)
  const answers = open.map((row) => {
    const approval = pendingApproval(sql, row.id)
    if (approval)
      settleApproval(sql, now, approval.id, { state: 'cancelled', actor, owner: null, reason })
    return settleAsk(sql, now, row.id, { decision: 'deny', reason, rule: 'state', actor })
  })
  armPatience(sql)
  return answers.filter((answer) => answer !== null)
}

function loadAsk(sql: Sql, id: string): AskRow | undefined {
  return sql.all<AskRow>('select * from asks where id = ?', id)[0]
}

function answerOf(row: AskRow): Answer | null {
  return row.decision === null
    ? null
    : { askId: row.id, decision: row.decision, reason: row.reason ?? '' }
}
