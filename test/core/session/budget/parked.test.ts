import { expect, test } from 'vitest'
import { TestDeployment } from '../../../support/organisation.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

test('[BUD1] a call that nobody approves in time is given back, and a question goes on that waits for it', async () => {
  const gate = { ask: ['bash'], askTimeoutSeconds: 60 }
  const world = await new RunWorld().begin({ budget: { toolCalls: 1 }, gate })
  await world.prompt()
  const asked = await world.ask('bash')
  const waits = await world.ask('read')
  expect([asked, waits].map(world.answerTo)).toEqual([null, null])
  await world.pass(61_000)
  expect([asked, waits].map(world.answerTo)).toEqual(['deny', 'allow'])
})

test('[BUD9] questions that wait for more than one slice all go on after a raise', async () => {
  const { budgets } = new TestDeployment().org.api
  const world = new RunWorld()
  world.organisation.shared = {
    take: (claim) => budgets.take(claim),
    giveBack: (...said) => budgets.giveBack(...said),
  }
  await budgets.set(null, { toolCalls: 1 }, 'key')
  await world.begin()
  await world.prompt()
  const asks: string[] = []
  for (let n = 0; n < 30; n++) asks.push(await world.ask('read'))
  expect(asks.filter((ask) => world.answerTo(ask) === 'allow')).toHaveLength(1)
  await budgets.set(null, { toolCalls: 100 }, 'key')
  await world.pass(10_000)
  expect(asks.filter((ask) => world.answerTo(ask) !== 'allow')).toEqual([])
})

test('[BUD9] what waits for the session’s own budget asks the organisation for nothing', async () => {
  const world = await new RunWorld().begin({ budget: { toolCalls: 1 } })
  await world.prompt()
  const asks = [await world.ask('read'), await world.ask('read')]
  await world.actor.api.budget.set(testCaller, { toolCalls: 1 })
  expect(asks.map(world.answerTo)).toEqual(['allow', null])
  expect(Object.keys(world.deadlines())).toContain('budget.ask')
  expect(Object.keys(world.deadlines())).not.toContain('slice')
})

test('[BUD12] a question that waits for the budget goes on after a correction', async () => {
  const world = await new RunWorld().begin({ budget: { toolCalls: 1 } })
  await world.prompt()
  const asks = [await world.ask('read'), await world.ask('read')]
  expect(asks.map(world.answerTo)).toEqual(['allow', null])
  const correction = { used: { toolCalls: 0 }, reason: 'It did nothing' }
  await world.actor.api.budget.correct(testCaller, correction, null)
  expect(asks.map(world.answerTo)).toEqual(['allow', 'allow'])
})

test('[BUD9] a slice that comes after the close is given back', async () => {
  const { budgets } = new TestDeployment().org.api
  await budgets.set(null, { toolCalls: 100 }, 'key')
  const world = new RunWorld()
  let answer = () => {}
  const asked = new Promise<void>((resolve) => (answer = resolve))
  world.organisation.shared = {
    take: (claim) => asked.then(() => budgets.take(claim)),
    giveBack: (...said) => budgets.giveBack(...said),
  }
  await world.begin()
  const prompted = world.prompt().catch(() => null)
  await world.settle()
  await world.actor.api.self.close(testCaller, 'done')
  await world.pass(1000)
  answer()
  await prompted
  expect((await budgets.view(null)).reserved.toolCalls).toBeGreaterThan(0)
  await world.pass(1000)
  expect((await budgets.view(null)).reserved.toolCalls).toBe(0)
})

test('[BUD9] a closed session asks for no slice, and no alarm is left for one', async () => {
  const { budgets } = new TestDeployment().org.api
  await budgets.set(null, { toolCalls: 0 }, 'key')
  const world = new RunWorld()
  let asked = 0
  world.organisation.shared = {
    take: (claim) => ((asked += 1), budgets.take(claim)),
    giveBack: (...said) => budgets.giveBack(...said),
  }
  await world.begin()
  await world.prompt().catch(() => null)
  expect(world.deadlines()).toHaveProperty('slice')
  await world.actor.api.self.close(testCaller, 'done')
  const before = asked
  await world.pass(60_000)
  expect(world.deadlines()).not.toHaveProperty('slice')
  expect(asked).toBe(before)
})
