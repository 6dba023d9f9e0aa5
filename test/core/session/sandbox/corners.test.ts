import { describe, expect, test } from 'vitest'
import {
  eventsOf,
  prompt,
  readySession,
  runningIn,
  sandboxOf,
  vanish,
  viewOf,
  work,
} from '../../../support/lifecycle.ts'
import { question } from '../../../support/agent.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { SessionCreate } from '../../../../src/contract/session.ts'
import { testCaller, TestSession, testSessionId } from '../../../support/session.ts'

const { organisationId } = testCaller
const idle = 60_000

describe('a halt', () => {
  const halt = (session: TestSession) =>
    session.actor.api.sandbox.halt(
      { organisationId, generation: 1 },
      { reason: 'enough', actor: 'kill-switch', saveMs: 20_000 },
    )

  test('[LIFE25] closes the link once it is saved, and the organisation learns that it was stopped', async () => {
    const session = await readySession()
    Object.assign(session.sandboxes, { freeze: () => Promise.reject(new Error('reset')) })
    const ended: object[] = []
    const { sandboxes } = session.organisation.api as unknown as {
      sandboxes: { ended: (...said: unknown[]) => Promise<void> }
    }
    const tell = sandboxes.ended.bind(sandboxes)
    sandboxes.ended = (...said) => (ended.push(said[2] as object), tell(...said))
    await halt(session)
    await session.pass(0)
    expect(session.linked).toBe(false)
    expect(ended).toEqual([{ outcome: 'stopped', reason: 'enough' }])
    expect(session.logs.filter((line) => line.includes('Cannot freeze'))).toEqual([
      expect.stringMatching(/^warn .*"generation":1,"error":"reset"/),
    ])
  })
})

describe('idle time', () => {
  test('[LIFE9] that is none is never over, also if an old alarm says so', async () => {
    const session = await readySession({ idleTimeoutSeconds: null })
    session.sql.run(`insert into deadlines (name, at) values ('sandbox.idle', ?)`, session.now)
    session.armedAt = session.now
    await session.pass(0)
    expect((await sandboxOf(session)).state).toBe('ready')
    expect(session.deadlines()).not.toHaveProperty(['sandbox.idle'])
  })

  test('[LIFE12] a save that fails is tried again after 5 and 10 minutes, then after the next idle time', async () => {
    const session = await readySession({ idleTimeoutSeconds: idle / 1000 })
    session.sandboxes.snapshot = () => Promise.reject(new Error('full'))
    const next = () => (session.deadlines()['sandbox.idle'] ?? 0) - session.now
    await session.pass(idle)
    expect(next()).toBe(300_000)
    await session.pass(300_000)
    expect(next()).toBe(600_000)
    await session.pass(600_000)
    expect(next()).toBe(idle)
    expect(eventsOf(session, 'sandbox.kept').map(({ retryAt }) => retryAt === null)).toEqual(
      expect.arrayContaining([false, false, true]),
    )
  })
})

test('[LIFE28] what works is looked at every ten minutes, and no longer once it is gone', async () => {
  const session = await readySession()
  await work(session)
  const at = () => session.deadlines()['sandbox.snapshot']
  const first = at() ?? 0
  await session.pass(first - session.now)
  expect(at()).toBe(session.now + 600_000)
  expect(session.sandboxes.orders.filter((order) => order.startsWith('snapshot'))).toHaveLength(1)
})

describe('the sandbox of a closed session', () => {
  test('[LIFE8] is neither replaced nor started again', async () => {
    const session = await readySession()
    await session.actor.api.self.close(testCaller, 'done')
    await session.pass(0)
    const { sandbox } = session.actor.api
    for (const act of [
      () => sandbox.retry(testCaller, 'x'),
      () => sandbox.replace(testCaller, 'x'),
    ])
      await expect(act()).rejects.toMatchObject({ code: 'wrong_state' })
    expect(runningIn(session)).toEqual([])
  })
})

describe('a check that the organisation wants', () => {
  test('[FIRE15] is of this generation alone', async () => {
    const session = await readySession()
    session.sandboxes.running.clear()
    const check = (generation: number) =>
      session.actor.api.sandbox.check({ organisationId, generation })
    await check(2)
    expect((await sandboxOf(session)).state).toBe('ready')
    await check(1)
    await session.pass(0)
    expect((await sandboxOf(session)).generation).toBe(2)
  })
})

describe('a replacement', () => {
  test('[SES9] denies what waits, and the answer says who did it and why', async () => {
    const session = new TestSession()
    await session.create({
      ...{ sandbox: 'local', gate: { deny: [], ask: ['bash'], askTimeoutSeconds: 600 } },
    })
    await session.pass(0)
    await session.connect()
    await prompt(session)
    await session.receive(question(`ask_${'1'.repeat(20)}`, 'bash'))
    await session.actor.api.sandbox.replace(testCaller, 'x')
    expect(eventsOf(session, 'gate.decided')).toMatchObject([
      { decision: 'deny', reason: 'The sandbox is being replaced', actor: 'replace' },
    ])
  })

  test('[SES9] of a session without a sandbox moves its generation on, and interrupts its turn', async () => {
    const world = new RunWorld()
    await world.create({ sandbox: 'none' })
    const { id } = await world.prompt().catch(() => ({ id: '' }))
    const before = (await viewOf(world)).sandbox.generation
    await world.actor.api.sandbox.replace(testCaller, 'x', 'key')
    const after = (await viewOf(world)).sandbox.generation
    expect(after).toBe(before + 1)
    // With the same key once.
    await world.actor.api.sandbox.replace(testCaller, 'x', 'key')
    expect((await viewOf(world)).sandbox.generation).toBe(after)
    if (id !== '')
      expect((await world.actor.api.turns.get(testCaller, id)).state).toBe('interrupted')
    await expect(world.call('noop', 'x', {}, before)).rejects.toMatchObject({
      code: 'old_generation',
    })
    expect((await world.call('noop', 'x', {}, after)).replayed).toBe(false)
  })
})

describe('a link that is lost', () => {
  test('[LIFE21] is told with its generation', async () => {
    const session = await readySession()
    await session.cut()
    expect(eventsOf(session, 'link.disconnected')).toEqual([{ generation: 1 }])
  })

  test('[LIFE17] while it boots is looked into soon', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    await session.pass(0)
    await session.connect({ ready: false })
    const boot = session.deadlines()['sandbox.boot']
    expect((await sandboxOf(session)).state).toBe('booting')
    session.sql.run(`delete from deadlines where name = 'sandbox.boot'`)
    await session.cut()
    expect(session.deadlines()['sandbox.boot']).toBe(session.now + 10_000)
    expect(boot).toBeGreaterThan(session.now)
  })

  test('[LIFE17] a sandbox that became ready while its provider was asked stays', async () => {
    const session = await readySession()
    const get = session.sandboxes.get.bind(session.sandboxes)
    let answer = () => {}
    const asked = new Promise<void>((resolve) => (answer = resolve))
    session.sandboxes.get = async (...of) => {
      await asked
      session.sandboxes.running.clear()
      return get(...of)
    }
    await session.cut()
    await session.pass(10_000)
    expect((await sandboxOf(session)).state).toBe('suspect')
    await session.connect()
    expect((await sandboxOf(session)).state).toBe('ready')
    answer()
    await session.settle()
    expect(await sandboxOf(session)).toMatchObject({ state: 'ready', generation: 1 })
  })

  test('[LIFE5] and gone for good is told to webhooks with generation and reason', async () => {
    const session = await readySession()
    await vanish(session)
    const [delivery] = session.sql.all<{ body: string }>(
      `select body from deliveries where event = 'sandbox.lost'`,
    )
    expect(JSON.parse(delivery?.body ?? '{}')).toMatchObject({
      data: { generation: 1, reason: 'The provider no longer knows the sandbox' },
    })
  })
})

describe('a creation', () => {
  test('[SES1] is told repository, ref, limits and lease; what is not limited is null', async () => {
    const session = new TestSession()
    const repository = { url: 'https://example.com/a.git', ref: 'main' }
    const orders: object[] = []
    const create = session.sandboxes.create.bind(session.sandboxes)
    session.sandboxes.create = (spec) => (orders.push(spec), create(spec))
    await session.create({ sandbox: 'local', repository })
    await session.pass(0)
    expect(orders).toMatchObject([
      {
        ...{ generation: 1, gatewayUrl: 'http://gantry.test', snapshotId: null },
        repository: { ...repository, token: null },
        limits: { memoryMb: null, processes: null },
      },
    ])
    expect(session.deadlines()).toHaveProperty(['sandbox.extend'])
  })

  test('[LIFE4] that fails is logged, and what is closed meanwhile is stopped again', async () => {
    const session = new TestSession()
    await session.create({ sandbox: 'local' })
    session.sandboxes.fails = 1
    await session.pass(0)
    expect(session.logs.filter((line) => line.includes('Cannot start'))).toEqual([
      expect.stringMatching(/^warn .*"generation":1/),
    ])
    let answer = () => {}
    session.sandboxes.gate = new Promise<void>((resolve) => (answer = resolve))
    await session.pass(2000)
    await session.actor.api.self.close(testCaller, 'done')
    await session.pass(0)
    answer()
    session.sandboxes.gate = Promise.resolve()
    await session.pass(60_000)
    expect(runningIn(session)).toEqual([])
    expect(session.sandboxes.orders.filter((order) => order.startsWith('stop'))).not.toEqual([])
  })

  test('[LIFE8] a start that is begun anew has no time of waiting left', async () => {
    const session = await readySession()
    session.sql.run('update sandbox_start set retry_at = 7')
    await session.actor.api.sandbox.replace(testCaller, 'x')
    expect((await sandboxOf(session)).retryAt ?? null).toBeNull()
  })
})

test('[LIFE6] the first sandbox starts from the base of its configuration', async () => {
  const session = new TestSession()
  const base = `snp_${'b'.repeat(20)}`
  session.bases.add(base)
  const from: (string | null)[] = []
  const create = session.sandboxes.create.bind(session.sandboxes)
  session.sandboxes.create = (spec) => (
    from.push(spec.snapshotId),
    create({ ...spec, snapshotId: null })
  )
  await session.actor.api.self.create({
    sessionId: testSessionId,
    ...testCaller,
    input: SessionCreate.parse({ sandbox: 'local' }),
    configuration: {
      ...{ id: `cfg_${'1'.repeat(20)}`, project: 'default', name: 'n', repository: null },
      ...{ defaultModel: null, trustProjectConfig: false, snapshotId: base, envFiles: [] },
    },
  })
  await session.pass(0)
  expect(from).toEqual([base])
})

test('[ATT12] a merge that comes while the sandbox falls asleep wakes it again', async () => {
  const world = await new RunWorld().begin()
  const { id: runId } = await world.createRun()
  const attempt = world.attemptId(await world.execute(runId))
  await world.result(attempt, { branch: 'gantry/x' })
  await world.finish(runId)
  let stop = () => {}
  const stopped = new Promise<void>((resolve) => (stop = resolve))
  const stopping = world.sandboxes.stop.bind(world.sandboxes)
  world.sandboxes.stop = async (...of) => (await stopped, stopping(...of))
  await world.actor.api.sandbox.halt(
    { organisationId, generation: 1 },
    { reason: 'enough', actor: 'kill-switch', saveMs: 20_000 },
  )
  await world.pass(0)
  expect((await sandboxOf(world)).state).toBe('stopping')
  void world.actor.api.operations.merge(testCaller, attempt).catch(() => {})
  await world.settle()
  stop()
  await world.pass(60_000)
  expect((await sandboxOf(world)).generation).toBe(2)
})

describe('an end', () => {
  test('[LIFE16] has its time, and nothing is watched after it', async () => {
    const session = await readySession()
    await session.cut()
    expect(session.deadlines()).toHaveProperty(['sandbox.check'])
    session.now += 5
    await session.actor.api.sandbox.replace(testCaller, 'x')
    expect(session.deadlines()).not.toHaveProperty(['sandbox.check'])
    expect(session.sql.all('select ended_at, outcome from sandboxes where generation = 1')).toEqual(
      [{ ended_at: session.now, outcome: 'stopped' }],
    )
    await session.actor.api.self.close(testCaller, 'done')
    expect(session.deadlines()).not.toHaveProperty(['sandbox.next'])
  })

  test('[LIFE5] only a loss is told to webhooks', async () => {
    const session = await readySession()
    await session.actor.api.sandbox.replace(testCaller, 'x')
    await session.pass(0)
    expect(session.sql.all('select 1 from deliveries')).toEqual([])
  })
})

test('[LIFE13] a lease that cannot be extended is logged and tried again', async () => {
  const session = await readySession({ idleTimeoutSeconds: null })
  session.sandboxes.extend = () => Promise.reject(new Error('away'))
  const at = session.deadlines()['sandbox.extend'] ?? 0
  await session.pass(at - session.now)
  expect(session.logs.filter((line) => line.includes('Cannot extend'))).toEqual([
    expect.stringMatching(/^warn .*"generation":1,"error":"away"/),
  ])
  const next = session.deadlines()['sandbox.extend'] ?? 0
  expect(next - session.now).toBeGreaterThan(0)
  expect(next - session.now).toBeLessThan(60_000)
  expect((await sandboxOf(session)).state).toBe('ready')
})
