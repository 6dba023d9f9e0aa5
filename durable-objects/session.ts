import { DurableObject } from 'cloudflare:workers'
import { linkClose, linkPing, linkPong } from '../src/contract/link.ts'
import type { GatewayTool } from '../src/core/session/calls/tools/tool.ts'
import { gatewayTools } from '../src/core/session/calls/tools/registry.ts'
import type { Caller } from '../src/core/session/record/caller.ts'
import { SessionActor } from '../src/core/session/session.ts'
import { type Env, ledgerOf, organisationApi, bindPartsOnce } from './bindings.ts'
import { answerCarried } from './carried.ts'
import { Opened } from './opened.ts'
import {
  acceptSessionHostLink,
  closeSessionHostLink,
  createSessionHost,
  type LinkAttachment,
} from './session-host.ts'
import { durableSqlite } from './sqlite.ts'

/**
 * One session. It decides nothing: it carries calls, messages and alarms to the actor behind it. The Worker calls it for every
 * route of a session, and organisations and eval runs for their sessions; the agent and those who watch hold its sockets.
 */
export class SessionObject extends DurableObject<Env> {
  readonly #opened: Opened<SessionActor>

  constructor(ctx: DurableObjectState, env: Env, tools: readonly GatewayTool[] = gatewayTools) {
    super(ctx, env)
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(linkPing, linkPong))
    const create = () =>
      new SessionActor({
        ...bindPartsOnce(env),
        sql: durableSqlite(ctx.storage),
        host: createSessionHost(ctx),
        now: () => Date.now(),
        organisation: (id) => organisationApi(env, id),
        ledger: (id) => ledgerOf(env, id),
        tools,
        config: bindPartsOnce(env).sessionConfig,
      })
    this.#opened = new Opened(ctx, create)
  }

  /** Every call of the session's Api comes by here. */
  ask(call: string, bytes?: Uint8Array): Promise<string | undefined> {
    return answerCarried(this.#opened.actor.api, call, bytes)
  }

  /** Throws unless the session is the caller's; the socket itself comes by `fetch`. */
  async checkWatcher(caller: Caller) {
    this.#opened.actor.checkWatcher(caller)
  }

  /** Only the Worker gets here, after it has asked above: a socket cannot cross RPC. */
  override async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url)
    if (pathname === '/watch') return this.#watch()
    const generation = Number(searchParams.get('generation'))
    if (pathname === '/renew') return this.#renew(generation)
    return new Response(null, {
      status: 101,
      webSocket: acceptSessionHostLink(this.ctx, generation),
    })
  }

  #watch(): Response {
    const pair = new WebSocketPair()
    this.ctx.acceptWebSocket(pair[1], ['watch'])
    this.#opened.actor.watchStarted()
    return new Response(null, { status: 101, webSocket: pair[0] })
  }

  async #renew(generation: number): Promise<Response> {
    const pair = new WebSocketPair()
    pair[1].accept()
    pair[1].send(await this.#opened.actor.newToken(generation))
    pair[1].close(linkClose.renewed, 'Connect again with the new token')
    return new Response(null, { status: 101, webSocket: pair[0] })
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    const attachment = socket.deserializeAttachment() as LinkAttachment | null
    // What a superseded socket still brings comes again on the new one.
    if (!attachment || socket.readyState !== WebSocket.OPEN) return
    if (this.#opened.refusal) return socket.close(linkClose.broke, 'Connect again')
    const text = typeof message === 'string' ? message : ''
    const end = await this.#opened.actor.receive(attachment.generation, text)
    if (end) socket.close(end.code, end.reason)
  }

  override async webSocketClose(socket: WebSocket, code: number, reason: string): Promise<void> {
    closeSessionHostLink(socket, code, reason)
    const attachment = socket.deserializeAttachment() as LinkAttachment | null
    if (attachment && !this.#opened.refusal) this.#opened.actor.linkClosed(attachment.generation)
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    await this.webSocketClose(socket, 1011, 'error')
  }

  override alarm(): Promise<void> {
    return this.#opened.alarm()
  }
}
