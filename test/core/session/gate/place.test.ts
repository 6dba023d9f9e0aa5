import { expect, test } from 'vitest'
import { Operation } from '../../../../src/contract/operation.ts'
import { operations, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

test('[ATT2] what a sandbox says that it enforces counts from then on, also if something was planned before', async () => {
  const world = await new RunWorld().begin()
  const operation = Operation.parse(operations.allow)
  const missing = async () =>
    (await world.actor.api.operations.plan(testCaller, operation)).notEnforced
  expect(await missing()).toEqual([])
  await world.receive({ t: 'ready', bootMs: 1, enforces: [] })
  expect(await missing()).not.toEqual([])
})

test('[POL1] where the workspace is counts from when its sandbox is told, also if a tool has asked before', async () => {
  const world = await new RunWorld().begin()
  await world.prompt()
  const read = async () => world.answerTo(await world.ask('read', { filePath: '/w/a.txt' }))
  expect(await read()).toBe('deny')
  await world.actor.api.agent.manifest({ ...testCaller, generation: 1 })
  expect(await read()).toBe('allow')
})

test('[SEC10] a decision on what looks like a key says that it was hidden, and only such a one', async () => {
  const world = await new RunWorld().begin()
  const { id } = await world.createRun()
  await world.prompt('go', { runId: id })
  await world.ask('bash', { command: `echo ghp_${'a1B2'.repeat(9)}` })
  await world.ask('bash', { command: 'echo hello' })
  const decisions = await world.entries(id, 'permission-decision')
  expect(decisions.map(({ hidden }) => hidden ?? false)).toEqual([true, false])
})
