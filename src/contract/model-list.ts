import { z } from 'zod'
import { ReasoningEffort } from './models.ts'

const usd = z.number().describe('US dollars per million tokens')
export const ModelList = z.object({
  default: z.string().describe('The model of sessions that name none'),
  pricedAt: z.string().describe('The day on which the prices were looked up'),
  items: z.array(
    z.object({
      id: z.string().describe('What sessions and configurations store'),
      maker: z.string(),
      served: z.boolean().describe('Whether this deployment has a key for its vendor'),
      contextTokens: z.number().int(),
      outputTokens: z.number().int(),
      reasoningEfforts: z.array(ReasoningEffort).describe('Empty: it takes none'),
      price: z
        .object({
          input: usd,
          output: usd,
          cacheRead: usd.nullable(),
          cacheWrite: usd.nullable(),
        })
        .nullable()
        .describe('null: not known, so a budget in money is refused'),
    }),
  ),
})
export type ModelList = z.infer<typeof ModelList>
