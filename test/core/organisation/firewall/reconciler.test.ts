import { describe, expect, test } from 'vitest'
import type { WorstCase } from '../../../../src/contract/limits.ts'
import { day, hour, orgId, TestDeployment } from '../../../support/organisation.ts'

const kinds = (world: TestDeployment) =>
  world.actions().map(({ action, sessionId }) => `${action} ${sessionId}`)
const isRunning = (world: TestDeployment, name: string) => world.sandboxes.running.has(name)

describe('orphans', () => {
  test('[FIRE13] what runs without a reservation is noted, counted, and stopped after the grace time', async () => {
    const world = new TestDeployment({ prices: { e2b: 1 } })
    await world.start('mine')
    await world.connect('mine')
    await world.create('stray', 36_000)
    await world.pass(61_000)
    expect((await world.usage()).concurrentSandboxes).toBe(2)
    await world.pass(100_000)
    expect(isRunning(world, 'stray.1')).toBe(true)
    await world.pass(60_000)
    expect(isRunning(world, 'stray.1')).toBe(false)
    expect(isRunning(world, 'mine.1')).toBe(true)
    await world.pass(10_000)
    expect(kinds(world)).toEqual(['orphan.noted stray', 'orphan.stopped stray'])
    const { concurrentSandboxes, hoursToday } = await world.usage()
    expect(concurrentSandboxes).toBe(1)
    // Its time is booked like any other.
    const own = (8 * 3600 + 60) / 3600
    expect(hoursToday - own).toBeGreaterThan(100 / 3600)
  })

  test('[FIRE13] a creation that comes true after its end was reported is found', async () => {
    const world = new TestDeployment()
    await world.reserve('late')
    await world.end('late', 1, 'failed')
    await world.pass(100_000)
    await world.create('late', 36_000)
    await world.pass(400_000)
    expect(isRunning(world, 'late.1')).toBe(false)
    expect(kinds(world)).toEqual(['orphan.noted late', 'orphan.stopped late'])
    // Who ended it is not asked again: its session cannot bring it back.
    expect((await world.reserve('late')).granted).toBe(false)
  })

  test('[FIRE13] one that its provider does not end in time is stopped too', async () => {
    const world = new TestDeployment({ lifetimeSeconds: 600 })
    await world.reserve('a')
    await world.connect('a')
    // The provider was told another lifetime than was given.
    await world.create('a', 36_000)
    await world.pass(600_000 + 400_000)
    expect(isRunning(world, 'a.1')).toBe(false)
    expect(kinds(world)).toEqual(['sandbox.expired a', 'orphan.noted a', 'orphan.stopped a'])
  })

  test('[FIRE13] an older generation that still runs is an orphan, the present one is not', async () => {
    const world = new TestDeployment()
    await world.start('a')
    await world.end('a', 1, 'lost')
    await world.start('a', { generation: 2 })
    await world.connect('a', 2)
    await world.pass(400_000)
    expect([...world.sandboxes.running.keys()]).toEqual(['a.2'])
  })

  test('[FIRE13] one that ends by itself in its grace time is only noted', async () => {
    const world = new TestDeployment()
    await world.start('mine')
    await world.create('stray', 36_000)
    await world.pass(70_000)
    await world.sandboxes.stop('stray', 1)
    await world.pass(200_000)
    expect(kinds(world)).toEqual(['orphan.noted stray', 'orphan.gone stray'])
    expect((await world.usage()).concurrentSandboxes).toBe(1)
  })

  test('[FIRE13] a list that is a moment behind makes no orphan of what has just ended', async () => {
    const world = new TestDeployment()
    await world.start('a')
    await world.pass(50_000)
    await world.end('a')
    await world.pass(15_000)
    await world.sandboxes.stop('a', 1)
    await world.pass(300_000)
    expect(kinds(world)).toEqual([])
  })

  test('[FIRE13] a provider that is away is asked again, also long after the last sandbox', async () => {
    const world = new TestDeployment()
    await world.start('a')
    await world.end('a')
    world.before = (call) => {
      if (call === 'provider.list') throw new Error('away')
    }
    await world.pass(2 * hour)
    expect(isRunning(world, 'a.1')).toBe(true)
    expect(world.logs.some((line) => line.includes('Cannot compare with the provider'))).toBe(true)
    world.before = (call) => {
      if (call === 'provider.stop') throw new Error('away')
    }
    await world.pass(hour)
    expect(isRunning(world, 'a.1')).toBe(true)
    world.before = () => {}
    await world.pass(400_000)
    expect(isRunning(world, 'a.1')).toBe(false)
  })

  test('[FIRE13] another organisation’s sandboxes are none of its business', async () => {
    const world = new TestDeployment()
    await world.organisation('org_other').api.sandboxes.reserve(world.claim('theirs'))
    await world.create('mine', 36_000)
    await world.pass(hour)
    expect(isRunning(world, 'mine.1')).toBe(true)
  })

  test('[FIRE14] with nothing reserved for a while the provider is left in peace', async () => {
    const world = new TestDeployment()
    await world.start('a')
    await world.pass(10 * hour)
    const before = world.calls.length
    // Its lifetime of eight hours is over since two hours.
    expect(world.deadlines()).toEqual([])
    await world.pass(day)
    expect(world.calls.length).toBe(before)
  })
})

describe('vanished', () => {
  test('[FIRE15] what the provider does not know any more is marked, and its place is free', async () => {
    const world = new TestDeployment()
    await world.start('a')
    await world.connect('a')
    await world.pass(61_000)
    world.sandboxes.running.delete('a.1')
    await world.pass(70_000)
    expect((await world.usage()).concurrentSandboxes).toBe(1)
    await world.pass(150_000)
    expect((await world.usage()).concurrentSandboxes).toBe(0)
    await world.pass(10_000)
    expect(kinds(world)).toEqual(['sandbox.vanished a'])
    expect(await world.breaker()).toBeUndefined()
    expect(world.calls).toContain('session.check')
  })

  test('[FIRE15] a list that forgets one is not believed: only a true not-found counts', async () => {
    const world = new TestDeployment()
    await world.start('a')
    await world.connect('a')
    world.sandboxes.list = async () => []
    await world.pass(hour)
    expect((await world.usage()).concurrentSandboxes).toBe(1)
    expect(kinds(world)).toEqual([])
    world.sandboxes.get = () => Promise.reject(new Error('away'))
    await world.pass(hour)
    expect((await world.usage()).concurrentSandboxes).toBe(1)
  })

  test('[FIRE15] one that was never created holds its place while its session may still try, then counts as failed', async () => {
    const world = new TestDeployment()
    await world.reserve('a')
    await world.pass(9 * 60_000)
    expect((await world.usage()).concurrentSandboxes).toBe(1)
    await world.pass(8 * 60_000)
    expect((await world.usage()).concurrentSandboxes).toBe(0)
    expect(await world.breaker()).toMatchObject({ failures: 1 })
  })
})

describe('the worst case', () => {
  /** Sessions that never give up, on a provider that never boots: each failure is followed by the next generation. */
  async function storm(world: TestDeployment, sessions: number, ms: number) {
    const starts: number[] = []
    const until = world.now + ms
    const next = Array.from({ length: sessions }, (_, i) => ({
      id: `s${i}`,
      generation: 1,
      at: world.now + i,
    }))
    for (;;) {
      const session = next.toSorted((a, b) => a.at - b.at)[0]
      if (!session || session.at > until) break
      await world.pass(Math.max(0, session.at - world.now))
      const { id, generation } = session
      const reservation = await world.reserve(id, { generation })
      if (!reservation.granted) {
        session.at = Math.max(world.now + 1000, reservation.retryAt ?? until + 1)
        continue
      }
      starts.push(world.now)
      await world.org.api.sandboxes.ended(id, generation, { outcome: 'failed', reason: 'no boot' })
      session.generation += 1
      session.at = world.now + 1000
    }
    return starts
  }
  const most = (starts: number[], ms: number) =>
    Math.max(0, ...starts.map((from) => starts.filter((at) => at >= from && at < from + ms).length))

  test('[FIRE16] follows from the limits, provider by provider', async () => {
    const world = new TestDeployment({
      sandboxesPerHour: 10,
      concurrentSandboxes: 5,
      hoursPerDay: 100,
      moneyPerDay: 20,
      prices: { e2b: 0.1, modal: 1 },
    })
    const expected: Partial<WorstCase> = {
      sandboxesPerHour: 10,
      sandboxesPerDay: 240,
      concurrentSandboxes: 5,
      sandboxHoursPerDay: 100,
      moneyPerDay: 20,
      moneyPerDayByProvider: { local: 0, none: 0, e2b: 10, modal: 20 },
    }
    expect(await world.org.api.firewall.worstCase(null)).toMatchObject(expected)
    await world.org.api.firewall.setLimits(
      'p',
      { concurrentSandboxes: 1, sandboxesPerHour: 100 },
      'key',
    )
    expect(await world.org.api.firewall.worstCase('p')).toMatchObject({
      project: 'p',
      sandboxesPerHour: 10,
      concurrentSandboxes: 1,
      sandboxHoursPerDay: 24,
    })
  })

  test('[FIRE17] a provider that never boots stays under it, even without a breaker', async () => {
    const world = new TestDeployment({ sandboxesPerHour: 20, breakerFailures: 1000 })
    const bound = await world.org.api.firewall.worstCase(null)
    const starts = await storm(world, 30, 5 * hour)
    expect(most(starts, hour)).toBe(bound.sandboxesPerHour)
    expect(starts.length).toBeLessThanOrEqual(bound.sandboxesPerDay)
    expect(starts.length).toBeGreaterThanOrEqual(5 * 20)
  })

  test('[FIRE17] with the breaker it stays far below', async () => {
    const world = new TestDeployment({ sandboxesPerHour: 1000 })
    const starts = await storm(world, 30, 5 * hour)
    expect(starts.length).toBeGreaterThan(10)
    expect(starts.length).toBeLessThan(50)
    expect((await world.org.api.firewall.limits(null)).breakers[0]?.state).not.toBe('closed')
  })
})

test('[FIRE8] an alarm that fails twelve times in a row comes again, and loses nothing', async () => {
  const world = new TestDeployment()
  world.ledger().away = true
  await world.start('a')
  await world.create('stray', 36_000)
  await world.pass(5 * 60_000)
  expect(world.ledger().appends).toBeGreaterThan(12)
  world.ledger().away = false
  await world.pass(60_000)
  expect(kinds(world)).toEqual(['orphan.noted stray', 'orphan.stopped stray'])
  expect(world.deadlines(orgId)).toEqual(['outbox.verify', 'reconcile'])
})
