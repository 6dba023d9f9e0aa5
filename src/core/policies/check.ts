import type { PermissionRequest } from '../../contract/permission.ts'
import type { PolicyCheck, PolicyChecked, SampleRequest } from '../../contract/policy-check.ts'
import { evaluatePermission } from '../permissions/evaluate.ts'
import { normalPath } from '../permissions/paths.ts'
import { mustParse } from './document.ts'

/** Reads the document and tries it, as its first version. */
export function checkPolicy({ source, format, requests, overrides }: PolicyCheck): PolicyChecked {
  const policy = { ...mustParse(source, format), version: 1 }
  const decisions = requests.map((sample) =>
    evaluatePermission(requestOf(sample), policy, { overrides }),
  )
  return { name: policy.name, rules: policy.rules.length, decisions }
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
