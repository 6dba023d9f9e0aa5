import { expect, test } from 'vitest'
import { TimelineChecker } from '../../../../src/core/session/runs/verify.ts'
import { operations, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

test('[RUN2] [RUN8] a change that cannot be says in which status the run is, and for what it waits', async () => {
  const world = await new RunWorld().begin()
  const { id } = await world.createRun()
  const change = (status: 'planned' | 'running') =>
    world.actor.api.runs.change(testCaller, id, { status, reason: '' })
  await change('running')
  await expect(change('planned')).rejects.toMatchObject({
    code: 'wrong_state',
    message: expect.stringContaining('it is running'),
  })
  const command = (name: string) => ({ ...operations.ask, command: `npm ${name}` })
  const asked = [await world.execute(id, command('a')), await world.execute(id, command('b'))]
  await expect(change('running')).rejects.toMatchObject({
    message: expect.stringContaining(
      `it is needs-human and goes on by itself after ${asked.map(({ approvalId }) => approvalId).join(', ')}`,
    ),
  })
})

test('[RUN5] of a timeline that is all wrong the first thousand entries are named', () => {
  const checker = new TimelineChecker('run_1', null)
  for (let n = 0; n < 1002; n++)
    checker.add({
      ...{ seq: 7, kind: 'error.recorded', data: '{}', at: 1 },
      ...{ previous_hash: 'p', hash: 'h' },
    })
  const { ok, entries, problems } = checker.result(() => true)
  expect([ok, entries, problems.length]).toEqual([false, 1002, 1000])
})
