import { z } from 'zod'
import { Sha256 } from './artifact.ts'
import { SkillId, SkillProposalId, Text } from './ids.ts'
import { PageQuery } from './page.ts'
import { RegistryPlace, RegistryScope } from './registry-scope.ts'
import { SkillVersion, SkillVersionAdd } from './skill.ts'

/** draft and submitted wait for people; approved waits to be applied; the others are ends. */
export const ProposalState = z.enum([
  'draft',
  'submitted',
  'approved',
  'rejected',
  'cancelled',
  'applied',
])
export type ProposalState = z.infer<typeof ProposalState>

/** What somebody has seen that made them propose it. */
export const ProposalSignal = z.strictObject({
  kind: z.enum(['trace', 'failure', 'correction', 'memory', 'request']),
  reference: Text(500).default('').describe('Where it can be seen: a run, a turn, an entry'),
})
export type ProposalSignal = z.infer<typeof ProposalSignal>

const { description, compatibility, source } = SkillVersionAdd.shape
const Rationale = Text(4000, 1)
const Why = Text(2000, 1)

export const SkillPropose = z.strictObject({
  baseVersion: SkillVersion.shape.version
    .optional()
    .describe('The version that it improves. Must be current; absent: the current one'),
  description: description.describe("Absent: the base version's"),
  compatibility: compatibility.unwrap().optional().describe("Absent: the base version's"),
  source,
  rationale: Rationale.describe('Why it is better'),
  signal: ProposalSignal.default({ kind: 'request', reference: '' }),
  submit: z.boolean().default(false).describe('Ask for approval at once'),
})
export type SkillPropose = z.infer<typeof SkillPropose>

/** The same for the same two texts, always. */
export const ProposalDiff = z.object({
  changed: z.array(z.enum(['description', 'compatibility', 'source'])),
  added: z.number().int().describe('Lines'),
  removed: z.number().int().describe('Lines'),
  lines: z
    .string()
    .describe('Lines that go (-) and come (+), between what both texts begin and end with'),
  truncated: z.boolean(),
})
export type ProposalDiff = z.infer<typeof ProposalDiff>

const Act = z.object({ by: z.string().describe('A key'), reason: z.string(), at: z.number() })

export const SkillProposal = z.object({
  id: SkillProposalId,
  skillId: SkillId,
  name: z.string(),
  project: z.string(),
  scope: RegistryScope,
  state: ProposalState,
  baseVersion: SkillVersion.shape.version.nullable().describe('null: the skill had no current one'),
  description: z.string(),
  compatibility: z.string(),
  source: SkillVersion.shape.source,
  sha256: Sha256.describe('Of what it says: that of the version that it becomes'),
  hash: Sha256.describe('Of skill, base and text. An approval holds for exactly this'),
  rationale: z.string(),
  signal: ProposalSignal,
  diff: ProposalDiff,
  asker: z.object({
    kind: z.enum(['sandbox', 'key']),
    id: z.string().describe('The session whose agent has proposed it, or the key'),
  }),
  quorum: z.number().int(),
  group: z.array(z.string()).nullable().describe('Keys that may resolve it; null: any'),
  votes: z.array(
    z.object({ keyId: z.string(), memberId: z.string(), reason: z.string(), at: z.number() }),
  ),
  resolution: Act.nullable(),
  application: Act.extend({ version: SkillVersion.shape.version }).nullable(),
  createdAt: z.number(),
})
export type SkillProposal = z.infer<typeof SkillProposal>

/** A row of the list: without texts. */
export const SkillProposalRow = SkillProposal.pick({
  ...{ id: true, skillId: true, name: true, project: true, scope: true, state: true },
  ...{ baseVersion: true, hash: true, createdAt: true },
})
export type SkillProposalRow = z.infer<typeof SkillProposalRow>

export const SkillProposalQuery = PageQuery.extend({
  project: RegistryPlace.shape.project.unwrap().optional(),
  skillId: SkillId.optional(),
  state: ProposalState.optional(),
})
export type SkillProposalQuery = z.infer<typeof SkillProposalQuery>

export const SkillProposalResolve = z.strictObject({
  resolution: z.enum(['approved', 'rejected']),
  hash: Sha256.describe("The proposal's: what you have looked at"),
  reason: Why,
})
export type SkillProposalResolve = z.infer<typeof SkillProposalResolve>

export const SkillProposalAct = z.strictObject({ reason: Why })
export type SkillProposalAct = z.infer<typeof SkillProposalAct>
