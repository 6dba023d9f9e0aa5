import { expect, test } from 'vitest'
import { runEnds } from '../../../../src/contract/run.ts'
import { turnEnds } from '../../../../src/contract/turn.ts'
import { isLong } from '../../../support/long.ts'
import { random, seedsOf } from '../../../support/random.ts'
import { operations, person, policyOf, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'
import { check } from './invariants.ts'

const policy = policyOf({
  rules: [
    { match: { tool: 'bash' }, decision: 'ask', approval: { timeoutSeconds: 40 } },
    {
      match: { tool: 'edit' },
      decision: 'ask',
      approval: { quorum: 2, timeoutSeconds: 90, escalate: { afterSeconds: 30, group: 'g' } },
    },
  ],
  groups: { g: [person('c').keyId] },
})
const people = [testCaller, person('a'), person('b'), person('c')]
const tools = ['read', 'read', 'bash', 'bash', 'edit', 'webfetch']
const kinds = ['allow', 'ask', 'deny'] as const
const policies = [
  'never',
  'after-abandoned',
  'after-failure',
  'after-failure-or-abandoned',
] as const

/** Anything in any order; what makes things happen comes more often than what ends them. */
const weights = {
  ...{ prompt: 6, createRun: 4, ask: 9, askAgain: 1, resolve: 9, operation: 9, resume: 6 },
  ...{ result: 9, retry: 6, executeAttempt: 6, abandon: 1, endTurn: 3, step: 2, event: 1 },
  ...{ checkpoint: 1, change: 1, finish: 1, abort: 1, raise: 4, unlimit: 3, bypass: 1 },
  ...{ pass: 5, restart: 1, cut: 1, replace: 1, away: 1, back: 4 },
}
type Step = keyof typeof weights
const weighted = (Object.keys(weights) as Step[]).flatMap((name) =>
  Array.from({ length: weights[name] }, () => name),
)

/** Over all stories: what never comes about is not tested. */
const seen = new Set<string>()

class Story {
  readonly world = new RunWorld()
  readonly told: string[] = []
  /** What the agents have begun, in order. */
  readonly begun = new Set<string>()
  readonly #random: () => number
  #asks: string[] = []

  constructor(seed: number) {
    this.#random = random(seed)
  }

  #pick<T>(list: readonly T[]): T | undefined {
    return list[Math.floor(this.#random() * list.length)]
  }
  #id(query: string): string | undefined {
    return this.#pick(this.world.sql.all<{ id: string }>(`select id from ${query}`))?.id
  }
  async #when(query: string, work: (id: string) => unknown): Promise<void> {
    const id = this.#id(query)
    if (id !== undefined) await work(id)
  }

  readonly #steps: Record<Step, () => unknown> = {
    prompt: () => {
      const runId = this.#random() < 0.4 ? this.#id('runs order by n desc limit 4') : undefined
      const steer = this.#random() < 0.2
      return this.world.prompt('x', { steer, ...(runId === undefined ? {} : { runId }) })
    },
    createRun: () => this.world.createRun('x', this.#random() < 0.5 ? 'key' : null),
    ask: async () => {
      if (!this.world.linked) return
      const tool = this.#pick(tools) ?? ''
      this.#asks.push(await this.world.ask(tool, tool === 'edit' ? { filePath: 'a' } : undefined))
    },
    askAgain: () => {
      const ask = this.#pick(this.#asks)
      return ask && this.world.linked ? this.world.askAs(ask, 'read') : undefined
    },
    resolve: () =>
      this.#when(`approvals order by state = 'pending' desc, n desc limit 4`, (id) =>
        this.world.resolve(
          id,
          this.#pick(['approved', 'approved', 'rejected', 'cancelled'] as const),
          this.#pick(people),
          this.#random() < 0.3 ? { remember: { scope: 'run', expiresInSeconds: 60 } } : {},
        ),
      ),
    operation: () =>
      this.#when('runs order by completed_at is null desc, n desc limit 4', (runId) =>
        this.world.execute(runId, operations[this.#pick(kinds) ?? 'allow'], {
          evaluateOnly: this.#random() < 0.1,
          idempotencyKey: this.#random() < 0.2 ? `k${Math.floor(this.#random() * 5)}` : null,
        }),
      ),
    resume: () =>
      this.#when(`approvals order by state = 'approved' desc, n desc limit 4`, (id) =>
        this.world.resume(id),
      ),
    result: async () => {
      const id = this.#pick([...this.begun].slice(-4))
      const status = this.#pick(['succeeded', 'succeeded', 'failed', 'failed', 'unknown'] as const)
      if (!id || !status || !this.world.linked) return
      await this.world.result(id, { status }, this.#random() < 0.9)
    },
    retry: () =>
      this.#when(
        `operations where id in (select operation_id from attempts) order by n desc limit 4`,
        async (id) => {
          const chosen = this.#pick(policies) ?? 'never'
          const evaluation = await this.world.actor.api.operations.evaluateRetry(
            testCaller,
            id,
            chosen,
          )
          const admitted = this.world.actor.api.operations
            .admitRetry(testCaller, id, chosen)
            .then(() => true)
          const ended = this.world.sql.all(
            `select 1 from runs where id = (select run_id from operations where id = ?) and completed_at is not null`,
            id,
          )
          const isAdmitted = await admitted.catch(() => false)
          expect(isAdmitted).toBe(evaluation.allowed && ended.length === 0)
        },
      ),
    executeAttempt: () =>
      this.#when(`attempts order by dispatched, n desc limit 4`, (id) =>
        this.world.actor.api.operations.executeAttempt(testCaller, id),
      ),
    abandon: () =>
      this.#when(`attempts order by status = 'reserved' desc, n desc limit 3`, (id) =>
        this.world.actor.api.operations.abandon(testCaller, id, 'x'),
      ),
    endTurn: () =>
      this.world.linked
        ? this.#when(`turns where state = 'running'`, (id) =>
            this.world.endTurn({ id }, this.#pick(turnEnds)),
          )
        : undefined,
    step: () =>
      this.world.linked ? this.world.step(null, { input: 50 * this.#random() }) : undefined,
    event: () =>
      this.#when('runs order by n desc limit 3', (id) =>
        this.world.actor.api.runs.addEvent(testCaller, id, {
          kind: 'memory.read',
          data: { a: 'ü' },
        }),
      ),
    checkpoint: () =>
      this.#when('runs order by n desc limit 3', async (id) => {
        await this.world.actor.api.runs.addCheckpoint(testCaller, id, { label: 'l', state: [null] })
        await this.world.actor.api.runs.resume(testCaller, id, null)
      }),
    change: () =>
      this.#when('runs order by n desc limit 3', (id) =>
        this.world.actor.api.runs.change(testCaller, id, {
          status: this.#pick(['planned', 'running'] as const) ?? 'running',
          phase: `p${Math.floor(this.#random() * 3)}`,
          reason: '',
        }),
      ),
    finish: () =>
      this.#when('runs order by n desc limit 4', (id) =>
        this.world.finish(id, this.#pick(runEnds)),
      ),
    abort: () => this.world.actor.api.self.abort(testCaller, ''),
    raise: async () => {
      const { used } = await this.world.actor.api.budget.view(testCaller)
      const toolCalls = used.toolCalls + Math.floor(this.#random() * 15)
      const tokens = used.tokens + Math.floor(this.#random() * 400)
      const wallSeconds = Math.floor(used.wallSeconds) + 1 + Math.floor(this.#random() * 300)
      return this.world.actor.api.budget.set(testCaller, { toolCalls, tokens, wallSeconds })
    },
    unlimit: () => this.world.actor.api.budget.set(testCaller, {}),
    bypass: () => {
      if (!this.world.linked || this.#random() < 0.7) return undefined
      const part = { turnId: null, sessionId: 's', messageId: 'm', partId: 'p' }
      return this.world.emit(['gate.bypassed', { ...part, tool: 'bash', callId: 'c', input: {} }])
    },
    pass: () => this.world.pass(this.#pick([0, 500, 3000, 20_000, 45_000, 130_000]) ?? 0),
    restart: () => this.world.restart(),
    cut: () => this.world.cut(this.world.generation),
    replace: () =>
      this.#random() < 0.5 ? this.world.actor.api.sandbox.replace(testCaller, 'x') : undefined,
    away: () => {
      if (this.#random() < 0.5) this.world.organisation.budgetAway = true
      else this.world.organisation.losesBudgetAnswers = 1
    },
    back: () => void (this.world.organisation.budgetAway = false),
  }

  /** The agent of the present sandbox is there, and has begun what it was told to. */
  async #attend(): Promise<void> {
    const { sandbox } = await this.world.actor.api.self.view(testCaller)
    if (sandbox.generation !== this.world.generation) {
      await this.world.meetNext()
      this.world.generation = sandbox.generation
    }
    if (!this.world.linked && this.#random() < 0.5) await this.world.meet()
  }

  #look(): void {
    for (const { id } of this.world.executes()) {
      if (this.begun.has(id)) continue
      this.begun.add(id)
    }
  }

  async step(): Promise<void> {
    const name = this.#pick(weighted) as Step
    this.told.push(name)
    await Promise.resolve(this.#steps[name]()).catch((error: unknown) => {
      // A refusal is an answer; anything else is a bug.
      if (typeof (error as { code?: unknown }).code !== 'string') throw error
    })
    await this.world.settle()
    this.#look()
    await this.#attend()
    this.#look()
    check(this.world, this.begun)
  }

  #note(): void {
    const states = [
      `'run ' || status from runs`,
      `'approval ' || kind || ' ' || state from approvals`,
      `'approval by ' || case when actor like 'key%' then 'key' else actor end from approvals`,
      `'attempt ' || status || case when sequence > 1 then ' again' else '' end from attempts`,
      `'entry ' || kind from run_events`,
      `'ask by ' || case when actor like 'key%' then 'key' else actor end from asks`,
      `'suspect' from attempts where suspect_since is not null`,
      `'grant' from grants`,
    ]
    for (const state of states) {
      const found = this.world.sql.all<{ name: string }>(
        `select distinct ${state.replace(' from', ' as name from')}`,
      )
      for (const { name } of found) seen.add(name)
    }
  }

  /** Every run has an exit, and a closed session waits for nothing. */
  async finish(): Promise<void> {
    const { world } = this
    world.organisation.budgetAway = false
    world.organisation.losesBudgetAnswers = 0
    const open = world.rowsOf<{ id: string; status: string }>('runs where completed_at is null')
    for (const { id } of open.slice(0, Math.ceil(open.length / 2)))
      await world.finish(id, 'blocked')
    check(world, this.begun)
    await world.actor.api.self.close(testCaller, 'end')
    check(world, this.begun)
    await world.pass(200_000)
    check(world, this.begun)
    expect(world.rowsOf('runs where completed_at is null')).toEqual([])
    expect(world.rowsOf(`approvals where state = 'pending'`)).toEqual([])
    expect(world.rowsOf(`asks where state = 'open'`)).toEqual([])
    const names = Object.keys(world.deadlines()).filter(
      (name) => !/^(purge|outbox|webhook)/.test(name),
    )
    expect(names).toEqual([])
    for (const { id } of world.rowsOf<{ id: string }>('runs')) {
      const { ok, problems, head, entries } = await world.verify(id)
      expect([ok, problems, head?.seq]).toEqual([true, [], entries])
    }
    this.#note()
    for (const { id } of world.rowsOf<{ id: string }>(`attempts where status = 'reserved'`))
      await world.actor.api.operations.abandon(testCaller, id, 'end')
  }
}

test.each(seedsOf(4, 30))(
  '[RUN2] [RUN8] [APR2] [ATT13] invariants hold after every step of any story: seed %i',
  { timeout: 240_000 },
  async (seed) => {
    const story = new Story(seed)
    await story.world.begin({ budget: { toolCalls: 20 }, idleTimeoutSeconds: null }, policy)
    try {
      for (let n = 0; n < 200; n++) await story.step()
      await story.finish()
    } catch (error) {
      throw new Error(
        `Seed ${seed}, step ${story.told.length}, after: ${story.told.slice(-15).join(', ')}\n${(error as Error).message}`,
        { cause: error },
      )
    }
  },
)

// After the stories, and of enough of them.
if (isLong)
  test('the stories come by everything that can happen', () => {
    const expected = [
      ...['completed', 'failed', 'blocked', 'cancelled'].map((status) => `run ${status}`),
      ...['approved', 'rejected', 'cancelled'].flatMap((state) => [
        `approval gate ${state}`,
        `approval operation ${state}`,
      ]),
      ...['succeeded', 'failed', 'abandoned', 'reserved'].flatMap((status) => [
        `attempt ${status}`,
        `attempt ${status} again`,
      ]),
      ...['key', 'deadline', 'abort', 'close', 'turn-end', 'run-end', 'replace'].map(
        (actor) => `approval by ${actor}`,
      ),
      ...['budget.spent', 'budget.warned', 'run.resumed', 'phase.started'].map((k) => `entry ${k}`),
      ...['ask by deadline', 'suspect', 'grant'],
    ]
    expect(expected.filter((name) => !seen.has(name))).toEqual([])
  })
