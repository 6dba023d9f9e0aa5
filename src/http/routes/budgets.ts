import { z } from '@hono/zod-openapi'
import * as schemas from '../../contract/budget.ts'
import {
  Budget,
  BudgetCorrect,
  BudgetView,
  CorrectedBudget,
  CorrectedSharedBudget,
  SharedBudgetCorrect,
  SharedBudgetPut,
  SharedBudgetView,
} from '../../contract/budget.ts'
import { params } from '../kit/openapi.ts'
import { ok, route } from '../kit/route.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'budgets'
const ProjectQuery = z.strictObject({
  project: SharedBudgetPut.shape.project.describe('Default: the whole organisation'),
})

export const budgetRoutes = [
  route({
    id: 'getSessionBudget',
    method: 'get',
    path: '/v1/sessions/{sessionId}/budget',
    summary: 'What a session may use, and what it has used',
    tag,
    guard: 'read',
    params: params.session,
    answers: ok(BudgetView, 'The budget'),
    refuses: ['not_found'],
    answer: ({ session, caller }) => session.budget.view(caller),
  }),

  route({
    id: 'putSessionBudget',
    method: 'put',
    path: '/v1/sessions/{sessionId}/budget',
    summary: 'Replace the budget of a session; what waited for it goes on',
    tag,
    guard: 'approve',
    params: params.session,
    body: Budget,
    answers: ok(BudgetView, 'The budget'),
    refuses: ['not_found', 'session_closed', 'unprocessable'],
    answer: ({ session, caller, body }) => session.budget.set(caller, body),
  }),

  route({
    id: 'getBudget',
    method: 'get',
    path: '/v1/budgets',
    summary: 'The budget that all sessions of the organisation or of a project share',
    tag,
    guard: 'read',
    query: ProjectQuery,
    answers: ok(SharedBudgetView, 'The budget'),
    refuses: ['invalid_request'],
    answer: ({ organisation, query }) => organisation.budgets.view(query.project ?? null),
  }),

  route({
    id: 'putBudget',
    method: 'put',
    path: '/v1/budgets',
    summary: 'Replace a shared budget; sessions that wait for it go on within seconds',
    tag,
    guard: 'admin',
    body: SharedBudgetPut,
    answers: ok(SharedBudgetView, 'The budget'),
    refuses: ['invalid_request'],
    answer: ({ organisation, caller, body: { project = null, limits } }) =>
      organisation.budgets.set(project, limits, caller.keyId),
  }),

  route({
    id: 'correctSessionBudget',
    method: 'post',
    path: '/v1/sessions/{sessionId}/budget/corrections',
    summary: 'Put right what was counted for a session, with a reason; what waited goes on',
    tag,
    guard: 'admin',
    params: params.session,
    body: BudgetCorrect,
    idempotent: true,
    answers: ok(CorrectedBudget, 'The budget, and what was corrected'),
    refuses: ['not_found', 'session_closed', 'key_conflict'],
    answer: ({ session, caller, body, idempotencyKey }) =>
      session.budget.correct(caller, body, idempotencyKey),
  }),

  route({
    id: 'correctBudget',
    method: 'post',
    path: '/v1/budgets/corrections',
    summary: 'Put right what was counted for the organisation or a project, with a reason',
    description: 'Listed by GET /v1/limits/actions. Sessions that wait go on within seconds.',
    tag,
    guard: 'admin',
    body: SharedBudgetCorrect,
    idempotent: true,
    answers: ok(CorrectedSharedBudget, 'The budget, and what was corrected'),
    refuses: ['invalid_request', 'key_conflict'],
    answer: ({ organisation, caller, body, idempotencyKey }) =>
      organisation.budgets.correct(body, caller.keyId, idempotencyKey),
  }),
]
