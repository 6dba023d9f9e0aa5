import { z } from 'zod'
import { KeyId, MemberId, OrganisationId, Text } from './ids.ts'
import { SessionCreate } from './session.ts'

export const Scope = z.enum(['read', 'write', 'approve', 'admin'])
export type Scope = z.infer<typeof Scope>

/** `gk_` and 32 characters. Only its SHA-256 is stored. */
export const apiKeyPattern = /^gk_[0-9a-z]{32}$/

/** What a key may see of its organisation: sessions of some projects, sessions that its own member has made, or both. */
export const KeyLimits = z
  .strictObject({
    projects: z
      .array(SessionCreate.shape.project.unwrap())
      .min(1)
      .max(100)
      .optional()
      .describe('Only these projects'),
    ownSessions: z.literal(true).optional().describe('Only sessions that its member has made'),
  })
  .refine(({ projects, ownSessions }) => projects !== undefined || ownSessions !== undefined, {
    error: 'Name projects, ownSessions or both; leave limits out for a key without limits',
  })
export type KeyLimits = z.infer<typeof KeyLimits>

export const ApiKey = z.object({
  id: KeyId,
  organisationId: OrganisationId,
  name: z.string(),
  memberId: MemberId,
  owner: z.string().describe('The name of the member that the key belongs to'),
  scopes: z.array(Scope),
  limits: KeyLimits.nullable().describe('null: it may see the whole organisation'),
  countsAs: z
    .object({ memberId: MemberId, owner: z.string(), until: z.number() })
    .nullable()
    .describe('Until then its votes count as those of this member, who has made the key'),
  createdAt: z.number(),
  expiresAt: z.number().nullable(),
  revokedAt: z.number().nullable(),
  lastUsedAt: z.number().nullable(),
})
export type ApiKey = z.infer<typeof ApiKey>

export const KeyCreate = z.strictObject({
  name: Text(100, 1),
  memberId: MemberId.optional().describe('Default: the member of the key that asks'),
  owner: Text(100, 1)
    .optional()
    .describe('The same by name; a member of this name is made if there is none'),
  scopes: z.array(Scope).min(1).max(4),
  limits: KeyLimits.optional().describe('Default: none. A key with scope admin has none'),
  expiresAt: z.number().int().positive().optional().describe('Milliseconds since 1970'),
})
export type KeyCreate = z.infer<typeof KeyCreate>

export const KeyCreated = ApiKey.extend({ secret: z.string().describe('Shown once') })
export type KeyCreated = z.infer<typeof KeyCreated>
