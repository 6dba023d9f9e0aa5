import { createRoute, z } from '@hono/zod-openapi'
import { loadPolicyFor } from '../core/policies/load.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { json, params, refusals } from './openapi.ts'

const tags = ['policies']
const PolicyName = z.object({ name: z.string(), version: z.number().int() })

export function addSessionPolicyRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions/{sessionId}/policy',
      summary: 'The policy that decides for a session: the one that counted when it was created',
      tags,
      ...doors.key('read'),
      request: { params: params.session },
      responses: { 200: json(PolicyName, 'Name and version'), ...refusals('not_found') },
    }),
    async (c) => {
      const session = deps.session(c.req.valid('param').sessionId)
      return c.json(await session.policy(c.get('caller')), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/sessions/{sessionId}/policy',
      summary: 'Move a session to the newest version of its policy',
      tags,
      ...doors.key('admin'),
      request: { params: params.session },
      responses: {
        200: json(PolicyName, 'Name and version'),
        ...refusals('not_found', 'session_closed', 'storage_unavailable'),
      },
    }),
    async (c) => {
      const caller = c.get('caller')
      const session = deps.session(c.req.valid('param').sessionId)
      const { project } = await session.view(caller)
      const found = await loadPolicyFor(deps.db(), caller.organisationId, project)
      return c.json(await session.setPolicy(caller, found?.policy ?? null), 200)
    },
  )
}
