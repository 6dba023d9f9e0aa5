import { z } from '@hono/zod-openapi'
import * as schemas from '../../contract/execution.ts'
import { OfferedName } from '../../contract/ability.ts'
import { PinnedFolder } from '../../contract/ability-folder.ts'
import { AppError } from '../../contract/error.ts'
import {
  AbilityPlan,
  AbilityPlanRequest,
  AbilityStatus,
  Execution,
  ExecutionCancel,
  ExecutionCreate,
  ExecutionRecord,
  ExecutionResume,
} from '../../contract/execution.ts'
import { PageQuery } from '../../contract/page.ts'
import { executeAbility, planAbilityToExecute } from '../../core/verbs/execute-ability.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'
import { params } from '../kit/openapi.ts'
import { numberedPage } from '../kit/paging.ts'
import { created, ok, route } from '../kit/route.ts'

nameSchemas(schemas)

const tag = 'abilities'
const WaitQuery = z.strictObject({
  wait: z.coerce
    .number()
    .min(0)
    .max(60)
    .default(0)
    .describe('Seconds to wait until it has ended, or waits for a person'),
})

export const executionRoutes = [
  route({
    id: 'executeAbility',
    method: 'post',
    path: '/v1/sessions/{sessionId}/executions',
    summary: 'Execute an ability in a session',
    description:
      'Answers at once; its steps run outside of the agent, one execution at a time. What runs is a copy of the ability as it is now.',
    tag,
    guard: 'write',
    params: params.session,
    body: ExecutionCreate,
    idempotent: true,
    answers: created(Execution, 'The execution'),
    location: ({ id }) => `/v1/executions/${id}`,
    refuses: ['not_found', 'wrong_state', 'unprocessable', 'key_conflict', 'session_closed'],
    answer: ({ session, caller, body, idempotencyKey }) =>
      executeAbility(session, caller, body, idempotencyKey),
  }),

  route({
    id: 'planAbility',
    method: 'post',
    path: '/v1/abilities/{name}/plan',
    summary: 'What an ability would do in a session; nothing is done or recorded',
    tag,
    guard: 'read',
    limitedKeys: 'obeyed',
    params: z.object({ name: OfferedName.describe('With "/" written as "%2F"') }),
    body: AbilityPlanRequest,
    answers: ok(AbilityPlan, 'The plan'),
    refuses: ['not_found', 'unprocessable'],
    answer: async ({ deps, caller, params: { name }, body: { sessionId, ...request } }) => {
      if (!(await deps.ids.check(sessionId)))
        throw new AppError('not_found', 'There is no such session')
      return planAbilityToExecute(deps.session(sessionId), caller, { ...request, ability: name })
    },
  }),

  route({
    id: 'listExecutions',
    method: 'get',
    path: '/v1/sessions/{sessionId}/executions',
    summary: 'List the executions of a session, newest first',
    tag,
    guard: 'read',
    params: params.session,
    query: PageQuery,
    answers: ok(listSchema(Execution), 'One page'),
    refuses: ['not_found'],
    answer: ({ session, caller, query }) =>
      numberedPage(query, (page) => session.abilities.list(caller, page)),
  }),

  route({
    id: 'getAbilityStatus',
    method: 'get',
    path: '/v1/sessions/{sessionId}/ability',
    summary: 'Which ability is at work in a session, and where it is',
    tag,
    guard: 'read',
    params: params.session,
    answers: ok(AbilityStatus, 'What is at work'),
    refuses: ['not_found'],
    answer: ({ session, caller }) => session.abilities.status(caller),
  }),

  route({
    id: 'getExecution',
    method: 'get',
    path: '/v1/executions/{executionId}',
    summary: 'Get an execution with its steps and their outputs, or wait for it',
    tag,
    guard: 'read',
    params: params.execution,
    query: WaitQuery,
    answers: ok(ExecutionRecord, 'The execution'),
    refuses: ['not_found'],
    answer: ({ session, caller, params: { executionId }, query }) =>
      session.abilities.get(caller, executionId, query.wait * 1000),
  }),

  route({
    id: 'getExecutionFiles',
    method: 'get',
    path: '/v1/executions/{executionId}/files',
    summary: 'The folder of the ability that an execution runs, as it was pinned',
    description: 'What whoever approves its plan answers for, whatever lies in the workspace now.',
    tag,
    guard: 'read',
    params: params.execution,
    answers: ok(PinnedFolder, 'Its files'),
    refuses: ['not_found'],
    answer: ({ session, caller, params: { executionId } }) =>
      session.abilities.files(caller, executionId),
  }),

  route({
    id: 'cancelExecution',
    method: 'post',
    path: '/v1/executions/{executionId}/cancel',
    summary: 'Cancel an execution: what runs is stopped, and nothing of it begins any more',
    tag,
    guard: 'write',
    params: params.execution,
    body: ExecutionCancel,
    bodyMayBeMissing: true,
    answers: ok(Execution, 'The execution'),
    refuses: ['not_found', 'wrong_state'],
    answer: ({ session, caller, params: { executionId }, body }) =>
      session.abilities.cancel(caller, executionId, body),
  }),

  route({
    id: 'resumeExecution',
    method: 'post',
    path: '/v1/executions/{executionId}/resume',
    summary: 'Say how a step that asks goes on',
    tag,
    guard: 'write',
    params: params.execution,
    body: ExecutionResume,
    answers: ok(Execution, 'The execution'),
    refuses: ['not_found', 'wrong_state', 'session_closed'],
    answer: ({ session, caller, params: { executionId }, body }) =>
      session.abilities.resume(caller, executionId, body),
  }),
]
