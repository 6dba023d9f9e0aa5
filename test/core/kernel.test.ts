import { expect, test } from 'vitest'
import { nextDeadline, setDeadline } from '../../src/core/deadlines.ts'
import { migrate } from '../../src/core/migrate.ts'
import { addToOutbox, hasUnsent, safetyNetMs } from '../../src/core/outbox.ts'
import type { LedgerAppend, Sql } from '../../src/core/ports.ts'
import { appendEvent } from '../../src/core/sessions/events.ts'
import { Kernel } from '../../src/core/sessions/kernel.ts'
import { OutboxSender } from '../../src/core/sessions/outbox-sender.ts'
import type { SessionPorts } from '../../src/core/sessions/ports.ts'
import { sessionLadder } from '../../src/core/sessions/schema.ts'
import { type Watched, Writes } from '../../src/core/sessions/writes.ts'
import { memorySql } from '../support/sql.ts'

const close = (sql: Sql) => sql.run(`update session set status = 'closed'`)

function setUp() {
  const sql = memorySql()
  migrate(sql, sessionLadder)
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
  const kernel = new Kernel({ sql, host, crypto, now: () => clock.now } as unknown as SessionPorts)
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
  kernel.watchStarted()
  tell()
  tell()
  expect(published).toEqual([3, 4])
  isWatched = false
  tell()
  expect(published).toEqual([3, 4])
})

test('[OUT7] what is written while a burst is under way goes with the next one', async () => {
  const { kernel, sql } = setUp()
  const bursts: number[][] = []
  let write = 5
  const add = () => kernel.commit((sql, now) => addToOutbox(sql, now, 'call', {}))
  const deferred: Promise<unknown>[] = []
  const sleeps: (() => void)[] = []
  Object.assign(kernel.ports, {
    host: {
      ...kernel.ports.host,
      defer: (work: Promise<unknown>) => void deferred.push(work),
      sleep: () => new Promise<void>((resolve) => sleeps.push(resolve)),
    },
    ledger: () => ({
      // A busy session: something is written while each batch is on its way.
      append: async ({ rows }: LedgerAppend) => {
        bursts.push(rows.map(({ seq }) => seq))
        if (write-- > 0) add()
        return rows.at(-1)?.seq ?? 0
      },
    }),
  })
  const sender = new OutboxSender(kernel)
  add()
  add()
  sleeps.shift()?.()
  await deferred.shift()
  expect(bursts).toEqual([[1, 2]])
  add()
  sleeps.shift()?.()
  await deferred.shift()
  expect(bursts).toEqual([
    [1, 2],
    [3, 4],
  ])
  // Closing waits for all of it.
  write = 2
  await sender.drain()
  expect([bursts.slice(2), hasUnsent(sql)]).toEqual([[[5], [6], [7]], false])
})

test.each<[string, Watched | null]>([
  ['update session set status = ?', 'session'],
  ['insert into turns (id) values (?)', 'turns'],
  ['insert or ignore into deadlines (name, at) values (?, ?)', 'deadlines'],
  ['delete from deadlines where name = ?', 'deadlines'],
  ['update runs set status = ?', 'runs'],
  ['insert into calls (tool) values (?)', 'calls'],
  ['insert into automation_runs (id) values (?)', null],
  ['insert into session_policy (body) values (?)', null],
  ['select * from session', null],
])('[SES9] %s: writes %s', (statement, table) => {
  const written: Watched[] = []
  const silent: Sql = { run: () => {}, all: () => [], transaction: (work) => work() }
  const { sql } = new Writes(silent, (each) => written.push(each))
  sql.run(statement)
  sql.all(statement)
  expect(written).toEqual(table === null ? [] : [table, table])
})
