import { describe, expect, test } from 'vitest'
import { sandboxProviderSuite } from '../suites/sandbox-provider.ts'
import { whyNoModal } from '../support/modal-double.ts'
import { startModalWorld } from '../support/modal-world.ts'

const why = whyNoModal()
if (why === null) sandboxProviderSuite({ name: 'Modal', start, patienceMs: 30_000 })
else describe('SandboxProvider: Modal', () => test.skip(`not here: ${why}`, () => undefined))

async function start() {
  const world = await startModalWorld()
  const close = async () => {
    await world.close()
    // [MODAL3] every request and every answer of the suite had the shapes that the app defines.
    expect(world.double.refused).toEqual([])
  }
  return { ...world, close }
}
