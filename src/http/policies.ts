import { createRoute, z } from '@hono/zod-openapi'
import { page, PageQuery } from '../contract/page.ts'
import { PolicyCheck, PolicyChecked } from '../contract/policy-check.ts'
import { PolicyReplay, PolicyReplayed } from '../contract/policy-replay.ts'
import { PolicyPut, PolicyRow, PolicyScope, StoredPolicy } from '../contract/stored-policy.ts'
import { checkPolicy } from '../core/policies/check.ts'
import {
  listPolicies,
  listVersions,
  loadVersion,
  putPolicy,
  removePolicy,
} from '../core/policies/policy.ts'
import { replayPolicy } from '../core/policies/replay.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App, AppContext } from './env.ts'
import { badCursor, cursorNumber, json, jsonBody, refusals } from './openapi.ts'

const tags = ['policies']
const VersionsQuery = PageQuery.extend(PolicyScope.shape)
// A number that is none names no version.
const VersionParam = z.object({
  version: z.coerce
    .number()
    .int()
    .min(1)
    .max(2 ** 31),
})

export function addPolicyRoutes(app: App, deps: AppDeps, doors: Doors): void {
  const ownerOf = (c: AppContext, { project = null }: { project?: string | null | undefined }) => ({
    organisationId: c.get('caller').organisationId,
    project,
  })

  app.openapi(
    createRoute({
      method: 'put',
      path: '/v1/policies',
      summary: 'Store a policy of the organisation or of one project, as its next version',
      description: 'The same document again is the same version.',
      tags,
      ...doors.key('admin', { json: true }),
      request: { body: jsonBody(PolicyPut, true) },
      responses: {
        200: json(StoredPolicy, 'The newest version'),
        ...refusals('wrong_state', 'unprocessable'),
      },
    }),
    async (c) => {
      const stored = await putPolicy(deps.db(), deps.now(), c.get('caller'), c.req.valid('json'))
      return c.json(stored, 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/policies',
      summary: 'List the policies that count today: of the organisation, then by project',
      tags,
      ...doors.key('read'),
      request: { query: PageQuery },
      responses: { 200: json(page(PolicyRow), 'One page'), ...refusals('invalid_request') },
    }),
    async (c) => {
      const { limit, cursor } = c.req.valid('query')
      const wanted = { limit: limit + 1, after: projectOf(cursor) }
      const rows = await listPolicies(deps.db(), c.get('caller').organisationId, wanted)
      return c.json(
        pageBy(rows, limit, ({ project }) => `p.${project ?? ''}`),
        200,
      )
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/policies/versions',
      summary: 'List the versions of a policy, newest first',
      tags,
      ...doors.key('read'),
      request: { query: VersionsQuery },
      responses: { 200: json(page(PolicyRow), 'One page'), ...refusals('invalid_request') },
    }),
    async (c) => {
      const { limit, cursor, ...scope } = c.req.valid('query')
      const wanted = { limit: limit + 1, before: cursorNumber(cursor) }
      const rows = await listVersions(deps.db(), ownerOf(c, scope), wanted)
      return c.json(
        pageBy(rows, limit, ({ version }) => String(version)),
        200,
      )
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/policies/versions/{version}',
      summary: 'Get one version of a policy, with its document',
      tags,
      ...doors.key('read'),
      request: { params: VersionParam, query: PolicyScope },
      responses: { 200: json(StoredPolicy, 'The version'), ...refusals('not_found') },
    }),
    async (c) => {
      const owner = ownerOf(c, c.req.valid('query'))
      return c.json(await loadVersion(deps.db(), owner, c.req.valid('param').version), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'delete',
      path: '/v1/policies',
      summary: 'Remove a policy, by a version that says so',
      description: "A project without one falls back to the organisation's, then to the built-in.",
      tags,
      ...doors.key('admin'),
      request: { query: PolicyScope },
      responses: {
        200: json(StoredPolicy, 'The version that says so'),
        ...refusals('not_found', 'wrong_state'),
      },
    }),
    async (c) => {
      const { keyId } = c.get('caller')
      const owner = ownerOf(c, c.req.valid('query'))
      return c.json(await removePolicy(deps.db(), deps.now(), keyId, owner), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/policies/check',
      summary: 'Validate a policy and try it on given requests; nothing is stored',
      tags,
      ...doors.key('read', { json: true }),
      request: { body: jsonBody(PolicyCheck, true) },
      responses: {
        200: json(PolicyChecked, 'What it decides on each'),
        ...refusals('unprocessable'),
      },
    }),
    (c) => c.json(checkPolicy(c.req.valid('json')), 200),
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/policies/replay',
      summary: 'What a policy would have decided on recorded requests',
      tags,
      ...doors.key('read', { json: true }),
      request: { body: jsonBody(PolicyReplay, true) },
      responses: {
        200: json(PolicyReplayed, 'Counts and what differs'),
        ...refusals('not_found', 'unprocessable'),
      },
    }),
    async (c) => {
      const { organisationId } = c.get('caller')
      const input = c.req.valid('json')
      return c.json(await replayPolicy(deps.db(), deps.now(), organisationId, input), 200)
    },
  )
}

/** The project of the last row; the organisation's own is the empty one. */
function projectOf(cursor: string | undefined): string | null {
  if (cursor === undefined) return null
  const [, project] = /^p\.([a-z0-9._-]{0,64})$/.exec(cursor) ?? []
  if (project === undefined) throw badCursor()
  return project
}

function pageBy<T>(rows: T[], limit: number, cursorOf: (row: T) => string) {
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  return { items, nextCursor: rows.length > limit && last ? cursorOf(last) : null }
}
