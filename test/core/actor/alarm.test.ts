import { describe, expect, test } from 'vitest'
import { roomMeetings } from '../../../src/core/actor/room.ts'
import { Alarm } from '../../../src/core/actor/alarm.ts'
import { climbLadder } from '../../../src/core/actor/ladder.ts'
import { sessionLadder } from '../../../src/core/session/rungs/ladder.ts'
import { setDeadline } from '../../../src/core/actor/deadlines.ts'
import type { Sql } from '../../../src/core/ports.ts'
import { TestDeployment } from '../../support/organisation.ts'
import { testCaller, TestSession } from '../../support/session.ts'
import { memorySql } from '../../support/sql.ts'

/** Until `mend` is called, statements that match fail as they do on a full disk. */
function breakWrites(sql: Sql, matching: RegExp): { mend: () => void } {
  const before = { ...sql }
  sql.run = (statement, ...values) => {
    if (matching.test(statement)) throw new Error('database or disk is full')
    before.run(statement, ...values)
  }
  return { mend: () => void Object.assign(sql, before) }
}

describe('[REL7] an alarm whose first step fails', () => {
  test('comes again by itself, and then does what was due', async () => {
    const session = new TestSession()
    await session.create({ title: 'x' })
    await session.actor.api.self.close(testCaller, 'done')
    await session.pass(10_000)
    expect(session.deadlines()).toHaveProperty('purge')
    const { mend } = breakWrites(session.sql, /update deadlines/)
    await session.pass(86_400_000)
    expect(session.logs.join('\n')).toContain('An alarm failed, will come again')
    expect(session.armedAt).toBeGreaterThan(session.now)
    expect((await session.actor.api.self.view(testCaller)).status).toBe('closed')
    mend()
    await session.pass(10_000)
    expect(session.erased).toBe(true)
  })

  test('throws at once if not even another one can be armed, so that the platform comes back', async () => {
    const session = new TestSession()
    await session.create()
    breakWrites(session.sql, /update deadlines/)
    session.sql.run(`insert into deadlines (name, at) values ('close', 1)`)
    session.cannotArm = true
    expect(() => session.actor.runDue()).toThrow('cannot arm')
  })
})

test('[REL7] a deadline that is set anew while its work is under way is met in time, not with the next look', async () => {
  const sql = memorySql()
  climbLadder(sql, sessionLadder)
  let now = 1000
  let works = 0
  const ends: (() => void)[] = []
  const owner = {
    ...{ created: true, instance: 'me', ports: { sql, now: () => now, log: () => {} } },
    ...{ alarmFired: () => {}, armAt: () => {}, commit: (work: (sql: Sql) => void) => work(sql) },
  }
  const close = () => {
    works += 1
    return new Promise<void>((resolve) => ends.push(resolve))
  }
  const alarm = new Alarm(owner, new Map([['close', close]]))
  setDeadline(sql, 'close', now)
  const first = alarm.fired()
  // It takes long and comes back: that is left to who is at work on it.
  now += 10_000
  await alarm.fired()
  expect(works).toBe(1)
  setDeadline(sql, 'close', now)
  const second = alarm.fired()
  await new Promise(setImmediate)
  expect(works).toBe(2)
  for (const end of ends) end()
  await Promise.all([first, second])
})

describe('[REL6] a deadline that this release has no work for', () => {
  const unknown = `insert into deadlines (name, at) values ('future.work:7', 1)`
  const said = (logs: string[]) => logs.filter((line) => line.includes('future.work:7'))

  test('of a session is put aside with a word, and neither lost nor in the way of others', async () => {
    const session = new TestSession()
    await session.create()
    session.sql.run(unknown)
    session.sql.run(`insert into deadlines (name, at) values ('toString', 1)`)
    setDeadline(session.sql, 'close', session.now + 30_000)
    await session.pass(3_600_000)
    // Looked at again every ten minutes, by whatever release runs then.
    expect(said(session.logs)).toHaveLength(6)
    expect(session.deadlines()).toHaveProperty(['future.work:7'])
    expect((await session.actor.api.self.view(testCaller)).status).toBe('closed')
  })

  test('of an organisation too', async () => {
    const world = new TestDeployment()
    await world.org.api.firewall.setLimits(null, { concurrentSandboxes: 3 }, 'k')
    world.sql().run(unknown)
    await world.pass(3_600_000)
    expect(said(world.logs)).toHaveLength(6)
    expect(world.deadlines()).toContain('future.work:7')
  })

  test('two rooms of one actor cannot both have it', () => {
    const room = { deadlines: { same: () => {} } }
    expect(() => roomMeetings([room, room])).toThrow('Two rooms have work for the deadline "same"')
  })
})

test('[REL9] a session whose first commit fails was never created, and can be created again', async () => {
  const session = new TestSession()
  const { mend } = breakWrites(session.sql, /insert into events/)
  await expect(session.create({ title: 'x' })).rejects.toThrow('full')
  await expect(session.actor.api.self.view(testCaller)).rejects.toMatchObject({ code: 'not_found' })
  await session.actor.runDue()
  mend()
  expect(await session.create({ title: 'x' })).toMatchObject({ title: 'x', status: 'open' })
})
