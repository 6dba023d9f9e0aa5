import { z } from 'zod'
import { MemberId, OrganisationId, Text } from './ids.ts'

/** A person or system of an organisation. Keys belong to members; approvals and quorums count them. */
export const Member = z.object({
  id: MemberId,
  organisationId: OrganisationId,
  name: z.string().describe('Taken once in an organisation; never changes'),
  identity: z.string().describe('What the operator knows the member by, such as an address'),
  createdBy: z.string().nullable().describe('The key that made it; null: the operator'),
  createdAt: z.number(),
  disabledAt: z.number().nullable().describe('Since when its keys open nothing'),
})
export type Member = z.infer<typeof Member>

export const MemberCreate = z.strictObject({
  name: Text(100, 1),
  identity: Text(200).default(''),
})
export type MemberCreate = z.infer<typeof MemberCreate>
