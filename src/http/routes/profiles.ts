import { z } from '@hono/zod-openapi'
import { AgentName } from '../../contract/agent.ts'
import { ProfileId } from '../../contract/ids.ts'
import { PageQuery } from '../../contract/page.ts'
import * as schemas from '../../contract/profile.ts'
import { Profile, ProfilePut, ProfileRevision } from '../../contract/profile.ts'
import { RegistryPlace } from '../../contract/registry-scope.ts'
import { placeOf } from '../../core/registry/place.ts'
import {
  archiveProfile,
  listProfileRevisions,
  listProfiles,
  loadProfile,
  loadProfileByName,
} from '../../core/registry/agents/profiles.ts'
import { putProfile } from '../../core/verbs/put-profile.ts'
import { promotionPorts } from '../kit/evals/eval-run-of.ts'
import { type Cursor, numberedPage, pageBy } from '../kit/paging.ts'
import { ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'profiles'
const profileParams = z.object({ profileId: ProfileId })
const ListQuery = PageQuery.extend({
  scope: RegistryPlace.shape.scope.unwrap().optional(),
  project: RegistryPlace.shape.project.unwrap().optional(),
})

/** By name, which has no ".", and id. */
const byName: Cursor<Profile, { name: string; id: string }> = {
  write: ({ name, id }) => `${name}.${id}`,
  read(cursor) {
    const [, name, id] = /^([a-z0-9_-]{1,64})\.(prf_[0-9a-z]{20})$/.exec(cursor) ?? []
    return name === undefined || id === undefined ? null : { name, id }
  },
}

export const profileRoutes = [
  route({
    id: 'putProfile',
    method: 'put',
    path: '/v1/profiles',
    summary:
      'Store a profile of models by project, scope and name: a changed one is its next revision',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    body: ProfilePut,
    answers: ok(Profile, 'The profile as it is now'),
    refuses: ['forbidden', 'unprocessable', 'not_promoted', 'not_configured'],
    answer: ({ deps, caller, body }) => putProfile(promotionPorts(deps), caller, body),
  }),

  route({
    id: 'listProfiles',
    method: 'get',
    path: '/v1/profiles',
    summary: 'List profiles by name: those of projects, and the own ones',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    query: ListQuery,
    answers: ok(listSchema(Profile), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query: { project = null, scope = null, ...query } }) =>
      pageBy(query, byName, (after, limit) =>
        listProfiles(deps.db(), caller, { project, scope }, { after, limit }),
      ),
  }),

  route({
    id: 'getProfileByName',
    method: 'get',
    path: '/v1/profiles/by-name/{name}',
    summary: 'Get the profile of a name in one project and scope',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: z.object({ name: AgentName }),
    query: RegistryPlace,
    answers: ok(Profile, 'The profile'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params, query }) =>
      loadProfileByName(deps.db(), caller, placeOf(caller, query), params.name),
  }),

  route({
    id: 'getProfile',
    method: 'get',
    path: '/v1/profiles/{profileId}',
    summary: 'Get a profile',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: profileParams,
    answers: ok(Profile, 'The profile'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params }) => loadProfile(deps.db(), caller, params.profileId),
  }),

  route({
    id: 'listProfileRevisions',
    method: 'get',
    path: '/v1/profiles/{profileId}/revisions',
    summary: 'List what a profile was, oldest first',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: profileParams,
    query: PageQuery,
    answers: ok(listSchema(ProfileRevision), 'One page'),
    refuses: ['not_found', 'invalid_request'],
    async answer({ deps, caller, params, query }) {
      const { id } = await loadProfile(deps.db(), caller, params.profileId)
      return await numberedPage(query, (at) => listProfileRevisions(deps.db(), id, at))
    },
  }),

  route({
    id: 'archiveProfile',
    method: 'post',
    path: '/v1/profiles/{profileId}/archive',
    summary: 'Archive a profile: sessions to come do not have it; storing it again brings it back',
    tag,
    guard: 'write',
    limitedKeys: 'obeyed',
    params: profileParams,
    answers: ok(Profile, 'The profile'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params }) =>
      archiveProfile(deps.db(), deps.now(), caller, params.profileId),
  }),
]
