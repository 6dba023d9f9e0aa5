import { describe, expect, test } from 'vitest'
import { defaultLimits } from '../../../../src/contract/limits.ts'
import type { Reservation } from '../../../../src/core/organisation/record/api.ts'
import { maxAttempts, startSeconds } from '../../../../src/core/organisation/firewall/places.ts'
import { day, hour, orgId, TestDeployment } from '../../../support/organisation.ts'

const refusalOf = (reservation: Reservation) => {
  if (reservation.granted) throw new Error('It was granted')
  return reservation
}
const granted = (reservations: Reservation[]) =>
  reservations.filter(({ granted }) => granted).length
/** What one lifetime of so many seconds costs in the books. */
const bookedMs = (seconds: number) => (seconds + startSeconds) * 1000

describe('each limit at its edge', () => {
  test('[FIRE1] within any 60 minutes no more are begun than sandboxesPerHour says', async () => {
    const world = new TestDeployment({ sandboxesPerHour: 3 })
    const first = world.now
    for (const id of ['a', 'b', 'c']) {
      expect(await world.reserve(id)).toMatchObject({ granted: true })
      await world.end(id)
      world.now += 60_000
    }
    const refused = refusalOf(await world.reserve('d'))
    expect(refused.retryAt).toBe(first + hour)
    expect(refused.reason).toMatch(
      /^Cannot start a sandbox: all 3 .*sandboxesPerHour.*PUT \/v1\/limits/,
    )
    world.now = first + hour - 1
    expect((await world.reserve('d')).granted).toBe(false)
    world.now = first + hour
    expect((await world.reserve('d')).granted).toBe(true)
    expect(refusalOf(await world.reserve('e')).retryAt).toBe(first + hour + 60_000)
  })

  test('[FIRE1] no more are held at one time than concurrentSandboxes says', async () => {
    const world = new TestDeployment({ concurrentSandboxes: 2 })
    await world.reserve('a')
    await world.reserve('b')
    const refused = refusalOf(await world.reserve('c'))
    expect(refused.reason).toContain('concurrentSandboxes')
    expect(refused.retryAt).toBeGreaterThan(world.now)
    await world.end('a')
    expect((await world.reserve('c')).granted).toBe(true)
    expect((await world.reserve('d')).granted).toBe(false)
  })

  test('[FIRE2] the hours of a day are reserved whole, shorten the last lifetime, and are given back', async () => {
    const world = new TestDeployment({ hoursPerDay: 3, lifetimeSeconds: 7200 })
    expect(await world.reserve('a')).toEqual({ granted: true, lifetimeSeconds: 7200 })
    // One hour and a minute are left; a minute is kept for the provider's start.
    expect(await world.reserve('b')).toEqual({
      granted: true,
      lifetimeSeconds: 3600 - 2 * startSeconds,
    })
    expect((await world.usage()).hoursToday).toBe(3)
    const refused = refusalOf(await world.reserve('c'))
    expect(refused.reason).toContain('hoursPerDay')
    world.now += 60_000
    await world.end('a')
    expect((await world.usage()).hoursToday).toBeCloseTo(1 - startSeconds / 3600 + 1 / 60, 9)
    expect((await world.reserve('c')).granted).toBe(true)
    expect((await world.usage()).hoursToday).toBeLessThanOrEqual(3)
  })

  test('[FIRE2] with nobody left to give anything back, the next day is the time to ask again', async () => {
    const world = new TestDeployment({ hoursPerDay: 1, lifetimeSeconds: 3600 - startSeconds })
    await world.reserve('a')
    world.now += hour
    const refused = refusalOf(await world.reserve('b'))
    const midnight = Date.UTC(2026, 10, 17)
    expect(refused.retryAt).toBe(midnight)
    world.now = midnight - 1
    expect((await world.reserve('b')).granted).toBe(false)
    world.now = midnight
    expect((await world.reserve('b')).granted).toBe(true)
  })

  test('[FIRE2] a lifetime over midnight is booked on both days, and stops at the day that is full', async () => {
    const world = new TestDeployment({ hoursPerDay: 2, lifetimeSeconds: 3600 - startSeconds })
    const midnight = Date.UTC(2026, 10, 17)
    world.now = midnight - hour / 4
    const lifetimes = []
    for (const id of ['a', 'b', 'c', 'd']) {
      const reservation = await world.reserve(id)
      lifetimes.push(reservation.granted && reservation.lifetimeSeconds + startSeconds)
    }
    // The third finds half an hour of the new day, the fourth none of it.
    expect(lifetimes).toEqual([3600, 3600, 2700, 900])
    expect((await world.usage()).hoursToday).toBe(1)
    world.now = midnight
    expect((await world.usage()).hoursToday).toBe(2)
    expect(refusalOf(await world.reserve('f')).reason).toContain('hoursPerDay')
  })

  test('[FIRE2] money is hours times the price of the provider; what is free costs none', async () => {
    const world = new TestDeployment({
      moneyPerDay: 1,
      lifetimeSeconds: 3600,
      prices: { e2b: 1, modal: 0.1 },
    })
    const half = 1800 - startSeconds
    await world.org.api.firewall.setLimits('half', { lifetimeSeconds: half }, 'key')
    expect(await world.reserve('a', { project: 'half' })).toMatchObject({ lifetimeSeconds: half })
    expect((await world.usage()).moneyToday).toBeCloseTo(0.5, 9)
    expect(await world.reserve('b')).toEqual({ granted: true, lifetimeSeconds: half })
    const refused = refusalOf(await world.reserve('c'))
    expect(refused.reason).toMatch(/all 1 USD.*moneyPerDay/)
    expect((await world.reserve('d', { provider: 'modal' })).granted).toBe(false)
    expect((await world.reserve('e', { provider: 'local' })).granted).toBe(true)
    world.now += bookedMs(half)
    expect((await world.usage()).moneyToday).toBeCloseTo(1, 9)
  })

  test('[FIRE2] less than a minute of lifetime is not worth a sandbox', async () => {
    const world = new TestDeployment({ hoursPerDay: (2 * startSeconds) / 3600 })
    expect(await world.reserve('a')).toEqual({ granted: true, lifetimeSeconds: 60 })
    const short = new TestDeployment({ hoursPerDay: (2 * startSeconds - 1) / 3600 })
    expect((await short.reserve('a')).granted).toBe(false)
  })

  test.each(['sandboxesPerHour', 'concurrentSandboxes', 'hoursPerDay', 'moneyPerDay'] as const)(
    '[FIRE3] %s of zero refuses, and only a person can change it',
    async (name) => {
      const world = new TestDeployment()
      await world.org.api.firewall.setLimits(null, { [name]: 0 }, 'key')
      expect(await world.reserve('a')).toMatchObject({ granted: false, retryAt: null })
      expect((await world.reserve('a')).granted).toBe(false)
      await world.org.api.firewall.setLimits(null, { [name]: 1 }, 'key')
      expect((await world.reserve('a')).granted).toBe(true)
    },
  )
})

describe('organisation and project', () => {
  test('[FIRE4] both are checked, so a project can only be tighter', async () => {
    const world = new TestDeployment({ concurrentSandboxes: 3 })
    await world.org.api.firewall.setLimits('p', { concurrentSandboxes: 1 }, 'key')
    await world.org.api.firewall.setLimits('q', { concurrentSandboxes: 100 }, 'key')
    expect((await world.reserve('a', { project: 'p' })).granted).toBe(true)
    const refused = refusalOf(await world.reserve('b', { project: 'p' }))
    expect(refused.reason).toContain('project "p"')
    expect(refused.reason).toContain('PUT /v1/limits?project=p')
    expect((await world.reserve('c', { project: 'q' })).granted).toBe(true)
    expect((await world.reserve('d', { project: 'r' })).granted).toBe(true)
    expect(refusalOf(await world.reserve('e', { project: 'q' })).reason).toContain(
      'of the organisation',
    )
    expect((await world.org.api.firewall.limits('q')).limits.concurrentSandboxes).toBe(3)
    expect((await world.org.api.firewall.limits('p')).limits.concurrentSandboxes).toBe(1)
    expect((await world.org.api.firewall.limits('p')).usage.concurrentSandboxes).toBe(1)
  })

  test('[FIRE4] what is set is replaced whole; what is left out is the deployment’s again', async () => {
    const world = new TestDeployment({ hoursPerDay: 5 })
    await world.org.api.firewall.setLimits(null, { hoursPerDay: 3, moneyPerDay: 9 }, 'key')
    expect(await world.org.api.firewall.limits(null)).toMatchObject({
      limits: { ...defaultLimits, hoursPerDay: 3, moneyPerDay: 9 },
      set: { hoursPerDay: 3, moneyPerDay: 9 },
      defaults: { ...defaultLimits, hoursPerDay: 5 },
    })
    await world.org.api.firewall.setLimits(null, { moneyPerDay: 9 }, 'key')
    expect((await world.org.api.firewall.limits(null)).limits).toEqual({
      ...defaultLimits,
      hoursPerDay: 5,
      moneyPerDay: 9,
    })
  })

  test('[FIRE20] what the deployment has set is the most that an admin can set; its defaults can be passed', async () => {
    const world = new TestDeployment({ concurrentSandboxes: 2 })
    await expect(
      world.org.api.firewall.setLimits(
        null,
        { concurrentSandboxes: 3, sandboxesPerHour: 5 },
        'key',
      ),
    ).rejects.toMatchObject({
      code: 'unprocessable',
      details: [{ path: 'concurrentSandboxes', message: 'At most 2' }],
    })
    expect((await world.org.api.firewall.limits(null)).set).toEqual({})
    await world.org.api.firewall.setLimits(
      null,
      { concurrentSandboxes: 2, sandboxesPerHour: 5000 },
      'key',
    )
    expect((await world.org.api.firewall.limits(null)).limits).toMatchObject({
      concurrentSandboxes: 2,
      sandboxesPerHour: 5000,
    })
  })

  test('[FIRE20] what was set before the deployment allowed less does not count', async () => {
    const world = new TestDeployment({ concurrentSandboxes: 2 })
    await world.org.api.firewall.setLimits(null, {}, 'key')
    world.sql().run(`update limits set body = '{"concurrentSandboxes":50}'`)
    expect((await world.org.api.firewall.worstCase(null)).concurrentSandboxes).toBe(2)
    for (const id of ['a', 'b']) expect((await world.reserve(id)).granted).toBe(true)
    expect((await world.reserve('c')).granted).toBe(false)
  })

  test('[FIRE4] every limit of a project counts only what is in it', async () => {
    const world = new TestDeployment({ prices: { e2b: 1 }, lifetimeSeconds: 3600 - startSeconds })
    const limits = { sandboxesPerHour: 1, concurrentSandboxes: 1, hoursPerDay: 1, moneyPerDay: 1 }
    for (const [name, value] of Object.entries(limits)) {
      await world.org.api.firewall.setLimits(name, { [name]: value }, 'key')
      expect((await world.reserve(`${name}1`, { project: name })).granted).toBe(true)
      expect(refusalOf(await world.reserve(`${name}2`, { project: name })).reason).toContain(name)
    }
  })
})

describe('one place', () => {
  test('[FIRE5] the same session and generation holds one, however often it asks', async () => {
    const world = new TestDeployment({ concurrentSandboxes: 1, lifetimeSeconds: 3600 })
    const both = await Promise.all([world.reserve('a'), world.reserve('a')])
    expect(both).toEqual([
      { granted: true, lifetimeSeconds: 3600 },
      { granted: true, lifetimeSeconds: 3600 },
    ])
    world.now += 600_000
    world.crash()
    expect(await world.reserve('a')).toEqual({ granted: true, lifetimeSeconds: 3000 })
    expect(await world.usage()).toMatchObject({ sandboxesLastHour: 1, concurrentSandboxes: 1 })
    expect((await world.reserve('a', { generation: 2 })).granted).toBe(false)
  })

  test('[FIRE5] ended once is ended: a late request gets no place, a late report changes nothing', async () => {
    const world = new TestDeployment()
    await world.reserve('a')
    await world.end('a', 1, 'failed')
    await world.end('a', 1, 'stopped')
    await world.connect('a')
    expect(await world.reserve('a')).toMatchObject({ granted: false, retryAt: null })
    expect(await world.breaker()).toMatchObject({ failures: 1 })
    await world.end('unknown', 3)
    await world.connect('unknown', 3)
    expect((await world.usage()).concurrentSandboxes).toBe(0)
  })

  test('[FIRE5] a session that asks in a loop is stopped after a number of tries', async () => {
    const world = new TestDeployment()
    for (let tries = 0; tries < maxAttempts; tries++)
      expect((await world.reserve('a')).granted).toBe(true)
    expect(await world.reserve('a')).toMatchObject({ granted: false, retryAt: null })
  })

  test('[FIRE6] a reservation that nobody ends is over when its lifetime is', async () => {
    const world = new TestDeployment({ concurrentSandboxes: 1, lifetimeSeconds: 3600 })
    await world.reserve('a')
    world.now += bookedMs(3600) - 1
    expect((await world.reserve('b')).granted).toBe(false)
    world.now += 1
    expect((await world.reserve('b')).granted).toBe(true)
    expect(await world.reserve('a')).toMatchObject({ granted: false, retryAt: null })
    expect((await world.usage()).hoursToday).toBeCloseTo((2 * bookedMs(3600)) / hour, 9)
  })

  test('[FIRE6] a machine that starts up to a minute after its place was given is gone before the place is', async () => {
    const world = new TestDeployment({ concurrentSandboxes: 1, lifetimeSeconds: 3600 })
    const reservation = await world.reserve('a')
    world.now += 59_000
    // The provider counts from here.
    await world.create('a', reservation.granted ? reservation.lifetimeSeconds : 0)
    while (!(await world.reserve('b')).granted) world.now += 1000
    expect(await world.sandboxes.get('a', 1)).toMatchObject({ state: 'exited' })
  })

  test('[FIRE6] what lived for a moment has used a moment', async () => {
    const world = new TestDeployment({ prices: { e2b: 1 } })
    await world.reserve('a')
    world.now += 36_000
    await world.end('a')
    expect(await world.usage()).toEqual({
      sandboxesLastHour: 1,
      concurrentSandboxes: 0,
      hoursToday: 0.01,
      moneyToday: 0.01,
    })
    world.now += day
    expect((await world.usage()).hoursToday).toBe(0)
  })

  test('[FIRE7] 200 requests at once against a limit of 7 get exactly 7', async () => {
    for (const name of ['sandboxesPerHour', 'concurrentSandboxes'] as const) {
      const world = new TestDeployment({ [name]: 7 })
      const all = await Promise.all(Array.from({ length: 200 }, (_, i) => world.reserve(`s${i}`)))
      expect(granted(all)).toBe(7)
      // They have asked the deployment once for all.
      expect(world.calls.filter((call) => call === 'organisation.admit')).toHaveLength(1)
    }
    const hours = new TestDeployment({ hoursPerDay: 7, lifetimeSeconds: 3600 - startSeconds })
    const all = await Promise.all(Array.from({ length: 200 }, (_, i) => hours.reserve(`s${i}`)))
    expect(granted(all)).toBe(7)
    expect((await hours.usage()).hoursToday).toBe(7)
  })
})

test('[FIRE8] every place and every change of a limit becomes a row of the ledger', async () => {
  const world = new TestDeployment({ prices: { e2b: 2 }, lifetimeSeconds: 3600 - startSeconds })
  await world.org.api.firewall.setLimits('p', { hoursPerDay: 3 }, 'key_x')
  await world.reserve('a', { project: 'p' })
  await world.pass(10_000)
  const rows = () =>
    [...world.ledger(orgId).rows.values()].map(({ kind, payload }) => ({
      kind,
      ...(JSON.parse(payload) as object),
    }))
  expect(rows()).toMatchObject([
    {
      kind: 'sandbox_action',
      action: 'limits.changed',
      actor: 'key_x',
      reason: expect.stringContaining('"p"'),
    },
    {
      kind: 'sandbox_reservation',
      sessionId: 'a',
      generation: 1,
      provider: 'e2b',
      project: 'p',
      seconds: 3600,
      money: 2,
      endedAt: null,
    },
  ])
  await world.connect('a')
  world.now += 8000
  await world.end('a', 1, 'lost')
  await world.pass(10_000)
  expect(rows().at(-1)).toMatchObject({
    outcome: 'lost',
    reason: 'it lost',
    seconds: 18,
    money: 0.01,
  })
  // libSQL was away, lost its last write, and gets it again.
  world.ledger().lose(1)
  await world.pass(2 * hour)
  expect(rows().at(-1)).toMatchObject({ outcome: 'lost' })
})
