import { createRoute } from '@hono/zod-openapi'
import { AppError } from '../contract/error.ts'
import { TokenCreate, TokenCreated } from '../contract/token.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { json, jsonBody, params, refusals } from './openapi.ts'

export function addTokenRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'post',
      path: '/v1/sessions/{sessionId}/tokens',
      summary: 'Make a sandbox token for a session that was created without a sandbox',
      description: 'For programs that stand in for the sandbox, such as the conformance runner.',
      tags: ['sandbox'],
      ...doors.key('admin', { json: true }),
      request: { params: params.session, body: jsonBody(TokenCreate, true) },
      responses: {
        201: json(TokenCreated, 'The token'),
        ...refusals('invalid_request', 'not_found', 'wrong_state'),
      },
    }),
    async (c) => {
      const { generation, lifetimeSeconds, source } = c.req.valid('json')
      const { sessionId } = c.req.valid('param')
      const { organisationId, sandbox } = await deps.session(sessionId).view(c.get('caller'))
      // A second holder of a real sandbox's token could act in its name.
      if (sandbox.provider !== 'none') {
        throw new AppError('wrong_state', 'Cannot make a token: the session has a sandbox')
      }
      const minted = await deps.tokens.mint(
        { sessionId, organisationId, generation: generation ?? sandbox.generation },
        { lifetimeSeconds, source },
      )
      return c.json(minted, 201)
    },
  )
}
