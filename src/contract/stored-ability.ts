import { z } from 'zod'
import { AbilityChecked, AbilityDocument, AbilityName } from './ability.ts'
import { AbilityFile, maxAbilityFiles } from './ability-folder.ts'
import { KeyId, Text } from './ids.ts'
import { PageQuery } from './page.ts'
import { SessionCreate } from './session.ts'

const Project = SessionCreate.shape.project
  .unwrap()
  .optional()
  .describe('Absent: the whole organisation')

/** A whole folder: `ability.yaml` with its scripts and hooks, or one flat file. */
export const AbilityPut = z.strictObject({
  project: Project,
  path: Text(500)
    .optional()
    .describe('Of the folder, such as deploy/production: the name, if the file has none'),
  files: z.array(AbilityFile).min(1).max(maxAbilityFiles),
  expectedVersion: z
    .number()
    .int()
    .min(0)
    .optional()
    .describe('Refused if the newest is another; 0: there is none yet'),
})
export type AbilityPut = z.infer<typeof AbilityPut>

/** A version never changes. The newest counts for executions that begin from then on. */
export const AbilityRow = z.object({
  project: z.string().nullable().describe('null: the whole organisation'),
  name: AbilityName,
  version: z.number().int().min(1),
  description: z.string(),
  hash: z.string().nullable().describe('Of all its files; null: removed'),
  removed: z.boolean().describe('From this version on there is none'),
  createdBy: KeyId,
  createdAt: z.number(),
  checked: AbilityChecked.omit({ ability: true })
    .optional()
    .describe('Only with validate=true: what would be said of it today'),
})
export type AbilityRow = z.infer<typeof AbilityRow>

export const StoredAbility = AbilityRow.extend({
  definition: AbilityDocument.nullable().describe('As it is read; null: removed'),
  files: z.array(AbilityFile),
})
export type StoredAbility = z.infer<typeof StoredAbility>

export const AbilityPutResult = AbilityRow.extend({ warnings: z.array(z.string()) })
export type AbilityPutResult = z.infer<typeof AbilityPutResult>

export const AbilityScope = z.strictObject({ project: Project })
export const AbilityListQuery = PageQuery.extend(AbilityScope.shape)
export const AbilityCheckQuery = AbilityListQuery.extend({
  validate: z.enum(['true', 'false']).default('false').describe('Each is read and checked anew'),
})
