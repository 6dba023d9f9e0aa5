import { createRoute } from '@hono/zod-openapi'
import { Artifact } from '../contract/artifact.ts'
import { AppError } from '../contract/error.ts'
import { page } from '../contract/page.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App } from './env.ts'
import { json, params, refusals } from './openapi.ts'

const tags = ['artifacts']

export function addArtifactRoutes(app: App, deps: AppDeps, doors: Doors): void {
  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions/{sessionId}/artifacts',
      summary: 'List the files that tool calls have stored',
      tags,
      ...doors.key('read'),
      request: { params: params.session },
      responses: { 200: json(page(Artifact), 'All of them'), ...refusals('not_found') },
    }),
    async (c) => {
      const session = deps.session(c.req.valid('param').sessionId)
      return c.json({ items: await session.artifacts(c.get('caller')), nextCursor: null }, 200)
    },
  )

  app.openapi(
    createRoute({
      method: 'get',
      path: '/v1/sessions/{sessionId}/artifacts/{artifactId}',
      summary: 'Download a stored file',
      tags,
      ...doors.key('read'),
      request: { params: params.artifact },
      responses: {
        200: {
          content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
          description: 'The file, with its own content type',
        },
        ...refusals('not_found', 'storage_unavailable'),
      },
    }),
    async (c) => {
      const { sessionId, artifactId } = c.req.valid('param')
      const artifact = await deps.session(sessionId).artifact(c.get('caller'), artifactId)
      const bytes = await deps.blobs().get(c.get('caller').organisationId, artifact.sha256)
      if (!bytes) throw new AppError('not_found', 'The content of this artifact is gone')
      return c.body(bytes as Uint8Array<ArrayBuffer>, 200, {
        'content-type': safeContentType(artifact.contentType),
        'content-disposition': attachment(artifact.path),
        // The file comes from a sandbox: a browser must neither guess its type nor run it in our origin.
        'content-security-policy': "sandbox; default-src 'none'",
      })
    },
  )
}

function safeContentType(contentType: string): string {
  const isSafe = /^[\w.+-]+\/[\w.+-]+(; ?charset=[\w-]+)?$/.test(contentType)
  return isSafe ? contentType : 'application/octet-stream'
}

/** The name in ASCII for old clients, and in full as RFC 5987 has it. */
export function attachment(path: string): string {
  const name = (path.split('/').at(-1) || 'artifact').toWellFormed()
  const ascii = name.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_')
  const full = encodeURIComponent(name).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${ascii}"; filename*=UTF-8''${full}`
}
