import { afterAll, expect, test, vi } from 'vitest'
import type { Limits } from '../../../src/contract/limits.ts'
import { day, hour, TestDeployment } from '../../support/organisation.ts'
import { random, seedsOf } from '../../support/random.ts'

vi.setConfig({ testTimeout: 120_000 })

const limits = {
  sandboxesPerHour: 12,
  concurrentSandboxes: 5,
  hoursPerDay: 20,
  moneyPerDay: 8,
  lifetimeSeconds: 2 * 3600,
} satisfies Limits
const price = 0.5

/** Sessions, a provider and a network that do anything; what really ran is written down beside Gantry's own books. */
class Chaos {
  readonly world = new TestDeployment({
    ...limits,
    prices: { e2b: price },
    breakerFailures: 4,
    reconcileSeconds: 300,
  })
  readonly places: number[] = []
  readonly ran = new Map<string, { from: number; to: number }>()
  readonly #random: () => number
  readonly #sessions = new Map<string, { generation: number; live: boolean }>()
  readonly #honest: boolean
  killed = false

  constructor(seed: number, honest: boolean) {
    this.#random = random(seed)
    this.#honest = honest
    const { sandboxes } = this.world
    const create = sandboxes.create.bind(sandboxes)
    sandboxes.create = async (spec) => {
      const from = this.world.now
      const info = await create(spec)
      const name = `${spec.sessionId}.${spec.generation}`
      if (!this.ran.has(name))
        this.ran.set(name, { from, to: from + spec.limits.lifetimeSeconds * 1000 })
      return info
    }
    const stop = sandboxes.stop.bind(sandboxes)
    sandboxes.stop = async (id, generation) => {
      await stop(id, generation)
      this.#over(`${id}.${generation}`)
    }
    this.world.halt = async (id, generation) => {
      if (this.#chance(0.2)) throw new Error('away')
      if (this.#chance(0.2)) return
      await sandboxes.stop(id, generation)
      await this.world.end(id, generation, 'stopped')
    }
  }

  #chance = (p: number) => this.#random() < p
  #over(name: string): void {
    const run = this.ran.get(name)
    if (run) run.to = Math.min(run.to, this.world.now)
  }
  #pick(): string {
    return `s${Math.floor(this.#random() * 12)}`
  }

  async step(): Promise<void> {
    const { world } = this
    const roll = this.#random()
    if (roll < 0.35) await this.#start(this.#pick())
    else if (roll < 0.5) await this.#end(this.#pick())
    else if (roll < 0.6) await world.pass(this.#random() * 300_000)
    else if (roll < 0.68) await world.pass(this.#random() * 2 * hour)
    else if (roll < 0.74) world.crash()
    else if (roll < 0.8) world.sandboxes.fails = Math.floor(this.#random() * 4)
    else if (roll < 0.83) this.#lose(this.#pick())
    else if (roll < 0.86) await this.#switch()
    else if (roll < 0.9 && !this.#honest)
      await world.create(`stray${world.now}`, 3600).catch(() => {})
    else if (roll < 0.95 && !this.#honest) await this.#lie(this.#pick())
    else await world.pass(60_000)
  }

  async #start(id: string): Promise<void> {
    const { world } = this
    const session = this.#sessions.get(id) ?? { generation: 0, live: false }
    this.#sessions.set(id, session)
    if (session.live) return
    const generation = session.generation + 1
    const before = world.now
    const reservation = await world.reserve(id, { generation })
    if (!reservation.granted) {
      expect(reservation.retryAt ?? Infinity).toBeGreaterThan(before)
      return
    }
    expect(this.killed, 'no place is given while a switch is on').toBe(false)
    this.places.push(before)
    session.generation = generation
    session.live = true
    // Between the place and the machine there is some time, in which anything may happen.
    if (this.#chance(0.3)) await world.pass(this.#random() * 50_000)
    await world.create(id, reservation.lifetimeSeconds, { generation }).catch(() => {})
    if (this.#chance(0.6)) await world.connect(id, generation)
  }

  async #end(id: string): Promise<void> {
    const session = this.#sessions.get(id)
    if (!session?.live) return
    try {
      await this.world.sandboxes.stop(id, session.generation)
    } catch {
      return
    }
    session.live = false
    const outcome = this.#chance(0.3) ? 'failed' : 'stopped'
    await this.world.end(id, session.generation, outcome)
    if (this.#chance(0.3)) await this.world.end(id, session.generation, 'lost')
  }

  /** Says that it has ended, and leaves it running. */
  async #lie(id: string): Promise<void> {
    const session = this.#sessions.get(id)
    if (!session?.live) return
    session.live = false
    await this.world.end(id, session.generation, 'failed')
  }

  #lose(id: string): void {
    const name = `${id}.${this.#sessions.get(id)?.generation}`
    if (this.world.sandboxes.running.delete(name)) this.#over(name)
  }

  async #switch(): Promise<void> {
    const change = { on: this.#chance(0.3), reason: 'chaos' }
    const { org, deployment } = this.world
    await (this.#chance(0.5) ? org : deployment).api.firewall.setKillSwitch(change, 'chaos')
    await this.world.pass(100)
    const [own, other] = [
      await org.api.firewall.killSwitch(),
      await deployment.api.firewall.killSwitch(),
    ]
    // The organisation may learn of the deployment's a moment later.
    await this.world.pass(3000)
    this.killed = own.on || other.on
  }

  async lift(): Promise<void> {
    this.world.sandboxes.fails = 0
    await this.world.org.api.firewall.setKillSwitch({ on: false, reason: '' }, 'chaos')
    await this.world.deployment.api.firewall.setKillSwitch({ on: false, reason: '' }, 'chaos')
    this.killed = false
    await this.world.pass(60_000)
  }

  runningAt(at: number): number {
    return [...this.ran.values()].filter(({ from, to }) => from <= at && at < to).length
  }

  hoursOn(from: number): number {
    const spans = [...this.ran.values()].map((run) =>
      Math.max(0, Math.min(run.to, from + day, this.world.now) - Math.max(run.from, from)),
    )
    return spans.reduce((sum, ms) => sum + ms, 0) / hour
  }

  checkBound(): void {
    for (const from of this.places) {
      const within = this.places.filter((at) => at >= from && at < from + hour)
      expect(within.length).toBeLessThanOrEqual(limits.sandboxesPerHour)
    }
    for (const { from } of this.ran.values())
      expect(this.runningAt(from)).toBeLessThanOrEqual(limits.concurrentSandboxes)
    const days = new Set([...this.ran.values()].map(({ from }) => from - (from % day)))
    for (const from of days) {
      expect(this.hoursOn(from)).toBeLessThanOrEqual(limits.hoursPerDay)
      expect(this.hoursOn(from) * price).toBeLessThanOrEqual(limits.moneyPerDay + 1e-9)
    }
  }
}

const seeds = seedsOf(4, 24)
let given = 0

test.each(seeds)('[FIRE19] seed %d: whatever happens, the bound is not passed', async (seed) => {
  const chaos = new Chaos(seed, true)
  for (let i = 0; i < 150; i++) await chaos.step()
  chaos.checkBound()
  given += chaos.places.length
})

// Otherwise nothing was put to the test. One seed alone may be refused nearly everything.
afterAll(() => expect(given).toBeGreaterThan(seeds.length))

test.each(seeds)('[FIRE19] seed %d: after a reconciliation there is no orphan', async (seed) => {
  const chaos = new Chaos(seed, false)
  for (let i = 0; i < 100; i++) await chaos.step()
  await chaos.lift()
  // One more place, so that there is a reason to look.
  await chaos.world.pass(day)
  expect((await chaos.world.reserve('last')).granted).toBe(true)
  await chaos.world.pass(30 * 60_000)
  const live = chaos.world
    .sql()
    .all<{ name: string }>(
      `select session_id || '.' || generation as name from reservations
       where ended_at is null and orphan_since is null and until > ?`,
      chaos.world.now,
    )
    .map(({ name }) => name)
  for (const name of chaos.world.sandboxes.running.keys()) expect(live).toContain(name)
})

test.each(seeds)('[FIRE19] seed %d: a kill switch is final', async (seed) => {
  const chaos = new Chaos(seed, false)
  // An organisation that never had a place is in no list: nothing can run for it.
  expect((await chaos.world.reserve('first')).granted).toBe(true)
  for (let i = 0; i < 60; i++) await chaos.step()
  await chaos.lift()
  const { org, deployment } = chaos.world
  await (seed % 2 ? org : deployment).api.firewall.setKillSwitch(
    { on: true, reason: 'the end' },
    'chaos',
  )
  chaos.world.sandboxes.fails = seed % 5
  await chaos.world.pass(10 * 60_000)
  expect([...chaos.world.sandboxes.running.keys()]).toEqual([])
  expect((await chaos.world.org.api.firewall.killSwitch()).liveSandboxes).toBe(0)
  for (let i = 0; i < 10; i++) expect((await chaos.world.reserve(`x${i}`)).granted).toBe(false)
})
