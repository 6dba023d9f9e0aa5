import { describe, expect, test } from 'vitest'
import { AppError } from '../../../../src/contract/error.ts'
import {
  eventsOf,
  prompt,
  readySession,
  runningIn,
  sandboxOf,
  storeSnapshot,
  turn,
  vanish,
  work,
  viewOf,
} from '../../../support/lifecycle.ts'
import { testCaller, type TestSession } from '../../../support/session.ts'

const minute = 60_000
const notices = (session: TestSession) =>
  session.commands().map(({ body }) => body['notice'] as string | undefined)
/** Asleep, after a turn, with its first snapshot. */
async function asleep(): Promise<TestSession> {
  const session = await readySession()
  await turn(session, 1)
  await session.pass(30 * minute)
  expect((await sandboxOf(session)).state).toBe('stopped')
  return session
}

describe('a sandbox that nobody uses', () => {
  test('[LIFE9] is saved and stopped after its idle time, and the session stays open', async () => {
    const session = await readySession()
    await session.pass(30 * minute - 1)
    expect((await sandboxOf(session)).state).toBe('ready')
    await session.pass(1)
    const view = await viewOf(session)
    expect([view.status, view.sandbox.state]).toEqual(['open', 'stopped'])
    expect(session.linked).toBe(false)
    const [taken] = [...session.sandboxes.snapshots.keys()]
    expect(eventsOf(session, 'sandbox.hibernated')).toMatchObject([
      { generation: 1, snapshotId: taken?.split('/')[1], reason: 'Nobody used it for 1800 s' },
    ])
    expect([runningIn(session), session.organisation.live()]).toEqual([[], []])
    expect(session.sandboxes.orders.slice(-2)[0]).toMatch(/^snapshot/)
    expect(session.sandboxes.orders.at(-1)).toBe('stop 1')
  })

  test('[LIFE9] whoever prompts or calls prolongs it; the time counts from the end of that', async () => {
    const session = await readySession()
    await session.pass(20 * minute)
    await turn(session, 1)
    await session.pass(20 * minute)
    await session.call('noop', 'x')
    await session.pass(30 * minute - 1)
    expect((await sandboxOf(session)).state).toBe('ready')
    await session.pass(1)
    expect((await sandboxOf(session)).state).toBe('stopped')
  })

  test('[LIFE9] one that works is not put to sleep, however long it takes', async () => {
    const session = await readySession()
    await work(session)
    await session.pass(10 * 60 * minute)
    expect(await sandboxOf(session)).toMatchObject({ state: 'ready', generation: 1 })
    expect(eventsOf(session, 'sandbox.hibernated')).toEqual([])
  })

  test.each([{ idleTimeoutSeconds: null }, { idleTimeoutSeconds: 60 }])(
    '[LIFE9] the session says how long: %o',
    async (input) => {
      const session = await readySession(input)
      await session.pass(60_000)
      expect((await sandboxOf(session)).state).toBe(
        input.idleTimeoutSeconds === null ? 'ready' : 'stopped',
      )
      expect((await viewOf(session)).idleTimeoutSeconds).toBe(input.idleTimeoutSeconds)
    },
  )

  test('[LIFE11] [SES12] looking at it prolongs nothing and wakes nothing', async () => {
    const session = await readySession()
    const look = async () => {
      await session.actor.api.self.view(testCaller)
      await session.actor.api.log.events(testCaller, 0, 100)
      await session.actor.api.turns.list(testCaller, { limit: 10, after: null })
      await session.actor.api.calls.list(testCaller, { limit: 10, after: null })
      await session.actor.api.artifacts.list(testCaller, { limit: 10, after: null })
      await session.actor.api.env.requests(testCaller, { limit: 10, after: null })
      session.actor.checkWatcher(testCaller)
      session.actor.watchStarted()
      const diff = session.actor.api.changes.diff(testCaller)
      await session.pass(10_000)
      await diff
    }
    for (let minutes = 0; minutes < 29; minutes += 1) {
      await look()
      await session.pass(50_000)
    }
    await session.pass(minute)
    expect((await sandboxOf(session)).state).toBe('stopped')
    const before = [session.sandboxes.orders.length, (await viewOf(session)).lastEventSeq]
    await look()
    await session.pass(60 * minute)
    expect([session.sandboxes.orders.length, (await viewOf(session)).lastEventSeq]).toEqual(before)
  })

  test('[LIFE9] a prompt that comes while it is saved wins: it goes on, and its work is saved', async () => {
    const session = await readySession()
    const { promise, resolve } = Promise.withResolvers<void>()
    await session.pass(30 * minute - 1)
    session.sandboxes.gate = promise
    await session.pass(1)
    const running = await prompt(session)
    resolve()
    session.sandboxes.gate = Promise.resolve()
    await session.settle()
    expect((await sandboxOf(session)).state).toBe('ready')
    expect((await session.actor.api.turns.get(testCaller, running.id)).state).toBe('running')
    expect(eventsOf(session, 'snapshot.stored')).toHaveLength(1)
    expect(eventsOf(session, 'sandbox.hibernated')).toEqual([])
  })

  test('[LIFE9] a snapshot during which somebody began to work is as old as its beginning: what came later may be missing in it', async () => {
    const session = await readySession()
    const { promise, resolve } = Promise.withResolvers<void>()
    await session.pass(30 * minute - 1)
    session.sandboxes.gate = promise
    await session.pass(1)
    const begunAt = session.now
    await prompt(session)
    await session.pass(5000)
    resolve()
    session.sandboxes.gate = Promise.resolve()
    await session.settle()
    const stored = session.ledger.projected<{ id: string; createdAt: number }>(
      'snapshot',
      ({ id }) => id,
    )
    expect(stored).toMatchObject([{ createdAt: begunAt }])
  })

  test('[LIFE12] one that cannot be saved is kept, says so, and is tried three times', async () => {
    const session = await readySession()
    session.sandboxes.snapshot = () =>
      Promise.reject(new AppError('unprocessable', 'Secret "A" is in "x"'))
    await session.pass(24 * minute * 5)
    expect(await sandboxOf(session)).toMatchObject({ state: 'ready', generation: 1 })
    const kept = eventsOf(session, 'sandbox.kept')
    expect(kept.map(({ reason }) => reason)).toEqual(Array(3).fill('Secret "A" is in "x"'))
    expect(kept.map(({ retryAt }) => retryAt === null)).toEqual([false, false, true])
    // Something was done since: it is worth another try.
    await turn(session, 1)
    await session.pass(31 * minute)
    expect(eventsOf(session, 'sandbox.kept')).toHaveLength(4)
  })

  test('[LIFE12] a snapshot that takes too long is a failure, and what comes of it later is deleted', async () => {
    const session = await readySession()
    const real = session.sandboxes.snapshot.bind(session.sandboxes)
    session.sandboxes.snapshot = async (input) => {
      await real(input)
      return new Promise(() => {})
    }
    await session.pass(30 * minute)
    await session.pass(150_000)
    expect(eventsOf(session, 'sandbox.kept')).toMatchObject([{ reason: 'Not taken within 150 s' }])
    session.sandboxes.snapshot = real
    await session.pass(10 * minute)
    expect((await sandboxOf(session)).state).toBe('stopped')
    await session.pass(minute)
    expect(session.sandboxes.snapshots.size).toBe(1)
  })

  test('[LIFE12] an instance that dies over the snapshot leaves the work to the next one', async () => {
    const session = await readySession()
    await session.pass(30 * minute - 1)
    session.sandboxes.gate = new Promise(() => {})
    await session.pass(1)
    session.restart()
    session.sandboxes.gate = Promise.resolve()
    await session.connect()
    await session.pass(10 * minute)
    expect((await sandboxOf(session)).state).toBe('stopped')
    expect(eventsOf(session, 'snapshot.stored')).toHaveLength(1)
  })
})

describe('a session that sleeps', () => {
  test('[LIFE10] a prompt wakes it where it was: nothing is lost, nobody is told so', async () => {
    const session = await asleep()
    const [hibernated] = eventsOf(session, 'sandbox.hibernated')
    const woken = await prompt(session, 'wake up')
    expect(await sandboxOf(session)).toMatchObject({ state: 'requested', generation: 2 })
    await session.pass(0)
    const [machine] = [...session.sandboxes.running.values()]
    expect(machine?.spec).toMatchObject({ generation: 2, snapshotId: hibernated?.snapshotId })
    await session.connect({ generation: 2 })
    expect(session.commands().map(({ id }) => id)).toEqual([woken.id])
    expect(eventsOf(session, 'sandbox.replaced')).toEqual([])
    // A new OpenCode has no memory of what was said: that much it must know.
    expect(notices(session)[0]).toContain('Lost: Nothing of the workspace')
    expect(notices(session)[0]).toContain('answer 1')
  })

  test('[LIFE10] a prompt that comes while it falls asleep wakes it', async () => {
    const session = await readySession()
    const stop = session.sandboxes.stop.bind(session.sandboxes)
    session.sandboxes.stop = () => Promise.reject(new Error('not now'))
    await session.pass(30 * minute)
    expect((await sandboxOf(session)).state).toBe('stopping')
    const woken = await prompt(session)
    session.sandboxes.stop = stop
    await session.pass(minute)
    await session.connect({ generation: 2 })
    expect(session.commands().map(({ id }) => id)).toEqual([woken.id])
    expect(runningIn(session)).toEqual([2])
  })

  test('[LIFE10] its own old sandbox cannot speak for it any more', async () => {
    const session = await asleep()
    await session.connect()
    expect(session.linked).toBe(false)
    await expect(session.call('noop', 'zombie')).rejects.toMatchObject({ code: 'old_generation' })
    expect((await sandboxOf(session)).state).toBe('stopped')
  })

  test('[LIFE10] if it cannot be restored the older snapshot is used, and the loss is announced', async () => {
    const session = await asleep()
    session.sandboxes.snapshots.clear()
    await prompt(session)
    await session.pass(10_000)
    expect(eventsOf(session, 'sandbox.replaced')).toMatchObject([
      { from: 2, to: 3, snapshotId: null, lost: expect.stringContaining('All files') },
    ])
    await session.connect({ generation: 3 })
    expect(notices(session)[0]).toContain('All files')
  })

  test('[LIFE8] can be woken without a prompt', async () => {
    const session = await asleep()
    await session.actor.api.sandbox.retry(testCaller, 'x')
    await session.pass(0)
    expect(await sandboxOf(session)).toMatchObject({ state: 'booting', generation: 2 })
  })

  test.each(['close', 'erase'] as const)('[SES5] %s ends it', async (act) => {
    const session = await asleep()
    if (act === 'close') await session.actor.api.self.close(testCaller, 'x')
    else await session.actor.api.self.erase(testCaller)
    await session.pass(minute)
    if (act === 'close') expect((await sandboxOf(session)).state).toBe('stopped')
    else expect([session.erased, session.sandboxes.snapshots.size]).toEqual([true, 0])
    expect(runningIn(session)).toEqual([])
  })

  test('[LIFE10] waits for a place like any other', async () => {
    const session = await asleep()
    const retryAt = session.now + minute
    session.organisation.refusals = [{ granted: false, reason: 'limit', retryAt }]
    await prompt(session)
    await session.pass(59_000)
    expect(await sandboxOf(session)).toMatchObject({ state: 'requested', retryAt })
    await session.pass(1000)
    expect((await sandboxOf(session)).state).toBe('booting')
  })
})

describe('the lifetime', () => {
  const lives = async (lifetimeSeconds: number, input: Record<string, unknown> = {}) => {
    const session = await readySession({ limits: { lifetimeSeconds }, ...input })
    return session
  }

  test('[LIFE13] the provider is given an hour at a time, extended while the sandbox is there for somebody', async () => {
    const session = await lives(3 * 3600)
    const [machine] = [...session.sandboxes.running.values()]
    expect(machine?.spec.limits.lifetimeSeconds).toBe(3600)
    await work(session)
    await session.pass(2.5 * 60 * minute)
    expect(await sandboxOf(session)).toMatchObject({ state: 'ready', generation: 1 })
    expect(session.sandboxes.orders.filter((order) => order === 'extend 1').length).toBe(3)
    expect((machine?.endsAt ?? 0) - 1_000_000).toBe(3 * 60 * 60_000)
  })

  test('[LIFE13] never beyond what was granted', async () => {
    const session = await readySession()
    expect((await sandboxOf(session)).endsAt).toBe(1_000_000 + 24 * 60 * 60_000)
    // Nor if the session itself may live longer.
    for (const each of [session, await lives(2 * 3600)]) {
      each.organisation.lifetimeSeconds = 600
      await each.actor.api.sandbox.replace(testCaller, 'x')
      await each.pass(0)
      const [machine] = [...each.sandboxes.running.values()]
      expect(machine?.spec.limits.lifetimeSeconds).toBe(600)
    }
  })

  test('[LIFE13] an extension that fails is tried again until it succeeds', async () => {
    const session = await lives(3 * 3600)
    await work(session)
    await session.pass(49 * minute)
    session.sandboxes.fails = 5
    await session.pass(60 * minute)
    expect(await sandboxOf(session)).toMatchObject({ state: 'ready', generation: 1 })
  })

  test('[LIFE13] idle, it goes to sleep before its end', async () => {
    const session = await lives(1200)
    await session.pass(10 * minute)
    expect((await sandboxOf(session)).state).toBe('stopped')
    expect(eventsOf(session, 'sandbox.hibernated')).toMatchObject([
      { reason: 'Its lifetime is about to end' },
    ])
  })

  test('[LIFE13] at work, what it has is saved before its end, and the next one starts from there', async () => {
    const session = await lives(1800)
    const running = await prompt(session)
    await session.pass(29 * minute)
    const stored = eventsOf(session, 'snapshot.stored').filter(
      ({ message }) => message === 'Before its lifetime ends',
    )
    expect(stored).toHaveLength(2)
    expect((await session.actor.api.turns.get(testCaller, running.id)).state).toBe('running')
    await session.pass(minute)
    await session.cut()
    await session.pass(10_000)
    expect(eventsOf(session, 'sandbox.replaced')).toMatchObject([
      {
        snapshotId: stored.at(-1)?.id,
        interruptedTurnId: running.id,
        reason: 'Its lifetime is over',
      },
    ])
  })

  test('[LIFE13] without a link it ends with its lease, and is replaced then', async () => {
    const session = await lives(8 * 3600, { idleTimeoutSeconds: null })
    const queued = await prompt(session)
    await session.cut()
    await session.pass(61 * minute)
    expect((await session.actor.api.turns.get(testCaller, queued.id)).state).toBe('interrupted')
    expect(await sandboxOf(session)).toMatchObject({ state: 'booting', generation: 2 })
  })
})

describe('snapshots', () => {
  test('[LIFE14] the two newest are kept; older ones are deleted, repeated until it succeeds', async () => {
    const session = await readySession()
    const real = session.sandboxes.deleteSnapshot.bind(session.sandboxes)
    let failures = 3
    session.sandboxes.deleteSnapshot = (organisationId, id) =>
      failures-- > 0 ? Promise.reject(new Error('not now')) : real(organisationId, id)
    for (let nap = 1; nap <= 4; nap += 1) {
      await session.pass(30 * minute)
      if (nap === 4) break
      await prompt(session)
      await session.pass(0)
      await session.connect({ generation: nap + 1 })
      const [running] = session.commands()
      if (!running) throw new Error('No turn')
      await session.receive({ t: 'result', commandId: running.id, ok: false, error: 'no' }, nap + 1)
    }
    await session.pass(minute)
    const stored = eventsOf(session, 'sandbox.hibernated').map(({ snapshotId }) => snapshotId)
    expect(stored).toHaveLength(4)
    const left = [...session.sandboxes.snapshots.keys()].map((key) => key.split('/')[1])
    expect(left).toEqual(stored.slice(2))
    expect(
      [...session.ledger.rows.values()].filter(({ kind }) => kind === 'snapshot.deleted'),
    ).toHaveLength(2)
  })

  test('[LIFE14] one that a configuration starts from is not the session’s to delete', async () => {
    const session = await readySession()
    const base = await storeSnapshot(session, 'a')
    session.bases.add(base)
    await storeSnapshot(session, 'b')
    await session.pass(30 * minute)
    await session.pass(minute)
    expect(session.sandboxes.snapshots.size).toBe(3)
    await session.actor.api.self.erase(testCaller)
    await session.pass(minute)
    expect([...session.sandboxes.snapshots.keys()]).toEqual([
      `${testCaller.organisationId}/${base}`,
    ])
  })

  test('[LIFE22] deleting a session leaves the one of its two newest that a configuration starts from', async () => {
    const session = await readySession()
    const kept = await storeSnapshot(session, 'k')
    const own = await storeSnapshot(session, 'm')
    session.bases.add(kept)
    await session.actor.api.self.erase(testCaller)
    await session.pass(60_000)
    expect(session.erased).toBe(true)
    const left = [...session.sandboxes.snapshots.keys()]
    expect(left.some((name) => name.endsWith(kept))).toBe(true)
    expect(left.some((name) => name.endsWith(own))).toBe(false)
  })

  test('[LIFE14] a restored sandbox keeps both', async () => {
    const session = await readySession()
    await storeSnapshot(session, 'a')
    await storeSnapshot(session, 'b')
    await vanish(session)
    await session.pass(minute)
    expect(session.sandboxes.snapshots.size).toBe(2)
  })
})
