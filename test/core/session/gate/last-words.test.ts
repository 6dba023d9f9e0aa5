import { expect, test } from 'vitest'
import { SessionCreate } from '../../../../src/contract/session.ts'
import { gatewayTools } from '../../../../src/core/session/calls/tools/registry.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller, testSessionId } from '../../../support/session.ts'

const configuration = {
  ...{ id: `cfg_${'1'.repeat(20)}`, project: 'default', name: 'nightly', repository: null },
  ...{ defaultModel: null, trustProjectConfig: false, snapshotId: null, envFiles: [] },
}

/** An automation whose run is completed while its turn has last words. */
async function completed(before: (world: RunWorld) => Promise<void>): Promise<RunWorld> {
  const world = new RunWorld(gatewayTools)
  const input = SessionCreate.parse({
    ...{ configurationId: configuration.id, clientType: 'automation', automationRunId: 'run-1' },
    ...{ sandbox: 'local', gate: { ask: ['bash'] } },
  })
  const create = { sessionId: testSessionId, ...testCaller, input, configuration }
  await world.actor.api.self.create(create)
  await world.pass(0)
  await world.meet()
  await world.prompt()
  await before(world)
  await world.call('automation.complete', 'one', {
    ...{ run_id: 'run-1', completion_id: 'one', outcome: 'succeeded' },
  })
  return world
}

test('[GATE11] after the end of its run a question that would ask a person is denied', async () => {
  const world = await completed(async () => {})
  expect(world.answerTo(await world.ask('bash', { command: 'npm test' }))).toBe('deny')
  const [decided] = await world.events('gate.decided')
  expect(decided).toMatchObject({ rule: 'state', reason: expect.stringContaining('has ended') })
  expect(await world.actor.api.approvals.list(testCaller, null)).toEqual([])
})

test('[GATE11] [APR6] one that a remembered approval answers asks nobody, and is allowed', async () => {
  const command = { command: 'npm test' }
  const world = await completed(async (world) => {
    const asked = await world.ask('bash', command)
    const remember = { scope: 'session', expiresInSeconds: 3600 } as const
    await world.resolve(world.approvalId(asked), 'approved', undefined, { remember })
  })
  expect(world.answerTo(await world.ask('bash', command))).toBe('allow')
  expect(world.answerTo(await world.ask('bash', { command: 'npm ci' }))).toBe('deny')
})

test('[APR5] the end of the run denies what waits for a person', async () => {
  let asked = ''
  const world = await completed(async (world) => {
    asked = await world.ask('bash')
    expect(world.answerTo(asked)).toBeNull()
  })
  expect(world.answerTo(asked)).toBe('deny')
})

test('[TOOL5] the session is closed when the turn that completed the run ends, or a minute later', async () => {
  const isClosed = async (world: RunWorld) =>
    (await world.actor.api.self.view(testCaller)).status === 'closed'
  const world = await completed(async () => {})
  await world.pass(30_000)
  expect(await isClosed(world)).toBe(false)
  const [started] = await world.events('turn.started')
  await world.endTurn({ id: String(started?.['turnId']) })
  await world.pass(5000)
  expect(await isClosed(world)).toBe(true)
  const silent = await completed(async () => {})
  await silent.pass(59_000)
  expect(await isClosed(silent)).toBe(false)
  await silent.pass(2000)
  expect(await isClosed(silent)).toBe(true)
})
