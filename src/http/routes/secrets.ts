import { z } from '@hono/zod-openapi'
import * as schemas from '../../contract/secret.ts'
import {
  type Injection,
  ResealResult,
  Secret,
  SecretList,
  SecretName,
  SecretScope,
  SecretSet,
} from '../../contract/secret.ts'
import { resealSecrets } from '../../core/registry/reseal.ts'
import {
  deleteSecret,
  listSecretNames,
  setSecret,
} from '../../core/registry/configurations/secrets.ts'
import { errorDetail, invalidRequestError } from '../kit/errors.ts'
import type { AppDeps } from '../kit/deps.ts'
import { upstreamRefusal } from '../kit/upstream/target.ts'
import { gone, ok, route } from '../kit/route.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'secrets'
// Any text here: a wrong name is not "not found" but a mistake that is worth an explanation.
const anyName = z.object({ name: z.string() })

/** Values come in and never go out. */
export const secretRoutes = [
  route({
    id: 'setSecret',
    method: 'put',
    path: '/v1/secrets/{name}',
    summary: 'Set a secret of the organisation or of one configuration',
    tag,
    guard: 'write',
    params: anyName,
    body: SecretSet,
    answers: ok(Secret, 'The secret, without its value'),
    refuses: ['invalid_request', 'not_found', 'unprocessable', 'wrong_state'],
    async answer({ deps, caller, params, body }) {
      const { value, inject } = body
      const given = { name: parseName(params.name), value, inject: mayBeReached(deps, inject) }
      const { secret } = await setSecret(
        deps.db(),
        deps.crypto,
        deps.now(),
        ownerOf(caller, body),
        given,
      )
      return secret
    },
  }),

  route({
    id: 'listSecrets',
    method: 'get',
    path: '/v1/secrets',
    summary: 'List the names of the secrets of the organisation or of one configuration',
    tag,
    guard: 'read',
    query: SecretScope,
    answers: ok(SecretList, 'Names and dates'),
    refuses: ['not_found'],
    answer: async ({ deps, caller, query }) => ({
      items: await listSecretNames(deps.db(), ownerOf(caller, query)),
    }),
  }),

  route({
    id: 'deleteSecret',
    method: 'delete',
    path: '/v1/secrets/{name}',
    summary: 'Delete a secret of the organisation or of one configuration',
    tag,
    guard: 'write',
    params: anyName,
    query: SecretScope,
    answers: gone('It is gone'),
    refuses: ['not_found'],
    answer: ({ deps, caller, params, query }) =>
      deleteSecret(deps.db(), ownerOf(caller, query), parseName(params.name)),
  }),

  route({
    id: 'resealSecrets',
    method: 'post',
    path: '/v1/secrets/reseal',
    summary: 'Put all secrets of the organisation under the first seal key',
    tag,
    guard: 'admin',
    answers: ok(ResealResult, 'How many'),
    refuses: [],
    async answer({ deps, caller, log }) {
      const counts = await resealSecrets(deps.db(), deps.crypto, caller.organisationId)
      log('info', 'Secrets resealed', { ...counts })
      return counts
    },
  }),
]

function mayBeReached<T extends Injection | null | undefined>({ config }: AppDeps, inject: T): T {
  const issues = (inject?.hosts ?? []).flatMap((host, n) => {
    const refused = upstreamRefusal(host, config.privateHosts)
    return refused === null ? [] : [{ path: `inject.hosts.${n}`, message: refused }]
  })
  if (issues.length > 0) throw invalidRequestError(issues)
  return inject
}

const ownerOf = (
  { organisationId }: { organisationId: string },
  { configurationId = null }: { configurationId?: string | null | undefined },
) => ({ organisationId, configurationId })

function parseName(text: string): SecretName {
  const parsed = SecretName.safeParse(text)
  if (parsed.success) return parsed.data
  throw invalidRequestError(
    parsed.error.issues.map((issue) => ({ ...errorDetail(issue), path: 'name' })),
  )
}
