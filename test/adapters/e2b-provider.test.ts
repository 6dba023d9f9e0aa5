import { sandboxProviderSuite } from '../suites/sandbox-provider.ts'
import { startE2bWorld } from '../support/e2b-world.ts'
import { whyNoMachines } from '../support/sandbox-namespace.ts'
import { describe, test } from 'vitest'

const why = whyNoMachines()
if (why === null) sandboxProviderSuite({ name: 'E2B', start: () => startE2bWorld() })
else describe.skip(`SandboxProvider: E2B, which ${why}`, () => test('[PROV1] is not run here'))
