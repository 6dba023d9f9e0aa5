import { beforeEach, expect, test } from 'vitest'
import { AppError } from '../../../../src/contract/error.ts'
import { gatewayTools } from '../../../../src/core/session/calls/tools/registry.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

const files = ['a', 'b'].map((path, n) => ({
  ...{ path, size: 1, sha256: String(n).repeat(64), contentType: 'text/plain' },
}))
let world: RunWorld
beforeEach(async () => {
  world = await new RunWorld(gatewayTools).begin()
  world.blobs = () => ({
    put: async () => {},
    putAll: async () => {},
    get: async () => null,
    hold: async () => new Map(files.map(({ sha256, size }) => [sha256, size])),
  })
})
async function collected(): Promise<void> {
  await world.settle()
  const command = world.commands().findLast(({ kind }) => kind === 'collect')
  await world.receive({ t: 'result', commandId: command?.id ?? '', ok: true, data: { files } })
}
const evidence = async (runId: string) => (await world.record(runId)).evidence

test('[RUN14] a call after the turn is in the open run, not in that of a turn that has ended', async () => {
  const turn = await world.prompt('first')
  await world.endTurn(turn)
  const { id } = await world.createRun('second')
  const answer = world.call('verify', 'v')
  await collected()
  await answer
  expect(await world.entries(id, 'verification.ended')).toMatchObject([{ passed: true }])
  expect(await world.entries(turn.runId ?? '', 'verification.started')).toEqual([])
})

test('[RUN14] what is settled after its run has ended says that it is late, and nothing else does', async () => {
  const { id } = await world.createRun()
  const answer = world.call('verify', 'v')
  await world.settle()
  await world.finish(id, 'failed')
  await collected()
  await answer
  const [started] = await world.entries(id, 'verification.started')
  expect(started).not.toHaveProperty('late')
  expect(await world.entries(id, 'verification.ended')).toMatchObject([
    { passed: true, artifacts: 2, reason: null, late: true },
  ])
})

test('[RUN14] files alone are no evidence: a call whose answer was lost has failed', async () => {
  const { id } = await world.createRun()
  const answer = world.call('verify', 'v')
  await collected()
  await answer
  // As if the process had died between the artifacts and the answer.
  world.sql.run(`update calls set state = 'pending', response = null, runner = 'gone'`)
  world.sql.run(`delete from run_events where kind in ('artifact.written', 'verification.ended')`)
  world.restart()
  await world.actor.api.self.close(testCaller, 'done')
  expect(await world.entries(id, 'verification.ended')).toMatchObject([
    { passed: false, artifacts: 2, reason: 'the session was closed before it settled' },
  ])
})

test('[RUN14] a long reason is kept in short', async () => {
  const { id } = await world.createRun()
  world.blobs = () => {
    throw new AppError('wrong_state', 'x'.repeat(3000))
  }
  const answer = world.call('verify', 'v')
  await collected()
  await answer
  expect(await world.entries(id, 'verification.ended')).toMatchObject([
    { passed: false, artifacts: 0, reason: 'x'.repeat(2000) },
  ])
})

test('[RUN14] a snapshot is evidence of itself: each has its own entry, a refused one none', async () => {
  const { id } = await world.createRun()
  for (const call of ['s1', 's2']) await world.call('save_snapshot', call, { message: call })
  const stored = await world.entries(id, 'snapshot.stored')
  expect(stored.map(({ message, toolCallId }) => [message, toolCallId])).toEqual([
    ['s1', 's1'],
    ['s2', 's2'],
  ])
  world.sandboxes.snapshot = () => Promise.reject(new AppError('wrong_state', 'Not now'))
  const { body } = await world.call('save_snapshot', 's3')
  expect(JSON.parse(body)).toEqual({ success: false, result: 'Not now' })
  expect(await evidence(id)).toMatchObject({
    ...{ snapshots: 2, artifacts: 0, verifications: { started: 0, passed: 0, failed: 0 } },
  })
  // What the refused one may have left can be deleted, and is not taken for one of the session's own.
  expect(world.rowsOf('snapshot_orders')).toMatchObject([{ by: 'call', stale: 0 }])
})
