// Sessions, organisations and ledger shards as actors of this one process: on the Deno host this is what Durable
// Objects are on Cloudflare. It connects the actors with their sockets, their alarms and each other. src/deno.ts
// creates it and gives its functions to the app.

import { join } from 'node:path'
import type { SessionEvent } from '../../contract/events.ts'
import { linkClose, linkPing, linkPong } from '../../contract/link.ts'
import type { Firewall } from '../../contract/limits.ts'
import {
  LedgerActor,
  ledgerShard,
  ledgerShards,
  sumLedgerStatus,
} from '../../core/ledger/ledger.ts'
import { createAskModel } from '../../adapters/ask-model.ts'
import type { Config } from '../../config.ts'
import { EvalRunActor, type EvalRunApi } from '../../core/eval-run/eval-run.ts'
import type { OrganisationApi } from '../../core/organisation/organisation.ts'
import { OrganisationActor } from '../../core/organisation/organisation.ts'
import type { WarmSource } from '../../core/organisation/record/ports.ts'
import { attemptSessions, type CreateSessionPorts } from '../../core/verbs/create-session.ts'
import type { LedgerAppend, LedgerStatus } from '../../core/ports.ts'
import { answerRemote, type Carry, remoteApi } from '../../core/actor/remote.ts'
import type { Caller } from '../../core/session/record/caller.ts'
import type { SessionHost } from '../../core/session/record/ports.ts'
import { SessionActor, type SessionApi, type SessionParts } from '../../core/session/session.ts'
import { type ActorLimits, actorLimits, Actors, type Hold } from './actors.ts'
import type { SqlFile } from './node-sqlite.ts'
import { type LinkSocket, SessionSockets } from './sockets.ts'
import { WakeIndex } from './wake-index.ts'
import { Waker } from './waker.ts'

interface LocalSessionsOptions extends Omit<
  SessionParts,
  'sql' | 'host' | 'ledger' | 'organisation'
> {
  /** Of this process alone. */
  dataDir: string
  limits?: ActorLimits
  firewall: Firewall
  warm: WarmSource
  ids: CreateSessionPorts['ids']
  /** Of sessions that attempts of eval runs make. */
  creation: CreateSessionPorts['config']
  /** Where eval runs ask models. Absent: nowhere. */
  vendors?: Pick<Config, 'models' | 'extraModels'>
}

export interface LocalSessions {
  session(id: string): SessionApi
  organisation(id: string): OrganisationApi
  evalRun(id: string): EvalRunApi
  ledgerStatus(organisationId: string | null): Promise<LedgerStatus>
  watch(sessionId: string, caller: Caller): Promise<ReadableStream<SessionEvent>>
  /** Takes over an open socket. The caller of this has asked `agent.authorise`. */
  link(sessionId: string, generation: number, socket: LinkSocket): LinkEvents
  /** The message that renews an expired token. */
  newToken(sessionId: string, generation: number): Promise<string>
  /** Sessions whose file is open. */
  openCount(): number
  /** Ends links and feeds; agents and watchers come back. */
  closeSockets(): void
  close(): void
}

interface LinkEvents {
  message(data: unknown): void
  closed(): void
}

const noVendors = { models: { anthropic: null, litellm: null }, extraModels: [] }

export function createDenoSessions(options: LocalSessionsOptions): LocalSessions {
  const { dataDir, limits = actorLimits, creation, vendors = noVendors, ...ports } = options
  const { now, log } = ports
  const index = new WakeIndex(dataDir)
  const sockets = new Map<string, SessionSockets>()
  let stopping = false
  let closing = false

  const waker = new Waker({
    index,
    now,
    open: (id) => actorsOf(id).use(id, () => undefined),
    runDue: (id) => actorsOf(id).use(id, (actor) => actor.runDue()),
    onFailure: logFailure,
  })
  const onFirstWrite = (id: string) => waker.markAwake(id)
  const onUnopened = (id: string, error: unknown) =>
    log('error', 'Cannot open an object', { id, error: String(error) })
  const ledgers = new Actors<LedgerActor>(
    {
      folder: join(dataDir, 'ledgers'),
      create: (_, sql) => new LedgerActor({ ...ports, sql, sleep }),
    },
    limits,
  )
  const organisations: Actors<OrganisationActor> = new Actors(
    {
      folder: join(dataDir, 'organisations'),
      create: (id, sql) =>
        new OrganisationActor({
          ...ports,
          id,
          sql,
          host: { arm: (at) => waker.arm(id, at) },
          session: sessionApi,
          organisation: organisationApi,
          ledger: ledgerOf,
        }),
      onUnopened,
      onFirstWrite,
      onClose: (id, sql) => waker.putToSleep(id, sql, false),
    },
    limits,
  )
  const sessions: Actors<SessionActor> = new Actors(
    {
      folder: join(dataDir, 'sessions'),
      create: (id, sql, hold) =>
        new SessionActor({
          ...ports,
          sql,
          host: createHost(id, sql, hold),
          ledger: ledgerOf,
          organisation: organisationApi,
        }),
      onUnopened,
      onFirstWrite,
      onClose: (id, sql) => waker.putToSleep(id, sql, sockets.get(id)?.linked() ?? false),
    },
    limits,
  )
  const evalRuns: Actors<EvalRunActor> = new Actors(
    {
      folder: join(dataDir, 'evals'),
      create: (id, sql, hold) =>
        new EvalRunActor({
          ...ports,
          sql,
          host: {
            arm: (at) => waker.arm(id, at),
            sleep: (ms) => hold(new Promise((resolve) => setTimeout(resolve, ms))),
            async erase() {
              sql.erase()
              waker.forget(id)
            },
          },
          session: sessionApi,
          askModel: createAskModel({ ...vendors, organisation: organisationApi }),
          beginSession: attemptSessions({
            ...ports,
            config: creation,
            session: sessionApi,
            organisation: organisationApi,
          }),
          ledger: ledgerOf,
        }),
      onUnopened,
      onFirstWrite,
      onClose: (id, sql) => waker.putToSleep(id, sql, false),
    },
    limits,
  )
  waker.wakeLeftBehind().catch((error: unknown) => logFailure('index', error))

  return {
    session: sessionApi,
    organisation: organisationApi,
    evalRun: evalRunApi,
    async ledgerStatus(organisationId) {
      const shards = Array.from({ length: ledgerShards }, (_, shard) =>
        ledgers.use(`ledger-${shard}`, (ledger) => ledger.status(organisationId)),
      )
      return sumLedgerStatus(await Promise.all(shards))
    },
    watch: (sessionId, caller) =>
      sessions.use(sessionId, (session) => {
        session.checkWatcher(caller)
        const feed = socketsOf(sessionId).watch(() => forgetUnused(sessionId))
        session.watchStarted()
        if (stopping) closeSockets()
        return feed
      }),
    link,
    newToken: (sessionId, generation) =>
      sessions.use(sessionId, (session) => session.newToken(generation)),
    openCount: () => sessions.openCount(),
    closeSockets,
    close() {
      closing = true
      waker.close()
      sessions.close()
      evalRuns.close()
      organisations.close()
      ledgers.close()
      index.close()
    },
  }

  function sessionApi(id: string): SessionApi {
    const carry: Carry = (...call) => sessions.use(id, ({ api }) => answerRemote(api, ...call))
    return remoteApi(carry) as SessionApi
  }

  function organisationApi(id: string): OrganisationApi {
    const carry: Carry = (...call) => organisations.use(id, ({ api }) => answerRemote(api, ...call))
    return remoteApi(carry) as OrganisationApi
  }

  function evalRunApi(id: string): EvalRunApi {
    const carry: Carry = (...call) => evalRuns.use(id, ({ api }) => answerRemote(api, ...call))
    return remoteApi(carry) as EvalRunApi
  }

  function closeSockets(): void {
    stopping = true
    for (const own of sockets.values()) own.close()
  }

  function link(sessionId: string, generation: number, socket: LinkSocket): LinkEvents {
    const own = socketsOf(sessionId)
    own.accept(socket, now())
    const failed = (error: unknown) => {
      log('error', 'A link failed', { sessionId, error: String(error) })
      socket.close(linkClose.broke, 'Connect again')
    }
    return {
      message(data) {
        own.heard(socket, now())
        if (data === linkPing) return socket.send(linkPong)
        if (!own.holds(socket)) return
        const text = typeof data === 'string' ? data : ''
        sessions
          .use(sessionId, (session) => session.receive(generation, text))
          .then((end) => end && socket.close(end.code, end.reason))
          .catch(failed)
      },
      closed() {
        if (!own.drop(socket) || closing) return
        forgetUnused(sessionId)
        sessions.use(sessionId, (session) => session.linkClosed(generation)).catch(failed)
      },
    }
  }

  function createHost(id: string, sql: SqlFile, hold: Hold): SessionHost {
    const own = () => sockets.get(id)
    return {
      arm: (at) => waker.arm(id, at),
      sendToAgent: (text) => own()?.sendToAgent(text) ?? false,
      closeAgent: (code, reason) => own()?.closeAgent(code, reason),
      agentGreeted: () => own()?.greet(),
      agentConnected: () => own()?.connected() ?? false,
      agentHeardAt: () => own()?.heardAt() ?? null,
      watched: () => own()?.watched() ?? false,
      publish: (events) => own()?.publish(events),
      sleep: (ms) => hold(sleep(ms)),
      defer: (work) => void hold(work).catch((error: unknown) => logFailure(id, error)),
      async erase() {
        own()?.close(linkClose.fenced, 'The session was deleted')
        forgetUnused(id)
        sql.erase()
        waker.forget(id)
      },
    }
  }

  function actorsOf(id: string): Actors<{ runDue(): Promise<void> }> {
    if (id.startsWith('evl_')) return evalRuns
    return id.startsWith('ses_') ? sessions : organisations
  }

  function ledgerOf(ownerId: string) {
    const use = <T>(work: (ledger: LedgerActor) => Promise<T>) =>
      ledgers.use(`ledger-${ledgerShard(ownerId, ledgerShards)}`, work)
    return { append: (input: LedgerAppend) => use((ledger) => ledger.append(input)) }
  }

  function socketsOf(id: string): SessionSockets {
    const own = sockets.get(id) ?? new SessionSockets()
    sockets.set(id, own)
    return own
  }

  function forgetUnused(id: string): void {
    if (sockets.get(id)?.unused()) sockets.delete(id)
  }

  function logFailure(id: string, error: unknown): void {
    if (!closing) log('error', 'Work of an actor failed', { id, error: String(error) })
  }
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
