import { z } from '@hono/zod-openapi'
import * as schemas from '../../contract/ability.ts'
import { AbilityCheck, AbilityChecked, AbilityName } from '../../contract/ability.ts'
import * as folderSchemas from '../../contract/ability-folder.ts'
import { maxAbilityFolderBytes } from '../../contract/ability-folder.ts'
import * as storedSchemas from '../../contract/stored-ability.ts'
import {
  AbilityCheckQuery,
  AbilityListQuery,
  AbilityPut,
  AbilityPutResult,
  AbilityRow,
  AbilityScope,
  StoredAbility,
} from '../../contract/stored-ability.ts'
import {
  listAbilities,
  listAbilityVersions,
  loadAbility,
  removeAbility,
  validateAbility,
  checkedAbility,
} from '../../core/registry/abilities/abilities.ts'
import { mustMayUsePlace } from '../../core/registry/place.ts'
import { releaseAbility } from '../../core/verbs/release-ability.ts'
import type { Caller } from '../../core/session/record/caller.ts'
import { allowLargerBody } from '../kit/body.ts'
import { promotionPorts } from '../kit/evals/eval-run-of.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'
import { type Cursor, pageBy, readPageNumber } from '../kit/paging.ts'
import { ok, route } from '../kit/route.ts'

nameSchemas(schemas, folderSchemas, storedSchemas)
// Line ends and quotes take two bytes in JSON.
allowLargerBody(AbilityPut, maxAbilityFolderBytes * 2)

const tag = 'abilities'
const NameParam = z.object({ name: AbilityName.describe('With "/" written as "%2F"') })
const VersionQuery = AbilityScope.extend({
  version: z.coerce
    .number()
    .int()
    .min(1)
    .max(2 ** 31)
    .optional()
    .describe('Default: the newest'),
})

export const abilityRoutes = [
  route({
    id: 'validateAbility',
    method: 'post',
    path: '/v1/abilities/validate',
    summary: 'Read an ability and name every mistake in it with its place; nothing is stored',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    body: AbilityCheck,
    answers: ok(AbilityChecked, 'Whether it can run, and what is wrong'),
    refuses: [],
    answer: ({ deps, caller, body }) => validateAbility(deps.db(), ownerOf(caller, body), body),
  }),

  route({
    id: 'putAbility',
    method: 'put',
    path: '/v1/abilities',
    summary: 'Store the folder of an ability, as its next version',
    description: 'The same folder again is the same version.',
    tag,
    guard: 'admin',
    body: AbilityPut,
    answers: ok(AbilityPutResult, 'The newest version, and what is probably a mistake'),
    refuses: ['wrong_state', 'unprocessable', 'not_promoted', 'not_configured'],
    answer: ({ deps, caller, body }) => releaseAbility(promotionPorts(deps), caller, body),
  }),

  route({
    id: 'listAbilities',
    method: 'get',
    path: '/v1/abilities',
    summary: 'List the abilities of the organisation or of one project, by name',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    query: AbilityCheckQuery,
    answers: ok(listSchema(AbilityRow), 'One page'),
    refuses: ['invalid_request'],
    answer: async ({ deps, caller, query }) => {
      const owner = ownerOf(caller, query)
      const page = await pageBy(query, nameCursor, (after, limit) =>
        listAbilities(deps.db(), owner, { limit, after }),
      )
      if (query.validate === 'false') return page
      const items: AbilityRow[] = []
      for (const row of page.items) items.push(await checkedAbility(deps.db(), owner, row))
      return { ...page, items }
    },
  }),

  route({
    id: 'getAbility',
    method: 'get',
    path: '/v1/abilities/{name}',
    summary: 'Get an ability with its files',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: NameParam,
    query: VersionQuery,
    answers: ok(StoredAbility, 'The version'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params: { name }, query }) =>
      loadAbility(deps.db(), ownerOf(caller, query), name, query.version ?? null),
  }),

  route({
    id: 'listAbilityVersions',
    method: 'get',
    path: '/v1/abilities/{name}/versions',
    summary: 'List the versions of an ability, newest first',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: NameParam,
    query: AbilityListQuery,
    answers: ok(listSchema(AbilityRow), 'One page'),
    refuses: ['invalid_request', 'not_found'],
    answer: ({ deps, caller, params: { name }, query }) =>
      pageBy(query, versionCursor, (before, limit) =>
        listAbilityVersions(deps.db(), ownerOf(caller, query), name, { limit, before }),
      ),
  }),

  route({
    id: 'removeAbility',
    method: 'delete',
    path: '/v1/abilities/{name}',
    summary: 'Remove an ability, by a version that says so',
    tag,
    guard: 'admin',
    params: NameParam,
    query: AbilityScope,
    answers: ok(AbilityRow, 'The version that says so'),
    refuses: ['not_found', 'wrong_state'],
    answer: ({ deps, caller, params: { name }, query }) =>
      removeAbility({ db: deps.db(), now: deps.now() }, caller.keyId, ownerOf(caller, query), name),
  }),
]

/** Those of the organisation are for everybody; those of a project for keys that may use it. */
function ownerOf(caller: Caller, { project }: { project?: string | undefined }) {
  if (project !== undefined) mustMayUsePlace(caller, project)
  return { organisationId: caller.organisationId, project: project ?? null }
}

const nameCursor: Cursor<AbilityRow, string> = {
  read: (cursor) => /^n\.([a-z0-9/-]{1,200})$/.exec(cursor)?.[1] ?? null,
  write: ({ name }) => `n.${name}`,
}

const versionCursor: Cursor<AbilityRow, number> = {
  read: readPageNumber,
  write: ({ version }) => String(version),
}
