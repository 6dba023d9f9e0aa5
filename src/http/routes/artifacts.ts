import * as schemas from '../../contract/artifact.ts'
import { Artifact } from '../../contract/artifact.ts'
import { LongPageQuery } from '../../contract/page.ts'
import { loadArtifact } from '../../core/verbs/load-artifact.ts'
import { params } from '../kit/openapi.ts'
import { numberedPage } from '../kit/paging.ts'
import { binary, ok, rawRoute, route } from '../kit/route.ts'
import { listSchema, nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

const tag = 'artifacts'

export const artifactRoutes = [
  route({
    id: 'listArtifacts',
    method: 'get',
    path: '/v1/sessions/{sessionId}/artifacts',
    summary: 'List the files that tool calls have stored',
    tag,
    guard: 'read',
    params: params.session,
    query: LongPageQuery,
    answers: ok(listSchema(Artifact), 'One page, oldest first'),
    refuses: ['not_found'],
    answer: ({ session, caller, query }) =>
      numberedPage(query, (page) => session.artifacts.list(caller, page)),
  }),

  rawRoute({
    id: 'downloadArtifact',
    method: 'get',
    path: '/v1/sessions/{sessionId}/artifacts/{artifactId}',
    summary: 'Download a stored file',
    tag,
    guard: 'read',
    params: params.artifact,
    responses: {
      200: {
        content: { 'application/octet-stream': { schema: binary } },
        description: 'The file, with its own content type',
      },
    },
    refuses: ['not_found', 'storage_unavailable'],
    async respond({ deps, caller, params }, c) {
      const { artifact, bytes } = await loadArtifact(deps, caller, params)
      return c.body(bytes as Uint8Array<ArrayBuffer>, 200, {
        'content-type': safeContentType(artifact.contentType),
        'content-disposition': artifactAttachment(artifact.path),
        // The file comes from a sandbox: a browser must neither guess its type nor run it in our origin.
        'content-security-policy': "sandbox; default-src 'none'",
      })
    },
  }),
]

function safeContentType(contentType: string): string {
  const isSafe = /^[\w.+-]+\/[\w.+-]+(; ?charset=[\w-]+)?$/.test(contentType)
  return isSafe ? contentType : 'application/octet-stream'
}

/** The name in ASCII for old clients, and in full as RFC 5987 has it. */
export function artifactAttachment(path: string): string {
  const name = (path.split('/').at(-1) || 'artifact').toWellFormed()
  const ascii = name.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_')
  const full = encodeURIComponent(name).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${ascii}"; filename*=UTF-8''${full}`
}
