import type { PermissionRequest } from '../../contract/permission.ts'
import type { PolicyCheck, PolicyChecked, SampleRequest } from '../../contract/policy-check.ts'
import { evaluatePermission } from '../policy/evaluate.ts'
import { normalPath } from '../policy/matching/paths.ts'
import { policyFrom } from '../policy/sandbox-default.ts'
import type { Db } from '../ports.ts'
import { mustParse } from '../registry/policies/document.ts'
import { findNewest } from '../registry/policies/policies.ts'
import { migrationWarnings, policyWarnings } from '../policy/warnings.ts'

/** Reads the document and tries it, as the version that it would be. Nothing is stored. */
export async function checkPolicy(
  db: Db,
  organisationId: string,
  { project, source, format, requests, overrides, enclosure, phases }: PolicyCheck,
): Promise<PolicyChecked> {
  const document = mustParse(source, format)
  const newest = await findNewest(db, { organisationId, project: project ?? null })
  const policy = policyFrom(document, (newest?.version ?? 0) + 1)
  const decisions = requests.map((sample) =>
    evaluatePermission(requestOf(sample), policy, { overrides, enclosure, phases }),
  )
  return {
    name: policy.name,
    extends: policy.builtin ?? 'none',
    rules: policy.rules.length,
    warnings: [...migrationWarnings(newest, document), ...policyWarnings(policy)],
    decisions,
  }
}

/** A session gives normal paths only. */
function requestOf({ cwd, ...sample }: SampleRequest): PermissionRequest {
  return {
    ...sample,
    workspaceRoot: normalPath(sample.workspaceRoot),
    sessionPaths: sample.sessionPaths.map(normalPath),
    paths: sample.paths.map(normalPath),
    ...(cwd === undefined ? {} : { cwd: normalPath(cwd) }),
  }
}
