import { AppError } from '../../contract/error.ts'
import type { PermissionDecision, PermissionRequest } from '../../contract/permission.ts'
import type { PolicyCheck, PolicyChecked, SampleRequest } from '../../contract/policy-check.ts'
import { evaluatePermission } from '../policy/evaluate.ts'
import { normalPath } from '../policy/matching/paths.ts'
import { policyFromBuiltin } from '../policy/builtin-policy.ts'
import type { Db } from '../ports.ts'
import { countPatterns, mustParsePolicy, findNewestPolicy } from '../registry/policies/policies.ts'
import { migrationWarnings, policyWarnings } from '../policy/warnings.ts'

/** Reads the document and tries it, as the version that it would be. Nothing is stored. Others are served in the pauses. */
export async function checkPolicy(
  db: Db,
  organisationId: string,
  { project, source, format, requests, overrides, enclosure, phases }: PolicyCheck,
  pause: () => Promise<void>,
): Promise<PolicyChecked> {
  const document = mustParsePolicy(source, format)
  mustBeTriedSoon(countPatterns(document), requests)
  const newest = await findNewestPolicy(db, { organisationId, project: project ?? null })
  const policy = policyFromBuiltin(document, (newest?.version ?? 0) + 1)
  const warnings = [...migrationWarnings(newest, document), ...policyWarnings(policy)]
  const decisions: PermissionDecision[] = []
  for (const sample of requests) {
    await pause()
    decisions.push(evaluatePermission(requestOf(sample), policy, { overrides, enclosure, phases }))
  }
  return {
    name: policy.name,
    extends: policy.builtin ?? 'none',
    rules: policy.rules.length,
    warnings,
    decisions,
  }
}

/** Patterns times characters of what they are tried on: so long others wait. */
const maxWork = 1_000_000

function mustBeTriedSoon(patterns: number, samples: readonly SampleRequest[]): void {
  const characters = samples.reduce((sum, sample) => sum + charactersOf(sample), 0)
  if (patterns * characters <= maxWork) return
  const most = Math.floor(maxWork / patterns)
  throw new AppError('unprocessable', 'Too much to try at once: send fewer requests at a time', [
    {
      path: 'requests',
      message: `Paths, hosts and commands must have at most ${most} characters together, since the document has ${patterns} patterns`,
    },
  ])
}

const charactersOf = ({ paths, hosts, command }: SampleRequest): number =>
  [...paths, ...hosts, command ?? ''].reduce((sum, text) => sum + text.length, 0)

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
