import { expect, test } from 'vitest'
import { question } from '../../../support/agent.ts'
import { policyOf } from '../../../support/run-world.ts'
import { WarmWorld } from '../../../support/warm-world.ts'

test('[WARM4] a claimed session is under the policy of its creation, also if a tool has asked before', async () => {
  const world = new WarmWorld()
  world.size = 1
  await world.fill()
  const [, session] = world.sessions()[0] ?? []
  await session?.receive(question(`ask_${'1'.repeat(20)}`, 'bash'))
  const policy = policyOf({ name: 'newest' })
  await session?.actor.api.warm.adopt({ ...world.createOf('ses_new'), policy })
  expect(await session?.actor.api.gate.policy(world.fleet.caller)).toMatchObject({ name: 'newest' })
})
