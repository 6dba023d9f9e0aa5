import { expect, test } from 'vitest'
import { SessionCreate } from '../../../../src/contract/session.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller, testSessionId } from '../../../support/session.ts'

const host = 'api.example.com'

async function begin() {
  const world = new RunWorld()
  const inject = { hosts: [host], header: 'authorization', scheme: 'bearer' as const }
  const sealed = await world.crypto.seal('a-secret-value')
  await world.actor.api.self.create({
    ...{ sessionId: testSessionId, ...testCaller, policy: null },
    input: SessionCreate.parse({ sandbox: 'local' }),
    secrets: [{ key: 'TOKEN', kind: 'secret', sealed, inject }],
  })
  await world.pass(0)
  await world.meet()
  const turn = await world.prompt()
  const admit = () => world.actor.api.upstreams.admit({ ...testCaller, generation: 1 }, host)
  return { world, turn, admit }
}

test('[SEC15] a turn that ends while the kill switch is asked for lets no request out', async () => {
  const { world, turn, admit } = await begin()
  expect(await admit()).toMatchObject([{ name: 'TOKEN', value: 'a-secret-value' }])
  world.organisation.api.firewall.killReason = async () => {
    await world.endTurn(turn)
    return null
  }
  await expect(admit()).rejects.toMatchObject({
    ...{ code: 'forbidden', message: expect.stringContaining('no turn is running') },
  })
})
