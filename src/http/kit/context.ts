import { sessionIdOfOwned } from '../../contract/ids.ts'
import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Context } from 'hono'
import type { Caller, SandboxCaller } from '../../core/session/record/caller.ts'

/** What the guards have found out about a request. */
export interface AppEnv {
  Variables: {
    requestId: string
    /** Behind a guard for API keys. */
    caller: Caller
    /** Whether the key still holds; for answers that outlive the guard's check. */
    stillAllowed: () => Promise<boolean>
    /** Behind a guard for sandboxes. */
    sandbox: SandboxCaller & { sessionId: string; expiredAt: number | null }
  }
}

export type App = OpenAPIHono<AppEnv>
export type AppContext = Context<AppEnv>

/** Parameters whose ids begin with their session's characters. */
const owned = [
  ...['turnId', 'runId', 'approvalId', 'operationId', 'attemptId', 'checkpointId'],
  'executionId',
]

/** The session that the path names, or to which what it names belongs. */
export function contextSessionId(c: AppContext): string | undefined {
  const sessionId = c.req.param('sessionId')
  if (sessionId !== undefined) return sessionId
  const id = owned.map((name) => c.req.param(name)).find(Boolean)
  return id && sessionIdOfOwned(id)
}
