import { createLocalSessions, type LocalSessions } from './adapters/local-sessions.ts'
import { linkClose } from './contract/link.ts'
import { gatewayTools } from './core/gateway/registry.ts'
import type { GatewayTool } from './core/gateway/tools.ts'
import { type AppDeps, createApp, parseConfig } from './http/app.ts'
import { createParts } from './parts.ts'

/** For requests that are under way; what is committed is safe anyway. */
const stopWithinMs = 2000

/** The Deno host: the same app, with every session as an actor of this one process. */
export function serve(tools: readonly GatewayTool[] = gatewayTools): void {
  try {
    start(tools)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    Deno.exit(1)
  }
}

function start(tools: readonly GatewayTool[]): void {
  const environment = Deno.env.toObject()
  const dataDir = environment['GANTRY_DATA_DIR']
  if (!dataDir) throw new Error('Cannot start: GANTRY_DATA_DIR is not set')
  const parts = createParts(parseConfig(environment))
  const now = () => Date.now()
  const sessions = createLocalSessions({
    ...parts,
    config: parts.sessionConfig,
    now,
    tools,
    dataDir,
  })
  const app = createApp({
    ...parts,
    ...sessions,
    openLink: openLink(sessions),
    tools: tools.map((tool) => tool.definition),
    host: 'deno',
    now,
    defer: (work) =>
      void work.catch((error: unknown) =>
        parts.log('warn', 'Deferred work failed', { error: String(error) }),
      ),
  })
  const server = Deno.serve(
    {
      hostname: '127.0.0.1',
      port: Number(environment['PORT'] ?? 8787),
      onListen: ({ hostname, port }) =>
        parts.log('info', 'Listening', { url: `http://${hostname}:${port}` }),
    },
    (request) => app.fetch(request),
  )
  onSignal(async () => {
    const timeout = new Promise((resolve) => setTimeout(resolve, stopWithinMs))
    sessions.closeSockets()
    await Promise.race([server.shutdown(), timeout])
    sessions.close()
  })
}

/** Once: Ctrl-C comes twice under a task runner that passes it on. */
function onSignal(stop: () => Promise<void>): void {
  let stopping = false
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    Deno.addSignalListener(signal, () => {
      if (stopping) return
      stopping = true
      void stop().finally(() => Deno.exit(0))
    })
  }
}

function openLink(sessions: LocalSessions): AppDeps['openLink'] {
  return async (sessionId, caller, request) => {
    await sessions.session(sessionId).authoriseSandbox(caller)
    const renewal = caller.expired ? await sessions.newToken(sessionId, caller.generation) : null
    const { socket, response } = Deno.upgradeWebSocket(request)
    socket.addEventListener('open', () => {
      if (renewal !== null) {
        socket.send(renewal)
        socket.close(linkClose.renewed, 'Connect again with the new token')
        return
      }
      const link = sessions.link(sessionId, caller.generation, socket)
      socket.addEventListener('message', ({ data }) => link.message(data))
      socket.addEventListener('close', () => link.closed())
    })
    return response
  }
}

if (import.meta.main) serve()
