import { abilityWorkflow } from '../../src/core/session/runs/rows.ts'
import type { SessionHost } from './world/actors.ts'
import { Violation } from './world/notes.ts'
import type { World } from './world/world.ts'

/**
 * What holds at every moment, whatever has just died. Read from the databases and from what really happened, never from
 * the actors' own words. Only databases that were written since the last look are looked at.
 */
export function check(world: World): void {
  const { notes } = world
  if (notes.overlaps.length > 0)
    throw new Violation('One turn at a time in a sandbox', notes.overlaps[0] as string)
  if (notes.leaks.length > 0)
    throw new Violation('Nothing of another tenant', notes.leaks[0] as string)
  for (const [operation, { tool, runs }] of notes.effects)
    if (tool !== 'again' && runs > 1) throw new Violation('One effect of a call', operation)
  for (const session of world.sessions.values()) checkSession(world, session)
  checkLimits(world)
}

function checkSession(world: World, session: SessionHost): void {
  const { database } = session
  if (session.erased || !database.isMade) return
  checkStored(world, session)
  if (!database.isWritten) return
  database.isWritten = false
  checkEvents(world, session)
  checkTurns(session)
  checkGenerations(session)
  checkAsks(world, session)
  checkAttempts(world, session)
  checkExecutions(world, session)
  checkCollects(session)
  checkDeadlines(session, world.clock.now)
}

const count = (session: SessionHost, from: string, ...values: (string | number)[]): number =>
  session.database.sql.all<{ n: number }>(`select count(*) as n from ${from}`, ...values)[0]?.n ?? 0

function expect(holds: boolean, rule: string, session: SessionHost, detail: string): void {
  if (!holds) throw new Violation(rule, `${session.name}: ${detail}`)
}

/** What the session takes for stored is stored, and what it names is there. */
function checkStored(world: World, session: SessionHost): void {
  const { sql } = session.database
  const mark = sql.all<{ n: number }>('select watermark as n from outbox_mark')[0]?.n ?? 0
  const [row] = world.libsql.rows<{ seq: number; erased: number | null }>(
    'select seq, erased_at as erased from outbox_watermarks where session_id = ?',
    session.id,
  )
  expect(mark <= (row?.seq ?? 0), 'Stored means stored', session, `${mark} of ${row?.seq ?? 0}`)
  if (row?.erased) return
  for (const { sha256 } of sql.all<{ sha256: string }>('select sha256 from artifacts')) {
    const held = world.libsql.rows(
      'select 1 from blob_index where organisation_id = ? and sha256 = ?',
      session.organisationId,
      sha256,
    )
    expect(held.length > 0, 'Content that is named stays', session, sha256.slice(0, 8))
  }
}

/** Without gaps, in order, and no more than the agents have told. */
function checkEvents(world: World, session: SessionHost): void {
  const { sql } = session.database
  const [row] = sql.all<{ n: number; last: number }>(
    'select count(*) as n, coalesce(max(seq), 0) as last from events',
  )
  expect(row?.n === row?.last, 'Events without gaps', session, `${row?.n} of ${row?.last}`)
  const ends = sql.all<{ turn: string }>(
    `select data ->> 'turnId' as turn from events where kind = 'turn.ended' group by 1 having count(*) > 1`,
  )
  expect(ends.length === 0, 'A turn ends once', session, ends[0]?.turn ?? '')
  const decided = sql.all<{ ask: string }>(
    `select data ->> 'askId' as ask from events where kind = 'gate.decided' group by 1 having count(*) > 1`,
  )
  expect(decided.length === 0, 'A question is decided once', session, decided[0]?.ask ?? '')
}

function checkTurns(session: SessionHost): void {
  expect(count(session, `turns where state = 'running'`) <= 1, 'One running turn', session, '')
  const [row] = session.database.sql.all<{ generation: number; state: string; link: number }>(
    'select generation, sandbox_state as state from session',
  )
  const { link } = session
  if (link?.isOpen && link.greeted && row)
    expect(
      link.generation <= row.generation,
      'One live generation',
      session,
      `${link.generation} of ${row.generation}`,
    )
}

/** Of a sandbox that was replaced before the last look nothing new is taken. */
function checkGenerations(session: SessionHost): void {
  const { sql } = session.database
  const [row] = sql.all<{ generation: number; asks: number; calls: number }>(
    `select generation, (select coalesce(max(n), 0) from asks) as asks,
       (select coalesce(max(n), 0) from calls) as calls from session`,
  )
  if (!row) return
  const { seen } = session
  for (const table of ['asks', 'calls'] as const) {
    const late = count(
      session,
      `${table} where n > ? and generation < ?`,
      seen[table],
      seen.generation,
    )
    expect(late === 0, 'Nothing new of a replaced sandbox', session, table)
  }
  session.seen = row
}

/** A question is decided in the turn in which it was asked, and never allowed after that turn. */
function checkAsks(world: World, session: SessionHost): void {
  const asks = session.database.sql.all<{
    id: string
    turn_id: string | null
    decision: string | null
  }>('select id, turn_id, decision from asks')
  for (const { id, turn_id: turn } of asks) {
    const asked = world.notes.askedIn.get(id)
    expect(
      asked === undefined || turn === asked,
      'Decided in its own turn',
      session,
      `${id}: ${turn}`,
    )
  }
  const [budget] = session.database.sql.all<{ limits: string; used: number }>(
    'select limits, tool_calls as used from budget',
  )
  const { toolCalls } = JSON.parse(budget?.limits ?? '{}') as { toolCalls?: number }
  const allowed = asks.filter(({ decision }) => decision === 'allow').length
  expect(
    toolCalls === undefined || allowed <= toolCalls,
    'A budget is never passed',
    session,
    `${allowed} of ${toolCalls}`,
  )
}

/** What an operation is said to have done it has done, and at most one of its attempts can still do something. */
function checkAttempts(world: World, session: SessionHost): void {
  const attempts = session.database.sql.all<{ id: string; status: string }>(
    'select id, status from attempts',
  )
  for (const { id, status } of attempts) {
    const runs = world.notes.effects.get(id)?.runs ?? 0
    const isTrue = (status !== 'succeeded' || runs === 1) && (status !== 'failed' || runs === 0)
    expect(isTrue, 'An attempt ended as it is told', session, `${id} ${status} after ${runs}`)
  }
  const [two] = session.database.sql.all<{ id: string }>(
    `select operation_id as id from attempts where status in ('reserved', 'succeeded')
     group by 1 having count(*) > 1`,
  )
  expect(two === undefined, 'One attempt of an operation at a time', session, two?.id ?? '')
}

/** Of an execution of an ability each script has its effect once, and one execution is at work at a time. */
function checkExecutions(world: World, session: SessionHost): void {
  const { sql } = session.database
  const rows = sql.all<{ script: string; id: string }>(
    `select attempts.run_id || ' ' || operation as script, attempts.id from attempts
     join operations on operations.id = operation_id
     where attempts.run_id in (select id from runs where workflow = '${abilityWorkflow}')`,
  )
  const effects = new Map<string, number>()
  for (const { script, id } of rows)
    effects.set(script, (effects.get(script) ?? 0) + (world.notes.effects.get(id)?.runs ?? 0))
  for (const [script, runs] of effects)
    expect(runs <= 1, 'One effect of a step', session, `${script}: ${runs}`)
  const atWork = count(
    session,
    `executions where parent_id is null and state not in ('completed', 'failed', 'cancelled')`,
  )
  expect(atWork <= 1, 'One execution at a time', session, String(atWork))
}

/** No message of a turn is read twice in one mode. */
function checkCollects(session: SessionHost): void {
  const [twice] = session.database.sql.all<{ turn: string; after: string | null }>(
    `select turn_id as turn, after_message as after from collects where state = 'stored'
     group by turn_id, mode, after_message having count(*) > 1`,
  )
  expect(twice === undefined, 'Evidence is read once', session, `${twice?.turn} ${twice?.after}`)
}

/** An alarm that could not be written comes again after this time. */
const alarmLateMs = 10_000

/** Whatever is open has a time at which somebody looks at it again, and the alarm stands at the first of them. */
function checkDeadlines(session: SessionHost, now: number): void {
  const deadlines = session.database.sql.all<{ name: string; at: number }>(
    'select name, at from deadlines order by at',
  )
  const first = deadlines[0]?.at
  expect(
    first === undefined ||
      session.isLate ||
      (session.armedAt !== null && session.armedAt <= Math.max(first, now + alarmLateMs)),
    'The alarm stands at the first deadline',
    session,
    `${session.armedAt} and ${deadlines[0]?.name} at ${first}, now ${now}`,
  )
  const names = new Set(deadlines.map(({ name }) => name.split(':')[0]))
  const needs = (from: string, ...some: string[]) =>
    expect(
      count(session, from) === 0 || some.some((name) => names.has(name)),
      'Every wait has an end',
      session,
      `${from} without ${some.join(' or ')}`,
    )
  needs(`turns where state = 'running'`, 'turn.silent', 'turn.lost', 'turn.abort')
  needs(`asks where state = 'open' and input <> 'null'`, 'budget.ask')
  needs(`approvals where state = 'pending'`, 'approval')
  needs(
    `attempts where status = 'reserved' and dispatched = 1 and suspect_since is null`,
    'attempt',
  )
  needs(`session where sandbox_state in ('requested', 'creating')`, 'sandbox.create')
  needs(`session where sandbox_state = 'booting'`, 'sandbox.boot')
  needs(`session where sandbox_state = 'suspect'`, 'sandbox.check')
  needs(`outbox where seq > (select watermark from outbox_mark)`, 'outbox', 'outbox.verify')
}

/** The books of the provider, which nobody can talk into anything. */
function checkLimits(world: World): void {
  for (const organisation of world.organisations.values()) {
    if (!organisation.database.isWritten) continue
    organisation.database.isWritten = false
    const budget = world.notes.budgets.get(organisation.id)
    if (budget === undefined) continue
    let allowed = 0
    for (const session of world.sessions.values())
      if (session.organisationId === organisation.id && session.database.isMade)
        allowed += count(session, `asks where decision = 'allow'`)
    if (allowed > budget)
      throw new Violation('A shared budget is never passed', `${allowed} of ${budget}`)
  }
}
