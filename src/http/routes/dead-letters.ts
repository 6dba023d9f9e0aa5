import { PageQuery } from '../../contract/page.ts'
import { DeadLetterResend, DeadLettersResent, DeadLetterView } from '../../contract/status.ts'
import { params } from '../kit/openapi.ts'
import { numberedPage } from '../kit/paging.ts'
import { ok, route } from '../kit/route.ts'
import { listSchema } from '../kit/openapi-schemas.ts'

const tag = 'dead letters'
const description =
  'The rows go to libSQL again under their first numbers: nothing that is newer is undone. May be repeated.'

/** Rows that libSQL has refused: of a session, and of the organisation itself. */
export const deadLetterRoutes = [
  route({
    id: 'listSessionDeadLetters',
    method: 'get',
    path: '/v1/sessions/{sessionId}/dead-letters',
    summary: 'List the rows of a session that libSQL has refused, oldest first',
    tag,
    guard: 'read',
    params: params.session,
    query: PageQuery,
    answers: ok(listSchema(DeadLetterView), 'One page'),
    refuses: ['not_found'],
    answer: ({ session, caller, query }) =>
      numberedPage(query, (page) => session.letters.list(caller, page)),
  }),

  route({
    id: 'resendSessionDeadLetters',
    method: 'post',
    path: '/v1/sessions/{sessionId}/dead-letters/resend',
    summary: 'Send rows of a session that libSQL has refused again',
    description,
    tag,
    guard: 'admin',
    params: params.session,
    body: DeadLetterResend,
    answers: ok(DeadLettersResent, 'How many'),
    refuses: ['not_found', 'storage_unavailable'],
    answer: ({ session, caller, body }) => session.letters.resend(caller, body.seqs ?? null),
  }),

  route({
    id: 'listDeadLetters',
    method: 'get',
    path: '/v1/dead-letters',
    summary: 'List the rows of the organisation itself that libSQL has refused, oldest first',
    tag,
    guard: 'read',
    query: PageQuery,
    answers: ok(listSchema(DeadLetterView), 'One page'),
    refuses: [],
    answer: ({ organisation, query }) =>
      numberedPage(query, (page) => organisation.letters.list(page)),
  }),

  route({
    id: 'resendDeadLetters',
    method: 'post',
    path: '/v1/dead-letters/resend',
    summary: 'Send rows of the organisation itself that libSQL has refused again',
    description,
    tag,
    guard: 'admin',
    body: DeadLetterResend,
    answers: ok(DeadLettersResent, 'How many'),
    refuses: ['not_found', 'storage_unavailable'],
    answer: ({ organisation, body }) => organisation.letters.resend(body.seqs ?? null),
  }),
]
