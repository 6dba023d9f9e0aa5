import type { ApprovalTerms, Policy, RuleApproval } from '../../contract/policy.ts'
import { ruleName } from './rules.ts'

/** Who must answer what the rule asked for, and until when: the rule's own terms, then the policy's. */
export function approvalTerms(policy: Policy, rule: string): ApprovalTerms {
  const own = termsOf(policy, rule)
  const { approvals } = policy
  const group = own.group ?? approvals.group
  const escalate = own.escalate ?? approvals.escalate
  return {
    timeoutSeconds: own.timeoutSeconds ?? approvals.timeoutSeconds,
    group: group === undefined ? null : keysOf(policy, group),
    quorum: own.quorum ?? approvals.quorum ?? 1,
    escalate: escalate
      ? { afterSeconds: escalate.afterSeconds, group: keysOf(policy, escalate.group) }
      : null,
  }
}

/** Nobody is in a group that is not there, so nobody can answer: the deadline rejects. */
const keysOf = ({ groups }: Policy, name: string): string[] =>
  Object.hasOwn(groups, name) ? [...(groups[name] ?? [])] : []

function termsOf(policy: Policy, rule: string): RuleApproval {
  if (rule === 'gate:ask' && policy.gate) return { timeoutSeconds: policy.gate.askTimeoutSeconds }
  const found = policy.rules.find((one, index) => ruleName(policy, one, index) === rule)
  return found?.approval ?? {}
}
