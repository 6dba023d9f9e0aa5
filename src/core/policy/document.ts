import { maxPolicyBytes, PolicyDocument, type RuleApproval } from '../../contract/policy.ts'
import {
  type DocumentError,
  type DocumentFormat,
  type DocumentPath,
  parseDocument,
  type Report,
} from '../documents.ts'
import { reservedPolicyNames } from './builtin-policy.ts'

export type ParsedPolicy = { policy: PolicyDocument } | { errors: DocumentError[] }

/** A policy document as a person wrote it, or what is wrong with it. */
export function parsePolicyDocument(
  text: string,
  format: DocumentFormat = 'yaml',
  reserved: readonly string[] = reservedPolicyNames,
): ParsedPolicy {
  const parsed = parseDocument(text, format, {
    schema: PolicyDocument,
    maxBytes: maxPolicyBytes,
    check: (policy, report) => checkMeaning(policy, reserved, report),
  })
  return 'value' in parsed ? { policy: parsed.value } : parsed
}

/** What a schema cannot say: names that are taken, rule ids used twice, terms that cannot be met. */
function checkMeaning(policy: PolicyDocument, reserved: readonly string[], report: Report): void {
  if (reserved.includes(policy.name)) report(['name'], `"${policy.name}" is built in`)
  checkTerms(policy, policy.approvals, ['approvals'], report)
  const ids = new Set<string>()
  for (const [index, { id, approval }] of policy.rules.entries()) {
    if (id !== undefined && ids.has(id))
      report(['rules', index, 'id'], `There is already a rule "${id}"`)
    if (id !== undefined) ids.add(id)
    if (approval) checkTerms(policy, approval, ['rules', index, 'approval'], report)
  }
}

function checkTerms(
  policy: PolicyDocument,
  own: RuleApproval,
  path: DocumentPath,
  report: Report,
): void {
  const known = (name: string | undefined) =>
    name === undefined || Object.hasOwn(policy.groups, name)
  if (!known(own.group)) report([...path, 'group'], `There is no group "${own.group}"`)
  if (!known(own.escalate?.group))
    report([...path, 'escalate', 'group'], `There is no group "${own.escalate?.group}"`)
  const group = own.group ?? policy.approvals.group
  const size = group === undefined ? Infinity : (policy.groups[group]?.length ?? Infinity)
  if ((own.quorum ?? policy.approvals.quorum ?? 1) > size)
    report(
      [...path, own.quorum === undefined ? 'group' : 'quorum'],
      `The group "${group}" has only ${size} entries`,
    )
  const timeout = own.timeoutSeconds ?? policy.approvals.timeoutSeconds
  const escalate = own.escalate ?? policy.approvals.escalate
  if (escalate && escalate.afterSeconds >= timeout)
    report(
      [...path, own.escalate ? 'escalate' : 'timeoutSeconds'],
      'It would escalate only after the deadline',
    )
}
