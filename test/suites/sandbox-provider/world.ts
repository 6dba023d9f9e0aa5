import type { SandboxProvider, SandboxSpec } from '../../../src/core/ports.ts'

export type SandboxFault = 'limited' | 'broken' | 'cut'

/** One provider with its vendor, for the whole suite. */
export interface SandboxWorld {
  provider: SandboxProvider
  /** The same provider when nobody answers it. */
  away: SandboxProvider
  /** Another session with another token each time. */
  spec(overrides?: Partial<SandboxSpec>): SandboxSpec
  /** The vendor loses it, whatever it was told. */
  kill(sessionId: string, generation: number): Promise<void>
  /** A file of its workspace, by relative path, as something inside the sandbox would write it. */
  write(sessionId: string, generation: number, path: string, text: string): Promise<void>
  /** null: there is no such file, or no such sandbox. */
  read(sessionId: string, generation: number, path: string): Promise<string | null>
  /** The token of each agent that runs in it: more than one if it was created twice, on whatever machine. */
  tokens(sessionId: string, generation: number): Promise<string[]>
  /** The next order is carried out, but its answer does not arrive. */
  loseNextAnswer(): void
  /** The next request to the vendor is refused as too many, answered with 500, or cut before it is read. */
  failNext(kind: SandboxFault): void
  /** By name, whatever is still there that costs or occupies something: machines, processes, folders, ports. */
  leftovers(): Promise<string[]>
  close(): Promise<void>
}
