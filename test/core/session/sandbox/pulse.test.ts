import { beforeEach, expect, test } from 'vitest'
import {
  eventsOf,
  prompt,
  readySession,
  runningIn,
  sandboxOf,
  work,
} from '../../../support/lifecycle.ts'
import { testCaller, type TestSession } from '../../../support/session.ts'

let session: TestSession
beforeEach(async () => {
  session = await readySession()
})
const state = async () => (await sandboxOf(session)).state

test('[LIFE21] a socket that only looks open is given up within two minutes, and the lost sandbox replaced', async () => {
  const { id } = await prompt(session)
  session.sandboxes.running.clear()
  session.silentSince = session.now
  await session.pass(120_000)
  expect([await state(), session.linked]).toEqual(['suspect', false])
  await session.pass(10_000)
  expect(eventsOf(session, 'sandbox.replaced')).toMatchObject([{ from: 1, to: 2 }])
  expect((await session.actor.api.turns.get(testCaller, id)).state).toBe('interrupted')
  expect(runningIn(session)).toEqual([2])
})

test('[LIFE21] a machine that stood still is only suspect: its turn goes on when it calls again', async () => {
  const id = await work(session)
  session.silentSince = session.now
  await session.pass(180_000)
  expect(await state()).toBe('suspect')
  session.silentSince = null
  await session.connect()
  expect([await state(), runningIn(session)]).toEqual(['ready', [1]])
  expect((await session.actor.api.turns.get(testCaller, id)).state).toBe('running')
  await session.pass(120_000)
  expect([await state(), session.linked]).toEqual(['ready', true])
})

test('[LIFE21] while pings come nothing is written and nobody is asked, whatever else is silent', async () => {
  await work(session)
  const orders = session.sandboxes.orders.length
  const events = session.sql.all('select * from events').length
  await session.pass(599_999)
  expect([await state(), session.linked]).toEqual(['ready', true])
  expect(session.sandboxes.orders.length - orders).toBe(0)
  expect(session.sql.all('select * from events').length - events).toBe(0)
})

test('[LIFE21] ready without any socket does not last either', async () => {
  session.linked = false
  await session.pass(60_000)
  expect(await state()).toBe('suspect')
})

test('[LIFE21] a sandbox that sleeps, is lost or closed is not listened for', async () => {
  expect(session.deadlines()).toHaveProperty(['sandbox.pulse'])
  await session.actor.api.self.close(testCaller, 'x')
  await session.pass(0)
  expect(session.deadlines()).not.toHaveProperty(['sandbox.pulse'])
})
