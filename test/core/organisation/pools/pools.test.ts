import { describe, expect, test } from 'vitest'
import { configurationId, WarmWorld } from '../../../support/warm-world.ts'

const filled = async (size = 2, firewall = {}) => {
  const world = new WarmWorld(firewall)
  world.size = size
  await world.fill()
  return world
}
const onlyId = (world: WarmWorld) => world.sessions()[0]![0]
const running = ({ fleet }: WarmWorld) => fleet.world.sandboxes.running.size

describe('a warm session', () => {
  test('[WARM1] a pool is filled to its size with sessions that are ready and nobody’s', async () => {
    const world = await filled(3)
    expect(await world.pool).toEqual({
      size: 3,
      ready: 3,
      starting: 0,
      reason: null,
      retryAt: null,
    })
    const statuses = world.sessions().map(async ([id]) => world.statusOf(id))
    expect(await Promise.all(statuses)).toEqual(['warm', 'warm', 'warm'])
    expect((await world.fleet.world.usage()).concurrentSandboxes).toBe(3)
  })

  test('[WARM2] it takes no prompt and no other work, and says why', async () => {
    const world = await filled(1)
    const id = onlyId(world)
    const { actor } = world.fleet.sessions.get(id)!
    const { caller } = world.fleet
    for (const work of [
      () => actor.api.turns.prompt(caller, { text: 'hi', steer: false }, null),
      () => actor.api.gate.setPolicy(caller, null),
      () => actor.api.budget.set(caller, {}),
      () => actor.api.env.submit(caller, []),
      () => actor.api.sandbox.replace(caller, ''),
    ])
      await expect(work()).rejects.toMatchObject({ code: 'wrong_state' })
    await expect(
      actor.api.turns.prompt(caller, { text: 'hi', steer: false }, null),
    ).rejects.toThrow('session is warm')
    expect(await world.statusOf(id)).toBe('warm')
  })

  test('[WARM3] it does not fall asleep, and leaves before its lifetime ends, for another one', async () => {
    const world = await filled(1, { lifetimeSeconds: 4 * 3600 })
    const first = onlyId(world)
    await world.fleet.pass(3 * 3_600_000)
    expect(await world.statusOf(first)).toBe('warm')
    expect((await world.fleet.state(first)).state).toBe('ready')
    await world.fleet.pass(3_600_000)
    await world.connect()
    expect(world.fleet.sessions.get(first)?.erased).toBe(true)
    expect(world.fleet.world.sandboxes.orders.filter((o) => o.startsWith('snapshot'))).toEqual([])
    expect(await world.pool).toMatchObject({ ready: 1, reason: null })
    expect(running(world)).toBe(1)
  })

  test('[LIFE25] halted before anybody has worked in it, it is stopped and not saved', async () => {
    const world = await filled(1)
    const id = onlyId(world)
    const { organisationId } = world.fleet.caller
    const order = { reason: 'enough', actor: 'kill-switch', saveMs: 20_000 } as const
    const { actor } = world.fleet.sessions.get(id)!
    await actor.api.sandbox.halt({ organisationId, generation: 1 }, order)
    await world.fleet.pass(1000)
    const { orders, running: left } = world.fleet.world.sandboxes
    expect(orders.filter((each) => /^(freeze|snapshot)/.test(each))).toEqual([])
    expect([...left.keys()]).not.toContain(`${id}.1`)
  })
})

describe('claiming', () => {
  test('[WARM4] the creation gets an ordinary session that is ready at once', async () => {
    const world = await filled(1)
    const { now } = world.fleet
    const gate = { deny: ['bash'], ask: [], askTimeoutSeconds: 5 }
    const given = { title: 'mine', gate, clientType: 'cli', idleTimeoutSeconds: 60 }
    const budget = { toolCalls: 7 }
    const session = await world.claim('ses_new', { ...given, budget, replacement: 'manual' })
    expect(session).toMatchObject({
      ...given,
      status: 'open',
      replacement: 'manual',
      createdAt: now,
      configurationId,
      mode: 'coding',
      sandbox: { state: 'ready', generation: 1 },
    })
    const { actor } = world.fleet.sessions.get(session!.id)!
    const events = await actor.api.log.events(world.fleet.caller, 0, 100)
    expect(events.at(-1)).toMatchObject({
      kind: 'session.claimed',
      data: { project: 'default', title: 'mine' },
    })
    expect((await actor.api.budget.view(world.fleet.caller)).limits).toEqual(budget)
    const turn = await actor.api.turns.prompt(
      world.fleet.caller,
      { text: 'hi', steer: false },
      null,
    )
    expect(turn.state).toBe('running')
  })

  test('[WARM4] its idle time counts from then', async () => {
    const world = await filled(1)
    await world.fleet.pass(3_600_000)
    const session = await world.claim('ses_new', { idleTimeoutSeconds: 600 })
    await world.fleet.pass(599_000)
    expect((await world.fleet.state(session!.id)).state).toBe('ready')
    await world.fleet.pass(2000)
    expect((await world.fleet.state(session!.id)).state).toBe('stopped')
  })

  test('[WARM4] [LIFE28] however long it has waited, work in it is saved every ten minutes', async () => {
    const world = await filled(1)
    await world.fleet.pass(3_600_000)
    const { id } = (await world.claim('ses_new'))!
    const session = world.fleet.sessions.get(id)!
    const prompt = { text: 'hi', steer: false }
    const { id: commandId } = await session.actor.api.turns.prompt(world.fleet.caller, prompt, null)
    await session.receive({ t: 'result', commandId, ok: true, data: { sent: true } })
    await world.fleet.pass(25 * 60_000)
    const { orders } = world.fleet.world.sandboxes
    expect(orders.filter((each) => each.startsWith('snapshot'))).toHaveLength(2)
  })

  test('[WARM5] twenty at once get three different ones from a pool of three', async () => {
    const world = await filled(3)
    const claims = Array.from({ length: 20 }, (_, n) => world.claim(`ses_${n}`))
    const got = (await Promise.all(claims)).flatMap((session) => session?.id ?? [])
    expect(got).toHaveLength(3)
    expect(new Set(got).size).toBe(3)
  })

  test('[WARM5] the same creation gets the same one, also twice at once and after a crash in between', async () => {
    const world = await filled(2)
    const claim = { configurationId, version: 'v1', creationId: 'ses_new', isRepeat: false }
    const promised = await world.org.api.pools.claim(claim)
    world.fleet.world.crash()
    const [first, second] = await Promise.all([
      world.claim('ses_new', {}, true),
      world.claim('ses_new', {}, true),
    ])
    expect([first?.id, second?.id]).toEqual([promised, promised])
    await world.fleet.pass(60_000)
    expect((await world.claim('ses_new', {}, true))?.id).toBe(promised)
  })

  test('[WARM5] only who was promised a session can give it back', async () => {
    const world = await filled(2)
    const [first, second] = await Promise.all(
      ['ses_1', 'ses_2'].map((id) => world.org.api.pools.claim(claimOf(id))),
    )
    for (const isGone of [false, true])
      await world.org.api.pools.giveBack({ creationId: 'ses_1', sessionId: second!, isGone })
    expect((await world.claim('ses_2', {}, true))?.id).toBe(second)
    expect(second).not.toBe(first)
  })

  test('[WARM5] late news of one that is promised change nothing', async () => {
    const world = await filled(1)
    const { pools } = world.org.api
    const promised = await pools.claim(claimOf('ses_1'))
    for (const state of ['starting', 'ready', 'ended'] as const)
      await pools.changed(promised!, state, 'late')
    expect(await pools.claim(claimOf('ses_2'))).toBeNull()
    expect(await pools.claim(claimOf('ses_1'))).toBe(promised)
    expect((await world.claim('ses_1', {}, true))?.id).toBe(promised)
  })

  test('[WARM5] a creation that was made without one is not given one later', async () => {
    const world = new WarmWorld()
    const { org } = world
    await org.api.creations.claim('key', 'hash', 'ses_new')
    expect(await world.claim('ses_new')).toBeNull()
    await world.fill()
    expect(await world.pool).toMatchObject({ ready: 2 })
    expect(await world.claim('ses_new')).toBeNull()
    await org.api.creations.claim('before the pool', 'hash', 'ses_old')
    expect(await world.claim('ses_old', {}, true)).toBeNull()
    expect(await world.claim('ses_old')).toBeNull()
    expect(await world.pool).toMatchObject({ ready: 2 })
  })

  test('[WARM6] one that is lost while it is claimed is not given; the session is made cold', async () => {
    const world = await filled(1)
    const id = onlyId(world)
    await world.fleet.sessions.get(id)!.cut()
    expect(await world.org.api.pools.claim(claimOf('ses_new'))).toBe(id)
    expect(await world.claim('ses_new')).toBeNull()
    await world.fleet.pass(60_000)
    expect(world.fleet.sessions.get(id)?.erased).toBe(true)
    expect(await world.claim('ses_new')).toBeNull()
    await world.connect()
    expect(await world.pool).toMatchObject({ ready: 1 })
    expect(running(world)).toBe(1)
  })

  test('[WARM13] one whose machine has died unnoticed is not given; the session is made cold', async () => {
    const world = await filled(1)
    const id = onlyId(world)
    world.fleet.sessions.get(id)!.silentSince = world.fleet.now
    world.fleet.world.now += 60_001
    expect(await world.claim('ses_new')).toBeNull()
    await world.fleet.pass(60_000)
    expect(world.fleet.sessions.get(id)?.erased).toBe(true)
    await world.connect()
    expect([await world.pool, running(world)]).toMatchObject([{ ready: 1 }, 1])
  })

  test('[WARM6] only those that are ready are given', async () => {
    const world = new WarmWorld()
    await world.org.api.pools.watch(configurationId)
    await world.fleet.pass(1000)
    expect(await world.pool).toMatchObject({ ready: 0, starting: 2 })
    expect(await world.org.api.pools.claim(claimOf('ses_1'))).toBeNull()
  })

  test('[WARM7] what is fixed at boot decides: another version, another model, another repository', async () => {
    const world = await filled(1)
    world.version = 'v2'
    expect(await world.claim('ses_0')).toBeNull()
    world.version = 'v1'
    for (const [n, input] of [
      { model: 'scripted' },
      { system_prompt: '' },
      { repository: { url: 'https://example.com/a.git' } },
      { limits: { memoryMb: 512 } },
      { image: 'other' },
      { reasoningEffort: 'deep' },
      { trustProjectConfig: true },
      { sessionType: 'setup' },
      { clientType: 'automation' },
      { sandbox: 'none' },
    ].entries())
      expect([input, await world.claim(`ses_x${n}`, input)]).toEqual([input, null])
    expect(await world.pool).toMatchObject({ ready: 1 })
  })

  test('[WARM7] the session itself looks again, whatever the pool believes', async () => {
    const world = await filled(1)
    const keys = [{ key: 'A', required: true }]
    const file = {
      workspacePath: '.',
      path: '.env',
      format: 'dotenv',
      mode: 'secret',
      keys,
    } as const
    world.configuration = { ...world.configuration!, envFiles: [{ ...file, keys: [...keys] }] }
    expect(await world.claim('ses_new')).toBeNull()
    await world.live(60_000)
    expect((await world.claim('ses_newer'))?.status).toBe('open')
    await world.live(60_000)
    world.secrets = [{ key: 'A', sealed: await seal(world), kind: 'secret' }]
    expect(await world.claim('ses_newest')).toBeNull()
  })

  test('[WARM7] its manifest is that of a cold session', async () => {
    const world = await filled(1)
    const warm = await world.claim('ses_new', { title: 't' })
    await world.fleet.create('ses_cold', {}, world.createOf('ses_cold'))
    const manifestOf = async (id: string) => {
      const { actor } = world.fleet.sessions.get(id)!
      const {
        version: _,
        marker,
        ...rest
      } = await actor.api.agent.manifest({
        ...world.fleet.caller,
        generation: 1,
      })
      const text = JSON.stringify(rest, (key, value: unknown) => (key === 'sha256' ? '' : value))
      return text.replaceAll(marker, 'MARKER').replaceAll(id, 'SESSION')
    }
    await world.fleet.pass(1000)
    expect(await manifestOf(warm!.id)).toBe(await manifestOf('ses_cold'))
    const { sessionId: _, ...coldSpec } = specOf(world, 'ses_cold')
    expect({ ...specOf(world, warm!.id), sessionId: undefined }).toEqual({
      ...coldSpec,
      sessionId: undefined,
    })
  })

  test('[WARM8] who claims one and does not come for it loses it after ten minutes', async () => {
    const world = await filled(1)
    const id = await world.org.api.pools.claim(claimOf('ses_gone'))
    await world.live(20 * 60_000)
    expect(world.fleet.sessions.get(id!)?.erased).toBe(true)
    expect(await world.pool).toMatchObject({ ready: 1 })
    expect(running(world)).toBe(1)
  })

  test('[WARM8] a refusal of what was asked for leaves the session to others', async () => {
    const world = await filled(1)
    world.configuration = { ...world.configuration!, defaultModel: 'no such model' }
    await expect(world.claim('ses_bad')).rejects.toMatchObject({ code: 'unprocessable' })
    world.configuration = { ...world.configuration, defaultModel: null }
    expect((await world.claim('ses_good'))?.status).toBe('open')
  })

  test('[WARM8] a key whose session was deleted does not bring it back', async () => {
    const world = await filled(1)
    await world.org.api.creations.claim('key', 'hash', 'ses_new')
    const session = await world.claim('ses_new')
    await world.fleet.pass(1000)
    await world.org.api.creations.end(session!.id)
    await expect(world.org.api.creations.claim('key', 'hash', 'ses_other')).rejects.toMatchObject({
      code: 'wrong_state',
    })
  })
})

const claimOf = (creationId: string) => ({
  ...{ configurationId, version: 'v1', isRepeat: false },
  creationId,
})

function specOf(world: WarmWorld, id: string) {
  const { token: _, limits: __, ...spec } = world.fleet.world.sandboxes.running.get(`${id}.1`)!.spec
  return spec
}

/** By the one that waits: each session of these tests has a key of its own. */
const seal = (world: WarmWorld) => world.sessions().at(-1)![1].crypto.seal('a new secret')
