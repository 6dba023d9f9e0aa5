import { DurableObject } from 'cloudflare:workers'
import type { AskAnswer } from '../src/contract/ask.ts'
import { linkClose, linkPing, linkPong } from '../src/contract/link.ts'
import type { PromptCreate } from '../src/contract/turn.ts'
import type { GatewayTool } from '../src/core/gateway/tools.ts'
import { gatewayTools } from '../src/core/gateway/registry.ts'
import { ledgerShard, ledgerShards } from '../src/core/ledger/ledger.ts'
import type {
  Caller,
  CreateSession,
  Page,
  SandboxCaller,
  SessionApi,
  ToolCallInput,
} from '../src/core/sessions/api.ts'
import type { SealedValue } from '../src/core/sessions/secrets.ts'
import { SessionActor } from '../src/core/sessions/session.ts'
import type { ModelUsage } from '../src/core/sessions/usage.ts'
import { type Env, partsOf } from './env.ts'
import { acceptLink, closeBack, createSessionHost, type LinkAttachment } from './session-host.ts'
import { durableSql } from './sqlite.ts'

/** One session. Decides nothing: each method is a door to the actor behind it. */
export class SessionObject extends DurableObject<Env> implements SessionApi {
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
      ledger: (sessionId) => env.LEDGER.getByName(`ledger-${ledgerShard(sessionId, ledgerShards)}`),
      tools,
      config: parts.sessionConfig,
    })
  }

  create(input: CreateSession) {
    return this.#actor.create(input)
  }
  view(caller: Caller) {
    return this.#actor.view(caller)
  }
  close(caller: Caller, reason: string) {
    return this.#actor.close(caller, reason)
  }
  erase(caller: Caller) {
    return this.#actor.erase(caller)
  }
  replaceSandbox(caller: Caller, reason: string) {
    return this.#actor.replaceSandbox(caller, reason)
  }
  prompt(caller: Caller, input: PromptCreate, idempotencyKey: string | null) {
    return this.#actor.prompt(caller, input, idempotencyKey)
  }
  turn(caller: Caller, turnId: string) {
    return this.#actor.turn(caller, turnId)
  }
  waitForTurn(caller: Caller, turnId: string, waitMs: number) {
    return this.#actor.waitForTurn(caller, turnId, waitMs)
  }
  turns(caller: Caller, page: Page) {
    return this.#actor.turns(caller, page)
  }
  abort(caller: Caller) {
    return this.#actor.abort(caller)
  }
  events(caller: Caller, after: number, limit: number) {
    return this.#actor.events(caller, after, limit)
  }
  calls(caller: Caller, page: Page) {
    return this.#actor.calls(caller, page)
  }
  asks(caller: Caller) {
    return this.#actor.asks(caller)
  }
  answerAsk(caller: Caller, askId: string, answer: AskAnswer) {
    return this.#actor.answerAsk(caller, askId, answer)
  }
  diff(caller: Caller) {
    return this.#actor.diff(caller)
  }
  artifacts(caller: Caller) {
    return this.#actor.artifacts(caller)
  }
  artifact(caller: Caller, artifactId: string) {
    return this.#actor.artifact(caller, artifactId)
  }
  authoriseSandbox(sandbox: SandboxCaller) {
    return this.#actor.authoriseSandbox(sandbox)
  }
  admitUpload(sandbox: SandboxCaller, bytes: Uint8Array) {
    return this.#actor.admitUpload(sandbox, bytes)
  }
  manifest(sandbox: SandboxCaller) {
    return this.#actor.manifest(sandbox)
  }
  callTool(sandbox: SandboxCaller, call: ToolCallInput) {
    return this.#actor.callTool(sandbox, call)
  }
  sandboxEnv(sandbox: SandboxCaller) {
    return this.#actor.sandboxEnv(sandbox)
  }
  addModelUsage(sandbox: SandboxCaller, usage: ModelUsage) {
    return this.#actor.addModelUsage(sandbox, usage)
  }
  envRequests(caller: Caller) {
    return this.#actor.envRequests(caller)
  }
  submitEnv(caller: Caller, values: SealedValue[]) {
    return this.#actor.submitEnv(caller, values)
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
