import type { IsolationPlan, Operation } from '../../contract/operation.ts'
import type { PermissionDecision, PermissionRequest } from '../../contract/permission.ts'
import type { PermissionRecord } from '../../contract/permission-record.ts'
import type { Policy } from '../../contract/policy.ts'
import { toolFileName } from '../../contract/tools.ts'
import { approvalTerms } from '../permissions/approval-terms.ts'
import { evaluatePermission } from '../permissions/evaluate.ts'
import { withGateRules } from '../permissions/gate-rules.ts'
import { mustAsk, planIsolation } from '../permissions/isolation.ts'
import { type RequestContext, requestOfOperation, requestOfTool } from '../permissions/operation.ts'
import { operationDefault, sandboxDefault } from '../permissions/sandbox-default.ts'
import type { Sql } from '../ports.ts'
import { lookForRoom, type Room } from '../runs/budget.ts'
import type { OperationVerdict } from '../runs/operation-decision.ts'
import { findRemembered, findRememberedOperation } from '../runs/remembered.ts'
import type { RunRow } from '../runs/run.ts'
import { hasEnded } from '../runs/transitions.ts'
import { hashOfQuestion, type Question, type Verdict } from './asks.ts'
import type { Kernel } from './kernel.ts'
import { loadPlace, loadPolicy, type Place } from './policy-record.ts'
import type { SessionRecord } from './record.ts'

/** The turn that a question belongs to. */
export interface AskingTurn {
  id: string
  runId: string
  aborting: boolean
  /** It has only last words left. */
  runEnded: boolean
}

/** What this session may do: its policy, its own gate lists, and where it is. Asked for every tool, so all is kept at hand. */
export class SessionPolicy {
  readonly #kernel: Kernel
  #policy: Policy | null | undefined
  #place: Place | undefined
  #turn: AskingTurn | null = null
  #turnState = -1

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** Something of it was saved. */
  changed(): void {
    this.#policy = undefined
    this.#place = undefined
  }

  /** The document that counts, if there is one. */
  document(): Policy | null {
    if (this.#policy === undefined) this.#policy = loadPolicy(this.#kernel.ports.sql)
    return this.#policy
  }

  /** The turn that runs, if there is one. */
  askingTurn(): AskingTurn | null {
    const { turnsState, ports } = this.#kernel
    if (this.#turnState !== turnsState) {
      this.#turn = loadAskingTurn(ports.sql)
      this.#turnState = turnsState
    }
    return this.#turn
  }

  /** Where nothing can run the policy is not asked; a remembered approval spares its question. */
  decideQuestion(
    sql: Sql,
    now: number,
    arrivedAt: number,
    question: Question,
    turn: AskingTurn | null,
    room = lookForRoom(sql, now),
  ): Verdict {
    const session = this.#kernel.session()
    const policy = withGateRules(this.document() ?? sandboxDefault, session.gate)
    const request = this.#requestOf(question, session)
    const { by, grant, ...decision } = judge()
    const record: PermissionRecord = {
      by,
      grant,
      request,
      overrides: null,
      gate: session.gate,
      ...decision,
      latencyMs: now - arrivedAt,
      askId: question.askId,
      operationId: null,
    }
    const spent = turn && decision.decision !== 'deny' ? whyNothingRuns(room) : null
    return { record, terms: approvalTerms(policy, decision.rule), spent }

    function judge(): Decided {
      const state = { by: 'state', grant: null, rule: 'state', policy: nameOf(policy) } as const
      if (!turn) return { ...state, decision: 'deny', reason: 'No turn is running' }
      if (turn.aborting) return { ...state, decision: 'deny', reason: 'The turn is being aborted' }
      const decided = evaluatePermission(request, policy)
      const granted = decided.decision === 'ask' ? spared(turn.runId, decided.rule) : null
      if (granted !== null) return byGrant(decided, granted)
      if (decided.decision === 'ask' && turn.runEnded)
        return { ...state, decision: 'deny', reason: 'The run has ended: nobody can be asked' }
      return { by: 'policy', grant: null, ...decided }
    }

    function spared(runId: string, rule: string): string | null {
      const operationHash = hashOfQuestion(question)
      return findRemembered(sql, now, { operationHash, runId, terms: approvalTerms(policy, rule) })
    }
  }

  /** What an input does not show in full cannot be read; where its paths really lead counts as well. */
  #requestOf(question: Question, session: SessionRecord): PermissionRequest {
    const { tool, input, agent = null, subagent = null } = question
    const contractTools = this.#kernel.ports.tools.map(({ definition }) => toolFileName(definition))
    const context = this.#context(session, agent, subagent)
    const request = requestOfTool({ tool, input, contractTools, ...context })
    const real = (question.realPaths ?? []).filter((path) => !request.paths.includes(path))
    const unreadable = question.shortened && !request.risks.includes('ambiguous')
    return {
      ...request,
      paths: [...request.paths, ...real],
      risks: unreadable ? [...request.risks, 'ambiguous'] : request.risks,
    }
  }

  judge(
    sql: Sql,
    now: number,
    run: RunRow,
    operation: Operation,
    operationId: string,
  ): OperationVerdict {
    const policy = this.document() ?? operationDefault
    const request = this.#requestOfOperation(operation, run.agent, run.subagent)
    const evaluated = evaluatePermission(request, policy)
    const plan = this.#planOf(request, operation, evaluated)
    const tightened = mustAsk(plan) ? tighten(evaluated, plan) : evaluated
    const asked = { runId: run.id, terms: approvalTerms(policy, tightened.rule) }
    const granted =
      tightened.decision === 'ask'
        ? findRememberedOperation(sql, now, operation, plan, asked)
        : null
    const by = tightened === evaluated ? 'policy' : 'state'
    const decision: Decided =
      granted === null ? { by, grant: null, ...tightened } : byGrant(tightened, granted)
    const record: PermissionRecord = {
      request,
      overrides: null,
      gate: null,
      ...decision,
      latencyMs: 0,
      askId: null,
      operationId: operationId as PermissionRecord['operationId'],
    }
    return { record, terms: approvalTerms(policy, decision.rule), plan }
  }

  plan(operation: Operation): IsolationPlan {
    const policy = this.document() ?? operationDefault
    const request = this.#requestOfOperation(operation, null, null)
    return this.#planOf(request, operation, evaluatePermission(request, policy))
  }

  #requestOfOperation(operation: Operation, agent: string | null, subagent: string | null) {
    return requestOfOperation(operation, this.#context(this.#kernel.session(), agent, subagent))
  }

  #planOf(
    request: PermissionRequest,
    operation: Operation,
    decision: PermissionDecision,
  ): IsolationPlan {
    const { timeoutMs, network } = operation
    const { enforces: enforceable } = this.#loadPlace()
    return planIsolation(request, { enforceable, decision, timeoutMs, network })
  }

  #context(session: SessionRecord, agent: string | null, subagent: string | null): RequestContext {
    const { layout } = this.#loadPlace()
    const home = layout?.home ?? '/home/user'
    return {
      agent,
      subagent,
      mode: session.mode,
      workspaceRoot: layout?.workspace ?? `${home}/workspace`,
      sessionPaths: [
        layout?.envFile ?? '/tmp/.proliferate_env.json',
        `${home}/.local/share/opencode/tool-output`,
      ],
      home,
    }
  }

  #loadPlace(): Place {
    this.#place ??= loadPlace(this.#kernel.ports.sql)
    return this.#place
  }
}

/** Sessions older than runs may have a turn without one: nobody can be asked about it then. */
function loadAskingTurn(sql: Sql): AskingTurn | null {
  const turn = sql.all<{ id: string; runId: string; aborting: number; status: RunRow['status'] }>(
    `select turns.id, run_id as runId, abort_requested as aborting, runs.status from turns join runs on runs.id = run_id
     where turns.state = 'running' limit 1`,
  )[0]
  if (!turn) return null
  const { id, runId, aborting, status } = turn
  return { id, runId, aborting: aborting === 1, runEnded: hasEnded(status) }
}

type Decided = PermissionDecision & Pick<PermissionRecord, 'by' | 'grant'>

/** A remembered approval spares the question, and nothing else: what is denied stays denied. */
function byGrant(decided: PermissionDecision, approvalId: string): Decided {
  return {
    ...decided,
    by: 'grant',
    grant: approvalId as NonNullable<PermissionRecord['grant']>,
    decision: 'allow',
    reason: `Approved before: "${approvalId}"`,
    rule: `grant:${approvalId}`,
  }
}

function whyNothingRuns({ reasons: [reason], hasRoom }: Room): string | null {
  return reason ?? (hasRoom ? null : "The session's part of the organisation's budget is used up")
}

const nameOf = ({ name, version }: Policy) => ({ name, version })

/** What the sandbox cannot hold it to is for a person to accept. */
function tighten(decision: PermissionDecision, plan: IsolationPlan): PermissionDecision {
  if (decision.decision !== 'allow') return decision
  const reason = `The sandbox cannot enforce: ${plan.notEnforced.join(', ')}`
  return { ...decision, decision: 'ask', reason, rule: 'isolation' }
}
