import { createRoute, z } from '@hono/zod-openapi'
import { UploadAnswer } from '../contract/artifact.ts'
import { AppError } from '../contract/error.ts'
import { Manifest, SandboxEnv } from '../contract/manifest.ts'
import { maxArtifactBytes } from '../contract/tool.ts'
import type { Doors } from './auth.ts'
import { readBody } from './body.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { json, params, refusals } from './openapi.ts'

const tags = ['sandbox']

export function addSandboxRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'get',
      path: '/sandbox/{sessionId}/manifest',
      summary: 'What the sandbox is to contain',
      tags,
      ...doors.sandbox(),
      request: { params: params.session },
      responses: {
        200: json(Manifest, 'The manifest'),
        ...refusals('old_generation', 'other_session'),
      },
    }),
    async (c) => {
      const { sessionId, ...sandbox } = c.get('sandbox')
      return c.json(await deps.session(sessionId).manifest(sandbox), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/sandbox/{sessionId}/env',
      summary: 'The values that belong into the sandbox',
      tags,
      ...doors.sandbox(),
      request: { params: params.session },
      responses: {
        200: json(SandboxEnv, 'Values and files'),
        ...refusals('old_generation', 'other_session'),
      },
    }),
    async (c) => {
      const { sessionId, ...sandbox } = c.get('sandbox')
      return c.json(await deps.session(sessionId).sandboxEnv(sandbox), 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/sandbox/{sessionId}/link',
      summary: 'The WebSocket between agent and session',
      description: 'An expired token of the current generation is let in to be given a new one.',
      tags,
      ...doors.sandbox({ mayBeExpired: true }),
      request: { params: params.session, headers: z.object({ upgrade: z.string().optional() }) },
      responses: {
        101: { description: 'The WebSocket is open' },
        ...refusals('invalid_request', 'old_generation', 'other_session'),
      },
    }),
    // The answer holds the socket itself, so nothing may be added to it: a copy would lose the socket.
    async (c) => {
      const { sessionId, ...sandbox } = c.get('sandbox')
      if (c.req.header('upgrade')?.toLowerCase() !== 'websocket') {
        throw new AppError('invalid_request', 'The link is a WebSocket: send "upgrade: websocket"')
      }
      return await deps.openLink(sessionId, sandbox, c.req.raw)
    },
  )

  app.openapi(
    createRoute({
      method: 'put',
      path: '/sandbox/{sessionId}/artifacts',
      summary: 'Upload the content of a file; it is stored by its hash',
      tags,
      ...doors.sandbox(),
      request: {
        params: params.session,
        body: {
          content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
        },
      },
      responses: {
        200: json(UploadAnswer, 'The hash and the size'),
        ...refusals(
          'old_generation',
          'other_session',
          'too_large',
          'unprocessable',
          'storage_unavailable',
        ),
      },
    }),
    async (c) => {
      const { sessionId, ...sandbox } = c.get('sandbox')
      await deps.session(sessionId).authoriseSandbox(sandbox)
      const bytes = await readBody(c.req.raw, maxArtifactBytes)
      await deps.session(sessionId).admitUpload(sandbox, bytes)
      const sha256 = await deps.crypto.sha256(bytes)
      await deps.blobs().put(sandbox.organisationId, sha256, bytes)
      return c.json({ sha256, size: bytes.length }, 200)
    },
  )
}
