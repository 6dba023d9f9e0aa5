import { createRoute, z } from '@hono/zod-openapi'
import { Budget, BudgetView, SharedBudgetPut, SharedBudgetView } from '../contract/budget.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { json, jsonBody, params, refusals } from './openapi.ts'

const tags = ['budgets']
const ProjectQuery = z.strictObject({
  project: SharedBudgetPut.shape.project.describe('Default: the whole organisation'),
})

export function addBudgetRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions/{sessionId}/budget',
      summary: 'What a session may use, and what it has used',
      tags,
      ...doors.key('read'),
      request: { params: params.session },
      responses: { 200: json(BudgetView, 'The budget'), ...refusals('not_found') },
    }),
    async (c) => {
      const session = deps.session(c.req.valid('param').sessionId)
      return c.json(await session.budget(c.get('caller')), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'put',
      path: '/v1/sessions/{sessionId}/budget',
      summary: 'Replace the budget of a session; what waited for it goes on',
      tags,
      ...doors.key('approve', { json: true }),
      request: { params: params.session, body: jsonBody(Budget, true) },
      responses: {
        200: json(BudgetView, 'The budget'),
        ...refusals('not_found', 'session_closed', 'unprocessable'),
      },
    }),
    async (c) => {
      const session = deps.session(c.req.valid('param').sessionId)
      return c.json(await session.setBudget(c.get('caller'), c.req.valid('json')), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/budgets',
      summary: 'The budget that all sessions of the organisation or of a project share',
      tags,
      ...doors.key('read'),
      request: { query: ProjectQuery },
      responses: { 200: json(SharedBudgetView, 'The budget'), ...refusals('invalid_request') },
    }),
    async (c) => {
      const { organisationId } = c.get('caller')
      const project = c.req.valid('query').project ?? null
      return c.json(await deps.organisation(organisationId).budget(project), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'put',
      path: '/v1/budgets',
      summary: 'Replace a shared budget; sessions that wait for it go on within seconds',
      tags,
      ...doors.key('admin', { json: true }),
      request: { body: jsonBody(SharedBudgetPut, true) },
      responses: { 200: json(SharedBudgetView, 'The budget'), ...refusals('invalid_request') },
    }),
    async (c) => {
      const { organisationId, keyId } = c.get('caller')
      const { project = null, limits } = c.req.valid('json')
      const organisation = deps.organisation(organisationId)
      return c.json(await organisation.setBudget(project, limits, keyId), 200)
    },
  )
}
