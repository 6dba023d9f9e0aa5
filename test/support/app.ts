import { Firewall } from '../../src/contract/limits.ts'
import { modelRows } from '../../src/contract/models.ts'
import { createBlobs } from '../../src/adapters/blobs.ts'
import { createProviders, type DirectoryOptions } from '../../src/adapters/sandboxes/directory.ts'
import { createTokens } from '../../src/adapters/tokens.ts'
import { createCrypto, createSessionIds } from '../../src/adapters/web-crypto.ts'
import { createWebhookSender } from '../../src/adapters/webhook-sender.ts'
import type { SessionEvent } from '../../src/contract/events.ts'
import type { Scope } from '../../src/contract/key.ts'
import { type GatewayTool, gatewayTool } from '../../src/core/session/calls/tools/tool.ts'
import { createKey, createOrganisation } from '../../src/core/registry/keys.ts'
import { LedgerActor } from '../../src/core/ledger/ledger.ts'
import { OrganisationActor } from '../../src/core/organisation/organisation.ts'
import type { Db, Log, SandboxProvider, Sql } from '../../src/core/ports.ts'
import type { Providers } from '../../src/core/registry/providers.ts'
import { SessionActor } from '../../src/core/session/session.ts'
import { createWarmSource } from '../../src/core/verbs/warm-source.ts'
import { type AppDeps, createApp } from '../../src/http/app.ts'
import { z } from 'zod'
import { secretKey } from './keys.ts'
import { memorySql } from './sql.ts'

export interface TestAppOptions {
  db: () => Db
  rateLimitPerMinute?: number
  models?: AppDeps['config']['models']
  operatorKey?: string | null
  publicUrl?: string
  /** Accounts of the deployment at sandbox providers. */
  directory?: Partial<DirectoryOptions>
  /** The provider `local`, and the default one. */
  sandboxes?: SandboxProvider
  /** Beside `echo` and `verify`. */
  tools?: readonly GatewayTool[]
}

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
  db,
  rateLimitPerMinute = 100_000,
  models,
  operatorKey = testOperatorKey,
  publicUrl = 'http://gantry.test',
  directory,
  sandboxes,
  tools = [],
}: TestAppOptions) {
  let clock = Date.now()
  const now = () => clock
  const keys = [secretKey('k1')]
  const crypto = createCrypto([secretKey('s1')])
  const tokens = createTokens(keys, now)
  const ids = createSessionIds(secretKey('i').secret)
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
  const sessionConfig = {
    ...config,
    defaultModel: 'scripted',
    models: modelRows(),
    enclosure: 'auto' as const,
    privateHosts: [],
    retentionMs: 86_400_000,
  }
  const remote = createProviders({
    ...{ local: null, e2b: null, modal: null, label: 'test', db, crypto, now },
    ...directory,
  })
  const providers: Providers = {
    ...remote,
    find: async (name, id) => (name === 'local' && sandboxes) || remote.find(name, id),
  }
  const warm = createWarmSource({ db, crypto, ids, config: sessionConfig })

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
        arm: () => {},
        sendToAgent: () => false,
        closeAgent: () => {},
        agentConnected: () => false,
        agentHeardAt: () => Date.now(),
        agentGreeted: () => false,
        watched: () => watchersOf(id).size > 0,
        publish: (events) => watchersOf(id).forEach((send) => send(events)),
        sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
        defer: (work) => void deferred.push(work),
        erase: async () => void (sessions.delete(id), databases.delete(id)),
      },
      now,
      crypto,
      tokens,
      webhooks: createWebhookSender({ publicUrl }),
      db,
      blobs,
      ledger: () => ledger,
      provider: (name, organisationId) => providers.find(name, organisationId),
      organisation: (id) => organisation(id).api,
      tools: [echo, verify, ...tools],
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
      host: { arm: () => {} },
      now,
      crypto,
      provider: (name, organisationId) => providers.find(name, organisationId),
      warm,
      session: (sessionId) => session(sessionId).api,
      organisation: (other) => organisation(other).api,
      ledger: () => ledger,
      firewall: Firewall.parse({}),
      log,
    })
    organisations.set(id, actor)
    return actor
  }

  const deps: AppDeps = {
    session: (id) => session(id).api,
    organisation: (id) => organisation(id).api,
    openLink: async (id, { expired, ...sandbox }) => {
      await session(id).api.agent.authorise(sandbox)
      // Node's Response has no 101, and no socket either.
      return new Response(null, { status: 200, headers: { 'x-expired': String(expired) } })
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
    ledgerStatus: (organisationId) => ledger.status(organisationId),
    db,
    blobs,
    crypto,
    ids,
    tokens,
    webhooks: createWebhookSender({ publicUrl }),
    providers,
    warm,
    tools: [echoTool, verify.definition, ...tools.map(({ definition }) => definition)],
    config: {
      ...config,
      rateLimitPerMinute,
      operatorKey,
      models: models ?? { anthropic: null, litellm: null },
      extraModels: [],
    },
    host: 'workerd',
    log,
    now,
    defer: (work) => void deferred.push(work),
  }
  const app = createApp(deps)

  const makeKey = (organisationId: string, ...scopes: Scope[]) =>
    createKey(db(), crypto, clock, organisationId, { name: 'test', owner: 'test', scopes })
  return {
    app,
    deps,
    logs,
    tokenKeys: keys,
    watchersOf,
    /** Those that were asked for so far. */
    sessions,
    ledger,
    ledgerSql,
    databaseOf,
    /** What it was doing is lost; the next one begins with the database. */
    restart: (id: string) => void sessions.delete(id),
    actorOf: organisation,
    echoRuns: () => echoRuns,
    pass: (ms: number) => void (clock += ms),
    /** What goes on after an answer may begin more of it. */
    settle: async () => {
      while (deferred.length > 0) await Promise.allSettled(deferred.splice(0))
    },
    makeOrganisation: () => createOrganisation(db(), crypto, clock, 'test'),
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
