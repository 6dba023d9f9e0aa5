import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { until } from '../local/support.ts'
import { askingCases } from './sandbox-provider/asking.ts'
import { endingCases } from './sandbox-provider/ending.ts'
import { snapshotCases } from './sandbox-provider/snapshots.ts'
import { startingCases } from './sandbox-provider/starting.ts'
import {
  isAlive,
  organisation,
  otherOrganisation,
  type SandboxCase,
  toolsOf,
} from './sandbox-provider/tools.ts'
import type { SandboxWorld } from './sandbox-provider/world.ts'

export { organisation, otherOrganisation, snapshotName } from './sandbox-provider/tools.ts'
export type { SandboxFault, SandboxWorld } from './sandbox-provider/world.ts'

export interface SandboxSuite {
  name: string
  start: () => Promise<SandboxWorld>
  /** What this provider cannot do, by the name of the case, and why. It is shown as skipped, with the reason. */
  cannot?: Partial<Record<CaseName, string>>
  /** How long the slowest step may take. */
  patienceMs?: number
}

const cases = { ...startingCases, ...askingCases, ...endingCases, ...snapshotCases }
export type CaseName = keyof typeof cases

/** What every SandboxProvider must do. */
export function sandboxProviderSuite(suite: SandboxSuite): void {
  const { name, start, cannot = {}, patienceMs = 10_000 } = suite
  // A busy machine gets more.
  const timeout = Math.max(patienceMs * 6, 240_000)
  describe(`SandboxProvider: ${name}`, { timeout }, () => {
    let world: SandboxWorld
    beforeAll(async () => {
      world = await start()
    }, timeout)
    afterAll(() => world?.close(), timeout)

    for (const [key, { title, run }] of Object.entries<SandboxCase>(cases)) {
      const why = cannot[key as CaseName]
      test.skipIf(why !== undefined)(why === undefined ? title : `${title}: ${why}`, async () => {
        const tools = toolsOf(world, patienceMs)
        try {
          await run(tools)
        } finally {
          await tools.clean()
        }
      })
    }

    test('[PROV2] after everything was stopped nothing is left', async () => {
      for (const organisationId of [organisation, otherOrganisation])
        expect((await world.provider.list(organisationId)).filter(isAlive)).toEqual([])
      const isClean = async () => (await world.leftovers()).length === 0
      await until(isClean, patienceMs).catch(() => undefined)
      expect(await world.leftovers()).toEqual([])
    })
  })
}
