import { createRoute } from '@hono/zod-openapi'
import * as schemas from '../../contract/export.ts'
import { ExportQuery, PublicKeys } from '../../contract/export.ts'
import { exportRun } from '../../core/verbs/export-run.ts'
import type { App } from '../kit/context.ts'
import type { AppDeps } from '../kit/deps.ts'
import { openapiJson, params } from '../kit/openapi.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'
import { rawRoute } from '../kit/route.ts'

nameSchemas(schemas)

const tag = 'evidence'
const decoder = new TextDecoder()
const text = { schema: { type: 'string' as const } }

export const exportRoutes = [
  rawRoute({
    id: 'getRunBundle',
    method: 'get',
    path: '/v1/runs/{runId}/bundle',
    summary: 'Export a run as one signed file that anybody can check with `npm run verify`',
    description:
      'The first line is a DSSE envelope with an in-toto statement (Statement), each further one a record (ExportRecord). docs/evidence.md shows how to check it.',
    tag,
    guard: 'read',
    params: params.run,
    query: ExportQuery,
    responses: {
      200: {
        content: { 'application/jsonl': text, 'text/plain': text },
        description: 'The file, in the form that was asked for',
      },
    },
    refuses: ['not_found', 'too_large', 'not_configured', 'storage_unavailable'],
    async respond({ deps, session, caller, params: { runId }, query }, c) {
      const ports = { ...deps, session, textOf: (bytes: Uint8Array) => decoder.decode(bytes) }
      const { text: body, contentType, fileName } = await exportRun(ports, caller, runId, query)
      return c.body(body, 200, {
        'content-type': contentType,
        'content-disposition': `attachment; filename="${fileName}"`,
      })
    },
  }),
]

/** Without a key: strangers check what was signed. */
export function addExportKeysRoute(app: App, { crypto }: Pick<AppDeps, 'crypto'>): void {
  app.openapi(
    createRoute({
      operationId: 'getExportKeys',
      method: 'get',
      path: '/.well-known/gantry-keys.json',
      summary: 'The public keys by which exported runs are checked',
      tags: [tag],
      security: [],
      responses: { 200: openapiJson(PublicKeys, 'A JSON Web Key Set') },
    }),
    async (c) => c.json({ keys: await crypto.publicKeys() }, 200),
  )
}
