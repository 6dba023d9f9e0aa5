import type { Policy } from '../../../contract/policy.ts'
import type { StoredPolicy } from '../../../contract/stored-policy.ts'
import { ruleApprovalTerms } from '../../policy/rules.ts'
import type { Db } from '../../ports.ts'
import { mustParseStored } from './document.ts'
import { findNewestPolicy } from './policies.ts'

/** The document that counts for a session, read once when it is created. */
interface LoadedPolicy {
  name: string
  version: number
  /** null: the whole organisation's. */
  project: string | null
  policy: Policy
}

/** The project's newest, else the organisation's; null: none, so the built-in one counts. */
export async function loadPolicyFor(
  db: Db,
  organisationId: string,
  project: string,
): Promise<LoadedPolicy | null> {
  const found = await Promise.all(
    [project, null].map((scope) => findNewestPolicy(db, { organisationId, project: scope })),
  )
  const stored = found.find((one) => one !== null && !one.removed)
  return stored ? loadedOf(stored) : null
}

/** Who must approve what belongs to a project and no rule names. */
export async function loadApprovalTerms(
  db: Db,
  organisationId: string,
  project: string,
): Promise<{ quorum: number; group: string[] | null }> {
  const loaded = await loadPolicyFor(db, organisationId, project)
  return loaded ? ruleApprovalTerms(loaded.policy, '') : { quorum: 1, group: null }
}

function loadedOf(stored: StoredPolicy): LoadedPolicy {
  const { name, version, project } = stored
  return { name, version, project, policy: policyOf(stored) }
}

/** A removed version has no document, so it cannot get here. What it extends was fixed when it was stored. */
export function policyOf({ source, format, version, extends: builtin }: StoredPolicy): Policy {
  const { extends: _, ...own } = mustParseStored(source ?? '', format)
  return { ...own, version, ...(builtin === 'none' ? {} : { builtin }) }
}
