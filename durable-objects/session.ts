import { DurableObject } from 'cloudflare:workers'
import { linkClose, linkPing, linkPong } from '../src/contract/link.ts'
import type { GatewayTool } from '../src/core/gateway/tools.ts'
import { gatewayTools } from '../src/core/gateway/registry.ts'
import { ledgerShard, ledgerShards } from '../src/core/ledger/ledger.ts'
import { type SessionApi, sessionDoors } from '../src/core/sessions/api.ts'
import type { Caller } from '../src/core/sessions/caller.ts'
import { SessionActor } from '../src/core/sessions/session.ts'
import { addDoors } from './doors.ts'
import { type Env, partsOf } from './env.ts'
import { acceptLink, closeBack, createSessionHost, type LinkAttachment } from './session-host.ts'
import { durableSql } from './sqlite.ts'

// oxlint-disable-next-line no-unsafe-declaration-merging -- addDoors puts every one of them on the prototype
export interface SessionObject extends SessionApi {}
/** One session. Decides nothing: each method is a door to the actor behind it. */
// oxlint-disable-next-line no-unsafe-declaration-merging -- as above
export class SessionObject extends DurableObject<Env> {
  static {
    addDoors<SessionApi, SessionObject>(this.prototype, sessionDoors, (object) => object.#actor)
  }
  readonly #actor: SessionActor

  constructor(ctx: DurableObjectState, env: Env, tools: readonly GatewayTool[] = gatewayTools) {
    super(ctx, env)
    const parts = partsOf(env)
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(linkPing, linkPong))
    this.#actor = new SessionActor({
      ...parts,
      sql: durableSql(ctx.storage),
      host: createSessionHost(ctx),
      now: () => Date.now(),
      organisation: (id) => env.ORGANISATION.getByName(id),
      ledger: (sessionId) => env.LEDGER.getByName(`ledger-${ledgerShard(sessionId, ledgerShards)}`),
      tools,
      config: parts.sessionConfig,
    })
  }

  /** Throws as `authoriseSandbox` does; the socket itself comes by `fetch`. */
  async checkWatcher(caller: Caller) {
    this.#actor.checkWatcher(caller)
  }

  /** Only the Worker gets here, after it has asked at the door above: a socket cannot cross RPC. */
  override async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url)
    if (pathname === '/watch') return this.#watch()
    const generation = Number(searchParams.get('generation'))
    if (pathname === '/renew') return this.#renew(generation)
    return new Response(null, { status: 101, webSocket: acceptLink(this.ctx, generation) })
  }

  #watch(): Response {
    const pair = new WebSocketPair()
    this.ctx.acceptWebSocket(pair[1], ['watch'])
    this.#actor.watchStarted()
    return new Response(null, { status: 101, webSocket: pair[0] })
  }

  async #renew(generation: number): Promise<Response> {
    const pair = new WebSocketPair()
    pair[1].accept()
    pair[1].send(await this.#actor.newToken(generation))
    pair[1].close(linkClose.renewed, 'Connect again with the new token')
    return new Response(null, { status: 101, webSocket: pair[0] })
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const attachment = socket.deserializeAttachment() as LinkAttachment | null
    // What a superseded socket still brings comes again on the new one.
    if (!attachment || socket.readyState !== WebSocket.OPEN) return
    const text = typeof message === 'string' ? message : ''
    const end = await this.#actor.receive(attachment.generation, text)
    if (end) socket.close(end.code, end.reason)
  }

  override async webSocketClose(socket: WebSocket, code: number, reason: string): Promise<void> {
    closeBack(socket, code, reason)
    const attachment = socket.deserializeAttachment() as LinkAttachment | null
    if (attachment) this.#actor.linkClosed(attachment.generation)
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    await this.webSocketClose(socket, 1011, 'error')
  }

  override async alarm(): Promise<void> {
    // Not awaited: a slow provider must not hold up the other deadlines. Each comes back by itself if it is lost.
    this.ctx.waitUntil(this.#actor.runDue())
  }
}
