import { describe, expect, test } from 'vitest'
import { random, seedsOf } from '../../../support/random.ts'
import { configurationId, WarmWorld } from '../../../support/warm-world.ts'

const filled = async (size = 2, firewall = {}) => {
  const world = new WarmWorld(firewall)
  world.size = size
  await world.fill()
  return world
}
const running = ({ fleet }: WarmWorld) => fleet.world.sandboxes.running.size
const idsOf = (world: WarmWorld) => world.sessions().map(([id]) => id)

describe('a pool', () => {
  test('[WARM9] it is filled again when one is claimed', async () => {
    const world = await filled(2)
    await world.claim('ses_new')
    await world.fleet.pass(1000)
    expect(await world.pool).toMatchObject({ ready: 1, starting: 1 })
    await world.connect()
    expect(await world.pool).toMatchObject({ ready: 2, starting: 0 })
  })

  test('[WARM9] it shrinks and grows with its size, and goes with its configuration', async () => {
    const world = await filled(3)
    world.size = 1
    await world.fill()
    expect([await world.pool, running(world)]).toMatchObject([{ size: 1, ready: 1 }, 1])
    world.size = 2
    await world.fill()
    expect([await world.pool, running(world)]).toMatchObject([{ size: 2, ready: 2 }, 2])
    world.configuration = null
    await world.fill()
    expect([await world.pool, running(world)]).toMatchObject([{ size: 0, ready: 0 }, 0])
    await world.fleet.pass(3_600_000)
    expect(world.fleet.world.deadlines()).not.toContain('warm')
  })

  test('[WARM9] those of a version that is no longer are replaced within minutes, unheard', async () => {
    const world = await filled(2)
    const before = idsOf(world)
    world.version = 'v2'
    await world.live(6 * 60_000)
    expect(idsOf(world).filter((id) => before.includes(id))).toEqual([])
    expect([await world.pool, running(world)]).toMatchObject([{ ready: 2 }, 2])
  })

  test('[WARM9] a claim for another version has the pool looked after at once', async () => {
    const world = await filled(1)
    world.version = 'v2'
    expect(await world.claim('ses_new')).toBeNull()
    await world.connect()
    await world.connect()
    expect((await world.claim('ses_newer'))?.status).toBe('open')
  })

  test('[WARM9] while libSQL is away it stays as it is', async () => {
    const world = await filled(2)
    world.isAway = true
    await world.fleet.pass(3_600_000)
    expect([await world.pool, running(world)]).toMatchObject([{ ready: 2 }, 2])
    expect((await world.claim('ses_new'))?.status).toBe('open')
    world.isAway = false
    await world.live(6 * 60_000)
    expect(await world.pool).toMatchObject({ ready: 2 })
  })

  test('[WARM9] one that becomes ready while the pool hears that it starts is told as ready', async () => {
    const world = new WarmWorld()
    world.size = 1
    const { pools } = world.org.api
    const changed = pools.changed.bind(pools)
    let ready = (): void => undefined
    const isReady = new Promise<void>((resolve) => (ready = resolve))
    pools.changed = async (id, state, reason) => {
      if (state === 'starting') await isReady
      await changed(id, state, reason)
    }
    await world.fill()
    // That it starts is heard last, after it has said that it is ready.
    ready()
    await world.connect()
    expect(await world.pool).toMatchObject({ ready: 1, starting: 0 })
  })

  test('[WARM9] one that somebody closes or deletes is replaced', async () => {
    const world = await filled(2)
    const [first, second] = idsOf(world) as [string, string]
    const { caller, sessions } = world.fleet
    await sessions.get(first)!.actor.api.self.close(caller, 'by hand')
    await world.org.api.creations.end(second)
    await sessions.get(second)!.actor.api.self.erase(caller)
    await world.live(6 * 60_000)
    expect([await world.pool, running(world)]).toMatchObject([{ ready: 2 }, 2])
  })

  test('[WARM9] one that dies while it waits comes back by itself, under the same id', async () => {
    const world = await filled(1)
    const [id] = idsOf(world) as [string]
    await world.fleet.pass(3_600_000)
    world.fleet.world.sandboxes.say(1, 'exited', 'gone')
    await world.fleet.sessions.get(id)!.cut()
    await world.fleet.pass(60_000)
    expect(await world.pool).toMatchObject({ ready: 0, starting: 1 })
    await world.connect()
    expect(await world.pool).toMatchObject({ ready: 1 })
    const claimed = await world.claim('ses_new')
    expect(claimed).toMatchObject({ id, sandbox: { state: 'ready', generation: 2 } })
  })
})

describe('limits', () => {
  test('[WARM10] it takes no more places than there are, and says why it is not full', async () => {
    const world = await filled(5, { concurrentSandboxes: 3 })
    expect([await world.pool, running(world)]).toMatchObject([{ ready: 3, starting: 0 }, 3])
    await world.fleet.pass(3_600_000)
    expect(world.sessions()).toHaveLength(3)
    expect((await world.pool).reason).toContain('concurrentSandboxes')
  })

  test('[WARM10] its sandboxes count in the hour like any other', async () => {
    const world = await filled(5, { sandboxesPerHour: 2 })
    expect(await world.pool).toMatchObject({ ready: 2, starting: 0 })
    await world.fleet.pass(30 * 60_000)
    expect(world.sessions()).toHaveLength(2)
    expect((await world.fleet.world.usage()).sandboxesLastHour).toBe(2)
  })

  test('[WARM10] it makes no more than the hour has left, and none that would wait', async () => {
    const world = await filled(2, { sandboxesPerHour: 3 })
    await world.fleet.pass(30 * 60_000)
    world.size = 5
    await world.fill()
    expect([await world.pool, world.sessions().length]).toMatchObject([
      { ready: 3, starting: 0 },
      3,
    ])
  })

  test('[WARM10] a session that finds no place is given one that only waited', async () => {
    const world = await filled(2, { concurrentSandboxes: 2 })
    const cold = await world.fleet.create('ses_cold')
    await world.fleet.pass(60_000)
    expect((await world.fleet.state('ses_cold')).state).toBe('booting')
    await cold.connect()
    await world.live(10 * 60_000)
    expect((await world.fleet.world.usage()).concurrentSandboxes).toBe(2)
    expect(await world.pool).toMatchObject({ ready: 1, starting: 0 })
  })

  test('[WARM10] a kill switch empties it, and it is filled again once that is lifted', async () => {
    const world = await filled(2)
    await world.org.api.firewall.setKillSwitch({ on: true, reason: 'stop' }, 'key')
    await world.fleet.pass(60_000)
    expect([running(world), (await world.pool).ready]).toEqual([0, 0])
    expect(await world.claim('ses_new')).toBeNull()
    await world.fleet.pass(3_600_000)
    expect(running(world)).toBe(0)
    await world.org.api.firewall.setKillSwitch({ on: false, reason: '' }, 'key')
    await world.live(6 * 60_000)
    expect(await world.pool).toMatchObject({ ready: 2 })
  })
})

describe('failures', () => {
  test('[WARM11] what never becomes ready is tried more and more seldom, one at a time', async () => {
    const world = new WarmWorld({ breakerFailures: 1000 })
    world.size = 3
    await world.org.api.pools.watch(configurationId)
    await world.fleet.pass(6 * 3_600_000)
    const { sandboxesLastHour } = await world.fleet.world.usage()
    // Three sandboxes in each of at most two starts an hour.
    expect(sandboxesLastHour).toBeLessThanOrEqual(6)
    expect(world.sessions().length).toBeLessThanOrEqual(1)
    expect(await world.pool).toMatchObject({ ready: 0 })
    expect((await world.pool).reason).toContain('Not ready within')
    await world.fleet.pass(3_600_000)
    for (let tries = 0; tries < 40 && (await world.pool).ready < 3; tries += 1) {
      await world.fleet.pass(60_000)
      await world.connect()
    }
    expect(await world.pool).toMatchObject({ ready: 3, reason: null })
  })

  test('[WARM11] an open breaker is not asked for places', async () => {
    const world = new WarmWorld({ breakerFailures: 1 })
    world.size = 3
    await world.org.api.pools.watch(configurationId)
    await world.fleet.pass(3_600_000)
    expect(world.sessions().length).toBeLessThanOrEqual(1)
  })

  test('[WARM11] a session that cannot be made is not tried again and again', async () => {
    const world = new WarmWorld()
    world.configuration = { ...world.configuration!, defaultModel: 'no such model' }
    await world.org.api.pools.watch(configurationId)
    await world.fleet.pass(3_600_000)
    const tries = world.fleet.world.calls.filter((call) => call === 'session.create').length
    expect(tries).toBeLessThan(12)
    expect((await world.pool).reason).toContain('no such model')
  })
})

test('[WARM12] whatever is lost between two steps, the pool ends with as many as it should have', async () => {
  for (const seed of seedsOf(3, 24)) {
    const world = new WarmWorld()
    const chance = random(seed)
    const { fleet } = world
    const got = new Set<string>()
    fleet.world.after = (call) => {
      if (chance() < 0.15 && /^(warm|session)\./.test(call)) fleet.world.crash()
    }
    await world.org.api.pools.watch(configurationId)
    for (let step = 0; step < 12; step += 1) {
      if (chance() < 0.3) world.size = 1 + Math.floor(chance() * 3)
      if (chance() < 0.2) world.version = `v${step}`
      if (chance() < 0.5) {
        const session = await world.claim(`ses_${step}`)
        if (session) {
          expect(got.has(session.id)).toBe(false)
          got.add(session.id)
        }
      }
      await fleet.pass(30_000)
      await world.connect()
    }
    fleet.world.after = () => {}
    await world.live(20 * 60_000)
    expect([seed, await world.pool]).toMatchObject([seed, { ready: world.size, starting: 0 }])
    const statuses = await Promise.all(idsOf(world).map((id) => world.statusOf(id)))
    expect(statuses.filter((status) => status === 'warm')).toHaveLength(world.size)
    expect(running(world)).toBeLessThanOrEqual(world.size + got.size)
  }
}, 240_000)
