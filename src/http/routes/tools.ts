import { createRoute, z } from '@hono/zod-openapi'
import { AppError, errorCodeOf } from '../../contract/error.ts'
import { SessionId } from '../../contract/ids.ts'
import * as schemas from '../../contract/tool.ts'
import { ToolCallback, type ToolDefinition, ToolResult } from '../../contract/tool.ts'
import type { ToolCallInput } from '../../core/session/calls/answers.ts'
import type { SandboxCaller } from '../../core/session/record/caller.ts'
import type { SandboxGuard } from '../kit/guards.ts'
import { readJsonBody } from '../kit/body.ts'
import type { AppDeps } from '../kit/deps.ts'
import type { AppContext } from '../kit/context.ts'
import { errorDetail, invalidRequestError } from '../kit/errors.ts'
import { answerWithHeaders } from '../kit/headers.ts'
import { openapiJson, openapiRefusals } from '../kit/openapi.ts'
import type { Route } from '../kit/route.ts'
import { nameSchemas } from '../kit/openapi-schemas.ts'

nameSchemas(schemas)

/**
 * The hot path: documented like every route, but one function instead of the usual six steps, which were a third of what
 * a replay costs. The checks are the same, in the same order.
 */
export const toolRoutes: Route[] = [
  {
    add(app, deps, guards) {
      const toolNames = namesOf(deps.tools)
      const guard = guards.sandbox()
      const route = callbackRoute(guard)
      app.openAPIRegistry.registerPath(route)
      app.post(route.getRoutingPath(), async (c) => {
        const entered = await guard.enter(c)
        // For the log, if it is refused.
        c.set('sandbox', entered)
        const { sessionId, ...sandbox } = entered
        const session = deps.session(sessionId)
        const call = await readCall(c, toolNames).catch(async (error: unknown) => {
          await refuseReplacedFirst(session, sandbox)
          throw error
        })
        const { body, replayed } = await session.calls.call(sandbox, call)
        // The stored bytes as they are: parsing and printing them again could change them.
        return replayed ? answerAgain(c, body) : answerFirst(c, body)
      })
    },
  },
]

const json = { 'content-type': 'application/json' }
const answerFirst = answerWithHeaders({ ...json, 'x-gantry-replayed': 'false' })
const answerAgain = answerWithHeaders({ ...json, 'x-gantry-replayed': 'true' })

const callbackRoute = ({ security }: SandboxGuard) =>
  createRoute({
    operationId: 'callTool',
    method: 'post',
    path: '/proliferate/{sessionId}/tools/{toolName}',
    summary: 'Call a gateway tool: once per tool_call_id, the same answer ever after',
    tags: ['tools'],
    security,
    request: {
      // Looked at by the guard and by the table of tools, which have their own refusals.
      params: z.object({ sessionId: SessionId.or(z.string()), toolName: z.string() }),
      body: { content: { 'application/json': { schema: ToolCallback } }, required: true },
    },
    responses: {
      200: {
        ...openapiJson(
          ToolResult,
          'The answer, byte for byte the same for every caller with this id',
        ),
        headers: z.object({ 'x-gantry-replayed': z.enum(['true', 'false']) }),
      },
      ...openapiRefusals(
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
  })

async function readCall(c: AppContext, toolNames: Map<string, string>): Promise<ToolCallInput> {
  const { value = {} } = await readJsonBody(c)
  const callback = ToolCallback.safeParse(value)
  if (!callback.success) refuseCallback(callback.error.issues)
  const name = c.req.param('toolName') ?? ''
  const tool = toolNames.get(name)
  if (tool === undefined) {
    throw new AppError('unknown_tool', `Unknown tool: ${name.slice(0, 100)}`)
  }
  return { tool, toolCallId: callback.data.tool_call_id, args: callback.data.args }
}

/**
 * A replaced sandbox is refused before anything is said of its request. The session knows its generation, and is asked
 * extra only if the request does not reach it.
 */
async function refuseReplacedFirst(
  session: ReturnType<AppDeps['session']>,
  sandbox: SandboxCaller & { expiredAt: number | null },
): Promise<void> {
  try {
    await session.agent.authorise(sandbox)
  } catch (error) {
    // What a closed session still answers is a matter of the call itself.
    if (errorCodeOf(error) !== 'session_closed') throw error
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
  const details = issues.map(errorDetail)
  const isAboutId = details.some(({ path }) => path === 'tool_call_id')
  throw isAboutId
    ? invalidRequestError(details, 'Missing or invalid tool_call_id')
    : invalidRequestError(details)
}
