import type { Policy } from '../../contract/policy.ts'
import type { StoredPolicy } from '../../contract/stored-policy.ts'
import type { Db } from '../ports.ts'
import { mustParse } from './document.ts'
import { findNewest } from './policy.ts'

/** The document that counts for a session, read once when it is created. */
export interface LoadedPolicy {
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
    [project, null].map((scope) => findNewest(db, { organisationId, project: scope })),
  )
  const stored = found.find((one) => one !== null && !one.removed)
  return stored ? loadedOf(stored) : null
}

function loadedOf(stored: StoredPolicy): LoadedPolicy {
  const { name, version, project } = stored
  return { name, version, project, policy: policyOf(stored) }
}

/** A removed version has no document, so it cannot get here. */
export const policyOf = ({ source, format, version }: StoredPolicy): Policy => ({
  ...mustParse(source ?? '', format),
  version,
})
