import type { Decision, PermissionDecision } from '../../contract/permission.ts'
import type { Policy, PolicyDocument } from '../../contract/policy.ts'
import type { StoredPolicy } from '../../contract/stored-policy.ts'
import { evaluatePermission } from './evaluate.ts'
import { sandboxDefault } from './builtin-policy.ts'
import { type Everyday, everyday } from './everyday.ts'

/** What people would notice first, in their words: everyday work that the built-in policy allows and this one does not. */
export const policyWarnings = (policy: Policy): string[] =>
  everyday.flatMap((kind) => {
    const decided = decideSamples(kind, policy)
    return [
      ...warningsOf(kind, decided, 'ask', 'will ask a person'),
      ...warningsOf(kind, decided, 'deny', 'will be denied'),
    ]
  })

interface Decided {
  shown: string
  by: PermissionDecision
}

/** What the built-in policy allows, as this one decides it. */
const decideSamples = ({ samples }: Everyday, policy: Policy): Decided[] =>
  samples
    .filter(({ request }) => evaluatePermission(request, sandboxDefault).decision === 'allow')
    .map(({ shown, request }) => ({ shown, by: evaluatePermission(request, policy) }))

const maxShown = 3

function warningsOf(
  { name, each }: Everyday,
  decided: readonly Decided[],
  decision: Decision,
  what: string,
): string[] {
  const hit = decided.filter(({ by }) => by.decision === decision)
  if (hit.length === 0) return []
  const rules = rulesOf(hit.map(({ by }) => by))
  if (hit.length === decided.length) return [`Every ${each} ${what} (${rules})`]
  const shown = hit.slice(0, maxShown).map((one) => `"${one.shown}"`)
  return [`Some ${name} ${what}, such as ${shown.join(', ')} (${rules})`]
}

function rulesOf(decisions: readonly PermissionDecision[]): string {
  const rules = [...new Set(decisions.map(({ rule }) => rule))]
  const more = rules.length > maxShown ? ` and ${rules.length - maxShown} more` : ''
  return `${rules.slice(0, maxShown).join(', ')}${more}`
}

/**
 * A document from before documents extended anything goes on alone. Stored again as it is, it would mean something else:
 * whoever does so is told.
 */
export function migrationWarnings(newest: StoredPolicy | null, document: PolicyDocument): string[] {
  if (!newest || newest.removed || newest.extends !== 'none' || document.extends) return []
  return [
    `Version ${newest.version} of this policy counts as "extends: none". This document does not say what it extends, so it extends sandbox-default and allows what that allows; write "extends: none" to stay without it`,
  ]
}
