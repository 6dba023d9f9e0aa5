import { z } from 'zod'

export const ProviderName = z.enum(['local', 'none'])
export type ProviderName = z.infer<typeof ProviderName>

export const SandboxState = z.enum([
  'none',
  'requested',
  'creating',
  'booting',
  'ready',
  'suspect',
  'lost',
  'stopping',
  'stopped',
  'failed',
])
export type SandboxState = z.infer<typeof SandboxState>
