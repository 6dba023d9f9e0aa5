import type { IsolationPlan, Operation } from '../../../contract/operation.ts'
import type { PermissionDecision, PermissionRequest } from '../../../contract/permission.ts'
import type { PermissionRecord } from '../../../contract/permission-record.ts'
import type { ApprovalTerms } from '../../../contract/policy.ts'
import { hashText } from '../../hash.ts'
import { ruleApprovalTerms } from '../../policy/rules.ts'
import { evaluatePermission } from '../../policy/evaluate.ts'
import { mustAsk, planIsolation } from '../../policy/isolation.ts'
import {
  type RequestContext,
  requestOfOperation,
  requestOfTool,
} from '../../policy/permission-request.ts'
import type { Sql } from '../../ports.ts'
import { mustApproval } from '../approvals/rows.ts'
import { judgeByTarget, judgeByGrant, type Judgement } from '../gate/judges.ts'
import { policyRecord, type SessionPolicy } from '../gate/policy.ts'
import { type Asked, allRemembered } from '../gate/remembered.ts'
import type { RunRow } from '../runs/rows.ts'
import { mustOperation, operationWork } from './rows.ts'

/** What the policy says of an operation. */
export interface OperationVerdict {
  record: PermissionRecord
  terms: ApprovalTerms
  plan: IsolationPlan
}

/** What may be done at the request of a caller: the session's policy, and what its sandbox can enforce. */
export function judgeOperation(
  session: SessionPolicy,
  sql: Sql,
  now: number,
  { run, operation, operationId, step = null }: Judged,
): OperationVerdict {
  const policy = session.effective(step === null ? 'operation' : 'gate')
  const context = session.context(run.agent, run.subagent)
  const request =
    step === null ? requestOfOperation(operation, context) : requestOfStep(operation, context, step)
  const evaluated = evaluatePermission(request, policy, stateOf(session))
  const plan = planOf(session, request, operation, evaluated, step !== null)
  const held = mustAsk(plan) ? tighten(evaluated, plan) : evaluated
  const tightened = step?.checkpoint === true ? checkpoint(held) : held
  const asked = { runId: run.id, terms: ruleApprovalTerms(policy, tightened.rule) }
  const granted =
    tightened.decision === 'ask'
      ? (step?.grant ?? findRememberedOperation(sql, now, operation, plan, asked))
      : null
  const by = tightened === evaluated ? 'policy' : 'state'
  const judged: Judgement =
    granted === null ? { by, grant: null, ...tightened } : judgeByGrant(tightened, granted)
  const attempt = session.terms()
  const decision = attempt === null ? judged : judgeByTarget(judged, attempt.permissions)
  const record = policyRecord({
    request,
    overrides: null,
    gate: null,
    ...decision,
    latencyMs: 0,
    askId: null,
    operationId: operationId as PermissionRecord['operationId'],
  })
  return { record, terms: ruleApprovalTerms(policy, decision.rule), plan }
}

interface Judged {
  run: Pick<RunRow, 'id' | 'agent' | 'subagent'>
  operation: Operation
  operationId: string
  /** Of an ability: judged as the same command of the agent would be. */
  step?: StepOfAbility | null
}

export interface StepOfAbility {
  /** The pinned folder of the ability, in the sandbox. */
  folder: string
  /** The approval of the plan that has this very step, if there is one. */
  grant: string | null
  /** Its author wants a person's word for each script. */
  checkpoint: boolean
}

const checkpoint = (decision: PermissionDecision): PermissionDecision =>
  decision.decision === 'allow'
    ? {
        ...decision,
        decision: 'ask',
        reason: 'The ability asks before each script',
        rule: 'ability:checkpoint',
      }
    : decision

/** What the agent's own shell would be asked about, and what its environment adds to it. */
function requestOfStep(
  operation: Operation,
  context: RequestContext,
  { folder }: StepOfAbility,
): PermissionRequest {
  const { command, cwd, network } = operation
  const asked = requestOfTool({
    ...{ ...context, contractTools: [], tool: 'bash' },
    input: { command, ...(cwd === undefined ? {} : { workdir: cwd }) },
    sessionPaths: [...context.sessionPaths, folder],
    variables: { ...context.variables, ABILITY_DIR: folder },
  })
  const { risks } = requestOfOperation(operation, context)
  return {
    ...asked,
    category: network ? 'network' : asked.category,
    risks: [...new Set([...asked.risks, ...risks])],
  }
}

const stateOf = (session: SessionPolicy) => ({
  enclosure: session.enclosure(),
  phases: session.phases(),
})

/** How it would be held, without deciding or writing anything. */
export function planOperation(session: SessionPolicy, operation: Operation): IsolationPlan {
  const policy = session.effective('operation')
  const request = requestOfOperation(operation, session.context(null, null))
  const decision = evaluatePermission(request, policy, stateOf(session))
  return planOf(session, request, operation, decision)
}

function planOf(
  session: SessionPolicy,
  request: PermissionRequest,
  { timeoutMs, network }: Operation,
  decision: PermissionDecision,
  inPlace = false,
): IsolationPlan {
  const { enforces: enforceable } = session.place()
  return planIsolation(request, { enforceable, decision, timeoutMs, network, inPlace })
}

/** What the sandbox cannot hold it to is for a person to accept. */
function tighten(decision: PermissionDecision, plan: IsolationPlan): PermissionDecision {
  if (decision.decision !== 'allow') return decision
  const reason = `The sandbox cannot enforce: ${plan.notEnforced.join(', ')}`
  return { ...decision, decision: 'ask', reason, rule: 'isolation' }
}

/** The remembered approval of this operation under a plan that held it to no more than this one does. */
function findRememberedOperation(
  sql: Sql,
  now: number,
  operation: Operation,
  { notEnforced }: IsolationPlan,
  { runId, terms }: Omit<Asked, 'operationHash'>,
): string | null {
  const operationHash = hashText(JSON.stringify(operation))
  const covers = (approvalId: string) => {
    const { plan } = operationWork(mustOperation(sql, mustApproval(sql, approvalId).subject))
    return notEnforced.every((each) => plan.notEnforced.includes(each))
  }
  return allRemembered(sql, now, { operationHash, runId, terms }).find(covers) ?? null
}
