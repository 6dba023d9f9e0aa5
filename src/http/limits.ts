import { createRoute, z } from '@hono/zod-openapi'
import { LimitsChange, LimitsView, SandboxAction, WorstCase } from '../contract/limits.ts'
import { page, PageQuery } from '../contract/page.ts'
import { SessionCreate } from '../contract/session.ts'
import { listActions } from '../core/organisations/actions.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App, AppContext } from './env.ts'
import { cursorNumber, json, jsonBody, refusals } from './openapi.ts'

const tags = ['limits']
const ProjectQuery = z.strictObject({
  project: SessionCreate.shape.project
    .unwrap()
    .optional()
    .describe('Default: the whole organisation'),
})

export function addLimitsRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/limits',
      summary: 'What bounds the sandboxes, and how much of it is used',
      tags,
      ...doors.key('read'),
      request: { query: ProjectQuery },
      responses: { 200: json(LimitsView, 'The limits'), ...refusals('invalid_request') },
    }),
    async (c) => c.json(await own(c).limits(c.req.valid('query').project ?? null), 200),
  )

  app.openapi(
    createRoute({
      method: 'put',
      path: '/v1/limits',
      summary:
        'Replace the limits; what is left out is the deployment’s again, in a project nothing',
      tags,
      ...doors.key('admin', { json: true }),
      request: { query: ProjectQuery, body: jsonBody(LimitsChange, true) },
      responses: {
        200: json(LimitsView, 'The limits'),
        ...refusals('invalid_request', 'unprocessable'),
      },
    }),
    async (c) => {
      const project = c.req.valid('query').project ?? null
      const change = c.req.valid('json')
      return c.json(await own(c).setLimits(project, change, c.get('caller').keyId), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/limits/worst-case',
      summary: 'The most that sandboxes can come to under these limits, whatever happens',
      tags,
      ...doors.key('read'),
      request: { query: ProjectQuery },
      responses: { 200: json(WorstCase, 'The bound'), ...refusals('invalid_request') },
    }),
    async (c) => c.json(await own(c).worstCase(c.req.valid('query').project ?? null), 200),
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/limits/actions',
      summary: 'What the firewall did or was told, newest first',
      tags,
      ...doors.key('read'),
      request: { query: PageQuery },
      responses: { 200: json(page(SandboxAction), 'One page'), ...refusals('invalid_request') },
    }),
    async (c) => {
      const { limit, cursor } = c.req.valid('query')
      const before = cursorNumber(cursor)
      const { organisationId } = c.get('caller')
      const rows = await listActions(deps.db(), organisationId, { before, limit: limit + 1 })
      const items = rows.slice(0, limit)
      const nextCursor = rows.length > limit ? String(items.at(-1)?.seq) : null
      return c.json({ items, nextCursor }, 200)
    },
  )

  const own = (c: AppContext) => deps.organisation(c.get('caller').organisationId)
}
