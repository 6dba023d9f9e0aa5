import { z } from 'zod'

/** What usage is added up by. */
export const UsageBy = z.enum(['member', 'project', 'model'])
export type UsageBy = z.infer<typeof UsageBy>

const count = z.number().int()
const time = z.coerce.number().int().min(0).max(8_640_000_000_000_000).optional()

/** Days are whole and in UTC. */
export const UsageQuery = z.strictObject({
  by: UsageBy.default('member'),
  since: time.describe(
    'From the day of this time on, in milliseconds since 1970; default: 29 days before `until`',
  ),
  until: time.describe('Up to the day of this time, all of it; default: today'),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.string().max(1000).optional(),
})
export type UsageQuery = z.infer<typeof UsageQuery>

/** What a member, a project or a model has used within some days. */
export const Usage = z.object({
  id: z
    .string()
    .nullable()
    .describe('The id of the member, or the name of the project or model; null: nobody knows'),
  name: z.string().nullable().describe('Of the member; else null'),
  requests: count.describe('Model calls that the vendor has answered'),
  inputTokens: count.describe('With what was read from and written to caches'),
  outputTokens: count.describe('With reasoning'),
  moneyUsd: z.number().describe('By the price table'),
  toolCalls: count
    .nullable()
    .describe("Calls of Gantry's tools; of sessions that were deleted none. null: not by model"),
  sandboxSeconds: count
    .nullable()
    .describe('Of sandboxes that were begun in these days; while one lives, its whole lifetime'),
})
export type Usage = z.infer<typeof Usage>
