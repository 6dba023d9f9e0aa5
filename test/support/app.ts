import { SessionSockets } from '../../src/hosts/deno/sockets.ts'
import { linkClose } from '../../src/contract/link.ts'
import { Firewall } from '../../src/contract/limits.ts'
import { createAskModel } from '../../src/adapters/ask-model.ts'
import { modelRows } from '../../src/contract/models.ts'
import { createBlobs } from '../../src/adapters/blobs.ts'
import { createDirectory, type DirectoryOptions } from '../../src/adapters/sandboxes/directory.ts'
import type { SecretKey } from '../../src/adapters/secret-key.ts'
import { createTokens } from '../../src/adapters/tokens.ts'
import { createWebCrypto, createCryptoSessionIds } from '../../src/adapters/web-crypto.ts'
import { createWebhookSender } from '../../src/adapters/webhook-sender.ts'
import type { UnwalledApprovals } from '../../src/contract/enclosure.ts'
import type { SessionEvent } from '../../src/contract/events.ts'
import type { ProofMode } from '../../src/contract/evidence.ts'
import type { Scope } from '../../src/contract/key.ts'
import { type GatewayTool, gatewayTool } from '../../src/core/session/calls/tools/tool.ts'
import { insertKey } from '../../src/core/registry/keys.ts'
import { createOrganisation } from '../../src/core/registry/organisations.ts'
import { LedgerActor } from '../../src/core/ledger/ledger.ts'
import { EvalRunActor } from '../../src/core/eval-run/eval-run.ts'
import { OrganisationActor } from '../../src/core/organisation/organisation.ts'
import type { Db, Log, SandboxProvider, Sql } from '../../src/core/ports.ts'
import type { Providers } from '../../src/core/registry/providers.ts'
import { SessionActor } from '../../src/core/session/session.ts'
import { attemptSessions } from '../../src/core/verbs/create-session.ts'
import { createWarmSource } from '../../src/core/verbs/warm-source.ts'
import { type AppDeps, createApp } from '../../src/http/app.ts'
import { z } from 'zod'
import type { AgentSocket } from './agent.ts'
import { TestClock } from './clock.ts'
import { secretKey } from './keys.ts'
import { socketPair } from './socket-pair.ts'
import { memorySql } from './sql.ts'

export interface TestAppOptions {
  db: () => Db
  rateLimitPerMinute?: number
  models?: AppDeps['config']['models']
  operatorKey?: string | null
  publicUrl?: string
  localRepositories?: string[]
  firewall?: z.input<typeof Firewall>
  /** Accounts of the deployment at sandbox providers. */
  directory?: Partial<DirectoryOptions>
  /** The provider `local`, and the default one. */
  sandboxes?: SandboxProvider
  /** Default: accept, since the agents of tests say nothing of an enclosure. */
  unwalledApprovals?: UnwalledApprovals
  modelLimits?: Partial<Pick<Firewall, 'modelCallsPerMinute' | 'concurrentModelCalls'>>
  /** Default: full. */
  proofMode?: ProofMode
  privateHosts?: string[]
  /** Default: one. */
  exportKeys?: SecretKey[]
  /** Beside `echo` and `verify`. */
  tools?: readonly GatewayTool[]
  /** In place of all others. */
  onlyTools?: readonly GatewayTool[]
  /** Default: true. */
  hasEvals?: boolean
}

type HostSocket = ReturnType<typeof socketPair>[1]

export const testOperatorKey = 'o'.repeat(32)

/** Answers with its arguments; every run is counted. */
export const echoTool = {
  name: 'echo',
  aliases: ['echo_alias'],
  domain: 'gateway',
  args: z.strictObject({ text: z.string().optional() }),
  description: 'Echo',
  guidance: '',
  onConflict: 'refuse',
} as const

/** The real app over real actors and a real libSQL server, in this process. */
export function createTestApp({
  db: openDb,
  rateLimitPerMinute = 100_000,
  models,
  operatorKey = testOperatorKey,
  publicUrl = 'http://gantry.test',
  localRepositories = [],
  firewall = {},
  directory,
  sandboxes,
  tools = [],
  onlyTools,
  modelLimits,
  proofMode = 'full',
  privateHosts = [],
  exportKeys = [secretKey('e1')],
  unwalledApprovals = 'accept',
  hasEvals = true,
}: TestAppOptions) {
  const clock = new TestClock()
  const now = () => clock.now
  const keys = [secretKey('k1')]
  const db = () => clock.watched(openDb())
  const crypto = clock.watched(createWebCrypto([secretKey('s1')], exportKeys))
  const tokens = clock.watched(createTokens(keys, now))
  const webhooks = clock.watched(createWebhookSender({ publicUrl }))
  const ids = clock.watched(createCryptoSessionIds(secretKey('i').secret))
  const logs: { level: string; message: string; fields: Record<string, unknown> }[] = []
  const log: Log = (level, message, fields) => void logs.push({ level, message, fields })
  const deferred: Promise<unknown>[] = []
  const blobs = () => createBlobs(db(), now)
  const ledgerSql = memorySql()
  const ledger = new LedgerActor({ sql: ledgerSql, db, now, log })
  let echoRuns = 0
  const echo = gatewayTool({
    definition: echoTool,
    repeatable: true,
    run: ({ text = '' }) => ({ success: true, result: text, data: { runs: ++echoRuns } }),
  })
  const verify = gatewayTool({
    definition: { ...echoTool, name: 'verify', aliases: [] },
    repeatable: true,
    run: () => ({ success: true, result: '' }),
  })
  const defaultSandbox = sandboxes ? ('local' as const) : ('none' as const)
  const config = { publicUrl, defaultSandbox }
  const boundedBy = Firewall.parse({ ...modelLimits })
  const sessionConfig = {
    ...config,
    defaultModel: 'scripted',
    models: modelRows(),
    enclosure: 'auto' as const,
    unwalledApprovals,
    privateHosts,
    evidence: { mode: proofMode },
    retentionMs: 86_400_000,
    modelLimits: boundedBy,
  }
  const remote = createDirectory({
    ...{ local: null, e2b: null, modal: null, label: 'test', db, crypto, now },
    ...directory,
  })
  const providers: Providers = {
    ...remote,
    find: async (name, id) => (name === 'local' && sandboxes) || remote.find(name, id),
  }
  const warm = createWarmSource({ db, crypto, ids, config: sessionConfig })

  const served = onlyTools ?? [echo, verify, ...tools]
  const sockets = new Map<string, SessionSockets>()
  const socketsOf = (id: string) =>
    sockets.get(id) ?? sockets.set(id, new SessionSockets()).get(id)!
  /** Since when the machines of these agents stand still, and their sockets do not know. */
  const silentSince = new Map<string, number>()
  /** The agents' ends, by the name that the answer gives them. */
  const opened: AgentSocket[] = []
  const watchers = new Map<string, Set<(events: SessionEvent[]) => void>>()
  const watchersOf = (id: string) => watchers.get(id) ?? watchers.set(id, new Set()).get(id)!
  const sessions = new Map<string, SessionActor>()
  const databases = new Map<string, Sql>()
  const databaseOf = (id: string) => databases.get(id) ?? databases.set(id, memorySql()).get(id)!
  function session(id: string): SessionActor {
    const known = sessions.get(id)
    if (known) return known
    const actor = new SessionActor({
      sql: databaseOf(id),
      host: {
        arm: (at) => clock.arm(id, at, () => session(id).runDue()),
        sendToAgent: (text) => socketsOf(id).sendToAgent(text),
        closeAgent: (code, reason) => socketsOf(id).closeAgent(code, reason),
        agentConnected: () => socketsOf(id).connected(),
        // Its pings do not wake the session, so nobody sends them here.
        agentHeardAt: () => socketsOf(id).heardAt() && (silentSince.get(id) ?? clock.now),
        agentGreeted: () => socketsOf(id).greet(),
        watched: () => watchersOf(id).size > 0,
        publish: (events) => watchersOf(id).forEach((send) => send(events)),
        sleep: (ms) => clock.sleep(ms),
        defer: (work) => void deferred.push(work),
        async erase() {
          socketsOf(id).close(linkClose.fenced, 'The session was deleted')
          sessions.delete(id)
          databases.delete(id)
          clock.arm(id, null)
        },
      },
      now,
      crypto,
      tokens,
      webhooks,
      db,
      blobs,
      ledger: () => ledger,
      provider: (name, organisationId) => providers.find(name, organisationId),
      organisation: (id) => organisation(id).api,
      tools: served,
      config: sessionConfig,
      log,
    })
    sessions.set(id, actor)
    return actor
  }
  const organisations = new Map<string, OrganisationActor>()
  function organisation(id: string): OrganisationActor {
    const known = organisations.get(id)
    if (known) return known
    const actor = new OrganisationActor({
      id,
      sql: memorySql(),
      host: { arm: (at) => clock.arm(id, at, () => organisation(id).runDue()) },
      now,
      crypto,
      provider: (name, organisationId) => providers.find(name, organisationId),
      warm,
      session: (sessionId) => session(sessionId).api,
      organisation: (other) => organisation(other).api,
      ledger: () => ledger,
      firewall: Firewall.parse(firewall),
      log,
    })
    organisations.set(id, actor)
    return actor
  }

  const evalRuns = new Map<string, EvalRunActor>()
  const evalLag = { ms: 0 }
  const late = async <T>(answer: Promise<T>): Promise<T> => {
    if (evalLag.ms > 0) await clock.sleep(evalLag.ms)
    return answer
  }
  function evalRun(id: string): EvalRunActor {
    const known = evalRuns.get(id)
    if (known) return known
    const actor = new EvalRunActor({
      sql: databaseOf(id),
      host: {
        arm: (at) => clock.arm(id, at, () => evalRun(id).runDue()),
        sleep: (ms) => clock.sleep(ms),
        async erase() {
          evalRuns.delete(id)
          databases.delete(id)
          clock.arm(id, null)
        },
      },
      now,
      crypto,
      ledger: () => ledger,
      session(sessionId) {
        const { api } = session(sessionId)
        return {
          ...api,
          budget: { ...api.budget, view: (caller) => late(api.budget.view(caller)) },
        }
      },
      askModel: clock.watched({
        ask: createAskModel({
          models: models ?? { anthropic: null, litellm: null },
          extraModels: [],
          organisation: (organisationId) => organisation(organisationId).api,
        }),
      }).ask,
      beginSession: (...asked) => late(beginAttempt(...asked)),
      config: sessionConfig,
      log,
    })
    evalRuns.set(id, actor)
    return actor
  }
  const beginAttempt = attemptSessions({
    ...{ db, crypto, ids, warm, config: { ...config, localRepositories } },
    session: (sessionId) => session(sessionId).api,
    organisation: (organisationId) => organisation(organisationId).api,
  })

  /** As every host does it with a real socket. */
  function accept(id: string, generation: number, socket: HostSocket): void {
    socketsOf(id).accept(socket, clock.now)
    socket.addEventListener('message', ({ data }) => {
      if (!socketsOf(id).holds(socket)) return
      void clock.watch(
        session(id)
          .receive(generation, String(data))
          .then((end) => end && socket.close(end.code, end.reason)),
      )
    })
    socket.addEventListener('close', () => {
      if (socketsOf(id).drop(socket) && databases.has(id)) session(id).linkClosed(generation)
    })
  }
  async function renew(id: string, generation: number, socket: HostSocket): Promise<void> {
    socket.send(await session(id).newToken(generation))
    socket.close(linkClose.renewed, 'Connect again with the new token')
  }

  const deps: AppDeps = {
    session: (id) => session(id).api,
    organisation: (id) => organisation(id).api,
    evalRun: hasEvals ? (id) => evalRun(id).api : null,
    openLink: async (id, { expiredAt, ...sandbox }) => {
      const { generation } = sandbox
      const expired = expiredAt !== null
      await session(id).api.agent.authorise(sandbox, expiredAt)
      const [agent, socket] = socketPair()
      if (expired) void renew(id, generation, socket)
      else accept(id, generation, socket)
      const headers = { 'x-expired': String(expired), 'x-link': String(opened.push(agent) - 1) }
      // Node's Response has no 101, and no socket either.
      return new Response(null, { status: 200, headers })
    },
    watch: async (id, caller) => {
      session(id).checkWatcher(caller)
      let send: (events: SessionEvent[]) => void
      return new ReadableStream<SessionEvent>({
        start(controller) {
          send = (events) => events.forEach((event) => controller.enqueue(event))
          watchersOf(id).add(send)
          session(id).watchStarted()
        },
        cancel: () => void watchersOf(id).delete(send),
      })
    },
    addressOf: (c) => c.req.header('x-test-address') ?? 'test',
    ledgerStatus: (organisationId) => ledger.status(organisationId),
    db,
    blobs,
    crypto,
    ids,
    tokens,
    webhooks,
    providers,
    warm,
    tools: served.map(({ definition }) => definition),
    config: {
      ...config,
      rateLimitPerMinute,
      localRepositories,
      operatorKey,
      models: models ?? { anthropic: null, litellm: null },
      extraModels: [],
      modelExtras: [],
      proofMode,
      privateHosts,
    },
    host: 'workerd',
    log,
    now,
    defer: (work) => void deferred.push(work),
  }
  const app = createApp(deps)

  const makeKey = (organisationId: string, ...scopes: Scope[]) =>
    insertKey(db(), crypto, clock.now, organisationId, { name: 'test', owner: 'test', scopes })
  return {
    app,
    deps,
    logs,
    tokenKeys: keys,
    modelLimits: boundedBy,
    watchersOf,
    /** Those that were asked for so far. */
    sessions,
    ledger,
    ledgerSql,
    databaseOf,
    /** What it was doing is lost; the next one begins with the database. */
    restart: (id: string) => void (sessions.delete(id) || evalRuns.delete(id)),
    actorOf: organisation,
    /** So late sessions answer eval runs that make them or ask what they have spent. */
    evalLag,
    echoRuns: () => echoRuns,
    /** The clock alone. */
    pass: (ms: number) => void (clock.now += ms),
    /** The clock, and every deadline that is met on the way. */
    live: (ms = 0) => clock.live(ms),
    /** Until the control plane waits for somebody else. */
    quiet: () => clock.quiet(),
    /** The machine of the session's agent stands still from now on. */
    hush: (id: string) => void silentSince.set(id, clock.now),
    /** The agent's end of a link that the API has opened; null if it was refused. */
    async link(id: string, token: string): Promise<AgentSocket | null> {
      const headers = { upgrade: 'websocket', authorization: `Bearer ${token}` }
      const answer = await app.request(`/sandbox/${id}/link`, { headers })
      silentSince.delete(id)
      return opened[Number(answer.headers.get('x-link') ?? Number.NaN)] ?? null
    },
    /** What goes on after an answer may begin more of it. */
    settle: async () => {
      while (deferred.length > 0) await Promise.allSettled(deferred.splice(0))
    },
    makeOrganisation: () => createOrganisation(db(), crypto, clock.now, 'test'),
    makeKey,
    async call(method: string, path: string, credential?: string, body?: unknown, headers = {}) {
      const response = await app.request(path, {
        method,
        headers: {
          ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined
          ? {}
          : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      })
      const text = await response.text()
      return {
        status: response.status,
        headers: response.headers,
        text,
        // `any` by JSON.parse: tests look at many shapes.
        json: text.startsWith('{') ? JSON.parse(text) : null,
      }
    },
  }
}

export type TestApp = ReturnType<typeof createTestApp>
