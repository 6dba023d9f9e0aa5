import type { Stack } from '../../local/stack/stack.ts'
import type { Db } from '../../src/core/ports.ts'
import type { ChaosAgent } from './agent.ts'
import type { Caller } from './calls.ts'
import type { Client } from './client.ts'
import type { CrashServer } from './crash-server.ts'
import type { EffectsServer } from './effects-server.ts'
import type { Killer } from './killer.ts'
import type { Life } from './lives.ts'
import type { Operator } from './operations.ts'
import type { ChaosHost } from './sandbox-host.ts'

/** Everything that takes part in a storm. */
export interface Scene {
  stack: Stack
  db: Db
  crashes: CrashServer
  effects: EffectsServer
  host: ChaosHost
  killer: Killer
  admin: Client
  callers: Caller[]
  /** Agents of the callers' sessions, which have no sandbox. */
  agents: ChaosAgent[]
  /** In sessions of their own, which have a sandbox. */
  operators: Operator[]
  lives: Life[]
  problems: string[]
  complain: (problem: string) => void
}
