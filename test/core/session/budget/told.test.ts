import { expect, test } from 'vitest'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

const set = (world: RunWorld, limits: object) => world.actor.api.budget.set(testCaller, limits)

test('[BUD3] a budget that is spent and raised is told to session and run, each time anew', async () => {
  const world = await new RunWorld().begin({ budget: { toolCalls: 5 } })
  const { runId } = await world.prompt()
  for (let n = 0; n < 5; n++) await world.ask('read')
  expect(await world.events('budget.warned')).toHaveLength(1)
  const spent = await world.events('budget.spent')
  expect(spent).toEqual([{ reason: expect.stringMatching(/./) }])
  expect(await world.entries(runId ?? '', 'budget.spent')).toEqual(spent)
  await set(world, { toolCalls: 10 })
  expect(await world.entries(runId ?? '', 'budget.raised')).toEqual([
    { limits: { toolCalls: 10 }, actor: testCaller.keyId },
  ])
  for (let n = 0; n < 5; n++) await world.ask('read')
  // 80 % of the new one are told as well.
  expect(await world.events('budget.warned')).toHaveLength(2)
  expect(await world.events('budget.spent')).toHaveLength(2)
})

test('[BUD12] after a correction 80 % are told again', async () => {
  const world = await new RunWorld().begin({ budget: { toolCalls: 5 } })
  await world.prompt()
  for (let n = 0; n < 4; n++) await world.ask('read')
  expect(await world.events('budget.warned')).toHaveLength(1)
  const correction = { used: { toolCalls: 0 }, reason: 'It did nothing' }
  await world.actor.api.budget.correct(testCaller, correction, null)
  for (let n = 0; n < 4; n++) await world.ask('read')
  expect(await world.events('budget.warned')).toHaveLength(2)
})

test('[BUD5] the alarm of a running turn stands at the nearest moment, and goes with the limit', async () => {
  const world = await new RunWorld().begin({ budget: { wallSeconds: 100 } })
  const turn = await world.prompt()
  const began = world.now
  expect(world.deadlines()['budget']).toBe(began + 80_000)
  await world.pass(80_000)
  expect(world.deadlines()['budget']).toBe(began + 100_000)
  await set(world, {})
  const without = world.deadlines()['budget']
  expect(without === undefined || without > began + 100_000).toBe(true)
  await world.endTurn(turn)
  expect(world.deadlines()).not.toHaveProperty('budget')
})
