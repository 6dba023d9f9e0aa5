import { z } from 'zod'
import { MemoryId, Text } from './ids.ts'
import { PageQuery } from './page.ts'
import { RegistryPlace, RegistryScope } from './registry-scope.ts'

/** What kind of memory it is, in the team's own words. */
export const MemoryType = z.string().regex(/^[a-z][a-z0-9-]{0,39}$/, {
  error: 'Lower-case letters, digits and "-", such as decision or preference',
})

const filled = (max: number) =>
  Text(max).refine((text) => text.trim() !== '', { error: 'Must not be empty' })

const maxMemoryContent = 32_000

const fields = {
  type: MemoryType,
  title: filled(200),
  content: filled(maxMemoryContent),
}

export const MemoryFields = z.strictObject({ ...fields, type: MemoryType.default('note') })
export type MemoryFields = z.infer<typeof MemoryFields>

export const MemoryCreate = RegistryPlace.extend(MemoryFields.shape)
export type MemoryCreate = z.infer<typeof MemoryCreate>

const expectedRevision = z
  .number()
  .int()
  .min(1)
  .optional()
  .describe('Refused if the newest revision is another')

export const MemoryUpdate = z.strictObject({
  type: MemoryType.optional(),
  title: fields.title.optional(),
  content: fields.content.optional(),
  expectedRevision,
})
export type MemoryUpdate = z.infer<typeof MemoryUpdate>

export const MemoryRevision = z.object({
  revision: z.number().int(),
  type: z.string(),
  title: z.string(),
  content: z.string(),
  savedBy: z.string().describe('The key that saved it, or the session in which an agent did'),
  createdAt: z.number(),
})
export type MemoryRevision = z.infer<typeof MemoryRevision>

export const Memory = z.object({
  id: MemoryId,
  project: z.string(),
  scope: RegistryScope,
  type: z.string(),
  title: z.string(),
  content: z.string(),
  revision: z.number().int(),
  savedBy: z.string().describe('The key that saved it, or the session in which an agent did'),
  createdAt: z.number(),
  updatedAt: z.number(),
})
export type Memory = z.infer<typeof Memory>

export const MemoryListQuery = PageQuery.extend(RegistryPlace.shape).extend({
  type: MemoryType.optional(),
})
export type MemoryListQuery = z.infer<typeof MemoryListQuery>

/** Which scopes are searched. `all` is the project's and the member's own; a hit says whose it is. */
const MemoryScopes = z.enum(['all', ...RegistryScope.options])

export const MemorySearchQuery = z.strictObject({
  query: Text(500, 1).describe('Words; nothing in it is syntax'),
  project: RegistryPlace.shape.project,
  scope: MemoryScopes.default('all'),
  type: MemoryType.optional(),
  limit: z.coerce.number().int().min(1).max(50).default(10),
})
export type MemorySearchQuery = z.infer<typeof MemorySearchQuery>

export const MemoryHit = Memory.omit({ content: true, savedBy: true, createdAt: true }).extend({
  snippet: z.string().describe('Of the content, around the first word that was found'),
  score: z.number().describe('To compare hits of one search'),
})
export type MemoryHit = z.infer<typeof MemoryHit>

export const MemoryHits = z.object({ items: z.array(MemoryHit).describe('The best first') })

export const MemoryImport = RegistryPlace.extend({
  dryRun: z.boolean().default(false).describe('Says what would happen and stores nothing'),
  memories: z.array(MemoryFields).min(1).max(200),
})
export type MemoryImport = z.infer<typeof MemoryImport>

export const MemoryImported = z.object({
  dryRun: z.boolean(),
  items: z.array(
    z.object({
      title: z.string(),
      outcome: z.enum(['created', 'updated', 'unchanged']),
      id: MemoryId.nullable().describe('null: it would be created'),
    }),
  ),
})
export type MemoryImported = z.infer<typeof MemoryImported>
