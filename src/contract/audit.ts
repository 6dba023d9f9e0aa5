import { z } from 'zod'

export const AuditAction = z.enum([
  'member.created',
  'member.disabled',
  'key.created',
  'key.revoked',
  'settings.changed',
  'baseline.set',
  'promotion.passed',
  'promotion.asked',
  'promotion.overridden',
  'promotion.refused',
])
export type AuditAction = z.infer<typeof AuditAction>

/** What was done to members, keys and settings of an organisation, and what was released in it. Entries are added and never changed. */
export const AuditEntry = z.object({
  id: z.string(),
  action: AuditAction,
  subject: z.string().describe('The id of what it was done to'),
  actor: z.string().describe('The key that did it, or `operator`'),
  detail: z.record(z.string(), z.unknown()),
  createdAt: z.number(),
})
export type AuditEntry = z.infer<typeof AuditEntry>
