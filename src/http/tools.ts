import { createRoute, z } from '@hono/zod-openapi'
import type { MiddlewareHandler } from 'hono'
import { AppError, type ErrorCode, errorCodeOf } from '../contract/error.ts'
import { SessionId } from '../contract/ids.ts'
import { ToolCallback, type ToolDefinition, ToolResult } from '../contract/tool.ts'
import type { Doors } from './auth.ts'
import type { AppDeps } from './deps.ts'
import type { App, AppEnv } from './env.ts'
import { detailOf, invalid } from './errors.ts'
import { json, jsonBody, refusals } from './openapi.ts'

export function addToolRoutes(app: App, deps: AppDeps, doors: Doors): void {
  const toolNames = namesOf(deps.tools)
  const door = doors.sandbox({ json: true })
  app.openapi(
    createRoute({
      method: 'post',
      path: '/proliferate/{sessionId}/tools/{toolName}',
      summary: 'Call a gateway tool: once per tool_call_id, the same answer ever after',
      tags: ['tools'],
      ...door,
      middleware: [refuseReplacedFirst(deps), ...door.middleware],
      request: {
        // Looked at by the door and by the table of tools, which have their own refusals.
        params: z.object({ sessionId: SessionId.or(z.string()), toolName: z.string() }),
        body: jsonBody(ToolCallback, true),
      },
      responses: {
        200: {
          ...json(ToolResult, 'The answer, byte for byte the same for every caller with this id'),
          headers: z.object({ 'x-gantry-replayed': z.enum(['true', 'false']) }),
        },
        ...refusals(
          'invalid_request',
          'not_sandbox',
          'other_session',
          'old_generation',
          'session_closed',
          'unknown_tool',
          'call_conflict',
          'too_large',
        ),
      },
    }),
    async (c) => {
      const { sessionId, ...sandbox } = c.get('sandbox')
      const { tool_call_id: toolCallId, args } = c.req.valid('json')
      const name = c.req.valid('param').toolName
      const tool = toolNames.get(name)
      if (tool === undefined) {
        throw new AppError('unknown_tool', `Unknown tool: ${name.slice(0, 100)}`)
      }
      const { body, replayed } = await deps
        .session(sessionId)
        .callTool(sandbox, { tool, toolCallId, args })
      // The stored bytes as they are: parsing and printing them again could change them.
      return c.body(body, 200, {
        'content-type': 'application/json',
        'x-gantry-replayed': String(replayed),
      }) as never
    },
    (result) => (result.success ? undefined : refuseCallback(result.error.issues)),
  )
}

const wrongRequest = new Set<ErrorCode | undefined>([
  'invalid_request',
  'too_large',
  'unknown_tool',
])

/**
 * A replaced sandbox is refused before anything is said of its request. The session knows its generation, and is asked
 * extra only if the request would not reach it.
 */
function refuseReplacedFirst(deps: AppDeps): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    await next()
    if (!wrongRequest.has(errorCodeOf(c.error))) return
    const { sessionId, ...sandbox } = c.get('sandbox')
    try {
      await deps.session(sessionId).authoriseSandbox(sandbox)
    } catch (error) {
      // What a closed session still answers is a matter of the call itself.
      if (errorCodeOf(error) !== 'session_closed') throw error
    }
  }
}

/** Every spelling to the one name under which a call is kept. */
function namesOf(tools: readonly ToolDefinition[]): Map<string, string> {
  const gateway = tools.filter(({ domain }) => domain === 'gateway')
  return new Map(
    gateway.flatMap(({ name, aliases }) => [name, ...aliases].map((spelling) => [spelling, name])),
  )
}

function refuseCallback(issues: z.core.$ZodIssue[]): never {
  const details = issues.map(detailOf)
  const isAboutId = details.some(({ path }) => path === 'tool_call_id')
  throw isAboutId ? invalid(details, 'Missing or invalid tool_call_id') : invalid(details)
}
