import { waitUntil } from 'cloudflare:workers'
import { type Env, partsOf } from '../durable-objects/env.ts'
import { EventFeed } from './adapters/event-feed.ts'
import type { SessionEvent } from './contract/events.ts'
import type { ToolDefinition } from './contract/tool.ts'
import { gatewayTools } from './core/gateway/registry.ts'
import { ledgerShards, sumLedgerStatus } from './core/ledger/ledger.ts'
import type { LedgerStatus } from './core/ports.ts'
import { createApp } from './http/app.ts'
import type { App } from './http/env.ts'

export { LedgerObject } from '../durable-objects/ledger.ts'
export { OrganisationObject } from '../durable-objects/organisation.ts'
export { SessionObject } from '../durable-objects/session.ts'

/** The Cloudflare host: Durable Objects behind the app. */
export function createWorker(
  definitions: readonly ToolDefinition[] = gatewayTools.map(({ definition }) => definition),
): ExportedHandler<Env> {
  let app: App | undefined
  return {
    fetch(request, env, ctx) {
      app ??= createCloudflareApp(env, definitions)
      return app.fetch(request, env, ctx)
    },
  }
}

function createCloudflareApp(env: Env, definitions: readonly ToolDefinition[]): App {
  const parts = partsOf(env)
  const session = (id: string) => env.SESSION.getByName(id)
  return createApp({
    ...parts,
    session,
    organisation: (id) => env.ORGANISATION.getByName(id),
    async openLink(sessionId, caller, request) {
      await session(sessionId).authoriseSandbox(caller)
      const path = caller.expired ? 'renew' : 'link'
      const url = `https://session/${path}?generation=${caller.generation}`
      return session(sessionId).fetch(new Request(url, { headers: request.headers }))
    },
    async watch(sessionId, caller) {
      await session(sessionId).checkWatcher(caller)
      const answer = await session(sessionId).fetch('https://session/watch', {
        headers: { upgrade: 'websocket' },
      })
      if (!answer.webSocket) throw new Error('The session did not open a feed')
      return eventsOf(answer.webSocket)
    },
    ledgerStatus: () => ledgerStatus(env),
    tools: definitions,
    host: 'workerd',
    now: () => Date.now(),
    defer: (work) => waitUntil(work),
  })
}

function eventsOf(socket: WebSocket): ReadableStream<SessionEvent> {
  const feed = new EventFeed(() => socket.close(1000, 'No longer watched'))
  socket.addEventListener('message', ({ data }) =>
    feed.publish(JSON.parse(String(data)) as SessionEvent[]),
  )
  socket.addEventListener('close', () => feed.end())
  socket.addEventListener('error', () => feed.end())
  socket.accept()
  return feed.stream
}

async function ledgerStatus(env: Env): Promise<LedgerStatus> {
  const shards = Array.from({ length: ledgerShards }, (_, shard) =>
    env.LEDGER.getByName(`ledger-${shard}`).status(),
  )
  return sumLedgerStatus(await Promise.all(shards))
}

export default createWorker()
