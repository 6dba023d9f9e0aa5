import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Context } from 'hono'
import type { ApiKey } from '../contract/key.ts'
import type { Caller, SandboxCaller } from '../core/sessions/caller.ts'

/** What the doors have found out about a request. */
export interface AppEnv {
  Variables: {
    requestId: string
    /** Behind a door for API keys. */
    key: ApiKey
    caller: Caller
    /** Whether the key still holds; for answers that outlive the check at the door. */
    stillAllowed: () => Promise<boolean>
    /** Behind a door for sandboxes. */
    sandbox: SandboxCaller & { sessionId: string; expired: boolean }
  }
}

export type App = OpenAPIHono<AppEnv>
export type AppContext = Context<AppEnv>
