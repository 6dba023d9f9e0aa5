import type { PolicyPut, PolicyPutResult } from '../../contract/stored-policy.ts'
import { hashText } from '../hash.ts'
import { mustParsePolicy } from '../registry/policies/policies.ts'
import { findNewestPolicy, putPolicy } from '../registry/policies/policies.ts'
import type { Caller } from '../session/record/caller.ts'
import { mustBePromoted, type PromotionPorts } from './promote-revision.ts'

/** Stores a policy, which counts at once, if its gates let it. */
export async function releasePolicy(
  ports: PromotionPorts,
  caller: Caller,
  put: PolicyPut,
): Promise<PolicyPutResult> {
  const project = put.project ?? null
  await mustBePromoted(ports, caller, {
    ...{ kind: 'policy', project, name: mustParsePolicy(put.source, put.format).name },
    sha256: hashText(put.source),
    async current() {
      const { organisationId } = caller
      const newest = await findNewestPolicy(ports.db(), { organisationId, project })
      return newest?.source == null ? null : hashText(newest.source)
    },
  })
  return await putPolicy(ports.db(), ports.now(), caller, put)
}
