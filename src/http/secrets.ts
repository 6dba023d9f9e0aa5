import { createRoute, z } from '@hono/zod-openapi'
import {
  ResealResult,
  Secret,
  SecretList,
  SecretName,
  SecretScope,
  SecretSet,
} from '../contract/secret.ts'
import { resealSecrets } from '../core/secrets/reseal.ts'
import { deleteSecret, listSecretNames, setSecret } from '../core/secrets/secret.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { detailOf, invalid } from './errors.ts'
import { json, jsonBody, refusals } from './openapi.ts'

const tags = ['secrets']
// Any text here: a wrong name is not "not found" but a mistake that is worth an explanation.
const anyName = z.object({ name: z.string() })

/** Values come in and never go out. */
export function addSecretRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'put',
      path: '/v1/secrets/{name}',
      summary: 'Set a secret of the organisation or of one configuration',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: anyName, body: jsonBody(SecretSet, true) },
      responses: {
        200: json(Secret, 'The secret, without its value'),
        ...refusals('invalid_request', 'not_found', 'wrong_state'),
      },
    }),
    async (c) => {
      const { value, configurationId = null } = c.req.valid('json')
      const name = parseName(c.req.valid('param').name)
      const owner = { organisationId: c.get('caller').organisationId, configurationId }
      const { secret } = await setSecret(deps.db(), deps.crypto, deps.now(), owner, { name, value })
      return c.json(secret, 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/secrets',
      summary: 'List the names of the secrets of the organisation or of one configuration',
      tags,
      ...doors.key('read'),
      request: { query: SecretScope },
      responses: { 200: json(SecretList, 'Names and dates'), ...refusals('not_found') },
    }),
    async (c) => {
      const { configurationId = null } = c.req.valid('query')
      const owner = { organisationId: c.get('caller').organisationId, configurationId }
      return c.json({ items: await listSecretNames(deps.db(), owner) }, 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'delete',
      path: '/v1/secrets/{name}',
      summary: 'Delete a secret of the organisation or of one configuration',
      tags,
      ...doors.key('write'),
      request: { params: anyName, query: SecretScope },
      responses: { 204: { description: 'It is gone' }, ...refusals('not_found') },
    }),
    async (c) => {
      const { configurationId = null } = c.req.valid('query')
      const owner = { organisationId: c.get('caller').organisationId, configurationId }
      await deleteSecret(deps.db(), owner, parseName(c.req.valid('param').name))
      return c.body(null, 204)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/secrets/reseal',
      summary: 'Put all secrets of the organisation under the first seal key',
      tags,
      ...doors.key('admin'),
      responses: { 200: json(ResealResult, 'How many'), ...refusals() },
    }),
    async (c) => {
      const { organisationId } = c.get('caller')
      const counts = await resealSecrets(deps.db(), deps.crypto, organisationId)
      deps.log('info', 'Secrets resealed', { organisationId, ...counts })
      return c.json(counts, 200)
    },
  )
}

function parseName(text: string): SecretName {
  const parsed = SecretName.safeParse(text)
  if (parsed.success) return parsed.data
  throw invalid(parsed.error.issues.map((issue) => ({ ...detailOf(issue), path: 'name' })))
}
