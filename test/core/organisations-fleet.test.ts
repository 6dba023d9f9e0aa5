import { expect, test, vi } from 'vitest'
import { Fleet } from '../support/fleet.ts'
import { hour } from '../support/organisation.ts'
import { random } from '../support/random.ts'

vi.setConfig({ testTimeout: 120_000 })

test('[FIRE17] real sessions on a provider that never boots: few creations, and each session ends failed with the reasons', async () => {
  const fleet = new Fleet({ sandboxesPerHour: 40, reconcileSeconds: 300 })
  const bound = await fleet.world.org.worstCase(null)
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
      expect.stringContaining('The kernel panics'),
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
  await ready.actor.prompt(fleet.caller, call, null)
  await fleet.pass(hour)
  expect((await fleet.state('ses_asleep')).state).toBe('stopped')
  const { promise, resolve } = Promise.withResolvers<void>()
  sandboxes.gate = promise
  await fleet.create('ses_creating')
  await fleet.pass(1000)
  sandboxes.gate = Promise.resolve()

  await org.setKillSwitch({ on: true, reason: 'enough' }, 'key')
  await asleep.actor.prompt(fleet.caller, call, null)
  await fleet.pass(10_000)
  resolve()
  await fleet.pass(60_000)
  expect(sandboxes.running.size).toBe(0)
  for (const id of ids) {
    const { actor } = fleet.sessions.get(id)!
    await actor.retrySandbox(fleet.caller, 'again').catch(() => {})
    await fleet.pass(60_000)
    await actor.replaceSandbox(fleet.caller, 'another')
    await fleet.pass(60_000)
    expect([id, (await fleet.state(id)).state]).toEqual([id, 'failed'])
  }
  await fleet.pass(hour)
  expect([sandboxes.running.size, (await org.killSwitch()).liveSandboxes]).toEqual([0, 0])

  await org.setKillSwitch({ on: false, reason: '' }, 'key')
  for (const id of ids) await fleet.sessions.get(id)!.actor.retrySandbox(fleet.caller, 'again')
  await fleet.pass(10_000)
  expect(sandboxes.running.size).toBe(3)
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
    else if (roll < 0.4) await session.actor.replaceSandbox(fleet.caller, 'test').catch(() => {})
    else if (roll < 0.48) await session.actor.retrySandbox(fleet.caller, 'test').catch(() => {})
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
    const { generation } = await session!.actor.view(this.fleet.caller).then((view) => view.sandbox)
    if (this.running().includes(`${id}.${generation}`)) await session!.connect({ generation })
  }

  async #kill(): Promise<void> {
    const { org } = this.fleet.world
    this.release()
    await org.setKillSwitch({ on: true, reason: 'storm' }, 'key')
    await this.fleet.pass(3 * 60_000)
    await org.setKillSwitch({ on: false, reason: '' }, 'key')
  }
}

test.each([1, 7, 10, 11])(
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
    for (const session of fleet.sessions.values()) await session.actor.close(fleet.caller, 'end')
    await fleet.pass(hour)
    expect([...fleet.world.sandboxes.running.keys()]).toEqual([])
    expect((await fleet.world.usage()).concurrentSandboxes).toBe(0)
  },
)
