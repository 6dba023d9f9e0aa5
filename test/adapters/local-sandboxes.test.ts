import { startHostWorld } from '../local/host/host-world.ts'
import { sandboxProviderSuite } from '../suites/sandbox-provider.ts'

sandboxProviderSuite({ name: 'local', start: startHostWorld, patienceMs: 20_000 })
