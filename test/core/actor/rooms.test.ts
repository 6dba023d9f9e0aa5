import { expect, test } from 'vitest'
import {
  clearTakenDeadline,
  deadlineAt,
  ensureDeadline,
  setDeadline,
  takeDueDeadlines,
} from '../../../src/core/actor/deadlines.ts'
import { Kernel } from '../../../src/core/actor/kernel.ts'
import { climbLadder } from '../../../src/core/actor/ladder.ts'
import type { Room } from '../../../src/core/actor/room.ts'
import type { Sql } from '../../../src/core/ports.ts'
import { sessionLadder } from '../../../src/core/session/rungs/ladder.ts'
import { TestSession } from '../../support/session.ts'
import { memorySql } from '../../support/sql.ts'

const now = 1000

function setUp(rooms: readonly Room[] = [], sql = memorySql()) {
  climbLadder(sql, sessionLadder)
  const armed: (number | null)[] = []
  const kernel = new Kernel(
    {
      sql,
      now: () => now,
      crypto: { random: (length) => 'x'.repeat(length) },
      log: () => {},
      host: { arm: (at) => void armed.push(at) },
    },
    sessionLadder,
  )
  kernel.enter(rooms, new Set(['close', 'purge']))
  return { kernel, armed, sql }
}

const closeAt = (at: number) => (sql: Sql) => setDeadline(sql, 'close', at)

test('[REL8] a room hears of what this commit has written, and not again of what one before it has', () => {
  const heard: [outbox: boolean, deadlines: boolean][] = []
  const written: Room['written'] = (tables) =>
    void heard.push([tables.has('request_keys'), tables.has('deadlines')])
  const { kernel } = setUp([{ written }])
  kernel.commit(closeAt(2000))
  kernel.commit((sql) => sql.run(`insert into request_keys values ('s', 'k', 'h', 'm', 1)`))
  expect(heard).toEqual([
    [false, true],
    [true, false],
  ])
})

test('[REL7] a room that fails after a commit takes no alarm away', () => {
  const written = () => {
    throw new Error('a room fails')
  }
  const { kernel, armed } = setUp([{ written }])
  expect(() => kernel.commit(closeAt(2000))).toThrow('a room fails')
  expect(armed).toEqual([2000])
})

test('[REL7] a commit after an alarm that was armed without a look arms the one that is due first', () => {
  const { kernel, armed } = setUp()
  kernel.commit(closeAt(2000))
  kernel.armAt(11_000)
  kernel.commit(() => {})
  expect(armed).toEqual([2000, 11_000, 2000])
})

test('[REL7] what a lost instance was at work on is due as soon as the next one is there', () => {
  const sql = memorySql()
  climbLadder(sql, sessionLadder)
  setDeadline(sql, 'close', now)
  takeDueDeadlines(sql, now, 'the one before', 10_000)
  const { kernel, armed } = setUp([], sql)
  kernel.recover()
  expect([armed, deadlineAt(sql, 'close')]).toEqual([[now], now])
})

test('[REL6] nor can a deadline that nobody has work for be promised', () => {
  const { kernel } = setUp()
  expect(() => kernel.commit((sql) => ensureDeadline(sql, 'future.work:7', 2000))).toThrow(
    'nobody has work for it',
  )
  kernel.commit((sql) => ensureDeadline(sql, 'purge', 2000))
})

test('[REL7] the end of work that was taken leaves what was set anew meanwhile', () => {
  const { sql } = setUp()
  setDeadline(sql, 'close', now)
  takeDueDeadlines(sql, now, 'me', 10_000)
  setDeadline(sql, 'close', 5000)
  clearTakenDeadline(sql, 'close')
  expect(deadlineAt(sql, 'close')).toBe(5000)
  takeDueDeadlines(sql, 5000, 'me', 10_000)
  clearTakenDeadline(sql, 'close')
  expect(deadlineAt(sql, 'close')).toBeNull()
})

test('[REL6] what was put aside is not in the way of the next instance either', async () => {
  const session = new TestSession()
  await session.create()
  session.sql.run(`insert into deadlines (name, at) values ('future.work:7', 1)`)
  session.armedAt = session.now
  const words = () => session.logs.filter((line) => line.includes('future.work:7')).length
  await session.pass(1000)
  session.restart()
  await session.pass(60_000)
  expect(words()).toBe(1)
  await session.pass(600_000)
  expect(words()).toBe(2)
})
