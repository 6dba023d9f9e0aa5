import { describe, expect, test } from 'vitest'
import { type Budget, budgetCostMicros } from '../../../../src/contract/budget.ts'
import { models } from '../../../../src/contract/model-table.ts'
import { operations, other, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

const refused = (code: string) => ({ code })
const ten = 600_000
const begin = async (budget: Budget, more: Record<string, unknown> = {}) => {
  const world = await new RunWorld().begin({ budget, gate: { ask: ['bash'] }, ...more })
  const run = await world.createRun()
  return { world, runId: run.id }
}
type Scene = Awaited<ReturnType<typeof begin>>
const raise = ({ world }: Scene, limits: Budget) => world.actor.api.budget.set(testCaller, limits)
/** How often the alarm fires in that time, beyond what the outbox and the sandbox want. */
async function alarmsIn(world: RunWorld, ms: number): Promise<string[]> {
  const fired: string[] = []
  const until = world.now + ms
  while (world.armedAt !== null && world.armedAt <= until) {
    const due = Object.entries(world.deadlines()).filter(([, at]) => at <= (world.armedAt ?? 0))
    fired.push(...due.map(([name]) => name).filter((name) => /^(budget|slice)/.test(name)))
    await world.pass(world.armedAt - world.now)
  }
  world.now = until
  return fired
}

describe('tool calls', () => {
  test.each([0, 1, 2, 5])(
    '[BUD1] a budget of %i calls allows exactly as many',
    async (toolCalls) => {
      const { world, runId } = await begin({ toolCalls: toolCalls + 1 })
      const turn = await world.prompt()
      await world.actor.api.budget.set(testCaller, { toolCalls })
      const asks: string[] = []
      for (let n = 0; n < toolCalls + 3; n++) asks.push(await world.ask('read'))
      expect(asks.filter((ask) => world.answerTo(ask) === 'allow')).toHaveLength(toolCalls)
      expect(asks.slice(toolCalls).map(world.answerTo)).toEqual([null, null, null])
      expect((await world.actor.api.budget.view(testCaller)).used.toolCalls).toBe(toolCalls)
      expect(await world.run(runId)).toMatchObject({
        status: 'needs-human',
        reason: 'budget',
        waitsFor: ['budget'],
      })
      await world.endTurn(turn)
    },
  )

  test('[BUD1] questions that arrive together do not share the last call', async () => {
    const { world } = await begin({ toolCalls: 3 })
    await world.prompt()
    const asks = await Promise.all(Array.from({ length: 8 }, () => world.ask('read')))
    expect(asks.filter((ask) => world.answerTo(ask) === 'allow')).toHaveLength(3)
  })

  test('[BUD1] what waits for a person is counted while it waits, and given back when it is refused', async () => {
    const { world, runId } = await begin({ toolCalls: 2 })
    await world.prompt()
    const asks = [await world.ask('bash'), await world.ask('bash'), await world.ask('bash')]
    const [one = '', two = '', three = ''] = asks
    expect(
      (await world.actor.api.approvals.list(testCaller, null)).map(({ subject }) => subject),
    ).toEqual([two, one])
    expect(await world.run(runId)).toMatchObject({
      waitsFor: [world.approvalId(one), world.approvalId(two), 'budget'],
    })
    await world.resolve(world.approvalId(one))
    expect((await world.run(runId)).reason).toBe('Approval needed: bash: ls')
    await world.resolve(world.approvalId(two), 'rejected')
    expect(asks.map(world.answerTo)).toEqual(['allow', 'deny', null])
    await world.resolve(world.approvalId(three))
    expect(world.answerTo(three)).toBe('allow')
    expect((await world.actor.api.budget.view(testCaller)).used.toolCalls).toBe(2)
  })

  test('[BUD1] a call that is given back lets a question go on that waits for it', async () => {
    const { world } = await begin({ toolCalls: 1 })
    await world.prompt()
    const asked = await world.ask('bash')
    const waiting = await world.ask('read')
    expect(world.answerTo(waiting)).toBeNull()
    await world.resolve(world.approvalId(asked), 'rejected')
    expect(world.answerTo(waiting)).toBe('allow')
    const third = await world.ask('read')
    expect(world.answerTo(third)).toBeNull()
  })

  test('[BUD1] what the policy denies is denied at once and counts nothing', async () => {
    const { world } = await begin({ toolCalls: 1 }, { gate: { deny: ['webfetch'] } })
    await world.prompt()
    expect(world.answerTo(await world.ask('webfetch'))).toBe('deny')
    await world.ask('read')
    expect(world.answerTo(await world.ask('webfetch'))).toBe('deny')
    expect((await world.actor.api.budget.view(testCaller)).used.toolCalls).toBe(1)
  })

  test('[BUD2] an operation is a call: it counts when it is sent, and is refused when nothing is left', async () => {
    const { world, runId } = await begin({ toolCalls: 1 })
    const asked = await world.execute(runId, operations.ask)
    await world.execute(runId, operations.deny)
    expect((await world.actor.api.budget.view(testCaller)).used.toolCalls).toBe(0)
    await world.execute(runId)
    expect((await world.actor.api.budget.view(testCaller)).used.toolCalls).toBe(1)
    const before = await world.kinds(runId)
    await expect(world.execute(runId)).rejects.toMatchObject(refused('budget_spent'))
    expect(await world.kinds(runId)).toEqual(before)
    await world.resolve(asked.approvalId ?? '')
    await expect(world.resume(asked.approvalId ?? '')).rejects.toMatchObject(
      refused('budget_spent'),
    )
    expect(world.executes()).toHaveLength(1)
    await raise({ world, runId }, { toolCalls: 2 })
    await world.resume(asked.approvalId ?? '')
    expect(world.executes()).toHaveLength(2)
  })
})

describe('[BUD3] 80 % and 100 %', () => {
  test('80 % of each measure are told once, and again only of another budget', async () => {
    const { world, runId } = await begin({ toolCalls: 5, tokens: 100 })
    const turn = await world.prompt()
    for (let n = 0; n < 3; n++) await world.ask('read')
    expect(await world.events('budget.warned')).toEqual([])
    await world.ask('read')
    await world.step(turn, { input: 79 })
    expect(await world.events('budget.warned')).toEqual([
      { measure: 'toolCalls', used: 4, limit: 5 },
    ])
    await world.step(turn, { output: 1 })
    await world.step(turn, { output: 1 })
    expect(await world.events('budget.warned')).toMatchObject([
      { measure: 'toolCalls' },
      { measure: 'tokens', used: 80, limit: 100 },
    ])
    expect(await world.entries(runId, 'budget.warned')).toHaveLength(2)
    await raise({ world, runId }, { toolCalls: 5, tokens: 1000 })
    expect((await world.events('budget.warned')).slice(2)).toMatchObject([{ measure: 'toolCalls' }])
  })

  test('every open run waits, a new one from its start, and all go on after a raise', async () => {
    const scene = await begin({ toolCalls: 1 })
    const { world, runId } = scene
    const second = await world.createRun('second')
    const turn = await world.prompt('x', { runId })
    await world.ask('read')
    const third = await world.createRun('third')
    for (const id of [runId, second.id, third.id])
      expect(await world.run(id)).toMatchObject({ status: 'needs-human', waitsFor: ['budget'] })
    expect(await world.events('budget.spent')).toHaveLength(1)
    await raise(scene, { toolCalls: 2 })
    for (const id of [runId, second.id, third.id])
      expect(await world.run(id)).toMatchObject({ status: 'running', waitsFor: [] })
    await world.endTurn(turn)
  })

  test('prompts are refused, a queued one waits, and both go on after a raise', async () => {
    const scene = await begin({ toolCalls: 1 })
    const { world } = scene
    const turn = await world.prompt()
    const queued = await world.prompt('next')
    await world.ask('read')
    await expect(world.prompt()).rejects.toMatchObject(refused('budget_spent'))
    await expect(world.prompt('x', { steer: true })).rejects.toMatchObject(refused('budget_spent'))
    await world.endTurn(turn)
    expect((await world.actor.api.turns.get(testCaller, queued.id)).state).toBe('queued')
    await raise(scene, { toolCalls: 3 })
    expect((await world.actor.api.turns.get(testCaller, queued.id)).state).toBe('running')
    await world.prompt('more')
  })

  test('a sandbox whose next turn waits for a budget may sleep, and is woken by a raise', async () => {
    const scene = await begin({ toolCalls: 1 }, { idleTimeoutSeconds: 60 })
    const { world } = scene
    const turn = await world.prompt()
    const queued = await world.prompt('next')
    await world.ask('read')
    await world.endTurn(turn)
    await world.pass(300_000)
    expect((await world.actor.api.self.view(testCaller)).sandbox.state).toBe('stopped')
    await raise(scene, { toolCalls: 9 })
    await world.meetNext()
    expect((await world.actor.api.turns.get(testCaller, queued.id)).state).toBe('running')
  })

  test('a raise wakes no sandbox for which nothing waits', async () => {
    const scene = await begin({ toolCalls: 1 }, { idleTimeoutSeconds: 60 })
    const { world } = scene
    const turn = await world.prompt()
    await world.ask('read')
    await world.endTurn(turn)
    await world.pass(300_000)
    await raise(scene, { toolCalls: 9 })
    await world.meetNext()
    expect((await world.actor.api.self.view(testCaller)).sandbox.state).toBe('stopped')
  })

  test('a lower budget stops what a higher one allowed', async () => {
    const scene = await begin({ toolCalls: 9 })
    await scene.world.prompt()
    await scene.world.ask('read')
    await raise(scene, { toolCalls: 1 })
    expect(scene.world.answerTo(await scene.world.ask('read'))).toBeNull()
  })
})

describe('[BUD4] a question that finds the budget spent', () => {
  const spend = async () => {
    const scene = await begin({ toolCalls: 1 })
    const turn = await scene.world.prompt()
    await scene.world.takePrompt(turn)
    await scene.world.ask('read')
    return { ...scene, turn }
  }

  test('is decided after a raise, by the policy of then', async () => {
    const scene = await spend()
    const { world } = scene
    const [read, bash] = [await world.ask('read'), await world.ask('bash')]
    world.restart()
    await world.meet()
    await raise(scene, { toolCalls: 9 })
    expect(world.answerTo(read)).toBe('allow')
    expect(world.answerTo(bash)).toBeNull()
    await world.resolve(world.approvalId(bash))
    expect(world.answerTo(bash)).toBe('allow')
    expect((await world.actor.api.budget.view(testCaller)).used.toolCalls).toBe(3)
    expect(world.deadlines()).not.toHaveProperty('budget.ask')
  })

  test('as far as a small raise goes', async () => {
    const scene = await spend()
    const asks = [await scene.world.ask('read'), await scene.world.ask('read')]
    await raise(scene, { toolCalls: 2 })
    expect(asks.map(scene.world.answerTo)).toEqual(['allow', null])
    expect((await scene.world.run(scene.runId)).waitsFor).toEqual(['budget'])
  })

  test('is denied after its own ten minutes', async () => {
    const { world } = await spend()
    const first = await world.ask('read')
    await world.pass(60_000)
    const second = await world.ask('read')
    await world.pass(ten - 60_000)
    expect([first, second].map(world.answerTo)).toEqual(['deny', null])
    await world.pass(60_000)
    expect(world.answerTo(second)).toBe('deny')
    expect(world.deadlines()).not.toHaveProperty('budget.ask')
    expect(await world.events('gate.decided')).toContainEqual(
      expect.objectContaining({ askId: second, rule: 'budget', actor: 'deadline' }),
    )
  })

  test('is denied first by whatever ends its turn, and its patience ends with it', async () => {
    const ends: ((scene: Awaited<ReturnType<typeof spend>>) => Promise<unknown>)[] = [
      ({ world }) => world.actor.api.self.abort(testCaller, ''),
      ({ world, runId }) => world.finish(runId, 'cancelled'),
      ({ world, turn }) => world.endTurn(turn),
      ({ world }) => world.actor.api.self.close(testCaller, 'x'),
    ]
    for (const end of ends) {
      const scene = await spend()
      const ask = await scene.world.ask('read')
      await end(scene)
      expect(scene.world.answerTo(ask)).toBe('deny')
      expect(scene.world.deadlines()).not.toHaveProperty('budget.ask')
    }
  })

  test('cancelling the run is an exit', async () => {
    const { world, runId } = await spend()
    expect(await world.finish(runId, 'cancelled')).toMatchObject({
      status: 'cancelled',
      waitsFor: [],
    })
  })
})

describe('[BUD5] time', () => {
  test('counts while a turn runs, and stops the run when it is over, without a question', async () => {
    const scene = await begin({ wallSeconds: 100 })
    const { world, runId } = scene
    world.now += 500_000
    const turn = await world.prompt()
    await world.pass(79_999)
    expect(await world.events('budget.warned')).toEqual([])
    await world.pass(1)
    expect(await world.events('budget.warned')).toMatchObject([
      { measure: 'wallSeconds', used: 80, limit: 100 },
    ])
    await world.pass(19_999)
    expect((await world.run(runId)).status).toBe('running')
    await world.pass(1)
    expect(await world.run(runId)).toMatchObject({ status: 'needs-human', reason: 'budget' })
    expect(world.deadlines()).not.toHaveProperty('budget')
    await world.endTurn(turn)
    expect((await world.actor.api.budget.view(testCaller)).used.wallSeconds).toBe(100)
  })

  test('the alarm does not come again and again once it is spent, nor after the limit is taken away', async () => {
    const scene = await begin({ wallSeconds: 10 })
    const { world } = scene
    await world.prompt()
    expect(await alarmsIn(world, 3_600_000)).toEqual(['budget', 'budget'])
    await raise(scene, { wallSeconds: 1000 })
    await raise(scene, {})
    expect(await alarmsIn(world, 3_600_000)).toEqual([])
  })

  test('what a person takes to raise it is not used up', async () => {
    const scene = await begin({ wallSeconds: 10 })
    const { world, runId } = scene
    const turn = await world.prompt()
    await world.pass(1_800_000)
    await raise(scene, { wallSeconds: 20 })
    expect((await world.run(runId)).status).toBe('running')
    await world.pass(9999)
    expect((await world.run(runId)).status).toBe('running')
    await world.pass(1)
    expect((await world.run(runId)).status).toBe('needs-human')
    await world.endTurn(turn)
  })

  test('turns add up, also over restarts', async () => {
    const scene = await begin({ wallSeconds: 30 })
    const { world, runId } = scene
    for (let n = 0; n < 2; n++) {
      const turn = await world.prompt()
      await world.pass(5000)
      world.restart()
      await world.meet()
      await world.pass(5000)
      await world.endTurn(turn)
      await world.pass(60_000)
    }
    expect((await world.actor.api.budget.view(testCaller)).used.wallSeconds).toBe(20)
    await world.prompt()
    await world.pass(10_000)
    expect((await world.run(runId)).status).toBe('needs-human')
  })
})

describe('[BUD6] tokens and money', () => {
  const priced = models.find(({ price }) => price !== null)
  const tokens = { input: 1000, output: 200, reasoning: 50, cacheRead: 4000, cacheWrite: 30 }

  test('all tokens of a step count, once, and none is ever given back', async () => {
    const scene = await begin({ tokens: 100 })
    const { world, runId } = scene
    const turn = await world.prompt()
    await world.step(turn, { input: 10, output: 20, reasoning: 5, cacheRead: 30, cacheWrite: 4 })
    expect((await world.actor.api.budget.view(testCaller)).used.tokens).toBe(69)
    await world.step(turn, { input: -1000, output: 0.4 })
    expect((await world.actor.api.budget.view(testCaller)).used.tokens).toBe(69)
    await world.step(turn, { input: 31 })
    expect(await world.run(runId)).toMatchObject({ status: 'needs-human', reason: 'budget' })
    expect(await world.events('budget.spent')).toEqual([
      { reason: "The session's budget of tokens is spent" },
    ])
  })

  test('money is tokens times the price table', async () => {
    const price = priced?.price ?? { input: 0, output: 0, cacheRead: null, cacheWrite: null }
    const micros = budgetCostMicros(price, tokens)
    const scene = await begin({ moneyUsd: (2 * micros) / 1_000_000 }, { model: priced?.id })
    const { world, runId } = scene
    const turn = await world.prompt()
    await world.step(turn, tokens)
    expect((await world.actor.api.budget.view(testCaller)).used.moneyUsd).toBe(micros / 1_000_000)
    expect((await world.run(runId)).status).toBe('running')
    await world.step(turn, tokens)
    expect((await world.run(runId)).status).toBe('needs-human')
  })

  test('a model without a price refuses a budget in money, at creation and later', async () => {
    const unpriced = { model: 'scripted' }
    await expect(
      new RunWorld().begin({ budget: { moneyUsd: 1 }, ...unpriced }),
    ).rejects.toMatchObject({ code: 'unprocessable' })
    const world = await new RunWorld().begin(unpriced)
    await expect(world.actor.api.budget.set(testCaller, { moneyUsd: 1 })).rejects.toMatchObject({
      code: 'unprocessable',
      details: [{ path: 'budget.moneyUsd' }],
    })
  })
})

test('[BUD7] a budget of another organisation is not there, a closed session keeps its own', async () => {
  const { world } = await begin({ toolCalls: 3 })
  const strange = { ...other, organisationId: `org_${'9'.repeat(20)}` }
  await expect(world.actor.api.budget.view(strange)).rejects.toMatchObject(refused('not_found'))
  await expect(world.actor.api.budget.set(strange, {})).rejects.toMatchObject(refused('not_found'))
  await world.actor.api.self.close(testCaller, 'x')
  expect((await world.actor.api.budget.view(testCaller)).limits).toEqual({ toolCalls: 3 })
  await expect(world.actor.api.budget.set(testCaller, {})).rejects.toMatchObject(
    refused('session_closed'),
  )
})
