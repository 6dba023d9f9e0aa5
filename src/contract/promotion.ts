import { z } from 'zod'
import { Sha256 } from './artifact.ts'
import { EvalRunId, Text } from './ids.ts'
import { PageQuery } from './page.ts'
import { Project } from './project.ts'

/** What lets a revision be released: a run of a suite that is not worse than its baseline, or people's word. */

export const PromotionKind = z
  .enum(['agent', 'skill', 'ability', 'policy', 'profile'])
  .describe('agent: subagents too')
export type PromotionKind = z.infer<typeof PromotionKind>

export const Guarded = z.strictObject({
  kind: PromotionKind,
  name: Text(200, 1).optional().describe('Default: every row of the kind'),
})
export type Guarded = z.infer<typeof Guarded>

/** One revision of a row of a registry, by what it says. */
export const RegistryRevision = z.object({
  kind: PromotionKind,
  name: Text(200, 1),
  sha256: Sha256.describe('Of the revision, as the refusal names it'),
})
export type RegistryRevision = z.infer<typeof RegistryRevision>

export const PromotionState = z
  .enum(['passed', 'asked', 'overridden', 'refused'])
  .describe('passed: by its run; asked: people decide; overridden, refused: by people')
export type PromotionState = z.infer<typeof PromotionState>

export const PromotionId = z.string().regex(/^prm_[0-9a-z]{20}$/)

export const Promotion = RegistryRevision.extend({
  id: PromotionId,
  project: z.string(),
  dataset: z.string(),
  state: PromotionState,
  baselineRunId: EvalRunId.describe('What it was held against: a promotion counts for this one'),
  evalRunId: EvalRunId.nullable().describe('The run of this revision; null: there is none'),
  target: z.string().nullable(),
  runHash: z.string().nullable(),
  reasons: z.array(z.string()).describe("The gate's sentences, what failed first"),
  askedBy: z.string().describe('The key that wanted to release it'),
  askReason: z.string().nullable().describe('Why the gate should be overridden'),
  quorum: z.number().int(),
  votes: z.array(z.object({ keyId: z.string(), reason: z.string(), at: z.number() })),
  resolvedBy: z.string().nullable().describe('Of an override: the key whose word decided'),
  resolveReason: z.string().nullable(),
  createdAt: z.number(),
  updatedAt: z.number(),
})
export type Promotion = z.infer<typeof Promotion>

export const PromotionRow = Promotion.omit({ votes: true })
export type PromotionRow = z.infer<typeof PromotionRow>

export const PromotionAsk = z.strictObject({
  project: Project,
  dataset: Text(200, 1),
  ...RegistryRevision.shape,
  reason: Text(2000, 1).describe('Why it should be released all the same'),
})
export type PromotionAsk = z.infer<typeof PromotionAsk>

export const PromotionResolve = z.strictObject({
  resolution: z.enum(['approved', 'rejected']),
  sha256: Sha256.describe('The revision that is meant'),
  reason: Text(2000, 1),
})
export type PromotionResolve = z.infer<typeof PromotionResolve>

export const PromotionListQuery = PageQuery.extend({
  project: z.string().max(64).optional(),
  dataset: Text(200, 1).optional(),
  kind: PromotionKind.optional(),
})
export type PromotionListQuery = z.infer<typeof PromotionListQuery>
