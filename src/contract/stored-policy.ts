import { z } from 'zod'
import { KeyId, Text } from './ids.ts'
import { maxPolicyBytes } from './policy.ts'
import { SessionCreate } from './session.ts'

export const PolicyFormat = z.enum(['yaml', 'json'])
export type PolicyFormat = z.infer<typeof PolicyFormat>

const Project = SessionCreate.shape.project
  .unwrap()
  .optional()
  .describe('Absent: the whole organisation, where a project has none of its own')
const VersionNumber = z.number().int().min(1)

/** A version never changes. The newest of a project counts, for sessions that are created from then on. */
export const PolicyRow = z.object({
  project: z.string().nullable().describe('null: the whole organisation'),
  version: VersionNumber,
  name: z.string(),
  format: PolicyFormat,
  extends: z
    .string()
    .describe('The built-in document under it, such as sandbox-default@1, or "none"'),
  removed: z.boolean().describe('From this version on there is none'),
  createdBy: KeyId,
  createdAt: z.number(),
})
export type PolicyRow = z.infer<typeof PolicyRow>

export const StoredPolicy = PolicyRow.extend({
  source: z.string().nullable().describe('As it was sent; null: removed'),
})
export type StoredPolicy = z.infer<typeof StoredPolicy>

/** What was stored, and what it will ask or deny though the built-in policy allows it. */
export const PolicyPutResult = StoredPolicy.extend({ warnings: z.array(z.string()) })
export type PolicyPutResult = z.infer<typeof PolicyPutResult>

const document = {
  source: Text(maxPolicyBytes, 1).describe('The policy document, in YAML or JSON'),
  format: PolicyFormat.default('yaml'),
}

export const PolicyPut = z.strictObject({
  project: Project,
  ...document,
  expectedVersion: z
    .number()
    .int()
    .min(0)
    .optional()
    .describe('Refused if the newest is another; 0: there is none yet'),
})
export type PolicyPut = z.infer<typeof PolicyPut>

export const PolicyScope = z.strictObject({ project: Project })
export type PolicyScope = z.infer<typeof PolicyScope>
