import { z } from 'zod'

const maxWarmPoolSize = 20

/** Sandboxes that are booted before anybody asks for them, so that a session of the configuration begins at once. */
export const WarmPool = z.strictObject({
  size: z
    .number()
    .int()
    .min(0)
    .max(maxWarmPoolSize)
    .describe("How many wait. They count against the organisation's limits like any other"),
})
export type WarmPool = z.infer<typeof WarmPool>

export const WarmPoolView = z.object({
  size: z.number().int(),
  ready: z.number().int().describe('Can be claimed now'),
  starting: z.number().int(),
  reason: z.string().nullable().describe('Why it is not full, if there is something to say'),
  retryAt: z.number().nullable().describe('Nothing is started before this time'),
})
export type WarmPoolView = z.infer<typeof WarmPoolView>
