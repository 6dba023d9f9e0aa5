import { describe, expect, test, vi } from 'vitest'
import { Fleet } from '../../../support/fleet.ts'
import { eventsOf } from '../../../support/lifecycle.ts'
import { hour } from '../../../support/organisation.ts'
import { random, seedsOf } from '../../../support/random.ts'

vi.setConfig({ testTimeout: 120_000 })

test('[FIRE17] real sessions on a provider that never boots: few creations, and each session ends failed with the reasons', async () => {
  const fleet = new Fleet({ sandboxesPerHour: 40, reconcileSeconds: 300 })
  const bound = await fleet.world.org.api.firewall.worstCase(null)
  const { sandboxes } = fleet.world
  const create = sandboxes.create.bind(sandboxes)
  const asked = new Map<string, number>()
  sandboxes.create = async (spec) => {
    const name = `${spec.sessionId}.${spec.generation}`
    asked.set(name, (asked.get(name) ?? 0) + 1)
    const info = await create(spec)
    return { ...info, state: 'exited', reason: 'The kernel panics' }
  }
  for (let i = 0; i < 10; i++) await fleet.create(`ses_${i}`)
  await fleet.pass(6 * hour)
  expect(asked.size).toBeLessThanOrEqual(bound.sandboxesPerDay)
  expect(Math.max(...asked.values())).toBeLessThanOrEqual(bound.createRequestsPerSandbox)
  for (const id of fleet.sessions.keys()) {
    const { state, reason } = await fleet.state(id)
    expect([id, state, reason]).toEqual([
      id,
      'failed',
      // Its own, or that the provider is left alone because of the others.
      expect.stringMatching(/The kernel panics|never connected/),
    ])
  }
  expect(sandboxes.running.size).toBe(0)
  expect((await fleet.world.usage()).concurrentSandboxes).toBe(0)
})

test('[FIRE15] a session whose link looks alive learns from its organisation that its machine is gone', async () => {
  for (const isTold of [true, false]) {
    const fleet = new Fleet()
    if (!isTold) fleet.world.check = async () => {}
    const session = await fleet.create('ses_a')
    await fleet.pass(10_000)
    await session.connect()
    expect((await fleet.state('ses_a')).state).toBe('ready')
    fleet.world.sandboxes.running.delete('ses_a.1')
    await fleet.pass(5 * 60_000)
    const { generation } = await fleet.state('ses_a')
    expect(generation > 1).toBe(isTold)
  }
})

test('[FIRE21] under a kill switch no session gets a machine: not by a prompt, a retry, a replacement, nor by a creation that is under way', async () => {
  const fleet = new Fleet()
  const { org, sandboxes } = fleet.world
  const call = { text: 'x', steer: false }
  const ids = ['ses_asleep', 'ses_ready', 'ses_creating'] as const
  const asleep = await fleet.create('ses_asleep')
  const ready = await fleet.create('ses_ready')
  await fleet.pass(10_000)
  for (const session of [asleep, ready]) await session.connect()
  await ready.actor.api.turns.prompt(fleet.caller, call, null)
  await fleet.pass(hour)
  expect((await fleet.state('ses_asleep')).state).toBe('stopped')
  const { promise, resolve } = Promise.withResolvers<void>()
  sandboxes.gate = promise
  await fleet.create('ses_creating')
  await fleet.pass(1000)
  sandboxes.gate = Promise.resolve()

  await org.api.firewall.setKillSwitch({ on: true, reason: 'enough' }, 'key')
  await asleep.actor.api.turns.prompt(fleet.caller, call, null)
  await fleet.pass(10_000)
  resolve()
  await fleet.pass(60_000)
  expect(sandboxes.running.size).toBe(0)
  for (const id of ids) {
    const { actor } = fleet.sessions.get(id)!
    await actor.api.sandbox.retry(fleet.caller, 'again').catch(() => {})
    await fleet.pass(60_000)
    await actor.api.sandbox.replace(fleet.caller, 'another')
    await fleet.pass(60_000)
    const { state, reason } = await fleet.state(id)
    expect([id, state]).toEqual([id, 'requested'])
    expect(reason).toContain('the kill switch of the organisation is on: enough')
  }
  await fleet.pass(hour)
  expect([sandboxes.running.size, (await org.api.firewall.killSwitch()).liveSandboxes]).toEqual([
    0, 0,
  ])

  await org.api.firewall.setKillSwitch({ on: false, reason: '' }, 'key')
  await fleet.pass(15_000)
  expect(sandboxes.running.size).toBe(3)
})

test('[FIRE23] lifted, a kill switch has lost nothing: what slept goes on at its next prompt, what waited by itself, from what was saved', async () => {
  const fleet = new Fleet()
  const { org, sandboxes } = fleet.world
  const busy = await fleet.create('ses_busy')
  const quiet = await fleet.create('ses_quiet')
  await fleet.pass(0)
  for (const session of [busy, quiet]) await session.connect()
  for (const { files } of sandboxes.running.values()) files.set('work.ts', 'half done')
  await fleet.create('ses_booting')
  await fleet.pass(0)
  const running = await busy.actor.api.turns.prompt(fleet.caller, { text: 'a', steer: false }, null)
  await busy.actor.api.turns.prompt(fleet.caller, { text: 'b', steer: false }, null)

  await org.api.firewall.setKillSwitch({ on: true, reason: 'enough' }, 'key')
  await fleet.pass(5000)
  expect([sandboxes.running.size, (await org.api.firewall.killSwitch()).liveSandboxes]).toEqual([
    0, 0,
  ])
  expect((await busy.actor.api.turns.get(fleet.caller, running.id)).state).toBe('interrupted')
  expect(eventsOf(busy, 'sandbox.hibernated')).toMatchObject([
    { generation: 1, reason: 'The kill switch of the organisation is on: enough' },
  ])
  await fleet.pass(2 * hour)
  expect(sandboxes.running.size).toBe(0)

  await org.api.firewall.setKillSwitch({ on: false, reason: '' }, 'key')
  await fleet.pass(15_000)
  expect([...sandboxes.running.keys()].toSorted()).toEqual(['ses_booting.2', 'ses_busy.2'])
  expect((await fleet.state('ses_quiet')).state).toBe('stopped')
  await quiet.actor.api.turns.prompt(fleet.caller, { text: 'go on', steer: false }, null)
  await fleet.pass(15_000)
  for (const name of ['ses_busy.2', 'ses_quiet.2'])
    expect(sandboxes.running.get(name)?.files.get('work.ts')).toBe('half done')
  expect(
    eventsOf(busy, 'sandbox.changed').map(({ state, reason }) => [state, reason]),
  ).toContainEqual(['creating', 'A place was granted'])
})

describe('before the stack ends', () => {
  test('[FIRE24] every sandbox is saved and sleeps; what waits for one gets it from the next process', async () => {
    const fleet = new Fleet()
    const { deployment, sandboxes } = fleet.world
    const busy = await fleet.create('ses_busy')
    const quiet = await fleet.create('ses_quiet')
    await fleet.pass(0)
    for (const session of [busy, quiet]) await session.connect()
    for (const { files } of sandboxes.running.values()) files.set('work.ts', 'half done')
    for (const text of ['a', 'b'])
      await busy.actor.api.turns.prompt(fleet.caller, { text, steer: false }, null)
    expect(await deployment.api.deployment.putToSleep()).toBe(2)
    await fleet.pass(2000)
    expect(await deployment.api.deployment.putToSleep()).toBe(0)
    expect([sandboxes.running.size, sandboxes.snapshots.size]).toEqual([0, 2])
    await fleet.pass(20_000)
    await deployment.api.deployment.putToSleep()
    await fleet.pass(50_000)
    expect((await fleet.state('ses_busy')).reason).toContain('Gantry is being stopped')
    expect(sandboxes.running.size).toBe(0)

    fleet.world.crash()
    for (const session of [busy, quiet]) session.restart()
    await fleet.pass(15_000)
    expect([...sandboxes.running.keys()]).toEqual(['ses_busy.2'])
    await quiet.actor.api.turns.prompt(fleet.caller, { text: 'go on', steer: false }, null)
    await fleet.pass(1000)
    for (const name of ['ses_busy.2', 'ses_quiet.2'])
      expect(sandboxes.running.get(name)?.files.get('work.ts')).toBe('half done')
  })

  test('[FIRE24] [FIRE13] what runs without a session is left to the reconciler, and not waited for', async () => {
    const fleet = new Fleet()
    const { deployment } = fleet.world
    const session = await fleet.create('ses_a')
    await fleet.pass(0)
    await session.connect()
    await fleet.world.create('stray', 36_000)
    await fleet.pass(61_000)
    expect((await fleet.world.usage()).concurrentSandboxes).toBe(2)
    expect(await deployment.api.deployment.putToSleep()).toBe(1)
    await fleet.pass(2000)
    expect(await deployment.api.deployment.putToSleep()).toBe(0)
  })

  test('[FIRE24] what could not be saved in time is saved by the next process, before its files go', async () => {
    const fleet = new Fleet()
    const { deployment, sandboxes } = fleet.world
    const session = await fleet.create('ses_a')
    await fleet.pass(0)
    await session.connect()
    sandboxes.running.get('ses_a.1')?.files.set('work.ts', 'half done')
    sandboxes.gate = new Promise(() => {})
    expect(await deployment.api.deployment.putToSleep()).toBe(1)
    await fleet.pass(10_000)
    expect(await deployment.api.deployment.putToSleep()).toBe(1)

    sandboxes.gate = Promise.resolve()
    sandboxes.say(1, 'exited', 'The sandbox host was restarted')
    sandboxes.keepsFiles = true
    fleet.world.crash()
    session.restart()
    await fleet.pass(60_000)
    expect(eventsOf(session, 'sandbox.hibernated')).toMatchObject([{ generation: 1 }])
    await session.actor.api.turns.prompt(fleet.caller, { text: 'go on', steer: false }, null)
    await fleet.pass(15_000)
    expect(sandboxes.running.get('ses_a.2')?.files.get('work.ts')).toBe('half done')
  })
})

const limits = {
  sandboxesPerHour: 60,
  concurrentSandboxes: 3,
  hoursPerDay: 30,
  lifetimeSeconds: 3600,
}

/** Sessions come and go, agents connect or not, everything outside fails now and then, instances die. */
class Storm {
  readonly fleet = new Fleet({
    ...limits,
    breakerSeconds: 10,
    breakerMaxSeconds: 60,
    reconcileSeconds: 300,
  })
  readonly #random: () => number
  /** Creations that take their time: what is decided meanwhile does not undo them. */
  #held: { id: string; goOn: () => void }[] = []
  isSlow = true
  most = 0

  constructor(seed: number) {
    this.#random = random(seed)
    const { sandboxes } = this.fleet.world
    const create = sandboxes.create.bind(sandboxes)
    sandboxes.create = async (spec) => {
      if (this.isSlow && this.#random() < 0.5)
        await new Promise<void>((goOn) => this.#held.push({ id: spec.sessionId, goOn }))
      const info = await create(spec)
      this.most = Math.max(this.most, this.running().length)
      return info
    }
  }

  running(): string[] {
    const { running } = this.fleet.world.sandboxes
    return [...running]
      .filter(([, { info, endsAt }]) => info.state === 'running' && endsAt > this.fleet.now)
      .map(([name]) => name)
  }

  /** No creation is under way for as long as that: every adapter gives up after a minute or two. */
  #pass(ms: number): Promise<void> {
    this.release()
    return this.fleet.pass(ms)
  }

  release(): void {
    for (const { goOn } of this.#held.splice(0)) goOn()
  }

  #pick(): string {
    return `ses_${Math.floor(this.#random() * 8)}`
  }

  async step(): Promise<void> {
    const { fleet } = this
    const { world } = fleet
    const id = this.#pick()
    const session = fleet.sessions.get(id)
    const roll = this.#random()
    if (!session) await fleet.create(id, { idleTimeoutSeconds: null })
    else if (roll < 0.3) await this.#connect(id)
    else if (roll < 0.4)
      await session.actor.api.sandbox.replace(fleet.caller, 'test').catch(() => {})
    else if (roll < 0.48)
      await session.actor.api.sandbox.retry(fleet.caller, 'test').catch(() => {})
    else if (roll < 0.54) this.#restart(id)
    else if (roll < 0.6) world.crash()
    else if (roll < 0.66) world.sandboxes.fails = Math.floor(this.#random() * 3)
    else if (roll < 0.7) world.sandboxes.losesAnswers = 1
    else if (roll < 0.74) world.sandboxes.running.delete(this.running()[0] ?? '')
    else if (roll < 0.77) await this.#kill()
    else if (roll < 0.9) await fleet.pass(40_000)
    else await this.#pass(this.#random() * 10 * 60_000)
    await fleet.pass(1000)
  }

  /** Here its orders die with it; one that came true later would be an orphan. */
  #restart(id: string): void {
    this.#held = this.#held.filter((each) => each.id !== id)
    this.fleet.sessions.get(id)?.restart()
  }

  async #connect(id: string): Promise<void> {
    const session = this.fleet.sessions.get(id)
    const { generation } = await session!.actor.api.self
      .view(this.fleet.caller)
      .then((view) => view.sandbox)
    if (this.running().includes(`${id}.${generation}`)) await session!.connect({ generation })
  }

  async #kill(): Promise<void> {
    const { org } = this.fleet.world
    this.release()
    await org.api.firewall.setKillSwitch({ on: true, reason: 'storm' }, 'key')
    await this.fleet.pass(3 * 60_000)
    await org.api.firewall.setKillSwitch({ on: false, reason: '' }, 'key')
  }
}

test.each(seedsOf(2, 12))(
  '[FIRE19] seed %d: real sessions in a storm stay within the bound and leave nothing behind',
  async (seed) => {
    const storm = new Storm(seed)
    const { fleet } = storm
    for (let i = 0; i < 80; i++) await storm.step()
    expect(storm.most).toBeLessThanOrEqual(limits.concurrentSandboxes)
    storm.isSlow = false
    storm.release()
    fleet.world.sandboxes.fails = 0
    fleet.world.sandboxes.losesAnswers = 0
    for (const session of fleet.sessions.values()) session.linked = session.greeted = false
    await fleet.pass(3 * hour)
    for (const id of fleet.sessions.keys()) {
      const { state, generation } = await fleet.state(id)
      expect(['ready', 'failed', 'stopped'], id).toContain(state)
      const own = storm.running().filter((name) => name.startsWith(`${id}.`))
      expect(own.every((name) => name === `${id}.${generation}`)).toBe(true)
    }
    for (const session of fleet.sessions.values())
      await session.actor.api.self.close(fleet.caller, 'end')
    await fleet.pass(hour)
    expect([...fleet.world.sandboxes.running.keys()]).toEqual([])
    expect((await fleet.world.usage()).concurrentSandboxes).toBe(0)
  },
)
