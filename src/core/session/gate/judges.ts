import type { Enclosure } from '../../../contract/enclosure.ts'
import type {
  PermissionDecision,
  PermissionRequest,
  PhaseStates,
} from '../../../contract/permission.ts'
import type { PermissionRecord } from '../../../contract/permission-record.ts'
import type { Policy } from '../../../contract/policy.ts'
import type { TargetPermissions } from '../../../contract/eval-target.ts'
import type { ActSegments } from '../../policy/acts.ts'
import { ruleApprovalTerms } from '../../policy/rules.ts'
import { ownToolOperation } from '../../policy/permission-request.ts'
import { evaluatePermission } from '../../policy/evaluate.ts'
import { registryHosts } from '../../policy/registries.ts'
import type { Sql } from '../../ports.ts'
import { findRemembered } from './remembered.ts'

/** The turn that a question belongs to. */
export interface AskingTurn {
  id: string
  runId: string
  /** OpenCode's agent that does it; null: the session's own. */
  agent: string | null
  aborting: boolean
  /** It has only last words left. */
  runEnded: boolean
}

/** What the judges look at. */
export interface Case {
  sql: Sql
  now: number
  /** Null: the turn in which it was asked does not run any more. */
  turn: AskingTurn | null
  request: PermissionRequest
  policy: Policy
  /** The question's hash is not that of its input. */
  misnamed: boolean
  enclosure: Enclosure
  /** Why it may not be used now, as the ability that runs says; null: none has anything against it. */
  refusedByAbility: string | null
  /** Why whoever asks may not, as the session's registered agents say; null: they may. */
  refusedAgent: string | null
  /** Of the session's registered agents. */
  overrides: PermissionRecord['overrides']
  phases: PhaseStates
  segmentsOf: ActSegments
  /** The host that the sandbox's proxy asks for; null: another question. */
  connectsTo: { host: string; port: number } | null
  repository: { host: string; port: number } | null
  /** How the target of an eval run answers whatever asks; null: it is no attempt of one. */
  permissions: TargetPermissions | null
  /** OpenCode itself asks, about a tool that was judged before. */
  asksItself: boolean
  /** Names the operation, for approvals that are remembered. */
  operationHash: () => string
}

export type Judgement = PermissionDecision & Pick<PermissionRecord, 'by' | 'grant'>

/** Sees what was judged before it, and gives the same or its own. Null: nobody has decided yet. */
type Judge = (given: Case, before: Judgement | null) => Judgement | null

/**
 * Who answers a gate question, in this order. A judge that stands before the policy can only deny: where nothing can run,
 * the policy is not asked. One that stands behind it looks at what the policy would ask of a person.
 */
const judges: readonly Judge[] = [
  turnRuns,
  turnIsNotAborted,
  inputIsNamed,
  abilityLets,
  agentMay,
  opencodeAsks,
  policyDecides,
  usualHost,
  ownTool,
  approvedBefore,
  canBeAsked,
  targetAnswers,
]

export function judgeQuestion(given: Case): Judgement {
  const judged = judges.reduce<Judgement | null>((before, judge) => judge(given, before), null)
  if (judged === null) throw new Error('No judge has decided')
  return judged
}

function turnRuns(given: Case, before: Judgement | null): Judgement | null {
  if (given.turn !== null) return before
  return before ?? denied(given, 'The turn in which this was asked does not run')
}

function turnIsNotAborted(given: Case, before: Judgement | null): Judgement | null {
  if (given.turn?.aborting !== true) return before
  return before ?? denied(given, 'The turn is being aborted')
}

/** What would run is what its hash names, and what is judged is what is shown: they must be the same. */
function inputIsNamed(given: Case, before: Judgement | null): Judgement | null {
  if (!given.misnamed) return before
  return before ?? denied(given, 'The hash of the question is not that of its input')
}

/** A running ability can only narrow: what it lets through is still decided by all that follow. */
function abilityLets(given: Case, before: Judgement | null): Judgement | null {
  if (given.refusedByAbility === null) return before
  return before ?? { ...denied(given, given.refusedByAbility), rule: abilityRule }
}

/** Under which a running ability refuses. */
export const abilityRule = 'ability'

/** Who was not named is not sent, whatever the policy says. */
function agentMay(given: Case, before: Judgement | null): Judgement | null {
  if (given.refusedAgent === null) return before
  return before ?? denied(given, given.refusedAgent)
}

/** It asks only in attempts of eval runs: elsewhere nobody has told it to. */
function opencodeAsks(given: Case, before: Judgement | null): Judgement | null {
  if (!given.asksItself || before) return before
  return { ...denied(given, 'OpenCode asks for a permission'), decision: 'ask', rule: 'opencode' }
}

function policyDecides(given: Case, before: Judgement | null): Judgement {
  if (before) return before
  const { request, policy, enclosure, overrides, phases, segmentsOf } = given
  const options = { enclosure, overrides, phases, segmentsOf }
  const evaluated = evaluatePermission(request, policy, options)
  return { by: 'policy', grant: null, ...evaluated }
}

/** Where no rule says anything: the session's own repository and the hosts of package managers are everyday work. */
function usualHost({ connectsTo, repository }: Case, before: Judgement | null) {
  if (before?.rule !== 'default:network' || connectsTo === null) return before
  const { host, port } = connectsTo
  const isUsual =
    (usualHosts.has(host) && webPorts.has(port)) ||
    (host === repository?.host && (gitPorts.has(port) || port === repository.port))
  if (!isUsual || before.decision !== 'ask') return before
  const reason = `Everyday work: ${host}`
  return { ...before, decision: 'allow' as const, rule: 'usual-host', reason }
}

/** Where no rule says anything: whoever gave the session a tool of Gantry's own meant it to be used. */
function ownTool({ request }: Case, before: Judgement | null) {
  const isOwn = request.operation === ownToolOperation
  if (!isOwn || before?.rule !== `default:${request.category}` || before.decision !== 'ask')
    return before
  const reason = `The session was given "${request.tool}"`
  return { ...before, decision: 'allow' as const, rule: 'own-tool', reason }
}

const webPorts: ReadonlySet<number> = new Set([80, 443])
/** By http, ssh and git's own protocol. What else listens there is no everyday work. */
const gitPorts: ReadonlySet<number> = new Set([80, 443, 22, 9418])
const usualHosts: ReadonlySet<string> = new Set(Object.values(registryHosts).flat())

/** A remembered approval spares the question. */
function approvedBefore(given: Case, before: Judgement | null): Judgement | null {
  if (before?.decision !== 'ask' || given.turn === null) return before
  const { sql, now, policy, turn } = given
  const terms = ruleApprovalTerms(policy, before.rule)
  const asked = { operationHash: given.operationHash(), runId: turn.runId, terms }
  const approvalId = findRemembered(sql, now, asked)
  return approvalId === null ? before : judgeByGrant(before, approvalId)
}

function canBeAsked(given: Case, before: Judgement | null): Judgement | null {
  if (before?.decision !== 'ask' || given.turn?.runEnded !== true) return before
  return denied(given, 'The run has ended: nobody can be asked')
}

/** Nobody is asked in an attempt of an eval run: equal questions get equal answers, at once. */
function targetAnswers(given: Case, before: Judgement | null): Judgement | null {
  const { permissions, asksItself } = given
  if (before === null || (permissions === null && !asksItself)) return before
  return judgeByTarget(before, permissions ?? 'reject')
}

export function judgeByTarget(before: Judgement, answer: TargetPermissions): Judgement {
  if (before.decision !== 'ask') return before
  const decision = answer === 'reject' ? ('deny' as const) : ('allow' as const)
  const reason = `${before.reason}; the target of the eval run answers: ${answer}`
  return { ...before, decision, reason, rule: `${evalRule}${answer}` }
}

/** How the rules are called under which a target has answered. */
export const evalRule = 'eval:'

function denied({ policy, enclosure }: Case, reason: string): Judgement {
  const { name, version } = policy
  const state = { by: 'state', grant: null, rule: 'state', policy: { name, version } } as const
  return { ...state, decision: 'deny', reason, enclosure }
}

/** A remembered approval spares the question, and nothing else: what is denied stays denied. */
export function judgeByGrant(decided: PermissionDecision, approvalId: string): Judgement {
  return {
    ...decided,
    by: 'grant',
    grant: approvalId as NonNullable<PermissionRecord['grant']>,
    decision: 'allow',
    reason: `Approved before: "${approvalId}"`,
    rule: `grant:${approvalId}`,
  }
}
