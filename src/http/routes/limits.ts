import { z } from '@hono/zod-openapi'
import * as schemas from '../../contract/limits.ts'
import { LimitsChange, LimitsView, SandboxAction, WorstCase } from '../../contract/limits.ts'
import { PageQuery } from '../../contract/page.ts'
import { SessionCreate } from '../../contract/session.ts'
import { listActions } from '../../core/organisation/record/actions.ts'
import { pageBy, readPageNumber } from '../kit/paging.ts'
import { ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'limits'
const ProjectQuery = z.strictObject({
  project: SessionCreate.shape.project
    .unwrap()
    .optional()
    .describe('Default: the whole organisation'),
})
const actionCursor = { read: readPageNumber, write: ({ seq }: SandboxAction) => String(seq) }

export const limitRoutes = [
  route({
    id: 'getLimits',
    method: 'get',
    path: '/v1/limits',
    summary: 'What bounds the sandboxes, and how much of it is used',
    tag,
    guard: 'read',
    query: ProjectQuery,
    answers: ok(LimitsView, 'The limits'),
    refuses: ['invalid_request'],
    answer: ({ organisation, query }) => organisation.firewall.limits(query.project ?? null),
  }),

  route({
    id: 'putLimits',
    method: 'put',
    path: '/v1/limits',
    summary: 'Replace the limits; what is left out is the deployment’s again, in a project nothing',
    tag,
    guard: 'admin',
    query: ProjectQuery,
    body: LimitsChange,
    answers: ok(LimitsView, 'The limits'),
    refuses: ['invalid_request', 'unprocessable'],
    answer: ({ organisation, caller, query, body }) =>
      organisation.firewall.setLimits(query.project ?? null, body, caller.keyId),
  }),

  route({
    id: 'getWorstCase',
    method: 'get',
    path: '/v1/limits/worst-case',
    summary: 'The most that sandboxes can come to under these limits, whatever happens',
    tag,
    guard: 'read',
    query: ProjectQuery,
    answers: ok(WorstCase, 'The bound'),
    refuses: ['invalid_request'],
    answer: ({ organisation, query }) => organisation.firewall.worstCase(query.project ?? null),
  }),

  route({
    id: 'listActions',
    method: 'get',
    path: '/v1/limits/actions',
    summary: 'What the firewall did or was told, newest first',
    tag,
    guard: 'read',
    query: PageQuery,
    answers: ok(listSchema(SandboxAction), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query }) =>
      pageBy(query, actionCursor, (before, limit) =>
        listActions(deps.db(), caller.organisationId, { before, limit }),
      ),
  }),
]
