import { z } from 'zod'
import { Text } from './ids.ts'
import { RegistryScope } from './registry-scope.ts'

/** What a session is given to remember, and may search and add to. */
export const SessionMemory = z.strictObject({
  scopes: z
    .array(RegistryScope)
    .min(1)
    .max(RegistryScope.options.length)
    .describe("personal: of the member who creates the session. Default: the agent's")
    .optional(),
  query: Text(500, 1)
    .optional()
    .describe('What it begins with is found by these words; absent: the newest'),
  maxTokens: z
    .number()
    .int()
    .min(0)
    .max(20_000)
    .default(2000)
    .describe('Of what it begins with, about four characters each; 0: only its tools'),
})
export type SessionMemory = z.infer<typeof SessionMemory>
