// The Deno host: the same app as on Cloudflare, with every session as an actor of this one process. It serves HTTP and
// the agents' WebSockets, and on a signal closes the sockets, lets requests end for two seconds, and closes the actors.

import { createDenoSessions, type LocalSessions } from './hosts/deno/sessions.ts'
import { linkClose } from './contract/link.ts'
import { gatewayTools } from './core/session/calls/tools/registry.ts'
import type { GatewayTool } from './core/session/calls/tools/tool.ts'
import { type AppDeps, createApp, parseConfig } from './http/app.ts'
import { socketAddress } from './http/kit/address.ts'
import { createParts } from './parts.ts'

/** For requests that are under way; what is committed is safe anyway. */
const stopWithinMs = 2000

export function serveDeno(tools: readonly GatewayTool[] = gatewayTools): void {
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
  const sessions = createDenoSessions({
    ...parts,
    config: parts.sessionConfig,
    creation: parts.config,
    vendors: parts.config,
    now,
    tools,
    dataDir,
  })
  const app = createApp({
    ...parts,
    ...sessions,
    openLink: openLink(sessions),
    addressOf: socketAddress,
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
      hostname: environment['GANTRY_HOST'] ?? '127.0.0.1',
      port: portOf(environment['PORT']),
      onListen: ({ hostname, port }) =>
        parts.log('info', 'Listening', { url: `http://${hostname}:${port}` }),
    },
    (request, { remoteAddr }) => app.fetch(request, { address: remoteAddr.hostname }),
  )
  onSignal(async () => {
    const timeout = new Promise((resolve) => setTimeout(resolve, stopWithinMs))
    sessions.closeSockets()
    await Promise.race([server.shutdown(), timeout])
    sessions.close()
  })
}

function portOf(text = '8787'): number {
  const port = Number(text)
  if (Number.isInteger(port) && port > 0 && port < 65_536) return port
  throw new Error('Cannot start: PORT must be a whole number from 1 to 65535')
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
    const isExpired = caller.expiredAt !== null
    const renewal = isExpired ? await sessions.newToken(sessionId, caller.generation) : null
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

if (import.meta.main) serveDeno()
