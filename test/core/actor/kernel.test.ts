import { describe, expect, test } from 'vitest'
import { nextDeadline, setDeadline } from '../../../src/core/actor/deadlines.ts'
import { climbLadder, type Rung } from '../../../src/core/actor/ladder.ts'
import { addToOutbox, hasUnsentOutbox, safetyNetMs } from '../../../src/core/actor/outbox.ts'
import type { LedgerAppend, Sql } from '../../../src/core/ports.ts'
import { appendEvent } from '../../../src/core/session/log/events.ts'
import { SessionKernel } from '../../../src/core/session/record/kernel.ts'
import { Log } from '../../../src/core/session/log/log.ts'
import { Outbox } from '../../../src/core/session/outbox/outbox.ts'
import type { SessionPorts } from '../../../src/core/session/record/ports.ts'
import { sessionLadder } from '../../../src/core/session/rungs/ladder.ts'
import type { Room } from '../../../src/core/actor/room.ts'
import { Writes } from '../../../src/core/actor/writes.ts'
import { writesSuite } from '../../suites/writes.ts'
import { memorySql } from '../../support/sql.ts'

const close = (sql: Sql) => sql.run(`update session set status = 'closed'`)

function setUp() {
  const sql = memorySql()
  climbLadder(sql, sessionLadder)
  sql.run(
    `insert into session (id, organisation_id, key_id, project, title, status, provider, sandbox_state, generation, gate,
       trust_project_config, marker_nonce, created_at) values ('ses_1', 'org_1', 'key_1', '', '', 'open', 'none', 'none', 1,
       '{}', 0, '', 1)`,
  )
  const armed: (number | null)[] = []
  const host = {
    arm: (at: number | null) => void armed.push(at),
    watched: () => false,
    agentConnected: () => false,
  }
  const clock = { now: 1000 }
  const crypto = { random: (length: number) => 'x'.repeat(length) }
  const kernel = new SessionKernel({
    sql,
    host,
    crypto,
    now: () => clock.now,
  } as unknown as SessionPorts)
  return { kernel, armed, clock, sql }
}

test('[SES9] a commit sees what it has written of the session, and so does whoever comes after it', () => {
  const { kernel } = setUp()
  expect(kernel.session().status).toBe('open')
  const inside = kernel.commit((sql) => (close(sql), kernel.session().status))
  expect([inside, kernel.session().status]).toEqual(['closed', 'closed'])
})

test('[SES9] what a failed commit has written and read of the session is forgotten', () => {
  const { kernel } = setUp()
  const before = kernel.turnsState
  const failing = () =>
    kernel.commit((sql) => {
      close(sql)
      expect(kernel.session().status).toBe('closed')
      throw new Error('half-way')
    })
  expect(failing).toThrow('half-way')
  expect(kernel.session().status).toBe('open')
  expect(kernel.turnsState).not.toBe(before)
})

test('[OUT1] a row promises its sending in the same statement, and never puts off an earlier deadline', () => {
  const { kernel, armed, clock, sql } = setUp()
  kernel.commit((sql, now) => addToOutbox(sql, now, 'call', {}))
  expect(armed).toEqual([1000 + safetyNetMs])
  clock.now = 2000
  kernel.commit((sql, now) => addToOutbox(sql, now, 'call', {}))
  expect([armed, nextDeadline(sql)]).toEqual([[1000 + safetyNetMs], 1000 + safetyNetMs])
  kernel.commit((sql) => setDeadline(sql, 'close', 3000))
  expect(armed).toEqual([1000 + safetyNetMs, 3000])
})

test('[OUT1] a row is promised although only something later was armed', () => {
  const { kernel, armed } = setUp()
  kernel.commit((sql) => setDeadline(sql, 'purge', 900_000))
  kernel.commit((sql, now) => addToOutbox(sql, now, 'call', {}))
  expect(armed).toEqual([900_000, 1000 + safetyNetMs])
})

test('[EVT1] who begins to watch gets what is committed from then on, however long nobody has', () => {
  const { kernel } = setUp()
  const log = new Log(kernel)
  kernel.enter([log], new Set())
  const published: number[] = []
  let isWatched = false
  Object.assign(kernel.ports.host, {
    watched: () => isWatched,
    publish: (events: { seq: number }[]) => void published.push(...events.map(({ seq }) => seq)),
  })
  const tell = () =>
    kernel.commit((sql, now) => appendEvent(sql, now, 'agent.notice', { message: 'x' }))
  tell()
  tell()
  isWatched = true
  log.watchStarted()
  tell()
  tell()
  expect(published).toEqual([3, 4])
  isWatched = false
  tell()
  expect(published).toEqual([3, 4])
})

/** A sender whose pauses end when the test says so. `onAppend` is what happens while a batch is on its way. */
function setUpSender(onAppend: () => void = () => {}) {
  const { kernel, sql } = setUp()
  const bursts: number[][] = []
  const deferred: Promise<unknown>[] = []
  const pauses: { ms: number; end: () => void }[] = []
  Object.assign(kernel.ports, {
    host: {
      ...kernel.ports.host,
      defer: (work: Promise<unknown>) => void deferred.push(work),
      sleep: (ms: number) => new Promise<void>((end) => pauses.push({ ms, end })),
    },
    ledger: () => ({
      append: async ({ rows }: LedgerAppend) => {
        bursts.push(rows.map(({ seq }) => seq))
        onAppend()
        return { stored: rows.at(-1)?.seq ?? 0, refused: [] }
      },
    }),
  })
  const sender = new Outbox(kernel)
  kernel.enter([sender], new Set(Object.keys(sender.deadlines)))
  const add = (kind: string) => kernel.commit((sql, now) => addToOutbox(sql, now, kind, {}))
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  const pause = async () => {
    pauses.pop()?.end()
    await settle()
  }
  return { kernel, sql, sender, bursts, deferred, pauses, add, pause, settle }
}

test('[OUT7] what is written while a burst is under way goes with the next one', async () => {
  let write = 5
  // A busy session: something is written while each batch is on its way.
  const world = setUpSender(() => void (write-- > 0 && world.add('session')))
  const { sql, sender, bursts, deferred, add, pause } = world
  add('session')
  add('session')
  await pause()
  await deferred.shift()
  expect(bursts).toEqual([[1, 2]])
  add('session')
  await pause()
  await deferred.shift()
  expect(bursts).toEqual([
    [1, 2],
    [3, 4],
  ])
  // Closing waits for all of it.
  write = 2
  await sender.drain()
  expect([bursts.slice(2), hasUnsentOutbox(sql)]).toEqual([[[5], [6], [7]], false])
})

test('[OUT13] calls alone are gathered for a second, and leave within 200 ms of anything else', async () => {
  const { bursts, pauses, add, pause, settle } = setUpSender()
  const pending = () => pauses.map(({ ms }) => ms)
  add('call')
  add('call')
  await settle()
  expect([pending(), bursts]).toEqual([[1000], []])
  await pause()
  expect(bursts).toEqual([[1, 2]])
  add('call')
  await settle()
  add('session')
  await settle()
  // The second is not waited for any more.
  expect(pending()).toEqual([1000, 200])
  await pause()
  expect(bursts.slice(1)).toEqual([[3, 4]])
  pauses.length = 0
  add('session')
  expect(pending()).toEqual([200])
})

test('[OUT13] a commit of calls alone hurries nobody, one with anything else does', async () => {
  const { kernel, sql, pauses, settle } = setUpSender()
  const before = { ...sql }
  let looks = 0
  sql.all = (statement, ...values) => {
    if (statement.includes('from outbox where')) looks += 1
    return before.all(statement, ...values)
  }
  const begin = (id: string) =>
    `insert into calls (tool, tool_call_id, operation_id, args, args_hash, state, generation, attempts, started_at)
     values ('verify', '${id}', '${id}', '{}', '', 'pending', 1, 1, 1)`
  kernel.commit((sql) => sql.run(begin('a')))
  kernel.commit((sql) => sql.run(begin('b')))
  await settle()
  // Calls come often: only the first of them looks what there is to send.
  expect([pauses.map(({ ms }) => ms), looks]).toEqual([[1000], 1])
  kernel.commit((sql, now) => {
    sql.run(begin('c'))
    sql.run(`update session set title = 'x'`)
    addToOutbox(sql, now, 'session', {})
  })
  await settle()
  expect(pauses.map(({ ms }) => ms)).toEqual([1000, 200])
})

test('[OUT2] what is not sent keeps its deadline', async () => {
  const { sql, deferred, kernel, add, pause } = setUpSender(() => {
    throw new Error('away')
  })
  Object.assign(kernel.ports, { log: () => undefined })
  add('call')
  await pause()
  await deferred.shift()
  expect(sql.all('select name from deadlines')).toEqual([{ name: 'outbox' }])
})

test('[OUT7] if a pause fails, the sender is not stuck: the next row is gathered anew', async () => {
  const { pauses, kernel, bursts, deferred, add, pause } = setUpSender()
  const before = { ...kernel.ports.host }
  kernel.ports.host.sleep = () => Promise.reject(new Error('no timers'))
  Object.assign(kernel.ports, { log: () => undefined })
  add('call')
  await deferred.shift()
  Object.assign(kernel.ports.host, before)
  expect(pauses).toEqual([])
  kernel.ports.now = () => 10_000
  add('call')
  await pause()
  expect(bursts).toEqual([[1, 2]])
})

writesSuite('memory', async (work) => work(memorySql()))

describe('[REL8] what a statement writes is known from SQLite', () => {
  test('a database that a newer release has given more rungs is asked for itself', () => {
    const statement = `update session set title = ''`
    const { sql, written } = watchedDatabase()
    sql.run(statement)
    const newer = watchedDatabase([
      ['create trigger t after update on session begin delete from runs; end'],
    ])
    newer.sql.run(statement)
    expect([...written, ...newer.written].map((each) => [...each].toSorted())).toEqual([
      ['session'],
      ['runs', 'session'],
    ])
  })

  test('a page that no table has is an error, not nothing', () => {
    const plain = memorySql()
    const rungs = climbLadder(plain, sessionLadder)
    const blind: Sql = {
      ...plain,
      all: (statement, ...values) =>
        statement.includes('rootpage') ? [] : plain.all(statement, ...values),
    }
    const { sql, climbed } = writesOver(blind)
    climbed(sessionLadder, rungs)
    expect(() => sql.run(`delete from deadlines where name = 'blind'`)).toThrow('Cannot tell')
  })
})

function writesOver(plain: Sql) {
  const written: ReadonlySet<string>[] = []
  const writes = new Writes(plain, (tables) => void written.push(tables))
  return {
    written,
    sql: writes.sql,
    climbed: (ladder: readonly Rung[], rungs: number) => writes.climbed(ladder, rungs),
  }
}

function watchedDatabase(more: readonly Rung[] = []) {
  const plain = memorySql()
  const over = writesOver(plain)
  const ladder = [...sessionLadder, ...more]
  over.climbed(sessionLadder, climbLadder(plain, ladder))
  return over
}

test('[REL6] a deadline that no room has work for cannot be set: its commit fails and leaves nothing', () => {
  const { kernel } = setUp()
  kernel.enter([], new Set(['known']))
  const set = (name: string) => () =>
    kernel.commit((sql, now) => {
      sql.run(`update session set title = 'changed'`)
      setDeadline(sql, name, now + 1000)
    })
  expect(set('future.work:7')).toThrow('nobody has work for it')
  expect(kernel.session().title).toBe('')
  set('known:7')()
  expect(kernel.session().title).toBe('changed')
})

test('[REL7] a deadline later than any host can arm is armed as late as all of them can', () => {
  const { kernel, armed } = setUp()
  kernel.enter([], new Set(['purge']))
  kernel.commit((sql) => setDeadline(sql, 'purge', 9_300_000_000_000))
  expect(armed.at(-1)).toBe(Date.UTC(2100, 0, 1))
})

describe('[REL8] a room that fails after a commit', () => {
  const failing = (fails: { left: number }): Room => ({
    written: () => {
      if (fails.left-- > 0) throw new Error('the host is away')
    },
  })

  test('keeps nothing from the rooms behind it', () => {
    const { kernel } = setUp()
    const heard: boolean[] = []
    const listening: Room = { written: (tables) => void heard.push(tables.has('session')) }
    kernel.enter([failing({ left: 1 }), listening], new Set())
    expect(() => kernel.commit(close)).toThrow('the host is away')
    expect([heard, kernel.session().status]).toEqual([[true], 'closed'])
  })

  test('hears of the same tables with the next commit', () => {
    const { kernel } = setUp()
    const heard: boolean[] = []
    const once: Room = {
      written: (tables) => {
        heard.push(tables.has('session'))
        if (heard.length === 1) throw new Error('the host is away')
      },
    }
    kernel.enter([once], new Set())
    expect(() => kernel.commit(close)).toThrow('the host is away')
    kernel.commit(() => {})
    kernel.commit(() => {})
    expect(heard).toEqual([true, true, false])
  })
})

test('[OUT6] an instance that finds rows unsent arms the alarm', () => {
  const { kernel, sql, armed } = setUp()
  kernel.commit((own, now) => addToOutbox(own, now, 'call', {}))
  const next = new SessionKernel(kernel.ports)
  next.enter([], new Set())
  const before = armed.length
  next.recover()
  expect([hasUnsentOutbox(sql), armed.length - before]).toEqual([true, 1])
})
