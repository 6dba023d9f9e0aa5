import { beforeEach, expect, test } from 'vitest'
import { SessionCreate } from '../../../../src/contract/session.ts'
import { gatewayTools } from '../../../../src/core/session/calls/tools/registry.ts'
import { testCaller, TestSession, testSessionId } from '../../../support/session.ts'

const configuration = {
  id: `cfg_${'1'.repeat(20)}`,
  project: 'default',
  name: 'nightly',
  repository: null,
  defaultModel: null,
  trustProjectConfig: false,
  snapshotId: null,
  envFiles: [],
}
let session: TestSession
beforeEach(async () => {
  session = new TestSession(gatewayTools)
  await session.actor.api.self.create({
    sessionId: testSessionId,
    ...testCaller,
    input: SessionCreate.parse({
      configurationId: configuration.id,
      clientType: 'automation',
      automationRunId: 'run-1',
    }),
    configuration,
  })
})
const complete = async (completionId: string) =>
  JSON.parse(
    (
      await session.call('automation.complete', completionId, {
        run_id: 'run-1',
        completion_id: completionId,
        outcome: 'succeeded',
      })
    ).body,
  ) as { success: boolean; result: string }

test('[TOOL5] the close that a completion promises is done once, and nothing is left to wake the session', async () => {
  await complete('one')
  await session.pass(20_000)
  expect((await session.actor.api.self.view(testCaller)).status).toBe('closed')
  expect(Object.keys(session.deadlines()).filter((name) => name === 'close')).toEqual([])
  const alarms = session.armedAt
  await session.pass(3600_000 * 2)
  expect(session.armedAt).toBeGreaterThan((alarms ?? 0) + 3600_000)
})

test('[TOOL5] nor if somebody closes it first', async () => {
  await complete('one')
  await session.actor.api.self.close(testCaller, 'x')
  expect(session.deadlines()).not.toHaveProperty('close')
})

test('[CALL11] [TOOL5] a closed session still says that the run is completed, and records nothing', async () => {
  const first = await complete('one')
  await session.pass(20_000)
  expect(await complete('one')).toEqual(first)
  expect(await complete('two')).toMatchObject({
    success: false,
    result: 'Cannot complete run "run-1": completion "one" is already recorded',
  })
  const { items } = await session.actor.api.calls.list(testCaller, { limit: 9, after: null })
  expect(items).toHaveLength(1)
})

test('[CALL11] a run that was never completed cannot be once its session is closed', async () => {
  await session.actor.api.self.close(testCaller, 'x')
  await expect(complete('one')).rejects.toMatchObject({ code: 'session_closed' })
})
