import { describe, expect, test } from 'vitest'
import { ExecutionCreate } from '../../../../src/contract/execution.ts'
import { parseAbilityDefinition } from '../../../../src/core/abilities/definition.ts'
import type { AbilityCopy } from '../../../../src/core/session/executions/rows.ts'
import { agentEvent } from '../../../support/agent.ts'
import { isLong } from '../../../support/long.ts'
import { random, seedsOf } from '../../../support/random.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

const copyOf = (yaml: string): AbilityCopy => {
  const parsed = parseAbilityDefinition(yaml, null)
  if ('errors' in parsed) throw new Error(JSON.stringify(parsed.errors))
  const { name } = parsed.ability
  return { name, version: 1, hash: name.padEnd(64, '0'), definition: parsed.ability, files: [] }
}

const inner = copyOf('{ name: inner, description: d, steps: [{ id: x, run: echo inner }] }')
const outer = copyOf(`
name: outer
description: d
hooks: { before: [echo before], after: [echo after] }
steps:
  - { id: a, run: echo one }
  - { id: q, type: approval, prompt: 'Go on?' }
  - { id: g, agent: build, prompt: Work }
  - { id: w, workflow: inner }
  - { id: last, run: 'echo {{steps.g.output}}' }
`)
const commands = ['echo before', 'echo one', 'echo inner', "echo 'done'", 'echo after']

/** Plays the ability to its end, with an agent and a person who do whatever there is to do, and dies where it is told to. */
class Story {
  readonly world = new RunWorld()
  /** By attempt: what the agent has begun, once each. */
  readonly begun = new Map<string, string>()
  readonly #taken = new Set<string>()
  writes = 0
  #diesAt = 0
  #isDead = false

  async begin(): Promise<this> {
    await this.world.begin()
    const { sql } = this.world
    const real = sql.run.bind(sql)
    sql.run = (...args) => {
      this.writes += 1
      if (this.writes === this.#diesAt) {
        this.#isDead = true
        throw new Error('killed')
      }
      real(...args)
    }
    return this
  }

  /** The transaction of the nth write is lost, and with it the instance. */
  dieAt(n: number): this {
    this.#diesAt = n
    return this
  }

  async #do(work: () => Promise<unknown>): Promise<void> {
    await work().catch(() => undefined)
    await this.world.settle()
    if (!this.#isDead) return
    this.#isDead = false
    this.world.restart()
    await this.world.meet()
    await this.world.settle()
  }

  execution() {
    const rows = this.world.rowsOf<{ id: string; state: string; error: string | null }>(
      'executions where parent_id is null',
    )
    return rows[0]
  }

  async play(): Promise<this> {
    const { world } = this
    const given = {
      ...{ create: ExecutionCreate.parse({ ability: 'outer' }), ability: outer, nested: [inner] },
    }
    for (let round = 0; round < 200; round += 1) {
      if (this.execution() === undefined)
        await this.#do(() => world.actor.api.abilities.execute(testCaller, given, 'key'))
      if (this.execution()?.state === 'completed' || this.execution()?.state === 'failed') break
      for (const { id, kind, body } of world.commands()) await this.#obey(id, kind, body)
      await this.#endTurns()
      for (const { id } of world.rowsOf<{ id: string }>(`approvals where state = 'pending'`))
        await this.#do(() => world.resolve(id))
      await this.#do(() => world.pass(1000))
    }
    return this
  }

  async #obey(id: string, kind: string, body: Record<string, unknown>): Promise<void> {
    const { world } = this
    if (kind === 'execute') {
      const { command } = body['operation'] as { command: string }
      this.begun.set(id, command)
      const [attempt] = world.rowsOf<{ status: string }>(`attempts where id = '${id}'`)
      if (attempt?.status === 'reserved') await this.#do(() => world.result(id, { exitCode: 0 }))
    }
    if (kind !== 'prompt') return
    this.#taken.add(id)
    await this.#do(() => world.takePrompt({ id }))
  }

  /** The agent tells the end of what it has taken until the session knows it. */
  async #endTurns(): Promise<void> {
    for (const { id } of this.world.rowsOf<{ id: string }>(`turns where state = 'running'`)) {
      if (!this.#taken.has(id)) continue
      const end = { turnId: id, state: 'completed', reason: null, text: 'done', diff: null }
      // With the same number each time: it is its first.
      const items = [agentEvent(1, 'turn.ended', end)]
      await this.#do(() => this.world.receive({ t: 'events', items }, this.world.generation))
    }
  }
}

describe('[ABL36] an instance that dies at any write of an execution', { timeout: 600_000 }, () => {
  test('every step is begun once, and the execution comes to its one end', async () => {
    const whole = await (await new Story().begin()).play()
    expect([...whole.begun.values()]).toEqual(commands)
    const { writes } = whole
    expect(writes).toBeGreaterThan(100)
    const places = isLong
      ? Array.from({ length: writes }, (_, at) => at + 1)
      : seedsOf(25, 25).map((seed) => 1 + Math.floor(random(seed)() * writes))
    for (const at of places) {
      const story = await (await new Story().begin()).dieAt(at).play()
      expect([at, story.execution()]).toMatchObject([at, { state: 'completed', error: null }])
      expect([at, ...story.begun.values()]).toEqual([at, ...commands])
      const ends = await story.world.events('ability.ended')
      expect([at, ends.length]).toEqual([at, 2])
    }
  })
})
