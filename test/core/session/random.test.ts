import { expect, test } from 'vitest'
import { turnEnds } from '../../../src/contract/turn.ts'
import { lastEventSeq } from '../../../src/core/session/log/events.ts'
import { gatewayTool } from '../../../src/core/session/calls/tools/tool.ts'
import { agentEvent, notice, question } from '../../support/agent.ts'
import { testCaller, TestSession } from '../../support/session.ts'
import { testTools } from '../../support/tools.ts'
import { seedsOf } from '../../support/random.ts'

/** Small and the same everywhere: a failing seed can be run again. */
function randomOf(seed: number) {
  let state = seed
  return (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const seeds = seedsOf(4, 24)
const steps = 150

/** What makes a session work comes more often than what breaks it, or nothing would ever be under way. */
const weights = {
  ...{
    prompt: 5,
    call: 5,
    connect: 5,
    ready: 3,
    ask: 5,
    answer: 4,
    end: 3,
    result: 2,
    notices: 3,
    release: 2,
  },
  ...{ pass: 3, cut: 1, restart: 1, abort: 1, fail: 1, replace: 3, provider: 1, libsql: 1 },
}
const weighted = Object.entries(weights).flatMap(([name, weight]) =>
  Array.from({ length: weight }, () => name),
)

/** Anything in any order, with instances that die and links that break; after each step the invariants hold. */
class Story {
  readonly session: TestSession
  readonly told: string[] = []
  readonly #random: (below: number) => number
  /** Runs of tools that must not run twice, by operation. */
  readonly #runs = new Map<string, number>()
  readonly #answers = new Map<string, string>()
  readonly #decisions = new Map<string, string>()
  #held: (() => void)[] = []
  #agentSeq = 0
  #generation = 1
  #highestGeneration = 1
  #asks = 0

  constructor(seed: number) {
    this.#random = randomOf(seed)
    const once = testTools.find(({ definition }) => definition.name === 'noop')
    if (!once) throw new Error('No tool')
    this.session = new TestSession([
      gatewayTool({ ...once, definition: { ...once.definition, name: 'again' }, repeatable: true }),
      gatewayTool({
        definition: { ...once.definition, name: 'once' },
        repeatable: false,
        run: async (_, { operationId }) => {
          this.#runs.set(operationId, (this.#runs.get(operationId) ?? 0) + 1)
          if (this.#random(2) === 0) await new Promise<void>((resolve) => this.#held.push(resolve))
          if (this.#random(6) === 0) throw new Error('boom')
          return { success: this.#random(3) > 0, result: operationId }
        },
      }),
    ])
  }

  async #turns() {
    return (await this.session.actor.api.turns.list(testCaller, { limit: 500, after: null })).items
  }

  readonly #steps: Record<keyof typeof weights, () => unknown> = {
    prompt: () =>
      this.session.actor.api.turns.prompt(
        testCaller,
        { text: 'x', steer: this.#random(4) === 0 },
        this.#random(2) === 0 ? `key ${this.#random(5)}` : null,
      ),
    call: () => {
      const [tool, id] = [this.#random(2) === 0 ? 'once' : 'again', `id ${this.#random(12)}`]
      const text = this.#random(8) === 0 ? 'other' : 'same'
      // Not awaited: it may be held until later, or its instance may die.
      void this.session.call(tool, id, { text }, this.#generation).then(
        ({ body }) => this.#sameAnswer(`${tool} ${id}`, body),
        () => undefined,
      )
    },
    release: () => this.#held.splice(0).forEach((resolve) => resolve()),
    connect: () =>
      this.session.connect({ ready: this.#random(3) > 0, generation: this.#generation }),
    ready: () => this.#up({ t: 'ready', bootMs: 1 }),
    cut: () => this.session.cut(this.#generation),
    restart: () => {
      // What the dead instance was doing never comes to an end.
      this.#held = []
      this.session.restart()
    },
    pass: () =>
      this.session.pass([0, 0, 1000, 1000, 1000, 12_000, 12_000, 130_000][this.#random(8)] ?? 0),
    notices: () => {
      const from = Math.max(1, this.#agentSeq - this.#random(3))
      const to = this.#agentSeq + 1 + this.#random(3)
      this.#agentSeq = this.session.linked ? to : this.#agentSeq
      const items = Array.from({ length: to - from + 1 }, (_, n) => notice(from + n))
      return this.#up({ t: 'events', items })
    },
    end: async () => {
      const turns = await this.#turns()
      const running = turns.find(({ state }) => state === 'running')
      const turn =
        this.#random(3) > 0 && running ? running : turns[this.#random(Math.max(1, turns.length))]
      if (!turn || !this.session.linked) return
      const state = turnEnds[this.#random(turnEnds.length)] as (typeof turnEnds)[number]
      const data = { turnId: turn.id, state, reason: state, text: null, diff: null }
      await this.#up({ t: 'events', items: [agentEvent(++this.#agentSeq, 'turn.ended', data)] })
    },
    result: async () => {
      const commands = this.session.commands()
      const command = commands[this.#random(Math.max(1, commands.length))]
      if (!command) return
      const ok = this.#random(3) > 0
      await this.#up({
        t: 'result',
        commandId: command.id,
        ok,
        data: ok ? { sent: true } : {},
        error: 'no',
      })
    },
    ask: () => {
      const n = this.#random(4) === 0 ? this.#random(this.#asks + 1) : ++this.#asks
      return this.#up(
        question(
          `ask_${String(n).padStart(20, '0')}`,
          ['bash', 'read', 'webfetch'][this.#random(3)] ?? '',
        ),
      )
    },
    answer: async () => {
      const open = (await this.session.actor.api.approvals.list(testCaller, null)).filter(
        ({ state }) => state === 'pending',
      )
      const one = open[this.#random(Math.max(1, open.length))]
      const resolution = this.#random(2) === 0 ? 'approved' : 'rejected'
      if (one)
        await this.session.actor.api.approvals.resolve(testCaller, one.id, {
          resolution,
          reason: '',
        })
    },
    abort: () => this.session.actor.api.self.abort(testCaller, ''),
    fail: () => this.#random(3) === 0 && this.#up({ t: 'failed', reason: 'x' }),
    replace: async () => {
      const { sandbox } = await this.session.actor.api.self.view(testCaller)
      if (!['failed', 'lost'].includes(sandbox.state) && this.#random(4) > 0) return
      await this.session.actor.api.sandbox.replace(testCaller, 'x')
    },
    provider: () => {
      this.session.sandboxes.fails = this.#random(3)
      if (this.#random(5) === 0) this.session.sandboxes.running.clear()
    },
    libsql: () => {
      this.session.ledger.away = this.#random(2) === 0
      if (this.#random(4) === 0) this.session.ledger.lose(this.#random(3))
    },
  }

  #up(message: Parameters<TestSession['receive']>[0]) {
    return this.session.linked ? this.session.receive(message, this.#generation) : undefined
  }

  /** All who ever get an answer to one id get the same one. */
  #sameAnswer(id: string, body: string): void {
    expect(this.#answers.get(id) ?? body).toBe(body)
    this.#answers.set(id, body)
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
    const { sql } = this.session
    const count = (query: string) =>
      sql.all<{ n: number }>(`select count(*) as n from ${query}`)[0]?.n ?? 0
    expect(count('events'), 'events without gaps').toBe(lastEventSeq(sql))
    expect(count(`turns where state = 'running'`), 'one running turn').toBeLessThanOrEqual(1)
    expect(count(`turns where state = 'queued'`), 'a bounded queue').toBeLessThanOrEqual(20)
    for (const [operationId, runs] of this.#runs) expect(runs, `${operationId} ran once`).toBe(1)

    const deadlines = this.session.deadlines()
    const { sandbox, outbox } = await this.session.actor.api.self.view(testCaller)
    expect(sandbox.generation, 'the generation never decreases').toBeGreaterThanOrEqual(
      this.#highestGeneration,
    )
    this.#highestGeneration = sandbox.generation
    // A lost one is replaced by itself: the next agent is the new one's.
    if (this.#generation !== sandbox.generation) this.#agentSeq = 0
    this.#generation = sandbox.generation
    if (count(`asks where state = 'open'`) > 0)
      expect(deadlines, 'an open ask has a deadline').toHaveProperty('approval')
    expect(count(`asks where state = 'open'`), 'each open ask has its approval').toBe(
      count(`approvals where state = 'pending'`),
    )
    expect(
      count(`runs where status not in ('completed', 'failed', 'blocked', 'cancelled')`) > 0 ||
        count(`turns where state in ('queued', 'running')`) === 0,
      'a turn is in an open run',
    ).toBe(true)
    if (outbox.pending > 0)
      expect(
        'outbox' in deadlines || 'outbox.verify' in deadlines,
        'unsent rows have a deadline',
      ).toBe(true)
    if (count(`turns where state = 'running' and abort_requested = 1`) > 0)
      expect(deadlines).toHaveProperty('turn.abort')
    expect(this.session.armedAt, 'the alarm stands at the first deadline').toBe(
      Object.keys(deadlines).length === 0 ? null : Math.min(...Object.values(deadlines)),
    )
    const stuck = {
      requested: `sandbox.create:${sandbox.generation}`,
      creating: `sandbox.create:${sandbox.generation}`,
      booting: 'sandbox.boot',
      suspect: 'sandbox.check',
    }
    const needed = stuck[sandbox.state as keyof typeof stuck]
    if (needed) expect(deadlines, `${sandbox.state} has a way out`).toHaveProperty([needed])
    if (sandbox.state !== 'ready')
      expect(this.#idle(), 'no turn starts without a sandbox').toBe(true)

    for (const ask of sql.all<{ id: string; decision: string | null }>(
      'select id, decision from asks',
    )) {
      const before = this.#decisions.get(ask.id)
      if (before !== undefined) expect(ask.decision, 'an ask is answered once').toBe(before)
      if (ask.decision !== null) this.#decisions.set(ask.id, ask.decision)
    }
    const ends = sql.all<{ turn: string; n: number }>(
      `select data ->> 'turnId' as turn, count(*) as n from events where kind = 'turn.ended' group by 1 having n > 1`,
    )
    expect(ends, 'a turn ends once').toEqual([])
    const decided = sql.all(
      `select data ->> 'askId' as ask, count(*) as n from events where kind = 'gate.decided' group by 1 having n > 1`,
    )
    expect(decided, 'an ask is decided once').toEqual([])
    expect(this.session.missingRows(), 'libSQL has the rows without gaps').toEqual([])
  }

  #started = 0
  /** Whether no turn has started since the last look. */
  #idle(): boolean {
    const started =
      this.session.sql.all<{ n: number }>(
        `select count(*) as n from turns where started_at is not null`,
      )[0]?.n ?? 0
    const idle = started === this.#started
    this.#started = started
    return idle
  }
  look(): void {
    this.#idle()
  }

  /** Everything comes to rest: rows arrive, calls settle, the session can be closed. */
  async finish(): Promise<void> {
    const { session } = this
    session.ledger.away = false
    session.sandboxes.fails = 0
    this.#held.splice(0).forEach((resolve) => resolve())
    await session.settle()
    await session.actor.api.self.close(testCaller, 'end')
    await session.pass(200_000)
    const view = await session.actor.api.self.view(testCaller)
    expect(view).toMatchObject({
      status: 'closed',
      turn: null,
      queuedTurns: 0,
      outbox: { pending: 0 },
    })
    expect(view.sandbox.state).toBe('stopped')
    expect(session.sandboxes.running.size).toBe(0)
    await this.check()
    const kept = session.sql.all(
      `select tool, tool_call_id as toolCallId, state as status, attempts, response as output from calls order by n`,
    )
    const stored = session.ledger.projected<Record<string, unknown>>('call', (call) =>
      JSON.stringify([call['tool'], call['toolCallId']]),
    )
    expect(stored.length, 'libSQL has every call').toBe(kept.length)
    expect(stored, 'as it is in the session').toEqual(
      expect.arrayContaining(kept.map((call) => expect.objectContaining(call))),
    )
  }
}

test.each(seeds)(
  'invariants hold after every step of any story: seed %i',
  { timeout: 240_000 },
  async (seed) => {
    const story = new Story(seed)
    await story.session.create({
      sandbox: 'local',
      gate: { ask: ['bash'], deny: ['webfetch'], askTimeoutSeconds: 20 },
    })
    try {
      for (let n = 0; n < steps; n++) {
        await story.step()
        story.look()
      }
      await story.finish()
    } catch (error) {
      throw new Error(
        `Seed ${seed}, after: ${story.told.slice(-12).join(', ')}\n${(error as Error).message}`,
        { cause: error },
      )
    }
  },
)
