import { z } from '@hono/zod-openapi'
import * as permissionSchemas from '../../contract/permission.ts'
import { PageQuery } from '../../contract/page.ts'
import * as policySchemas from '../../contract/policy.ts'
import { BuiltinName, PolicyDocument } from '../../contract/policy.ts'
import * as policyCheckSchemas from '../../contract/policy-check.ts'
import { PolicyCheck, PolicyChecked } from '../../contract/policy-check.ts'
import * as policyReplaySchemas from '../../contract/policy-replay.ts'
import { PolicyReplay, PolicyReplayed } from '../../contract/policy-replay.ts'
import * as storedPolicySchemas from '../../contract/stored-policy.ts'
import {
  PolicyPut,
  PolicyPutResult,
  PolicyRow,
  PolicyScope,
  StoredPolicy,
} from '../../contract/stored-policy.ts'
import { builtinPolicyYaml } from '../../core/policy/builtin-policy.ts'
import { checkPolicy } from '../../core/verbs/check-policy.ts'
import {
  listPolicies,
  listPolicyVersions,
  loadPolicyVersion,
  removePolicy,
} from '../../core/registry/policies/policies.ts'
import { releasePolicy } from '../../core/verbs/release-policy.ts'
import { replayPolicy } from '../../core/verbs/replay-policy.ts'
import { updateSessionPolicy } from '../../core/verbs/update-session-policy.ts'
import { promotionPorts } from '../kit/evals/eval-run-of.ts'
import { params } from '../kit/openapi.ts'
import { type Cursor, pageBy, readPageNumber } from '../kit/paging.ts'
import { ok, rawRoute, route } from '../kit/route.ts'
import {
  beforeOpenApi,
  listSchema,
  nameSchemas,
  namedSchema,
  schemasPath,
} from '../kit/openapi-schemas.ts'

nameSchemas(
  permissionSchemas,
  policySchemas,
  policyCheckSchemas,
  policyReplaySchemas,
  storedPolicySchemas,
)
// The text of a policy document is described like the document itself. JSON is YAML, too.
beforeOpenApi(() => {
  for (const source of [PolicyPut.shape.source, StoredPolicy.shape.source])
    source.register(z.globalRegistry, {
      ...source.meta(),
      contentMediaType: 'application/yaml',
      contentSchema: { $ref: `${schemasPath}PolicyDocument` },
    })
})

const tag = 'policies'
const VersionsQuery = PageQuery.extend(PolicyScope.shape)
// A number that is none names no version.
const VersionParam = z.object({
  version: z.coerce
    .number()
    .int()
    .min(1)
    .max(2 ** 31),
})
const SessionPolicy = namedSchema(
  'SessionPolicy',
  z.object({
    name: z.string(),
    version: z.number().int(),
    extends: z.string().describe('The built-in document under it, or "none"'),
  }),
)

/** Lets other requests in between two pieces of long work. */
const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0))

export const policyRoutes = [
  route({
    id: 'putPolicy',
    method: 'put',
    path: '/v1/policies',
    summary: 'Store a policy of the organisation or of one project, as its next version',
    description: 'The same document again is the same version.',
    tag,
    guard: 'admin',
    body: PolicyPut,
    answers: ok(PolicyPutResult, 'The newest version, and what people will notice'),
    refuses: ['wrong_state', 'unprocessable', 'not_promoted', 'not_configured'],
    answer: ({ deps, caller, body }) => releasePolicy(promotionPorts(deps), caller, body),
  }),

  route({
    id: 'listPolicies',
    method: 'get',
    path: '/v1/policies',
    summary: 'List the policies that count today: of the organisation, then by project',
    tag,
    guard: 'read',
    query: PageQuery,
    answers: ok(listSchema(PolicyRow), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query }) =>
      pageBy(query, projectCursor, (after, limit) =>
        listPolicies(deps.db(), caller.organisationId, { limit, after }),
      ),
  }),

  route({
    id: 'listPolicyVersions',
    method: 'get',
    path: '/v1/policies/versions',
    summary: 'List the versions of a policy, newest first',
    tag,
    guard: 'read',
    query: VersionsQuery,
    answers: ok(listSchema(PolicyRow), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query }) =>
      pageBy(query, versionCursor, (before, limit) =>
        listPolicyVersions(deps.db(), ownerOf(caller, query), { limit, before }),
      ),
  }),

  route({
    id: 'getPolicyVersion',
    method: 'get',
    path: '/v1/policies/versions/{version}',
    summary: 'Get one version of a policy, with its document',
    tag,
    guard: 'read',
    params: VersionParam,
    query: PolicyScope,
    answers: ok(StoredPolicy, 'The version'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params, query }) =>
      loadPolicyVersion(deps.db(), ownerOf(caller, query), params.version),
  }),

  rawRoute({
    id: 'getBuiltinPolicy',
    method: 'get',
    path: '/v1/policies/{name}',
    summary: 'Read a built-in policy as YAML',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: z.object({ name: BuiltinName }),
    responses: {
      200: {
        content: { 'application/yaml': { schema: PolicyDocument } },
        description: 'The document',
      },
    },
    refuses: ['not_found'],
    async respond({ params: { name } }, c) {
      return c.body(builtinPolicyYaml(name), 200, {
        'content-type': 'application/yaml; charset=utf-8',
      })
    },
  }),

  route({
    id: 'removePolicy',
    method: 'delete',
    path: '/v1/policies',
    summary: 'Remove a policy, by a version that says so',
    description: "A project without one falls back to the organisation's, then to the built-in.",
    tag,
    guard: 'admin',
    query: PolicyScope,
    answers: ok(StoredPolicy, 'The version that says so'),
    refuses: ['not_found', 'wrong_state'],
    answer: ({ deps, caller, query }) =>
      removePolicy(deps.db(), deps.now(), caller.keyId, ownerOf(caller, query)),
  }),

  route({
    id: 'checkPolicy',
    method: 'post',
    path: '/v1/policies/check',
    summary: 'Validate a policy and try it on given requests; nothing is stored',
    tag,
    guard: 'read',
    body: PolicyCheck,
    answers: ok(PolicyChecked, 'What it decides on each'),
    refuses: ['unprocessable'],
    answer: ({ deps, caller, body }) => checkPolicy(deps.db(), caller.organisationId, body, pause),
  }),

  route({
    id: 'replayPolicy',
    method: 'post',
    path: '/v1/policies/replay',
    summary: 'What a policy would have decided on recorded requests',
    tag,
    guard: 'read',
    body: PolicyReplay,
    answers: ok(PolicyReplayed, 'Counts and what differs'),
    refuses: ['not_found', 'unprocessable'],
    answer: ({ deps, caller, body }) =>
      replayPolicy({ db: deps.db(), now: deps.now(), pause }, caller.organisationId, body),
  }),

  route({
    id: 'getSessionPolicy',
    method: 'get',
    path: '/v1/sessions/{sessionId}/policy',
    summary: 'The policy that decides for a session: the one that counted when it was created',
    tag,
    guard: 'read',
    params: params.session,
    answers: ok(SessionPolicy, 'Name and version'),
    refuses: ['not_found'],
    answer: ({ session, caller }) => session.gate.policy(caller),
  }),

  route({
    id: 'updateSessionPolicy',
    method: 'post',
    path: '/v1/sessions/{sessionId}/policy',
    summary: 'Move a session to the newest version of its policy',
    tag,
    guard: 'admin',
    params: params.session,
    answers: ok(SessionPolicy, 'Name and version'),
    refuses: ['not_found', 'session_closed', 'storage_unavailable'],
    answer: ({ deps, caller, params }) => updateSessionPolicy(deps, caller, params.sessionId),
  }),
]

const ownerOf = (
  { organisationId }: { organisationId: string },
  { project = null }: { project?: string | null | undefined },
) => ({ organisationId, project })

/** The project of the last row; the organisation's own is the empty one. */
const projectCursor: Cursor<PolicyRow, string> = {
  read: (cursor) => /^p\.([a-z0-9._-]{0,64})$/.exec(cursor)?.[1] ?? null,
  write: ({ project }) => `p.${project ?? ''}`,
}

const versionCursor: Cursor<PolicyRow, number> = {
  read: readPageNumber,
  write: ({ version }) => String(version),
}
