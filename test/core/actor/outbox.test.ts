import { describe, expect, test } from 'vitest'
import { jitteredBackoffMs } from '../../../src/core/actor/jitter.ts'
import {
  clearDeadline,
  deadlinesOf,
  ensureDeadline,
  meetDeadlines,
  nextDeadline,
  setDeadline,
  takeDueDeadlines,
} from '../../../src/core/actor/deadlines.ts'
import { climbLadder } from '../../../src/core/actor/ladder.ts'
import {
  addToOutbox,
  hasUnsentOutbox,
  nameInOutbox,
  outboxLag,
  outboxWatermark,
  setOutboxWatermark,
  unsentOutbox,
} from '../../../src/core/actor/outbox.ts'
import type { OutboxRow } from '../../../src/core/ports.ts'
import { sessionLadder } from '../../../src/core/session/rungs/ladder.ts'
import { memorySql } from '../../support/sql.ts'

const hour = 60 * 60_000
function database() {
  const sql = memorySql()
  climbLadder(sql, sessionLadder)
  return sql
}
const seqs = (sql: ReturnType<typeof database>) => unsentOutbox(sql).map(({ seq }) => seq)

describe('outbox', () => {
  test('[OUT3] what is named several times is sent once, and only what fits is described', () => {
    const sql = database()
    for (const n of [1, 2, 1]) nameInOutbox(sql, n, 'thing', String(n))
    addToOutbox(sql, 4, 'turn', { a: 1 })
    const large = { text: 'x'.repeat(100_000) }
    for (let n = 10; n < 400; n++) nameInOutbox(sql, n, 'thing', String(n))
    const asked: string[] = []
    const describeThings = (rows: OutboxRow[]) =>
      rows.map((row) => {
        if (row.kind !== 'thing') return row
        asked.push(row.payload)
        return { ...row, payload: JSON.stringify({ n: row.payload, ...large }) }
      })
    const sent = unsentOutbox(sql, describeThings)
    expect(sent.map(({ seq, payload }) => [seq, payload.slice(0, 9)])).toEqual([
      [2, '{"n":"2",'],
      [3, '{"n":"1",'],
      [4, '{"a":1}'],
      [5, '{"n":"10"'],
      [6, '{"n":"11"'],
      [7, '{"n":"12"'],
      [8, '{"n":"13"'],
      [9, '{"n":"14"'],
    ])
    expect(asked.length).toBeLessThan(100)
    setOutboxWatermark(sql, 5, 9)
    expect(unsentOutbox(sql, describeThings)[0]?.seq).toBe(10)
  })

  test('[OUT1] rows are numbered in the order of the commits, and what rolls back leaves no number behind', () => {
    const sql = database()
    addToOutbox(sql, 1, 'session', { n: 1 })
    expect(() =>
      sql.transaction(() => {
        addToOutbox(sql, 1, 'session', { n: 2 })
        throw new Error('no')
      }),
    ).toThrow('no')
    addToOutbox(sql, 1, 'session', { n: 3 })
    expect(unsentOutbox(sql).map(({ seq, payload }) => [seq, payload])).toEqual([
      [1, '{"n":1}'],
      [2, '{"n":3}'],
    ])
  })

  test('[OUT4] a lower watermark means that rows were lost: they are unsent again', () => {
    const sql = database()
    for (let n = 0; n < 5; n++) addToOutbox(sql, 1, 'session', {})
    setOutboxWatermark(sql, 2, 5)
    expect([outboxWatermark(sql), hasUnsentOutbox(sql), outboxLag(sql, 9)]).toEqual([
      5,
      false,
      { pending: 0, lagMs: 0 },
    ])
    setOutboxWatermark(sql, 2, 3)
    expect([seqs(sql), hasUnsentOutbox(sql), outboxLag(sql, 9)]).toEqual([
      [4, 5],
      true,
      { pending: 2, lagMs: 8 },
    ])
  })

  test('[OUT4] sent rows are kept for an hour; the number goes on after they are gone', () => {
    const sql = database()
    for (let n = 0; n < 3; n++) addToOutbox(sql, 0, 'session', {})
    setOutboxWatermark(sql, hour, 3)
    setOutboxWatermark(sql, hour, 0)
    expect(seqs(sql)).toEqual([1, 2, 3])
    setOutboxWatermark(sql, hour + 1, 3)
    setOutboxWatermark(sql, hour + 1, 0)
    expect(seqs(sql)).toEqual([3])
    setOutboxWatermark(sql, hour + 1, 3)
    addToOutbox(sql, 2 * hour, 'session', {})
    expect(seqs(sql)).toEqual([4])
  })

  test('[OUT4] what was not sent is kept, however old it is', () => {
    const sql = database()
    for (let n = 0; n < 3; n++) addToOutbox(sql, 0, 'session', {})
    setOutboxWatermark(sql, 100 * hour, 1)
    expect(seqs(sql)).toEqual([2, 3])
  })

  test('a batch has at most 500 rows and 768 KiB, but always one row', () => {
    const sql = database()
    for (let n = 0; n < 550; n++) addToOutbox(sql, 1, 'session', {})
    expect(seqs(sql)).toHaveLength(500)
    setOutboxWatermark(sql, 1, 150)
    sql.run('delete from outbox where seq > 150')
    addToOutbox(sql, 1, 'call', { text: 'x'.repeat(1024 * 1024) })
    addToOutbox(sql, 1, 'call', {})
    expect(seqs(sql)).toEqual([151])
    setOutboxWatermark(sql, 1, 151)
    for (const size of [500, 500, 1]) addToOutbox(sql, 1, 'call', { text: 'x'.repeat(size * 1024) })
    // Never a later row before an earlier one.
    expect(seqs(sql)).toEqual([152, 153])
  })
})

describe('deadlines', () => {
  test('what is due is taken once, and comes back by itself if its work dies', () => {
    const sql = database()
    setDeadline(sql, 'close', 10)
    setDeadline(sql, 'purge', 5)
    setDeadline(sql, 'erase', 11)
    expect(takeDueDeadlines(sql, 10, 'me', 60).map(({ name, attempt }) => [name, attempt])).toEqual(
      [
        ['purge', 0],
        ['close', 0],
      ],
    )
    expect(takeDueDeadlines(sql, 10, 'me', 60)).toEqual([])
    expect(nextDeadline(sql)).toBe(11)
    clearDeadline(sql, 'purge')
    expect(takeDueDeadlines(sql, 70, 'me', 60).map(({ name, attempt }) => [name, attempt])).toEqual(
      [
        ['erase', 0],
        ['close', 1],
      ],
    )
  })

  test('setting moves it and starts its attempts again; ensuring leaves an earlier one alone', () => {
    const sql = database()
    setDeadline(sql, 'close', 10, 3)
    ensureDeadline(sql, 'close', 99)
    expect(takeDueDeadlines(sql, 10, 'me', 60)).toMatchObject([
      { name: 'close', at: 10, attempt: 3 },
    ])
    setDeadline(sql, 'close', 20)
    expect(takeDueDeadlines(sql, 20, 'me', 60)).toMatchObject([
      { name: 'close', at: 20, attempt: 0 },
    ])
  })

  test('arguments are found by the name before the colon', () => {
    const sql = database()
    for (const name of [
      'sandbox.stop:1',
      'sandbox.stop:12',
      'sandbox.start',
      'sandbox.create:3',
    ] as const)
      setDeadline(sql, name, 1)
    sql.run(`insert into deadlines (name, at) values ('sandbox.stopped:3', 1)`)
    expect(deadlinesOf(sql, 'sandbox.stop').sort()).toEqual(['1', '12'])
  })

  test('[REL6] a name that nobody has work for is refused at once', () => {
    const sql = database()
    meetDeadlines(sql, new Set(['close', 'sandbox.start']))
    for (const name of ['sandbox.strat', 'close.', '', 'toString', 'x:close']) {
      expect(() => setDeadline(sql, name, 1), name).toThrow('nobody has work for it')
      expect(() => ensureDeadline(sql, name, 1), name).toThrow('nobody has work for it')
    }
    expect(nextDeadline(sql)).toBeNull()
  })

  test('the delay doubles from 1 s to 30 s', () => {
    expect([0, 1, 2, 3, 4, 5, 50].map(jitteredBackoffMs)).toEqual([
      1000, 2000, 4000, 8000, 16_000, 30_000, 30_000,
    ])
  })
})
