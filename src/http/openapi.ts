import { z } from '@hono/zod-openapi'
import { ErrorBody, type ErrorCode, errorTable } from '../contract/error.ts'
import {
  ApprovalId,
  ArtifactId,
  AttemptId,
  CallerKey,
  ConfigurationId,
  KeyId,
  OperationId,
  RunId,
  SessionId,
  TurnId,
} from '../contract/ids.ts'
import { version } from '../contract/version.ts'
import { AppError } from '../contract/error.ts'
import type { App } from './env.ts'

export const json = <T extends z.ZodType>(schema: T, description: string) => ({
  content: { 'application/json': { schema } },
  description,
})

export const jsonBody = <T extends z.ZodType>(schema: T, required: boolean) => ({
  content: { 'application/json': { schema } },
  required,
})

/** The refusals that are particular to a route; every other one is described by `default`. */
export function refusals(...codes: ErrorCode[]) {
  const byStatus = Map.groupBy(codes, (code) => errorTable[code].status)
  const rows = [...byStatus].map(([status, group]) => [
    String(status),
    json(ErrorBody, `Refused: ${group.join(', ')}`),
  ])
  return Object.fromEntries([...rows, ['default', json(ErrorBody, 'Refused')]]) as {
    default: ReturnType<typeof json<typeof ErrorBody>>
  }
}

export const params = {
  session: z.object({ sessionId: SessionId }),
  turn: z.object({ turnId: TurnId }),
  run: z.object({ runId: RunId }),
  approval: z.object({ approvalId: ApprovalId }),
  operation: z.object({ operationId: OperationId }),
  attempt: z.object({ attemptId: AttemptId }),
  artifact: z.object({ sessionId: SessionId, artifactId: ArtifactId }),
  key: z.object({ keyId: KeyId }),
  configuration: z.object({ configurationId: ConfigurationId }),
}

export const IdempotencyHeader = z.object({
  'idempotency-key': CallerKey.optional().describe('The same key gives the same answer, once'),
})

/** Cursors of lists that a session keeps: the number of the last row. */
export function cursorNumber(cursor: string | undefined): number | null {
  if (cursor === undefined) return null
  if (/^\d{1,15}$/.test(cursor)) return Number(cursor)
  throw badCursor()
}

/** Cursors of lists in libSQL: creation time and id of the last row. */
export function cursorPair(cursor: string | undefined): { createdAt: number; id: string } | null {
  if (cursor === undefined) return null
  const [, createdAt, id] = /^(\d{1,15})\.([a-z]{3}_[0-9a-z]{1,40})$/.exec(cursor) ?? []
  if (createdAt === undefined || id === undefined) throw badCursor()
  return { createdAt: Number(createdAt), id }
}

/** One row more than `limit` was asked for, to know whether there is another page. */
export function pageOf<T extends { createdAt: number; id: string }>(rows: T[], limit: number) {
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  const nextCursor = rows.length > limit && last ? `${last.createdAt}.${last.id}` : null
  return { items, nextCursor }
}

export function badCursor(): AppError {
  return new AppError('invalid_request', 'Invalid cursor: pass back what the last page gave', [
    { path: 'cursor', message: 'Not a cursor of this list' },
  ])
}

/** Routes without a door. Anything else must be in the document, with its door. */
export const publicPaths = ['/healthz', '/openapi.json'] as const

export function addDocumentRoute(app: App): void {
  app.openAPIRegistry.registerComponent('securitySchemes', 'apiKey', {
    type: 'http',
    scheme: 'bearer',
    description: 'An API key (gk_…). A route names the scope that the key needs.',
  })
  app.openAPIRegistry.registerComponent('securitySchemes', 'sandboxToken', {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The token of a session’s sandbox.',
  })
  app.openAPIRegistry.registerComponent('securitySchemes', 'operatorKey', {
    type: 'http',
    scheme: 'bearer',
    description: 'The key of whoever runs the deployment (GANTRY_OPERATOR_KEY).',
  })
  // Made when it is first asked for: it costs milliseconds, which no other request should pay.
  let text: string | undefined
  app.get('/openapi.json', (c) => {
    text ??= JSON.stringify(
      app.getOpenAPI31Document({
        openapi: '3.1.0',
        info: { title: 'Gantry', version, description: 'Control plane for OpenCode coding agents' },
      }),
    )
    return c.body(text, 200, { 'content-type': 'application/json' })
  })
}
