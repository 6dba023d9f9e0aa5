import { waitUntil } from 'cloudflare:workers'
import {
  configOf,
  type Env,
  evalRunBindings,
  organisationApi,
  bindPartsOnce,
  sessionApi,
} from '../durable-objects/bindings.ts'
import { EventFeed } from './adapters/event-feed.ts'
import { createWebCrypto } from './adapters/web-crypto.ts'
import type { SessionEvent } from './contract/events.ts'
import type { ToolDefinition } from './contract/tool.ts'
import { gatewayTools } from './core/session/calls/tools/registry.ts'
import { ledgerShards, sumLedgerStatus } from './core/ledger/ledger.ts'
import type { LedgerStatus } from './core/ports.ts'
import { createApp, createUnconfiguredApp } from './http/app.ts'
import type { App } from './http/kit/context.ts'
import { cloudflareAddress } from './http/kit/address.ts'
import { createPartsLog } from './parts.ts'

export { EvalObject } from '../durable-objects/eval.ts'
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
  const { problems } = configOf(env)
  if (problems.length > 0)
    return createUnconfiguredApp(
      { crypto: createWebCrypto([]), log: createPartsLog('info') },
      problems,
    )
  const parts = bindPartsOnce(env)
  const session = (id: string) => sessionApi(env, id)
  return createApp({
    ...parts,
    session,
    organisation: (id) => organisationApi(env, id),
    evalRun: evalRunBindings(env),
    async openLink(sessionId, caller, request) {
      const path = caller.expiredAt !== null ? 'renew' : 'link'
      const url = `https://session/${path}?generation=${caller.generation}`
      return env.SESSION.getByName(sessionId).fetch(new Request(url, { headers: request.headers }))
    },
    async watch(sessionId, caller) {
      const object = env.SESSION.getByName(sessionId)
      await object.checkWatcher(caller)
      const answer = await object.fetch('https://session/watch', {
        headers: { upgrade: 'websocket' },
      })
      if (!answer.webSocket) throw new Error('The session did not open a feed')
      return eventsOf(answer.webSocket)
    },
    addressOf: cloudflareAddress(parts.config.publicUrl),
    ledgerStatus: (organisationId) => ledgerStatus(env, organisationId),
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

async function ledgerStatus(env: Env, organisationId: string | null): Promise<LedgerStatus> {
  const shards = Array.from({ length: ledgerShards }, (_, shard) =>
    env.LEDGER.getByName(`ledger-${shard}`).status(organisationId),
  )
  return sumLedgerStatus(await Promise.all(shards))
}

export default createWorker()
