import type { OrganisationApi } from '../../../src/core/organisation/organisation.ts'
import type { Blobs, Crypto, Ledger, Log, SandboxProvider } from '../../../src/core/ports.ts'
import type { SessionApi } from '../../../src/core/session/session.ts'
import type { GatewayTool } from '../../../src/core/session/calls/tools/tool.ts'
import type { Clock } from '../platform/clock.ts'
import type { Libsql } from '../platform/libsql.ts'
import type { Network } from '../platform/network.ts'

/** What an actor finds outside of itself. */
export interface Outside {
  clock: Clock
  network: Network
  crypto: Crypto
  libsql: Libsql
  ledger: Ledger
  provider: SandboxProvider
  tools: readonly GatewayTool[]
  blobs: () => Blobs
  session: (id: string) => SessionApi
  organisation: (id: string) => OrganisationApi
  log: Log
}
