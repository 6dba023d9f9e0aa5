import * as schemas from '../../contract/env.ts'
import { EnvRequest, EnvSubmit, EnvSubmitted } from '../../contract/env.ts'
import { LongPageQuery } from '../../contract/page.ts'
import { submitEnvValues } from '../../core/verbs/submit-env-values.ts'
import { params } from '../kit/openapi.ts'
import { numberedPage } from '../kit/paging.ts'
import { ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'env'

export const envRoutes = [
  route({
    id: 'listEnvRequests',
    method: 'get',
    path: '/v1/sessions/{sessionId}/env-requests',
    summary: 'What the agent asked a person for',
    tag,
    guard: 'read',
    params: params.session,
    query: LongPageQuery,
    answers: ok(listSchema(EnvRequest), 'One page, oldest first'),
    refuses: ['not_found'],
    answer: ({ session, caller, query }) =>
      numberedPage(query, (page) => session.env.requests(caller, page)),
  }),

  route({
    id: 'submitEnvValues',
    method: 'post',
    path: '/v1/sessions/{sessionId}/env',
    summary: 'Give the session values for its env file',
    description:
      'Everything may be sent again: a key that exists stays as it is, unless `replace` is asked for.',
    tag,
    guard: 'write',
    params: params.session,
    body: EnvSubmit,
    answers: ok(EnvSubmitted, 'What was kept, per key'),
    refuses: ['not_found', 'session_closed', 'too_large'],
    answer: ({ deps, caller, params, body }) =>
      submitEnvValues(deps, caller, params.sessionId, body),
  }),
]
