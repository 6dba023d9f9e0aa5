import { errorCodeOf } from '../../src/contract/error.ts'
import { check } from './invariants.ts'
import type { SessionHost } from './world/actors.ts'
import { Violation } from './world/notes.ts'
import { callerOf, type World } from './world/world.ts'

/** Longer than any deadline that ends a wait, and the few that may follow one after the other. */
const restMs = 60 * 60_000

/** Everything that was broken works again, and the world goes on until nothing is open. */
export async function comeToRest(world: World): Promise<void> {
  world.network.slow.clear()
  world.libsql.isAway = world.sandboxes.isAway = false
  for (const { machine } of world.sandboxes.all.values()) {
    machine.disk.isFull = false
    machine.disk.failsIn = null
  }
  for (const host of [...world.sessions.values(), ...world.organisations.values()])
    Object.assign(host.database, { isFull: false, crashIn: null })
  liftBudgets(world)
  const until = world.clock.now + restMs
  let lookAt = world.clock.now
  while (world.clock.now < until) {
    if (world.network.size === 0 && openIn(world) === null) return
    if (world.clock.now >= lookAt) lookAt = startAgain(world)
    await goOn(world, until)
    check(world)
  }
  const open = openIn(world)
  if (open !== null) throw new Violation('Every wait has an end', `After an hour of rest: ${open}`)
}

/** Somebody raises what is spent: a turn may wait for it as long as it takes. */
function liftBudgets(world: World): void {
  world.notes.budgets.clear()
  for (const organisation of world.organisations.values())
    if (organisation.id.startsWith('org_'))
      persist(world, () => organisation.remote().budgets.set(null, {}, 'key'))
  for (const session of world.sessions.values())
    persist(world, () => session.remote().budget.set(callerOf(session.organisationId), {}))
}

/** Somebody looks after sandboxes that could not be started, every minute. */
function startAgain(world: World): number {
  for (const session of world.sessions.values()) {
    if (session.erased || !session.database.isMade) continue
    const failed = session.database.sql.all(
      `select 1 from session where status = 'open' and sandbox_state in ('failed', 'lost')`,
    )
    if (failed.length > 0)
      world.ask(() => session.remote().sandbox.retry(callerOf(session.organisationId), ''))
  }
  return world.clock.now + 60_000
}

/** Until it is answered: what was on its way before the rest may still die. */
function persist(world: World, work: () => Promise<unknown>): void {
  world.ask(async () => {
    for (let tries = 0; tries < 5; tries += 1)
      try {
        return await work()
      } catch (error) {
        if (errorCodeOf(error) !== undefined) return undefined
      }
    return undefined
  })
}

async function goOn(world: World, until: number): Promise<void> {
  const item = world.network.take(0)
  if (item) return world.happen(item.arrive)
  const timer = world.clock.takeDue(until)
  if (timer) return world.happen(timer.work)
  world.clock.now = until
}

const open = {
  turn: `turns where state in ('queued', 'running')`,
  question: `asks where state = 'open'`,
  approval: `approvals where state = 'pending'`,
  'row for libSQL': `outbox where seq > (select watermark from outbox_mark)`,
  attempt: `attempts where status = 'reserved' and dispatched = 1 and suspect_since is null`,
  collect: `collects where state = 'asked' and id in (select id from commands where state = 'open')`,
  'erased session': `session where status = 'erased'`,
  'sandbox to stop': `deadlines where name glob 'sandbox.stop*'`,
}

function openIn(world: World): string | null {
  for (const session of world.sessions.values()) {
    if (session.erased || !session.database.isMade) continue
    for (const [what, from] of Object.entries(open)) {
      const [row] = session.database.sql.all<{ n: number }>(`select count(*) as n from ${from}`)
      if ((row?.n ?? 0) > 0) return `${session.name} has an open ${what}`
    }
    const missing = missingEvents(world, session)
    if (missing !== null) return `${session.name} lacks events of its sandbox: ${missing}`
  }
  for (const [name, { spec, info }] of world.sandboxes.books.running)
    if (isErased(world, spec.sessionId) && info.state !== 'exited') return `running sandbox ${name}`
  return null
}

const isErased = (world: World, sessionId: string): boolean =>
  world.sessions.get(sessionId)?.erased !== false

/** What holds once everything has come to rest. */
export async function checkEnd(world: World): Promise<void> {
  checkSandboxes(world)
  for (const session of world.sessions.values()) {
    if (!session.database.isMade) continue
    checkTenants(world, session)
    if (session.erased) continue
    checkProjection(world, session)
  }
  for (const session of world.sessions.values())
    if (session.database.isMade && !session.erased) await checkChains(world, session)
}

/** What libSQL has of a session is what the session has. */
function checkProjection(world: World, session: SessionHost): void {
  const both: [what: string, here: string, there: string][] = [
    [
      'turns',
      'select id, state, run_id from turns order by id',
      `select id, state, run_id from turns where session_id = ?1 order by id`,
    ],
    [
      'runs',
      'select id, status from runs order by id',
      `select id, status from runs where session_id = ?1 order by id`,
    ],
    [
      'calls',
      'select tool, tool_call_id, state, attempts from calls order by 1, 2',
      `select tool_name as tool, tool_call_id, status as state, attempts from session_tool_invocations where session_id = ?1 order by 1, 2`,
    ],
    [
      'artifacts',
      'select id, sha256 from artifacts order by id',
      `select id, sha256 from artifacts where session_id = ?1 order by id`,
    ],
    [
      'approvals',
      'select id, state from approvals order by id',
      `select id, state from approvals where session_id = ?1 order by id`,
    ],
    [
      'attempts',
      'select id, status from attempts order by id',
      `select id, status from operation_attempts where session_id = ?1 order by id`,
    ],
    [
      'timelines',
      'select run_id, seq, hash from run_events order by 1, 2',
      `select run_id, seq, hash from run_events where session_id = ?1 order by 1, 2`,
    ],
  ]
  for (const [what, here, there] of both) {
    const kept = JSON.stringify(session.database.sql.all(here))
    const stored = JSON.stringify(world.libsql.rows(there, session.id))
    if (kept !== stored)
      throw new Violation(
        'libSQL has what the session has',
        `${session.name}, ${what}: ${stored} instead of ${kept}`,
      )
  }
}

/** Of the sandbox that is there now everything that it has told arrives, or the sandbox is given up. */
function missingEvents(world: World, session: SessionHost): string | null {
  const { sql } = session.database
  const [row] = sql.all<{ generation: number; state: string }>(
    `select generation, sandbox_state as state from session where status = 'open'`,
  )
  if (!row || !['ready', 'suspect'].includes(row.state)) return null
  const told = world.notes.told.get(`${session.id}.${row.generation}`) ?? 0
  const [cursor] = sql.all<{ seq: number }>(
    'select seq from agent_cursors where generation = ?',
    row.generation,
  )
  const stored = cursor?.seq ?? 0
  return stored < told || row.state === 'suspect' ? `${stored} of ${told}` : null
}

async function checkChains(world: World, session: SessionHost): Promise<void> {
  const runs = session.database.sql.all<{ id: string }>('select id from runs')
  const caller = callerOf(session.organisationId)
  for (const { id } of runs) {
    const checked = session.remote().runs.verify(caller, id)
    let result: Awaited<typeof checked> | Error | null = null
    checked.then(
      (value) => (result = value),
      (error: unknown) => (result = error as Error),
    )
    for (let n = 0; n < 200 && result === null; n += 1) await goOn(world, world.clock.now + 1000)
    const found = result as Awaited<typeof checked> | Error | null
    if (found === null || found instanceof Error || !found.ok)
      throw new Violation('Chains verify', `${session.name}, ${id}: ${JSON.stringify(found)}`)
  }
}

/** Every row of a session carries its organisation's id. */
function checkTenants(world: World, session: SessionHost): void {
  for (const table of [
    'turns',
    'runs',
    'artifacts',
    'approvals',
    'run_events',
    'operation_attempts',
    'session_tool_invocations',
    'blob_claims',
  ]) {
    const rows = world.libsql.rows(
      `select 1 from ${table} where session_id = ? and organisation_id <> ?`,
      session.id,
      session.organisationId,
    )
    if (rows.length > 0)
      throw new Violation('Nothing of another tenant', `${session.name}: ${table}`)
  }
}

/**
 * No machine runs that no session has. An order of an instance that died may come true after the last stop of a session that
 * is erased: nobody can stop that one, its agent is refused and ends it.
 */
function checkSandboxes(world: World): void {
  for (const [name, { spec }] of world.sandboxes.books.running) {
    const session = world.sessions.get(spec.sessionId)
    const isGone = isErased(world, spec.sessionId)
    if (isGone && world.sandboxes.late.has(name)) continue
    const [row] = isGone
      ? []
      : (session?.database.sql.all<{ generation: number }>('select generation from session') ?? [])
    if (spec.generation !== row?.generation)
      throw new Violation('One live generation', `${name} runs`)
  }
}
