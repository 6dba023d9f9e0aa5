import { createRoute } from '@hono/zod-openapi'
import * as schemas from '../../contract/status.ts'
import { DeploymentStatus, Health, Readiness, Status } from '../../contract/status.ts'
import { version } from '../../contract/version.ts'
import { viewDeploymentStatus, viewStatus } from '../../core/verbs/view-status.ts'
import type { App } from '../kit/context.ts'
import { openapiJson } from '../kit/openapi.ts'
import { ok, route } from '../kit/route.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'status'

export const statusRoutes = [
  route({
    id: 'getStatus',
    method: 'get',
    path: '/v1/status',
    summary: 'How the deployment is doing for the organisation',
    tag,
    guard: 'read',
    answers: ok(Status, 'The status'),
    refuses: [],
    answer: ({ deps, caller }) => viewStatus(deps, caller.organisationId),
  }),

  route({
    id: 'getDeploymentStatus',
    method: 'get',
    path: '/v1/deployment/status',
    summary: 'How far libSQL is behind all organisations, and what it has refused',
    tag,
    guard: 'operator',
    answers: ok(DeploymentStatus, 'The status'),
    refuses: ['not_found'],
    answer: ({ deps }) => viewDeploymentStatus(deps),
  }),
]

/**
 * For whatever watches the deployment, without a key; also while it is not configured, when there is nothing that other
 * routes need. `readiness` is asked anew every few seconds at most.
 */
export function addHealthRoutes(
  app: App,
  missing: Health['missing'],
  readiness: () => Promise<Readiness>,
): void {
  app.openapi(
    createRoute({
      operationId: 'getHealth',
      method: 'get',
      path: '/healthz',
      summary: 'Whether the control plane answers, and which variables it lacks',
      tags: [tag],
      security: [],
      responses: { 200: openapiJson(Health, 'It does') },
    }),
    (c) => c.json({ ok: true as const, version, missing }, 200),
  )

  app.openapi(
    createRoute({
      operationId: 'getReadiness',
      method: 'get',
      path: '/readyz',
      summary: 'Whether it can work: configuration, libSQL, schema',
      tags: [tag],
      security: [],
      responses: {
        200: openapiJson(Readiness, 'It can'),
        503: openapiJson(Readiness, 'It cannot; the checks say what to do'),
      },
    }),
    async (c) => {
      const answer = await readiness()
      return c.json(answer, answer.ready ? 200 : 503)
    },
  )
}
