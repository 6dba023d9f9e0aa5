import { createRoute } from '@hono/zod-openapi'
import { DeploymentKillSwitch, KillSwitch, KillSwitchChange } from '../contract/kill-switch.ts'
import { deploymentId } from '../core/organisations/ports.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { json, jsonBody, refusals } from './openapi.ts'

const tags = ['kill switch']

export function addKillSwitchRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/kill-switch',
      summary: 'Whether the kill switch is on, and what still lives',
      tags,
      ...doors.key('read'),
      responses: { 200: json(KillSwitch, 'The switch'), ...refusals() },
    }),
    async (c) => {
      const { organisationId } = c.get('caller')
      return c.json(await deps.organisation(organisationId).killSwitch(), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/kill-switch',
      summary: 'Stop every sandbox of the organisation and refuse new ones, until it is lifted',
      tags,
      ...doors.key('admin', { json: true }),
      request: { body: jsonBody(KillSwitchChange, true) },
      responses: { 200: json(KillSwitch, 'The switch'), ...refusals('invalid_request') },
    }),
    async (c) => {
      const { organisationId, keyId } = c.get('caller')
      const organisation = deps.organisation(organisationId)
      return c.json(await organisation.setKillSwitch(c.req.valid('json'), keyId), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/deployment/kill-switch',
      summary: 'Whether the kill switch of the whole deployment is on, and who has not heard yet',
      tags,
      ...doors.operator(),
      responses: { 200: json(DeploymentKillSwitch, 'The switch'), ...refusals('not_found') },
    }),
    async (c) => c.json(await deps.organisation(deploymentId).deploymentKillSwitch(), 200),
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/deployment/kill-switch',
      summary: 'Stop every sandbox of every organisation and refuse new ones, until it is lifted',
      tags,
      ...doors.operator({ json: true }),
      request: { body: jsonBody(KillSwitchChange, true) },
      responses: {
        200: json(DeploymentKillSwitch, 'The switch'),
        ...refusals('invalid_request', 'not_found'),
      },
    }),
    async (c) => {
      const deployment = deps.organisation(deploymentId)
      await deployment.setKillSwitch(c.req.valid('json'), 'operator')
      return c.json(await deployment.deploymentKillSwitch(), 200)
    },
  )
}
