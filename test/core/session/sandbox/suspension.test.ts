import { expect, test } from 'vitest'
import { question } from '../../../support/agent.ts'
import {
  answer,
  eventsOf,
  prompt,
  readySession,
  runningIn,
  sandboxOf,
  turn,
  viewOf,
  work,
} from '../../../support/lifecycle.ts'
import { testCaller, TestSession, testSessionId } from '../../../support/session.ts'

const minute = 60_000
const night = 8 * 60 * minute
const sandboxIn = (session: TestSession) => session.sandboxes.running.get(`${testSessionId}.1`)
/** As the local sandbox host does for what lived through it. */
const liveOn = (session: TestSession) => {
  const sandbox = sandboxIn(session)
  if (sandbox) sandbox.endsAt += night
}

test('[LIFE27] a night of sleep: the agent gets time to call again, its turn goes on, and nobody is replaced', async () => {
  const session = await readySession()
  const { id } = await prompt(session)
  const taken = { t: 'result', commandId: id, ok: true, data: { sent: true, beats: true } } as const
  await session.receive(taken)
  liveOn(session)
  session.silentSince = session.now
  await session.jump(night)
  expect([(await sandboxOf(session)).state, session.linked]).toEqual(['ready', true])
  session.silentSince = null
  await session.pass(4 * minute)
  expect((await session.actor.api.turns.get(testCaller, id)).state).toBe('running')
  expect([(await sandboxOf(session)).generation, runningIn(session)]).toEqual([1, [1]])
})

test('[LIFE27] an agent that does not call after it is given up as ever', async () => {
  const session = await readySession()
  session.silentSince = session.now
  await session.jump(night)
  session.sandboxes.running.clear()
  await session.pass(2 * minute)
  expect((await sandboxOf(session)).generation).toBeGreaterThan(1)
})

const hour = 60 * minute
/** Whether the sandbox may still renew a token that ended so long ago. */
const renews = (session: TestSession, agoMs: number) =>
  session.actor.api.agent.authorise({ ...testCaller, generation: 1 }, session.now - agoMs).then(
    () => true,
    (error: { code: string }) => error.code,
  )

test('[LINK7] a token is renewed for an hour after its end', async () => {
  const session = await readySession()
  await session.pass(10 * minute)
  expect(await renews(session, hour)).toBe(true)
  expect(await renews(session, hour + 1)).toBe('token_expired')
})

test('[LINK7] [LIFE27] after a night the hour counts from the time at which it could be answered again', async () => {
  const session = await readySession({ idleTimeoutSeconds: null })
  liveOn(session)
  // The agent is the first to call.
  session.now += night
  expect(await renews(session, night - hour)).toBe(true)
  await session.jump(0)
  session.restart()
  await session.connect()
  await session.pass(59 * minute)
  expect(await renews(session, night)).toBe(true)
  await session.pass(2 * minute)
  expect(await renews(session, night)).toBe('token_expired')
})

test('[LIFE27] the lease that ended meanwhile is extended at once', async () => {
  const session = await readySession()
  await work(session)
  liveOn(session)
  await session.jump(night)
  expect(session.sandboxes.orders.filter((order) => order === 'extend 1').length).toBe(1)
  expect(sandboxIn(session)?.endsAt).toBe(session.now + 60 * minute)
})

test('[LIFE27] beyond its lifetime it is saved before it ends', async () => {
  const session = await readySession({ limits: { lifetimeSeconds: 3600 } })
  await turn(session, 1)
  sandboxIn(session)?.files.set('work.ts', 'half done')
  liveOn(session)
  await session.jump(night)
  expect(eventsOf(session, 'sandbox.hibernated')).toHaveLength(1)
  await prompt(session)
  await session.pass(0)
  const next = session.sandboxes.running.get(`${testSessionId}.2`)
  expect(next?.files.get('work.ts')).toBe('half done')
})

test('[LIFE27] its idle time begins anew', async () => {
  const session = await readySession()
  liveOn(session)
  await session.jump(night)
  await session.pass(30 * minute - 1)
  expect((await sandboxOf(session)).state).toBe('ready')
  await session.pass(1)
  expect((await sandboxOf(session)).state).toBe('stopped')
})

test('[LIFE27] one that boots gets its time to boot, and a start its time', async () => {
  const session = new TestSession()
  await session.create({ sandbox: 'local' })
  await session.pass(0)
  expect((await sandboxOf(session)).state).toBe('booting')
  liveOn(session)
  await session.jump(night)
  await session.pass(minute)
  expect([(await sandboxOf(session)).state, runningIn(session)]).toEqual(['booting', [1]])
  await session.connect()
  expect((await sandboxOf(session)).state).toBe('ready')
})

test('[LIFE27] what was being saved when it fell asleep is saved, not stopped without', async () => {
  const session = await readySession()
  sandboxIn(session)?.files.set('work.ts', 'half done')
  liveOn(session)
  const order = { reason: 'stop', actor: 'shutdown', saveMs: 20_000 } as const
  await session.actor.api.sandbox.halt({ ...testCaller, generation: 1 }, order)
  session.restart()
  await session.jump(night)
  expect(eventsOf(session, 'sandbox.unsaved')).toEqual([])
  expect(eventsOf(session, 'sandbox.hibernated')).toHaveLength(1)
  expect((await sandboxOf(session)).state).toBe('stopped')
})

test('[LIFE28] while something is done in it, it is saved every ten minutes, and the two newest are kept', async () => {
  const session = await readySession({ idleTimeoutSeconds: null })
  const taken = () => eventsOf(session, 'snapshot.stored').map(({ message }) => message)
  await session.pass(60 * minute)
  expect(taken()).toEqual([])
  await turn(session, 1)
  await session.pass(60 * minute)
  expect(taken()).toEqual(['While it works'])
  await work(session)
  await session.pass(30 * minute)
  expect(taken()).toHaveLength(4)
  expect(session.sandboxes.snapshots.size).toBe(2)
  expect([(await sandboxOf(session)).state, session.linked]).toEqual(['ready', true])
})

test('[LIFE28] what was done while it was saved is saved the next time', async () => {
  const session = await readySession({ idleTimeoutSeconds: null })
  const taken = () => eventsOf(session, 'snapshot.stored').length
  const snapshot = session.sandboxes.snapshot.bind(session.sandboxes)
  let finish = () => {}
  const slow = new Promise<void>((resolve) => (finish = resolve))
  session.sandboxes.snapshot = async (input) => {
    const info = await snapshot(input)
    await slow
    return info
  }
  const id = await work(session)
  await session.pass(11 * minute)
  await answer(session, id, { seq: 1 })
  await session.pass(minute)
  finish()
  await session.pass(minute)
  expect(taken()).toBe(1)
  await session.pass(10 * minute)
  expect(taken()).toBe(2)
  await session.pass(60 * minute)
  expect(taken()).toBe(2)
})

test('[LIFE28] one that waits for a person is saved once, not every ten minutes', async () => {
  const session = await readySession({ gate: { ask: ['bash'], askTimeoutSeconds: 86_400 } })
  await work(session)
  await session.pass(minute)
  await session.receive(question(`ask_${'1'.repeat(20)}`, 'bash'))
  expect((await viewOf(session)).turn).not.toBeNull()
  await session.pass(5 * 60 * minute)
  expect(eventsOf(session, 'snapshot.stored')).toHaveLength(1)
})

test('[LIFE28] what cannot be saved goes on, says why once, and is tried again', async () => {
  const session = await readySession()
  const snapshot = session.sandboxes.snapshot.bind(session.sandboxes)
  session.sandboxes.snapshot = () => Promise.reject(new Error('Secret "A" is in "x"'))
  await work(session)
  await session.pass(35 * minute)
  expect(eventsOf(session, 'sandbox.kept')).toMatchObject([
    { generation: 1, reason: 'Secret "A" is in "x"' },
  ])
  session.sandboxes.snapshot = snapshot
  await session.pass(10 * minute)
  expect(eventsOf(session, 'snapshot.stored')).toHaveLength(1)
})

test('[LIFE28] what could not be saved of a sandbox that is replaced meanwhile is not said of the next', async () => {
  const session = await readySession()
  const { promise, reject } = Promise.withResolvers<never>()
  session.sandboxes.snapshot = () => promise
  await work(session)
  await session.pass(10 * minute)
  await session.actor.api.sandbox.replace(testCaller, 'another')
  reject(new Error('It is gone'))
  await session.pass(0)
  expect((await sandboxOf(session)).generation).toBe(2)
  expect(eventsOf(session, 'sandbox.kept')).toEqual([])
})

test('[LIFE25] [LIFE28] one that is halted while it is being saved is saved once more, after that', async () => {
  const session = await readySession()
  const snapshot = session.sandboxes.snapshot.bind(session.sandboxes)
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  let saves = 0
  session.sandboxes.snapshot = async (input) => {
    saves += 1
    await held
    return snapshot(input)
  }
  await work(session)
  await session.pass(10 * minute)
  const caller = { organisationId: testCaller.organisationId, generation: 1 }
  const order = { reason: 'enough', actor: 'kill-switch', saveMs: 5 * minute } as const
  await session.actor.api.sandbox.halt(caller, order)
  await session.pass(0)
  expect(saves).toBe(1)
  sandboxIn(session)?.files.set('work.ts', 'last words')
  release()
  await session.settle()
  await session.pass(1000)
  expect([saves, (await sandboxOf(session)).state]).toEqual([2, 'stopped'])
  const [hibernated] = eventsOf(session, 'sandbox.hibernated')
  const saved = session.sandboxes.snapshots.get(
    `${testCaller.organisationId}/${hibernated?.snapshotId}`,
  )
  expect(saved?.files.get('work.ts')).toBe('last words')
})

test('[LIFE28] an instance that dies over it tries again; a sandbox that vanishes then has lost ten minutes at most', async () => {
  const session = await readySession()
  sandboxIn(session)?.files.set('work.ts', 'half done')
  await work(session)
  const snapshot = session.sandboxes.snapshot.bind(session.sandboxes)
  session.sandboxes.snapshot = () => new Promise(() => {})
  await session.pass(10 * minute)
  session.sandboxes.snapshot = snapshot
  session.restart()
  await session.connect()
  await session.pass(10 * minute)
  expect(eventsOf(session, 'snapshot.stored')).toHaveLength(1)
  session.sandboxes.running.clear()
  await session.cut()
  await session.pass(10_000)
  await session.pass(0)
  const next = session.sandboxes.running.get(`${testSessionId}.2`)
  expect(next?.files.get('work.ts')).toBe('half done')
})
