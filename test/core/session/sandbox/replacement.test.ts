import { describe, expect, test } from 'vitest'
import { agentEvent } from '../../../support/agent.ts'
import {
  answer,
  eventsOf,
  prompt,
  readySession,
  runningIn,
  sandboxOf,
  storeSnapshot,
  turn,
  vanish,
  viewOf,
} from '../../../support/lifecycle.ts'
import { testCaller, TestSession, testSessionId } from '../../../support/session.ts'

const specs = (session: TestSession) =>
  [...session.sandboxes.running.values()].map(({ spec }) => [spec.generation, spec.snapshotId])
const noticeIn = (session: TestSession) =>
  session.commands().find(({ kind }) => kind === 'prompt')?.body['notice']

describe('a lost sandbox', () => {
  test('[LIFE5] is replaced by itself: fenced first, then stopped, then the next one is asked for', async () => {
    const session = await readySession()
    const running = await prompt(session)
    await vanish(session)
    expect(
      eventsOf(session, 'sandbox.changed')
        .map(({ state, generation }) => [state, generation])
        .slice(-6),
    ).toEqual([
      ['suspect', 1],
      ['lost', 1],
      ['replacing', 2],
      ['requested', 2],
      ['creating', 2],
      ['booting', 2],
    ])
    expect(session.sandboxes.orders.slice(-3)).toEqual(['get 1', 'stop 1', 'create 2'])
    expect((await session.actor.api.turns.get(testCaller, running.id)).state).toBe('interrupted')
    await session.connect({ generation: 2 })
    expect(await sandboxOf(session)).toMatchObject({ state: 'ready', generation: 2 })
    // Nothing is sent again by itself.
    expect(session.commands()).toEqual([])
  })

  test('[LIFE6] the event says what was lost, and since which snapshot', async () => {
    const session = await readySession()
    const snapshotId = await storeSnapshot(session, 'a')
    const snapshotAt = session.now
    await session.pass(60_000)
    const running = await prompt(session)
    await vanish(session)
    expect(eventsOf(session, 'sandbox.replaced')).toEqual([
      {
        from: 1,
        to: 2,
        reason: 'The provider no longer knows the sandbox',
        snapshotId,
        snapshotAt,
        interruptedTurnId: running.id,
        lost: expect.stringContaining(new Date(snapshotAt).toISOString()),
      },
    ])
    expect(specs(session)).toEqual([[2, snapshotId]])
  })

  test('[LIFE6] a turn that its agent had ended, being told to stop, is named as interrupted, but not again when the next one is lost', async () => {
    const session = await readySession()
    const running = await prompt(session)
    const end = { turnId: running.id, state: 'interrupted', reason: 'The sandbox was stopped' }
    const data = { ...end, text: null, diff: null }
    await session.receive({ t: 'events', items: [agentEvent(1, 'turn.ended', data)] })
    await vanish(session)
    await session.pass(1000)
    await session.connect({ generation: 2 })
    await vanish(session, 2)
    expect(
      eventsOf(session, 'sandbox.replaced').map(({ interruptedTurnId }) => interruptedTurnId),
    ).toEqual([running.id, null])
  })

  test('[LIFE6] without a snapshot all of it is lost, and that is said', async () => {
    const session = await readySession()
    await vanish(session)
    expect(eventsOf(session, 'sandbox.replaced')).toMatchObject([
      { snapshotId: null, lost: expect.stringContaining('All files') },
    ])
  })

  test('[LIFE7] the model is told once, with the next prompt: what is lost, and what was said before', async () => {
    const session = await readySession()
    await turn(session, 1)
    await prompt(session, 'never ends')
    await vanish(session)
    await session.connect({ generation: 2 })
    const next = await prompt(session, 'go on')
    const notice = noticeIn(session)
    expect(notice).toContain('The provider no longer knows the sandbox')
    expect(notice).toContain('All files')
    expect(notice).toContain('The last turn was interrupted')
    expect(notice).toMatch(/User: prompt 1\s+You: answer 1/)
    expect(notice).toContain('never ends')
    expect(session.commands().at(-1)?.body['text']).toBe('go on')
    await answer(session, next.id, { seq: 1, generation: 2 })
    session.sent = []
    await prompt(session, 'and on')
    expect(session.commands()).toHaveLength(1)
    expect(noticeIn(session)).toBeUndefined()
  })

  test('[LIFE7] a prompt that did not reach the model has told it nothing: the next one says it again', async () => {
    const session = await readySession()
    await turn(session, 1)
    await vanish(session)
    await session.connect({ generation: 2 })
    const failed = await prompt(session)
    await session.receive({ t: 'result', commandId: failed.id, ok: false, error: 'no' }, 2)
    session.sent = []
    await prompt(session)
    expect(noticeIn(session)).toContain('Note from Gantry')
  })

  test('[LIFE7] the first sandbox has lost nothing, also if its first prompt did not reach the model', async () => {
    const session = await readySession()
    const failed = await prompt(session)
    await session.receive({ t: 'result', commandId: failed.id, ok: false, error: 'no' })
    session.sent = []
    await prompt(session)
    expect(session.commands()).toHaveLength(1)
    expect(noticeIn(session)).toBeUndefined()
  })

  test('[LIFE7] a model that has not worked yet is told nothing', async () => {
    const session = await readySession()
    await vanish(session)
    await session.connect({ generation: 2 })
    await prompt(session)
    expect(session.commands()).toHaveLength(1)
    expect(noticeIn(session)).toBeUndefined()
  })

  test('[LIFE5] an agent that cannot go on is replaced too; what was queued reaches the next one', async () => {
    const session = await readySession()
    const running = await prompt(session)
    const queued = await prompt(session, 'later')
    await session.receive({ t: 'failed', reason: 'OpenCode does not start' })
    expect(session.linked).toBe(false)
    await session.pass(0)
    await session.connect({ generation: 2 })
    expect((await session.actor.api.turns.get(testCaller, running.id)).state).toBe('interrupted')
    expect(session.commands().map(({ id }) => id)).toEqual([queued.id])
  })

  test('[LIFE5] one that must be replaced by hand stays lost until somebody asks', async () => {
    const session = await readySession({ replacement: 'manual' })
    await vanish(session)
    await session.pass(3_600_000)
    expect(await sandboxOf(session)).toMatchObject({ state: 'lost', generation: 1 })
    await expect(prompt(session)).rejects.toMatchObject({
      code: 'wrong_state',
      message: expect.stringContaining('/retry'),
    })
    await session.actor.api.sandbox.retry(testCaller, 'please')
    await session.pass(0)
    expect(await sandboxOf(session)).toMatchObject({ state: 'booting', generation: 2 })
  })

  test('[LIFE5] one that cannot be stopped holds up its successor for a minute at most', async () => {
    const session = await readySession()
    const stop = session.sandboxes.stop.bind(session.sandboxes)
    session.sandboxes.stop = () => Promise.reject(new Error('It cannot be stopped'))
    await session.actor.api.sandbox.replace(testCaller, 'x')
    await session.pass(59_000)
    expect(await sandboxOf(session)).toMatchObject({ state: 'replacing', generation: 2 })
    await session.pass(1000)
    expect(await sandboxOf(session)).toMatchObject({ state: 'booting', generation: 2 })
    session.sandboxes.stop = stop
    await session.pass(60_000)
    expect([runningIn(session), session.organisation.live()]).toEqual([[2], [2]])
  })

  test('[LIFE2] one that is lost again and again right after its start is given up', async () => {
    const session = await readySession()
    for (const generation of [1, 2, 3]) {
      if (generation > 1) await session.connect({ generation })
      await vanish(session, generation)
    }
    expect(await sandboxOf(session)).toMatchObject({ state: 'failed', generation: 3 })
    await session.pass(3_600_000)
    expect(session.sandboxes.orders.filter((order) => order.startsWith('create'))).toHaveLength(3)
  })

  test('[LIFE2] one that worked for a while begins a new count', async () => {
    const session = await readySession()
    for (const generation of [1, 2, 3, 4, 5]) {
      if (generation > 1) await session.connect({ generation })
      await session.pass(121_000)
      await vanish(session, generation)
    }
    expect(await sandboxOf(session)).toMatchObject({ state: 'booting', generation: 6 })
  })
})

describe('a restore that fails', () => {
  test('[LIFE6] falls back to the older snapshot, then to the repository, and says so each time', async () => {
    const session = await readySession()
    const older = await storeSnapshot(session, 'a')
    await session.pass(1000)
    const newer = await storeSnapshot(session, 'b')
    await session.pass(120_000)
    await vanish(session)
    expect(specs(session)).toEqual([[2, newer]])
    await session.pass(120_000)
    expect(specs(session)).toEqual([[3, older]])
    session.sandboxes.say(3, 'exited', 'Broken files')
    await session.pass(5000)
    expect(specs(session)).toEqual([[4, null]])
    expect(
      eventsOf(session, 'sandbox.replaced').map(({ to, snapshotId, lost }) => [
        to,
        snapshotId,
        lost.slice(0, 3),
      ]),
    ).toEqual([
      [2, newer, 'Wha'],
      [3, older, 'Wha'],
      [4, null, 'All'],
    ])
    await session.connect({ generation: 4 })
    expect(await sandboxOf(session)).toMatchObject({
      state: 'ready',
      failures: [
        { generation: 2, reason: 'Not ready within 120 s' },
        { generation: 3, reason: 'Broken files' },
      ],
    })
  })

  test('[LIFE6] a provider that refuses the snapshot is not asked again for the same one', async () => {
    const session = await readySession()
    await storeSnapshot(session, 'a')
    session.sandboxes.snapshots.clear()
    await session.pass(120_000)
    await vanish(session)
    await session.pass(5000)
    expect(specs(session)).toEqual([[3, null]])
  })

  test('[LIFE6] a snapshot of an older sandbox is not taken for the newest because it came late', async () => {
    const session = await readySession()
    await session.actor.api.sandbox.replace(testCaller, 'x')
    await session.pass(0)
    await session.connect({ generation: 2 })
    const newest = await storeSnapshot(session, 'b')
    session.sql.run(
      `insert into snapshots (id, target, bytes, message, created_at, generation) values ('snp_old', 'session', 1, '', ?, 1)`,
      session.now,
    )
    await session.actor.api.sandbox.replace(testCaller, 'x')
    await session.pass(0)
    expect(specs(session)).toEqual([[3, newest]])
  })
})

describe('a start that fails', () => {
  test('[LIFE2] a provider whose sandboxes never boot: three are tried, then it has failed with all the reasons', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    await session.pass(3_600_000)
    const sandbox = await sandboxOf(session)
    expect(sandbox).toMatchObject({ state: 'failed', reason: 'Not ready within 120 s' })
    expect(sandbox.failures.map(({ generation }) => generation)).toEqual([1, 2, 3])
    expect(session.sandboxes.orders.filter((order) => order.startsWith('create'))).toHaveLength(3)
    expect([runningIn(session), session.organisation.live()]).toEqual([[], []])
    expect(sandbox.failures.at(-1)?.at).toBeLessThanOrEqual(1_000_000 + 600_000)
  })

  test('[LIFE2] creations that fail count over all sandboxes of a start: five at most', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    session.sandboxes.fails = 3
    await session.pass(10_000)
    expect(await sandboxOf(session)).toMatchObject({ state: 'booting', generation: 1 })
    await session.pass(3_600_000)
    expect(await sandboxOf(session)).toMatchObject({ state: 'failed' })
    expect(
      session.sandboxes.orders.filter((order) => order.startsWith('create')).length,
    ).toBeLessThanOrEqual(5)
  })

  test('[LIFE2] a provider that answers nothing at all is given up after ten minutes', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    session.sandboxes.gate = new Promise(() => {})
    await session.pass(599_000)
    expect(await sandboxOf(session)).toMatchObject({ state: 'creating' })
    await session.pass(1000)
    expect(await sandboxOf(session)).toMatchObject({
      state: 'failed',
      reason: 'Not ready within 600 s',
    })
  })

  test('[LIFE2] instances that die over it do not start the count again', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    session.sandboxes.gate = new Promise(() => {})
    for (let death = 0; death < 20; death += 1) {
      await session.pass(0)
      session.restart()
    }
    expect(
      session.sandboxes.orders.filter((order) => order.startsWith('create')).length,
    ).toBeLessThanOrEqual(5)
  })

  test('[LIFE8] can be tried again, with a new count; asked twice it is one start', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    await session.pass(3_600_000)
    const { sandbox } = await session.actor.api.sandbox.retry(testCaller, 'again')
    expect(sandbox).toMatchObject({ state: 'replacing', generation: 4, failures: [] })
    await session.actor.api.sandbox.retry(testCaller, 'again')
    await session.pass(0)
    await session.connect({ generation: 4 })
    expect(await sandboxOf(session)).toMatchObject({ state: 'ready', generation: 4 })
    await expect(session.actor.api.sandbox.retry(testCaller, 'again')).rejects.toMatchObject({
      code: 'wrong_state',
    })
  })

  test('[LIFE8] a closed session is not started again', async () => {
    const session = await readySession()
    await session.actor.api.self.close(testCaller, 'x')
    await expect(session.actor.api.sandbox.retry(testCaller, 'again')).rejects.toMatchObject({
      code: 'wrong_state',
    })
  })
})

describe('the place', () => {
  test('[LIFE1] nothing is created without a grant: an organisation that cannot be asked is asked again', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    session.organisation.fails = 4
    await session.pass(14_000)
    expect([session.sandboxes.orders, (await sandboxOf(session)).state]).toEqual([[], 'requested'])
    await session.pass(1000)
    expect(session.sandboxes.orders).toEqual(['create 1'])
  })

  test('[LIFE1] an organisation that never answers ends the start after ten minutes', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    const reason = 'Cannot get a place for the sandbox: The organisation is away'
    session.organisation.fails = Infinity
    await session.pass(600_000)
    expect(await sandboxOf(session)).toMatchObject({
      state: 'failed',
      reason: `Not ready within 600 s: ${reason}`,
      failures: [{ reason }, {}],
    })
    expect(session.sandboxes.orders.filter((order) => order.startsWith('create'))).toEqual([])
  })

  test('[LIFE1] refused until a time: it waits visibly, for as long as it takes, and then starts', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    const retryAt = session.now + 3_600_000
    session.organisation.refusals = [{ granted: false, reason: 'limit reached', retryAt }]
    await session.pass(3_599_000)
    expect(await sandboxOf(session)).toMatchObject({
      state: 'requested',
      reason: 'Waiting for a place: limit reached',
      retryAt,
    })
    await session.pass(1000)
    expect(await sandboxOf(session)).toMatchObject({ state: 'booting', retryAt: null })
  })

  test('[LIFE1] refused after something has failed: its time is not put off', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    await session.pass(0)
    session.sandboxes.say(1, 'exited', 'It burns')
    const refusal = { granted: false, reason: 'breaker', retryAt: session.now + 7_200_000 } as const
    session.organisation.refusals = [refusal]
    await session.pass(600_000)
    expect(await sandboxOf(session)).toMatchObject({
      state: 'failed',
      reason: 'Not ready within 600 s: Waiting for a place: breaker',
      failures: [{ reason: 'It burns' }, {}],
    })
  })

  test('[LIFE1] refused for good: it has failed, and says why', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    session.organisation.refusals = [{ granted: false, reason: 'switched off', retryAt: null }]
    await session.pass(0)
    expect(await sandboxOf(session)).toMatchObject({
      state: 'failed',
      reason: 'switched off',
      failures: [{ reason: 'switched off' }],
    })
    await session.pass(3_600_000)
    expect(session.sandboxes.orders).toEqual(['stop 1'])
  })

  test('[LIFE1] each sandbox has its own; it is connected once and given back with how it ended', async () => {
    const session = await readySession()
    await session.pass(121_000)
    await vanish(session)
    await session.connect({ generation: 2 })
    await session.pass(0)
    await session.actor.api.self.close(testCaller, 'x')
    await session.pass(0)
    const places = [...session.organisation.places.values()]
    expect(
      places.map(({ claim, connected, end }) => [claim.generation, connected, end?.outcome]),
    ).toEqual([
      [1, true, 'lost'],
      [2, true, 'stopped'],
    ])
  })

  test('[LIFE1] is given back also if the organisation was away, or its answer lost, and the instance died', async () => {
    const session = await readySession()
    session.organisation.fails = 2
    session.organisation.losesAnswers = 2
    await session.actor.api.self.close(testCaller, 'x')
    await session.pass(0)
    expect((await viewOf(session)).sandbox.state).toBe('stopping')
    session.restart()
    await session.pass(60_000)
    expect([session.organisation.live(), (await viewOf(session)).sandbox.state]).toEqual([
      [],
      'stopped',
    ])
  })

  test('[LIFE1] a grant that comes after the close is given back', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    const { promise, resolve } = Promise.withResolvers<void>()
    const { sandboxes } = session.organisation.api
    const { reserve } = sandboxes
    sandboxes.reserve = async (claim) => {
      await promise
      return reserve(claim)
    }
    await session.pass(0)
    await session.actor.api.self.close(testCaller, 'x')
    await session.pass(0)
    resolve()
    await session.settle()
    await session.pass(20_000)
    expect([session.organisation.live(), runningIn(session)]).toEqual([[], []])
    expect(session.organisation.places.size).toBe(1)
  })

  test('[LIFE1] a grant that comes after the close and after the death of its asker is given back', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    const { sandboxes } = session.organisation.api
    const { reserve } = sandboxes
    sandboxes.reserve = async (claim) => {
      await reserve(claim)
      return new Promise(() => {})
    }
    await session.pass(0)
    await session.actor.api.self.close(testCaller, 'x')
    session.restart()
    await session.pass(60_000)
    expect(session.organisation.live()).toEqual([])
  })
})

describe('what a sandbox leaves', () => {
  test('[LIFE26] one that ended while its provider has its files goes on from them, and nothing is lost', async () => {
    const session = await readySession()
    await turn(session, 1)
    await storeSnapshot(session, 'a')
    session.sandboxes.running.get(`${testSessionId}.1`)?.files.set('work.ts', 'half done')
    session.sandboxes.keepsFiles = true
    session.sandboxes.say(1, 'exited', 'The sandbox host was restarted')
    await session.cut()
    await session.pass(10_000)
    const [replaced] = eventsOf(session, 'sandbox.replaced')
    expect(replaced).toMatchObject({ from: 1, to: 2, lost: 'Nothing of the workspace' })
    await session.pass(0)
    const next = session.sandboxes.running.get(`${testSessionId}.2`)
    expect(next?.files.get('work.ts')).toBe('half done')
  })

  test('[LIFE26] if it cannot be saved, the next one starts from the snapshot before, and what is lost is said', async () => {
    const session = await readySession()
    await turn(session, 1)
    const before = await storeSnapshot(session, 'a')
    await session.pass(1000)
    session.sandboxes.say(1, 'exited', 'out of memory')
    await session.cut()
    await session.pass(10_000)
    expect(eventsOf(session, 'sandbox.replaced')).toMatchObject([
      { snapshotId: before, lost: expect.stringContaining('Whatever was changed after') },
    ])
  })

  test('[LIFE26] however often it is found out, it is saved once, and a provider that hangs is not waited for', async () => {
    const session = await readySession()
    session.sandboxes.keepsFiles = true
    session.sandboxes.say(1, 'exited', 'killed')
    let asked = 0
    session.sandboxes.snapshot = () => {
      asked += 1
      return new Promise(() => {})
    }
    await session.cut()
    await session.pass(60_000)
    expect([asked, (await sandboxOf(session)).state]).toEqual([1, 'suspect'])
    await session.pass(60_000)
    await session.pass(0)
    expect([asked, (await sandboxOf(session)).generation]).toEqual([1, 2])
  })
})
