import { expect, test } from 'vitest'
import { TestDeployment } from '../../../support/organisation.ts'

let names = 0

/** So many sandboxes that end without having connected. */
async function fail(world: TestDeployment, times: number, more: object = {}): Promise<void> {
  for (let i = 0; i < times; i++) {
    const id = `fails${(names += 1)}`
    await world.reserve(id, more)
    await world.end(id, 1, 'failed')
  }
}

test('[FIRE9] the breaker opens after five sandboxes in a row that never connected', async () => {
  const world = new TestDeployment()
  await fail(world, 4)
  expect((await world.reserve('a')).granted).toBe(true)
  await world.end('a', 1, 'lost')
  expect(await world.breaker()).toMatchObject({ state: 'open', failures: 5 })
  const refused = await world.reserve('b')
  expect(refused).toMatchObject({ granted: false, retryAt: (await world.breaker())?.openUntil })
  expect(refused).toMatchObject({
    reason: expect.stringContaining('5 sandboxes of provider "e2b"'),
  })
  // Of this provider only.
  expect((await world.reserve('c', { provider: 'modal' })).granted).toBe(true)
  await world.pass(10_000)
  expect(world.actions().map(({ action }) => action)).toEqual(['breaker.opened'])
})

test('[FIRE9] a connection resets it, a creation does not', async () => {
  const world = new TestDeployment()
  await fail(world, 4)
  await world.start('made')
  await fail(world, 1)
  expect((await world.breaker())?.state).toBe('open')

  const other = new TestDeployment()
  await fail(other, 4)
  await other.start('works')
  await other.connect('works')
  expect(await other.breaker()).toBeUndefined()
  // It was never open: nobody is told that it is closed.
  await other.pass(60_000)
  expect(other.actions().filter(({ action }) => action.startsWith('breaker'))).toEqual([])
  await fail(other, 4)
  expect(await other.breaker()).toMatchObject({ state: 'closed', failures: 4 })
})

test('[FIRE9] what was stopped on purpose, or had connected, is no failure of the provider', async () => {
  const world = new TestDeployment()
  for (let i = 0; i < 10; i++) {
    await world.reserve(`stopped${i}`)
    await world.end(`stopped${i}`, 1, 'stopped')
    await world.reserve(`lost${i}`)
    await world.connect(`lost${i}`)
    await world.end(`lost${i}`, 1, 'lost')
  }
  expect(await world.breaker()).toBeUndefined()
})

test('[FIRE10] when its time is over one sandbox may try, and the others wait for it', async () => {
  const world = new TestDeployment()
  await fail(world, 5)
  const until = (await world.breaker())?.openUntil ?? 0
  expect(until - world.now).toBeGreaterThanOrEqual(30_000)
  expect(until - world.now).toBeLessThanOrEqual(45_000)
  world.now = until - 1
  expect((await world.reserve('early')).granted).toBe(false)
  world.now = until
  const all = await Promise.all(Array.from({ length: 20 }, (_, i) => world.reserve(`t${i}`)))
  expect(all.filter(({ granted }) => granted)).toHaveLength(1)
  expect(await world.breaker()).toMatchObject({ state: 'half-open' })
  // The trial itself may ask again.
  expect((await world.reserve('t0')).granted).toBe(true)
  await world.connect('t0')
  expect(await world.breaker()).toBeUndefined()
  expect((await world.reserve('next')).granted).toBe(true)
})

test('[FIRE10] a failed trial opens it again, twice as long, up to a limit', async () => {
  const world = new TestDeployment({ breakerSeconds: 10, breakerMaxSeconds: 60 })
  await fail(world, 5)
  const spans: number[] = []
  for (let i = 0; i < 6; i++) {
    const until = (await world.breaker())?.openUntil ?? 0
    spans.push(until - world.now)
    world.now = until
    await fail(world, 1)
  }
  for (const [i, least] of [10, 20, 40, 60, 60, 60].entries()) {
    expect(spans[i]).toBeGreaterThanOrEqual(least * 1000)
    expect(spans[i]).toBeLessThanOrEqual(least * 1500)
  }
  expect(new Set(spans.slice(3)).size).toBeGreaterThan(1)
})

test('[FIRE10] a trial that is stopped, or never heard of again, blocks nobody for ever', async () => {
  const world = new TestDeployment({ breakerSeconds: 10 })
  await fail(world, 5)
  world.now = (await world.breaker())?.openUntil ?? 0
  await world.reserve('stopped')
  await world.end('stopped', 1, 'stopped')
  expect((await world.reserve('silent')).granted).toBe(true)
  expect((await world.reserve('next')).granted).toBe(false)
  world.now += 5 * 60_000
  expect((await world.reserve('next')).granted).toBe(true)
})

test('[FIRE10] sandboxes from before it opened neither open it again nor are its trial', async () => {
  const world = new TestDeployment()
  for (let i = 0; i < 9; i++) await world.reserve(`s${i}`)
  for (let i = 0; i < 5; i++) await world.end(`s${i}`, 1, 'failed')
  const before = await world.breaker()
  for (let i = 5; i < 8; i++) await world.end(`s${i}`, 1, 'failed')
  expect(await world.breaker()).toMatchObject({ state: 'open', openUntil: before?.openUntil })
  // One of them connects after all: the provider works.
  await world.connect('s8')
  expect((await world.reserve('next')).granted).toBe(true)
})

test('[FIRE22] what fails by the fault of its user counts for nobody else', async () => {
  const world = new TestDeployment()
  for (let i = 0; i < 10; i++) {
    await world.reserve(`typo${i}`)
    await world.end(`typo${i}`, 1, 'refused')
  }
  expect(await world.breaker()).toBeUndefined()
  await fail(world, 5)
  world.now = (await world.breaker())?.openUntil ?? 0
  // A trial that proves nothing lets the next one try.
  await world.reserve('typo')
  await world.end('typo', 1, 'refused')
  expect((await world.reserve('next')).granted).toBe(true)
})

test('[FIRE22] nobody reads the reasons of others in the breaker, its refusal or its record', async () => {
  const world = new TestDeployment()
  const secret = 'git clone https://example.test/private/plans'
  for (let i = 0; i < 5; i++) {
    await world.reserve(`s${i}`)
    await world.org.api.sandboxes.ended(`s${i}`, 1, { outcome: 'failed', reason: secret })
  }
  const refused = await world.reserve('other')
  await world.pass(10_000)
  const shown = JSON.stringify([refused, await world.breaker(), world.actions()])
  expect(shown).toContain('5 sandboxes')
  expect(shown).toContain('Session \\"s4\\" says why')
  expect(shown).not.toContain('private')
})
