import { expect, test } from 'vitest'
import { SandboxState } from '../../../../src/contract/sandbox.ts'
import { maxCreates } from '../../../../src/core/session/generations/sandbox-start.ts'
import { agentEvent, notice } from '../../../support/agent.ts'
import { fair, FaultySandboxes } from '../../../support/faulty-sandboxes.ts'
import { answer, runningIn, viewOf } from '../../../support/lifecycle.ts'
import { testCaller, TestSession } from '../../../support/session.ts'
import { isLong } from '../../../support/long.ts'
import { seedsOf } from '../../../support/random.ts'

/** Small and the same everywhere: a failing seed can be run again. */
function randomOf(seed: number) {
  let state = seed * 7919
  return (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const seeds = seedsOf(3, 16)
const stories = 4
const steps = 60

const weights = {
  ...{ prompt: 4, connect: 12, end: 5, pass: 14, notices: 2, call: 2, fail: 1, cut: 2, view: 1 },
  ...{ weather: 6, release: 4, vanish: 3, exit: 2, organisation: 3, snapshots: 1, restart: 4 },
  ...{ replace: 2, retry: 3, abort: 1, silence: 1 },
}
const weighted = Object.entries(weights).flatMap(([name, weight]) =>
  Array.from({ length: weight }, () => name as keyof typeof weights),
)

/** States, and kinds of events, that any of the stories has come by. */
const seen = new Set<string>()

/** What each state waits for: without it nothing would ever happen any more. */
const exits: Record<string, (generation: number) => string[]> = {
  requested: (generation) => [`sandbox.create:${generation}`, 'sandbox.start'],
  creating: (generation) => [`sandbox.create:${generation}`, 'sandbox.start'],
  booting: () => ['sandbox.boot', 'sandbox.start'],
  suspect: () => ['sandbox.check'],
  ready: () => ['sandbox.idle', 'sandbox.extend', 'sandbox.pulse'],
  replacing: () => ['sandbox.next', 'sandbox.start'],
  stopping: (generation) => [`sandbox.stop:${generation}`],
}

/** Sandboxes that do not come, come twice, come late, vanish and die; a control plane that dies; an organisation that is away. */
class Story {
  readonly session = new TestSession()
  readonly told: string[] = []
  readonly #random: (below: number) => number
  readonly #line: FaultySandboxes
  readonly #agentSeqs = new Map<number, number>()
  #generation = 1
  /** Whose link it is. */
  #linked = 0

  constructor(seed: number) {
    this.#random = randomOf(seed)
    this.#line = new FaultySandboxes(this.session.sandboxes, this.#random)
    this.session.provider = this.#line
    this.session.organisation.lifetimeSeconds = 3 * 3600
  }

  begin() {
    return this.session.create({
      sandbox: 'local',
      idleTimeoutSeconds: [60, 600, 1800][this.#random(3)],
      replacement: this.#random(8) === 0 ? 'manual' : 'auto',
    })
  }

  #pick<T>(items: readonly T[]): T | undefined {
    return items[this.#random(Math.max(1, items.length))]
  }

  readonly #steps: Record<keyof typeof weights, () => unknown> = {
    prompt: () =>
      this.session.actor.api.turns.prompt(testCaller, { text: 'x', steer: false }, null),
    view: () => viewOf(this.session),
    call: () => this.session.call('noop', `id ${this.#random(1000)}`, {}, this.#generation),
    connect: () => this.#connect(this.#random(4) > 0),
    notices: () => this.#tell(),
    end: () => this.#end(),
    fail: () => this.#random(3) === 0 && this.#up({ t: 'failed', reason: 'broken' }),
    cut: () => this.session.cut(this.#linked),
    pass: () =>
      this.session.pass(this.#pick([0, 1000, 5000, 15_000, 70_000, 130_000, 700_000]) ?? 0),
    weather: () => {
      const bad = { lost: this.#random(60), answerLost: this.#random(40), slow: this.#random(40) }
      this.#line.weather = this.#random(3) === 0 ? fair : bad
      if (this.#random(12) === 0) this.#line.weather = { lost: 100, answerLost: 0, slow: 0 }
    },
    release: () => this.#line.release(),
    vanish: () => {
      const name = this.#pick([...this.session.sandboxes.running.keys()])
      if (name !== undefined) this.session.sandboxes.running.delete(name)
    },
    exit: () => {
      const generation = this.#pick(runningIn(this.session))
      if (generation !== undefined) this.session.sandboxes.say(generation, 'exited', 'died')
    },
    snapshots: () => {
      this.#line.snapshotsFail = this.#random(3) === 0
    },
    organisation: () => {
      const { organisation } = this.session
      organisation.fails = this.#random(4)
      organisation.losesAnswers = this.#random(3)
      const retryAt = this.#random(6) === 0 ? null : this.session.now + this.#random(100_000)
      if (this.#random(3) === 0)
        organisation.refusals = [{ granted: false, reason: 'full', retryAt }]
    },
    restart: async () => {
      await this.#line.abandon()
      this.session.restart()
    },
    replace: () =>
      this.#random(3) === 0 && this.session.actor.api.sandbox.replace(testCaller, 'by hand'),
    retry: () => this.session.actor.api.sandbox.retry(testCaller, 'again'),
    abort: () => this.session.actor.api.self.abort(testCaller, ''),
    silence: () => void (this.session.silentSince = this.session.now),
  }

  /** Some machine calls, perhaps an old one: it does not know that it is. */
  async #connect(ready: boolean, generation = this.#pick(runningIn(this.session))): Promise<void> {
    if (generation === undefined || !this.#isAlive(generation)) return
    // The host knows one link: a stranger is turned away at the door, before the socket is there.
    const caller = { organisationId: testCaller.organisationId, generation }
    await this.session.actor.api.agent.authorise(caller)
    this.#linked = generation
    this.session.silentSince = null
    await this.session.connect({ ready, generation })
  }

  #isAlive(generation: number): boolean {
    return [...this.session.sandboxes.running.values()].some(
      ({ spec, info }) => spec.generation === generation && info.state === 'running',
    )
  }

  #up(message: Parameters<TestSession['receive']>[0]) {
    return this.session.linked ? this.session.receive(message, this.#linked) : undefined
  }

  #nextSeq(): number {
    const seq = (this.#agentSeqs.get(this.#linked) ?? 0) + 1
    this.#agentSeqs.set(this.#linked, seq)
    return seq
  }

  async #tell(): Promise<void> {
    if (this.session.linked) await this.#up({ t: 'events', items: [notice(this.#nextSeq())] })
  }

  async #end(): Promise<void> {
    const { turn } = await viewOf(this.session)
    if (turn === null || !this.session.linked) return
    const how = this.#random(3)
    if (how === 0) await this.#up({ t: 'result', commandId: turn, ok: false, error: 'no' })
    else if (how === 1)
      await answer(this.session, turn, { seq: this.#nextSeq(), generation: this.#linked })
    else {
      const data = { turnId: turn, state: 'failed', reason: 'x', text: null, diff: null }
      await this.#up({ t: 'events', items: [agentEvent(this.#nextSeq(), 'turn.ended', data)] })
    }
  }

  async step(): Promise<void> {
    const name = weighted[this.#random(weighted.length)] as keyof typeof weights
    this.told.push(name)
    await Promise.resolve(this.#steps[name]()).catch((error: unknown) => {
      // A refusal is an answer; anything else is a bug.
      if (typeof (error as { code?: unknown }).code !== 'string') throw error
    })
    await this.session.settle()
    await this.check()
  }

  async check(): Promise<void> {
    const { session } = this
    const deadlines = session.deadlines()
    const { sandbox, status } = await viewOf(session)
    const count = (query: string) =>
      session.sql.all<{ n: number }>(`select count(*) as n from ${query}`)[0]?.n ?? 0
    expect(sandbox.generation, 'generations go up').toBeGreaterThanOrEqual(this.#generation)
    this.#generation = sandbox.generation
    if (status === 'open')
      for (const name of exits[sandbox.state]?.(sandbox.generation) ?? [])
        expect(deadlines, `${sandbox.state} has a way out`).toHaveProperty([name])
    expect(session.armedAt, 'the alarm stands at the first deadline').toBe(
      Object.keys(deadlines).length === 0 ? null : Math.min(...Object.values(deadlines)),
    )
    const [start] = session.sql.all<{ creates: number }>('select creates from sandbox_start')
    expect(start?.creates, 'creations are bounded').toBeLessThanOrEqual(maxCreates)
    expect(sandbox.failures.length).toBeLessThanOrEqual(5)
    expect(count(`turns where state = 'running'`), 'one turn').toBeLessThanOrEqual(1)
    if (!['ready', 'suspect', 'booting'].includes(sandbox.state))
      expect(count(`turns where state = 'running'`), `no turn while ${sandbox.state}`).toBe(0)
    this.#checkMachines(sandbox.generation, sandbox.state, deadlines)
    this.#checkStarts(sandbox.generation)
  }

  /** A machine that is not the session's is being stopped, or its creation is still watched. */
  #checkMachines(current: number, state: string, deadlines: Record<string, number>): void {
    const over = ['lost', 'failed', 'stopping', 'stopped', 'replacing'].includes(state)
    for (const generation of runningIn(this.session)) {
      if (generation === current && !over) continue
      const watched = [`sandbox.stop:${generation}`, `sandbox.create:${generation}`]
      expect(
        watched.some((name) => name in deadlines),
        `generation ${generation} of ${current} (${state}) will be stopped`,
      ).toBe(true)
    }
    // Nobody has a machine without a place.
    const places = new Set([...this.session.organisation.places.keys()])
    for (const name of this.session.sandboxes.running.keys())
      expect(places.has(name), `${name} has a place`).toBe(true)
  }

  /** No turn is ever sent to two sandboxes. */
  #checkStarts(generation: number): void {
    const twice = this.session.sql.all(
      `select data ->> 'turnId' as turn, count(*) as n from events where kind = 'turn.started' group by 1 having n > 1`,
    )
    expect(twice, `a turn begins once, generation ${generation}`).toEqual([])
  }

  /** The weather clears, and agents call: the session comes to rest, and nothing is left over. */
  async comeToRest(): Promise<void> {
    const { session } = this
    this.#line.weather = fair
    this.#line.snapshotsFail = false
    Object.assign(session.organisation, { fails: 0, losesAnswers: 0, refusals: [] })
    this.#line.release()
    await session.settle()
    for (let round = 0; round < 60; round += 1) {
      // A link may outlive its machine, but nothing is heard of that any more.
      if (session.linked && !this.#isAlive(this.#linked)) session.silentSince ??= session.now
      await session.pass(30_000)
      const { sandbox } = await viewOf(session)
      const isHeard = session.linked && session.silentSince === null
      const resting = { ready: isHeard, failed: true, stopped: true, lost: true }
      const rests = resting[sandbox.state as keyof typeof resting] ?? false
      if (rests && !Object.keys(session.deadlines()).some((name) => /stop:|create:/.test(name)))
        return this.#checkRest()
      await this.#connect(true, sandbox.generation).catch(() => undefined)
      await this.check()
    }
    throw new Error(`It does not come to rest: ${JSON.stringify((await viewOf(session)).sandbox)}`)
  }

  async #checkRest(): Promise<void> {
    const { sandbox, replacement, queuedTurns } = await viewOf(this.session)
    if (sandbox.state === 'stopped') expect(queuedTurns, 'nobody sleeps over a prompt').toBe(0)
    if (sandbox.state === 'lost') expect(replacement, 'only by hand').toBe('manual')
    if (sandbox.state === 'failed') expect(sandbox.failures.length).toBeGreaterThan(0)
    const alive = sandbox.state === 'ready' ? [sandbox.generation] : []
    for (const { kind, state } of this.session.sql.all<{ kind: string; state: string | null }>(
      `select distinct kind, data ->> 'state' as state from events where kind like 'sandbox.%'`,
    ))
      seen.add(state ?? kind)
    expect(runningIn(this.session), 'at most one machine').toEqual(alive)
    expect(this.session.organisation.live(), 'no place is stranded').toEqual(alive)
  }

  async close(): Promise<void> {
    const { session } = this
    await session.actor.api.self.close(testCaller, 'end')
    await session.pass(200_000)
    const view = await viewOf(session)
    expect(view).toMatchObject({ status: 'closed', turn: null, queuedTurns: 0 })
    expect(view.sandbox.state).toBe('stopped')
    expect([runningIn(session), session.organisation.live()]).toEqual([[], []])
  }
}

test.each(seeds)(
  '[LIFE16] whatever fails, a session has at most one sandbox and comes to rest: seed %i',
  { timeout: 240_000 },
  async (seed) => {
    const story = new Story(seed)
    await story.begin()
    try {
      for (let part = 0; part < stories; part += 1) {
        for (let n = 0; n < steps; n += 1) await story.step()
        await story.comeToRest()
      }
      await story.close()
    } catch (error) {
      const { message } = error as Error
      throw new Error(`Seed ${seed}, after: ${story.told.slice(-15).join(', ')}\n${message}`, {
        cause: error,
      })
    }
  },
)

// After the stories, and of enough of them.
if (isLong)
  test('[LIFE16] the stories come by every state', () => {
    const states = SandboxState.options.filter((state) => state !== 'none')
    const kinds = ['sandbox.replaced', 'sandbox.hibernated', 'sandbox.kept']
    expect([...seen].sort()).toEqual([...states, ...kinds].sort())
  })
