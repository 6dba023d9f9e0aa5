import * as schemas from '../../contract/key.ts'
import { ApiKey, KeyCreate, KeyCreated } from '../../contract/key.ts'
import { PageQuery } from '../../contract/page.ts'
import { listKeys, revokeKey } from '../../core/registry/keys.ts'
import { createKey } from '../../core/verbs/create-key.ts'
import { params } from '../kit/openapi.ts'
import { datedPage } from '../kit/paging.ts'
import { created, gone, ok, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'keys'

export const keyRoutes = [
  route({
    id: 'createKey',
    method: 'post',
    path: '/v1/keys',
    summary: 'Create an API key; its secret is shown once',
    tag,
    guard: 'admin',
    body: KeyCreate,
    idempotent: true,
    answers: created(KeyCreated, 'The key with its secret'),
    refuses: ['key_conflict', 'wrong_state', 'not_found'],
    answer: ({ deps, caller, body, idempotencyKey }) =>
      createKey(deps, caller, body, idempotencyKey),
  }),

  route({
    id: 'listKeys',
    method: 'get',
    path: '/v1/keys',
    summary: 'List the API keys of the organisation, oldest first',
    tag,
    guard: 'admin',
    query: PageQuery,
    answers: ok(listSchema(ApiKey), 'One page'),
    refuses: ['invalid_request'],
    answer: ({ deps, caller, query }) =>
      datedPage(query, (after, limit) =>
        listKeys(deps.db(), caller.organisationId, { limit, after }),
      ),
  }),

  route({
    id: 'revokeKey',
    method: 'delete',
    path: '/v1/keys/{keyId}',
    summary: 'Revoke an API key; everywhere within 30 seconds',
    tag,
    guard: 'admin',
    params: params.key,
    answers: gone('It is revoked'),
    refuses: ['not_found'],
    async answer({ deps, guards, caller, params: { keyId } }) {
      const { organisationId } = caller
      const order = { organisationId, keyId, maker: caller }
      await revokeKey(deps.db(), deps.crypto, deps.now(), order)
      guards.forgetKey(keyId)
    },
  }),
]
