import { expect, test } from 'vitest'
import {
  eventsOf,
  prompt,
  readySession,
  runningIn,
  sandboxOf,
  viewOf,
} from '../../../support/lifecycle.ts'
import { testCaller, type TestSession } from '../../../support/session.ts'

const order = { reason: 'enough', actor: 'kill-switch', saveMs: 20_000 } as const
const halt = (session: TestSession, generation = 1) =>
  session.actor.api.sandbox.halt({ organisationId: testCaller.organisationId, generation }, order)
const ordersOf = (session: TestSession) =>
  session.sandboxes.orders.map((each) => each.split(' ')[0]).filter((each) => each !== 'get')

test('[LIFE25] it is fenced and stands still at once, then is saved, then stopped; the turn is interrupted', async () => {
  const session = await readySession()
  const { id } = await prompt(session)
  await halt(session)
  expect((await sandboxOf(session)).state).toBe('stopping')
  expect((await session.actor.api.turns.get(testCaller, id)).state).toBe('interrupted')
  await expect(session.call('noop', 'x')).rejects.toThrow('given up')
  await session.pass(0)
  expect(ordersOf(session).slice(-3)).toEqual(['freeze', 'snapshot', 'stop'])
  const view = await viewOf(session)
  expect([view.status, view.sandbox.state, view.sandbox.reason]).toEqual([
    'open',
    'stopped',
    'enough',
  ])
  expect([runningIn(session), session.organisation.live()]).toEqual([[], []])
})

test('[LIFE25] what cannot be saved in its time is stopped, and that is said', async () => {
  const session = await readySession()
  const snapshot = session.sandboxes.snapshot.bind(session.sandboxes)
  session.sandboxes.snapshot = () => new Promise(() => {})
  await halt(session)
  await session.pass(19_999)
  expect((await sandboxOf(session)).state).toBe('stopping')
  expect(runningIn(session)).toEqual([1])
  await session.pass(1)
  await session.pass(1000)
  expect((await sandboxOf(session)).state).toBe('stopped')
  expect(runningIn(session)).toEqual([])
  expect(eventsOf(session, 'sandbox.unsaved')).toEqual([
    { generation: 1, reason: 'It was not saved in its time' },
  ])
  session.sandboxes.snapshot = snapshot
  await prompt(session)
  await session.pass(0)
  expect((await sandboxOf(session)).state).toBe('booting')
})

test('[LIFE25] a provider that cannot freeze, or fails to, saves and stops all the same', async () => {
  for (const freeze of [undefined, () => Promise.reject(new Error('reset'))]) {
    const session = await readySession()
    Object.assign(session.sandboxes, { freeze })
    await halt(session)
    await session.pass(0)
    expect(eventsOf(session, 'sandbox.hibernated')).toHaveLength(1)
    expect((await sandboxOf(session)).state).toBe('stopped')
  }
})

test('[LIFE25] an instance that dies over it is followed by one that saves and stops', async () => {
  const session = await readySession()
  const hang = new Promise<never>(() => {})
  const snapshot = session.sandboxes.snapshot.bind(session.sandboxes)
  session.sandboxes.snapshot = () => hang
  await halt(session)
  await session.pass(5000)
  session.sandboxes.snapshot = snapshot
  session.restart()
  await session.pass(0)
  expect(eventsOf(session, 'sandbox.hibernated')).toHaveLength(1)
  expect((await sandboxOf(session)).state).toBe('stopped')
})

test('[LIFE25] told again, or of an older sandbox, it changes nothing', async () => {
  const session = await readySession()
  await halt(session)
  const events = session.sql.all('select * from events').length
  await halt(session)
  await halt(session, 7)
  expect(session.sql.all('select * from events').length).toBe(events)
  await session.pass(0)
  expect(eventsOf(session, 'sandbox.hibernated')).toHaveLength(1)
})

test('[LIFE25] of a sandbox that was replaced, it leaves the next one alone', async () => {
  const session = await readySession()
  await session.actor.api.sandbox.replace(testCaller, 'another')
  await session.pass(0)
  await session.connect({ generation: 2 })
  await halt(session, 1)
  await session.pass(30_000)
  expect(await sandboxOf(session)).toMatchObject({ state: 'ready', generation: 2 })
  expect([runningIn(session), eventsOf(session, 'sandbox.hibernated')]).toEqual([[2], []])
})

test('[LIFE25] [SEC10] neither why it is halted nor why it is not saved shows a key', async () => {
  const key = `ghp_${'a1'.repeat(18)}`
  const session = await readySession()
  session.sandboxes.snapshot = () => Promise.reject(new Error(`No room for ${key}`))
  const caller = { organisationId: testCaller.organisationId, generation: 1 }
  await session.actor.api.sandbox.halt(caller, { ...order, reason: `${key} is out` })
  await session.pass(0)
  expect((await sandboxOf(session)).reason).toBe('[secret-like:github] is out')
  expect(eventsOf(session, 'sandbox.unsaved')).toMatchObject([
    { reason: 'No room for [secret-like:github]' },
  ])
  expect(JSON.stringify(session.sql.all('select * from events'))).not.toContain(key)
})

test('[LIFE25] closed or replaced while it is saved, it ends as that wants', async () => {
  const closed = await readySession()
  const replaced = await readySession()
  for (const session of [closed, replaced]) await halt(session)
  await closed.actor.api.self.close(testCaller, 'done')
  await replaced.actor.api.sandbox.replace(testCaller, 'another')
  for (const session of [closed, replaced]) await session.pass(60_000)
  expect((await sandboxOf(closed)).state).toBe('stopped')
  expect(runningIn(closed)).toEqual([])
  expect(runningIn(replaced)).toEqual([2])
  // The next one is there to work: it is not the one that was to stand still.
  expect(replaced.sandboxes.orders.filter((each) => each.startsWith('freeze'))).toEqual([])
})

test('[LIFE25] one that has not worked yet has nothing to save, and is asked for again', async () => {
  const session = await readySession()
  await session.actor.api.sandbox.replace(testCaller, 'x')
  await session.pass(0)
  expect((await sandboxOf(session)).state).toBe('booting')
  await halt(session, 2)
  await session.pass(0)
  expect(ordersOf(session)).not.toContain('snapshot')
  expect([(await sandboxOf(session)).generation, runningIn(session)]).toEqual([3, [3]])
})

test('[LIFE25] a save that ends when the next sandbox works already leaves its link alone', async () => {
  const session = await readySession()
  let thaw = () => {}
  const frozen = new Promise<void>((resolve) => (thaw = resolve))
  Object.assign(session.sandboxes, { freeze: () => frozen })
  await halt(session)
  await session.pass(21_000)
  expect((await sandboxOf(session)).state).toBe('stopped')
  await prompt(session)
  await session.pass(0)
  await session.connect({ generation: 2 })
  expect([(await sandboxOf(session)).state, session.linked]).toEqual(['ready', true])
  thaw()
  await session.pass(1000)
  expect([(await sandboxOf(session)).state, session.linked]).toEqual(['ready', true])
})
