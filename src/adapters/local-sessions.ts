import { join } from 'node:path'
import type { SessionEvent } from '../contract/events.ts'
import { linkClose, linkPing, linkPong } from '../contract/link.ts'
import { nextDeadline } from '../core/deadlines.ts'
import { LedgerActor, ledgerShard, ledgerShards, sumLedgerStatus } from '../core/ledger/ledger.ts'
import { isMigrated } from '../core/migrate.ts'
import { OrganisationActor, type OrganisationApi } from '../core/organisations/organisation.ts'
import type { LedgerStatus } from '../core/ports.ts'
import type { Caller, SessionApi } from '../core/sessions/api.ts'
import type { SessionHost, SessionPorts } from '../core/sessions/ports.ts'
import { SessionActor } from '../core/sessions/session.ts'
import { type ActorLimits, actorLimits, Actors, type Hold } from './actors.ts'
import type { SqlFile } from './node-sqlite.ts'
import { type LinkSocket, SessionSockets } from './session-sockets.ts'
import { WakeIndex } from './wake-index.ts'

/** Timers hold no more; a deadline that is further away is looked at again then. */
const maxTimerMs = 2 ** 31 - 1
/** After a long stop many may be due: requests get in between. */
const wakeAtOnce = 50
const wakePauseMs = 50

export interface LocalSessionsOptions extends Omit<SessionPorts, 'sql' | 'host' | 'ledger'> {
  /** Of this process alone. */
  dataDir: string
  limits?: ActorLimits
}

export interface LocalSessions {
  session(id: string): SessionApi
  organisation(id: string): OrganisationApi
  ledgerStatus(): Promise<LedgerStatus>
  watch(sessionId: string, caller: Caller): Promise<ReadableStream<SessionEvent>>
  /** Takes over an open socket. The caller of this has asked `authoriseSandbox`. */
  link(sessionId: string, generation: number, socket: LinkSocket): LinkEvents
  /** The message that renews an expired token. */
  newToken(sessionId: string, generation: number): Promise<string>
  /** Sessions whose file is open. */
  openCount(): number
  /** Ends links and feeds; agents and watchers come back. */
  closeSockets(): void
  close(): void
}

export interface LinkEvents {
  message(data: unknown): void
  closed(): void
}

/** Sessions, organisations and ledgers as actors of this process: what Durable Objects are elsewhere. */
export function createLocalSessions(options: LocalSessionsOptions): LocalSessions {
  const { dataDir, limits = actorLimits, ...ports } = options
  const { now, log } = ports
  const index = new WakeIndex(dataDir)
  /** What only was read has kept its place in the index. */
  const awake = new Set<string>()
  const sockets = new Map<string, SessionSockets>()
  const alarms = new Map<string, ReturnType<typeof setTimeout>>()
  let waking: ReturnType<typeof setTimeout> | undefined
  let wakingAt = Infinity
  let stopping = false
  let closing = false

  const ledgers = new Actors<LedgerActor>(
    { folder: join(dataDir, 'ledgers'), create: (_, sql) => new LedgerActor({ ...ports, sql }) },
    limits,
  )
  const organisations = new Actors<OrganisationActor>(
    { folder: join(dataDir, 'organisations'), create: (_, sql) => new OrganisationActor(sql, now) },
    limits,
  )
  const sessions = new Actors<SessionActor>(
    {
      folder: join(dataDir, 'sessions'),
      create: (id, sql, hold) =>
        new SessionActor({ ...ports, sql, host: createHost(id, sql, hold), ledger: ledgerOf }),
      onFirstWrite: markAwake,
      onClose: putToSleep,
    },
    limits,
  )
  void wakeLeftBehind()

  return {
    session: (id) => sessions.doors(id),
    organisation: (id) => organisations.doors(id),
    async ledgerStatus() {
      const shards = Array.from({ length: ledgerShards }, (_, shard) =>
        ledgers.use(`ledger-${shard}`, (ledger) => ledger.status()),
      )
      return sumLedgerStatus(await Promise.all(shards))
    },
    watch: (sessionId, caller) =>
      sessions.use(sessionId, (session) => {
        session.checkWatcher(caller)
        const feed = socketsOf(sessionId).watch(() => forgetUnused(sessionId))
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
      clearTimeout(waking)
      sessions.close()
      organisations.close()
      ledgers.close()
      index.close()
    },
  }

  function closeSockets(): void {
    stopping = true
    for (const own of sockets.values()) own.close()
  }

  function link(sessionId: string, generation: number, socket: LinkSocket): LinkEvents {
    const own = socketsOf(sessionId)
    own.accept(socket)
    const failed = (error: unknown) => {
      log('error', 'A link failed', { sessionId, error: String(error) })
      socket.close(linkClose.broke, 'Connect again')
    }
    return {
      message(data) {
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
      arm: (at) => armSession(id, at),
      sendToAgent: (text) => own()?.sendToAgent(text) ?? false,
      closeAgent: (code, reason) => own()?.closeAgent(code, reason),
      agentGreeted: () => own()?.greet(),
      agentConnected: () => own()?.connected() ?? false,
      watched: () => own()?.watched() ?? false,
      publish: (events) => own()?.publish(events),
      sleep: (ms) => hold(new Promise((resolve) => setTimeout(resolve, ms))),
      defer: (work) => void hold(work).catch((error: unknown) => logFailure(id, error)),
      async erase() {
        own()?.close(linkClose.fenced, 'The session was deleted')
        forgetUnused(id)
        armSession(id, null)
        sql.erase()
        awake.delete(id)
        index.asleep(id, null, false)
      },
    }
  }

  function armSession(id: string, at: number | null): void {
    clearTimeout(alarms.get(id))
    alarms.delete(id)
    if (at === null) return
    const alarm = setTimeout(() => runDue(id), timerMs(at))
    alarms.set(id, alarm)
  }

  function runDue(id: string): void {
    if (closing) return
    const done = sessions.use(id, (session) => session.runDue())
    done.catch((error: unknown) => logFailure(id, error))
  }

  function putToSleep(id: string, sql: SqlFile): void {
    armSession(id, null)
    if (!awake.delete(id)) return
    try {
      const at = sql.exists() && isMigrated(sql) ? nextDeadline(sql) : null
      index.asleep(id, at, sockets.get(id)?.linked() ?? false)
      armWaking(at)
    } catch (error) {
      // Still marked awake: the next process looks at it.
      logFailure(id, error)
    }
  }

  function armWaking(at: number | null): void {
    if (closing || at === null || at >= wakingAt) return
    wakingAt = at
    clearTimeout(waking)
    waking = setTimeout(wakeDue, timerMs(at))
  }

  function wakeDue(): void {
    wakingAt = Infinity
    for (const id of index.due(now(), wakeAtOnce)) wake(id)
    const next = index.next()
    if (next !== null) armWaking(Math.max(next, now() + wakePauseMs))
  }

  /** Marked before it is opened: one that cannot be opened is not tried for ever. */
  function wake(id: string): void {
    markAwake(id)
    runDue(id)
  }

  function markAwake(id: string): void {
    index.awake(id)
    awake.add(id)
  }

  /** One after the other, for the same reason. */
  async function wakeLeftBehind(): Promise<void> {
    for (const id of index.leftBehind()) {
      await new Promise((resolve) => setTimeout(resolve, 0))
      if (closing) return
      awake.add(id)
      await sessions
        // Opening it is enough: it looks after what the process before left.
        .use(id, () => undefined)
        .catch((error: unknown) => logFailure(id, error))
      runDue(id)
    }
    wakeDue()
  }

  function ledgerOf(sessionId: string) {
    return ledgers.doors(`ledger-${ledgerShard(sessionId, ledgerShards)}`)
  }

  function socketsOf(id: string): SessionSockets {
    const own = sockets.get(id) ?? new SessionSockets()
    sockets.set(id, own)
    return own
  }

  function forgetUnused(id: string): void {
    if (sockets.get(id)?.unused()) sockets.delete(id)
  }

  function timerMs(at: number): number {
    return Math.min(maxTimerMs, Math.max(0, at - now()))
  }

  function logFailure(sessionId: string, error: unknown): void {
    if (!closing) log('error', 'Work of a session failed', { sessionId, error: String(error) })
  }
}
