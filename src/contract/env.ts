import { z } from 'zod'
import { SecretValue } from './secret.ts'
import { EnvKey } from './tools/paths.ts'
import { EnvRequestKey } from './tools/request-env-variables.ts'

export const EnvSubmit = z.strictObject({
  values: z
    .array(
      z.strictObject({
        key: EnvKey,
        value: SecretValue,
        type: z
          .enum(['secret', 'env'])
          .default('secret')
          .describe('env: a plain setting, never kept for later'),
        persist: z.boolean().optional().describe('Keep it as a secret of the configuration'),
      }),
    )
    .min(1)
    .max(100),
  saveToConfiguration: z
    .boolean()
    .default(false)
    .describe('What `persist` means where it is absent'),
  replace: z
    .boolean()
    .default(false)
    .describe('Give keys that exist their new value; without it they stay as they are'),
})
export type EnvSubmit = z.infer<typeof EnvSubmit>

export const EnvSubmitted = z.object({
  submitted: z.literal(true),
  results: z.array(
    z.object({
      key: z.string(),
      persisted: z.boolean().describe('Stored now as a secret of the configuration'),
      alreadyExisted: z
        .boolean()
        .describe(
          'In the session or in the configuration; without `replace` it is unchanged there',
        ),
    }),
  ),
  sandbox: z
    .enum(['written', 'pending', 'none'])
    .describe('pending: stored, and written as soon as the sandbox can be reached'),
})
export type EnvSubmitted = z.infer<typeof EnvSubmitted>

/** What the agent asked a person for. */
export const EnvRequest = z.object({
  id: z.string(),
  keys: z.array(EnvRequestKey),
  state: z.enum(['open', 'closed']),
  askedAt: z.number(),
  closedAt: z.number().nullable(),
})
export type EnvRequest = z.infer<typeof EnvRequest>
