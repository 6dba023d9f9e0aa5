import type { SandboxSpec } from '../../src/core/ports.ts'

export const noLimits = { memoryMb: null, processes: null, lifetimeSeconds: 24 * 3600 }

/** A sandbox with an empty repository, whose agent can reach nobody. */
export function sandboxSpec(overrides: Partial<SandboxSpec> = {}): SandboxSpec {
  return {
    sessionId: `ses_${'1'.repeat(30)}`,
    organisationId: `org_${'1'.repeat(20)}`,
    generation: 1,
    gatewayUrl: 'http://127.0.0.1:1/',
    token: 'the-token-of-this-sandbox',
    repository: null,
    snapshotId: null,
    image: null,
    limits: noLimits,
    ...overrides,
  }
}
