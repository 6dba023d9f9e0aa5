import { z } from 'zod'

export const ProviderName = z.enum(['local', 'e2b', 'modal', 'none'])
export type ProviderName = z.infer<typeof ProviderName>

export const SandboxState = z.enum([
  'none',
  'requested',
  'creating',
  'booting',
  'ready',
  'suspect',
  'lost',
  'replacing',
  'stopping',
  'stopped',
  'failed',
])
export type SandboxState = z.infer<typeof SandboxState>

/** Held where the provider can. */
export const SandboxLimits = z.strictObject({
  memoryMb: z.number().int().min(128).max(1_048_576).optional(),
  processes: z.number().int().min(16).max(100_000).optional(),
  lifetimeSeconds: z
    .number()
    .int()
    .min(60)
    .max(7 * 86_400)
    .optional()
    .describe("Of one sandbox; never more than the organisation's limit"),
})
export type SandboxLimits = z.infer<typeof SandboxLimits>

/** auto: a lost sandbox is replaced at once, and what was lost is announced. manual: somebody has to ask for it. */
export const Replacement = z.enum(['auto', 'manual'])
export type Replacement = z.infer<typeof Replacement>

export const defaultIdleTimeoutSeconds = 1800
