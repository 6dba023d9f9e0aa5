import { z } from 'zod'
import { OrganisationId, SessionId, Text } from './ids.ts'

/** The claims of a sandbox's JWT, beyond the registered ones. */
export const SandboxClaims = z.object({
  sub: SessionId,
  org: OrganisationId,
  gen: z.number().int().positive(),
  source: z.string(),
  exp: z.number().int(),
})
export type SandboxClaims = z.infer<typeof SandboxClaims>

export const tokenIssuer = 'gantry'
export const tokenAudience = 'gantry-sandbox'
export const tokenLifetimeSeconds = 3600

/** For programs that stand in for a sandbox, such as the conformance runner. */
export const TokenCreate = z.strictObject({
  lifetimeSeconds: z
    .number()
    .int()
    .min(-86_400)
    .max(tokenLifetimeSeconds)
    .default(tokenLifetimeSeconds)
    .describe('0 or less: a token that has expired already'),
  generation: z.number().int().min(1).max(1_000_000).optional().describe('Default: the current'),
  source: Text(50, 1)
    .default('sandbox')
    .describe('Only "sandbox" is let into the sandbox’s routes'),
})
export type TokenCreate = z.infer<typeof TokenCreate>

export const TokenCreated = z.object({ token: z.string(), expiresAt: z.number() })
export type TokenCreated = z.infer<typeof TokenCreated>
