import { createRoute, z } from '@hono/zod-openapi'
import { EnvRequest, EnvSubmit, EnvSubmitted } from '../contract/env.ts'
import { AppError } from '../contract/error.ts'
import { setSecret } from '../core/secrets/secret.ts'
import type { SealedValue } from '../core/sessions/secrets.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App, AppContext } from './env.ts'
import { json, jsonBody, params, refusals } from './openapi.ts'

const tags = ['env']

export function addEnvRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions/{sessionId}/env-requests',
      summary: 'What the agent asked a person for',
      tags,
      ...doors.key('read'),
      request: { params: params.session },
      responses: {
        200: json(z.object({ items: z.array(EnvRequest) }), 'All of them'),
        ...refusals('not_found'),
      },
    }),
    async (c) => {
      const session = deps.session(c.req.valid('param').sessionId)
      return c.json({ items: await session.envRequests(c.get('caller')) }, 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/sessions/{sessionId}/env',
      summary: 'Give the session values for its env file',
      description: 'Everything may be sent again: nothing is stored twice.',
      tags,
      ...doors.key('write', { json: true }),
      request: { params: params.session, body: jsonBody(EnvSubmit, true) },
      responses: {
        200: json(EnvSubmitted, 'What was kept, per key'),
        ...refusals('not_found', 'session_closed', 'too_large'),
      },
    }),
    async (c) => {
      const input = c.req.valid('json')
      const session = deps.session(c.req.valid('param').sessionId)
      const { configurationId, status } = await session.view(c.get('caller'))
      if (status !== 'open') throw new AppError('session_closed', 'The session is closed')
      const results = await persist(c, input, configurationId)
      const sandbox = await session.submitEnv(c.get('caller'), await seal(input))
      return c.json({ submitted: true as const, results, sandbox }, 200)
    },
  )

  /** Plain settings are never kept, and without a configuration there is no place to keep a secret. */
  async function persist(
    c: AppContext,
    { values, saveToConfiguration }: EnvSubmit,
    configurationId: string | null,
  ): Promise<EnvSubmitted['results']> {
    const { organisationId } = c.get('caller')
    const results: EnvSubmitted['results'] = []
    for (const { key, value, type, persist: wanted = saveToConfiguration } of values) {
      if (!wanted || type !== 'secret' || configurationId === null) {
        results.push({ key, persisted: false, alreadyExisted: false })
        continue
      }
      const owner = { organisationId, configurationId }
      const { existed } = await setSecret(deps.db(), deps.crypto, deps.now(), owner, {
        name: key,
        value,
      })
      results.push({ key, persisted: true, alreadyExisted: existed })
    }
    return results
  }

  function seal({ values }: EnvSubmit): Promise<SealedValue[]> {
    return Promise.all(
      values.map(async ({ key, value, type }) => ({
        key,
        kind: type,
        sealed: await deps.crypto.seal(value),
      })),
    )
  }
}
