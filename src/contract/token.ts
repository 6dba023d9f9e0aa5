import { z } from 'zod'
import { OrganisationId, SessionId } from './ids.ts'

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
