import { z } from 'zod'
import { Sha256 } from './artifact.ts'
import { KeyId, SessionId, SkillId, Text } from './ids.ts'
import { PageQuery } from './page.ts'
import { RegistryPlace, RegistryScope } from './registry-scope.ts'

/** OpenCode's own skill, which is in every session whatever we write. */
const builtinSkill = 'customize-opencode'

/** As OpenCode wants it: the name is also the name of the skill's folder. */
export const SkillName = z
  .string()
  .max(64)
  .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, {
    error: 'Lower-case letters and digits, with single hyphens between them, such as "git-release"',
  })
  .refine((name) => name !== builtinSkill, { error: 'Taken by OpenCode itself' })

/**
 * What the model chooses by. OpenCode puts it into the system prompt between tags as it is, so one that has tags or lines
 * of its own could pass for something else.
 */
export const SkillDescription = Text(1024, 1)
  .refine((text) => !/\p{Cc}|[\u2028\u2029]/u.test(text), { error: 'Must be one line' })
  .refine((text) => !/[<>]/.test(text), { error: 'Must not contain "<" or ">"' })
  .refine((text) => text.trim() !== '', { error: 'Must say something' })

export const maxSkillBytes = 64 * 1024

const InlineSource = z.strictObject({
  kind: z.literal('inline'),
  content: Text(maxSkillBytes, 1)
    .refine((text) => !/^\uFEFF?---\s*\n/.test(text), {
      error: 'Leave out the front matter: name and description are fields, and Gantry writes it',
    })
    .refine((text) => text.trim() !== '', { error: 'Must say something' })
    .describe('Markdown: what SKILL.md says under its front matter'),
})
const PathSource = z.strictObject({
  kind: z.literal('path'),
  path: Text(500, 1).describe('In the workspace, relative to it'),
})
const UrlSource = z.strictObject({
  kind: z.literal('url'),
  url: z
    .url({ protocol: /^https?$/ })
    .max(2000)
    .describe('Kept for people. Never fetched'),
})
export const SkillSource = z.discriminatedUnion('kind', [InlineSource, PathSource, UrlSource])
export type SkillSource = z.infer<typeof SkillSource>

/** Of a version. Only an active one is given to sessions; archived is the end. */
export const SkillState = z.enum(['draft', 'active', 'deprecated', 'archived'])
export type SkillState = z.infer<typeof SkillState>

const VersionNumber = z.number().int().min(1)
const Why = Text(2000, 1).describe('Why, for whoever reads the history')
const Compatibility = Text(500).describe('What it needs, in words; written into SKILL.md')

/** What a version says. It never changes; only its state does. */
const said = {
  description: SkillDescription,
  compatibility: Compatibility,
  source: SkillSource,
}

export const SkillVersion = z.object({
  skillId: SkillId,
  version: VersionNumber,
  state: SkillState,
  ...said,
  sha256: Sha256.describe('Of description, compatibility and source'),
  createdBy: z.string().describe('The key that added it'),
  createdAt: z.number(),
})
export type SkillVersion = z.infer<typeof SkillVersion>

export const Skill = z.object({
  id: SkillId,
  project: z.string(),
  scope: RegistryScope,
  name: z.string(),
  description: z.string(),
  currentVersion: VersionNumber.nullable().describe('null: none was ever made current'),
  createdBy: KeyId,
  createdAt: z.number(),
  updatedAt: z.number(),
})
export type Skill = z.infer<typeof Skill>

export const SkillUpsert = z.strictObject({
  ...RegistryPlace.shape,
  name: SkillName,
  description: SkillDescription.describe(
    'What the skill is for. A version that is given no description of its own takes this one',
  ),
})
export type SkillUpsert = z.infer<typeof SkillUpsert>

export const SkillVersionAdd = z.strictObject({
  description: SkillDescription.optional().describe("Absent: the skill's"),
  compatibility: Compatibility.default(''),
  source: SkillSource,
  activate: z.boolean().default(false).describe('Make it active and current at once'),
  reason: Text(2000).default('').describe('Why, for whoever reads the history'),
})
export type SkillVersionAdd = z.infer<typeof SkillVersionAdd>

export const SkillStateChange = z.strictObject({
  state: SkillState.exclude(['draft']).describe('active: a draft also becomes the current version'),
  reason: Why,
})
export type SkillStateChange = z.infer<typeof SkillStateChange>

export const SkillRollback = z.strictObject({
  version: VersionNumber.describe('An earlier one that was active once'),
  reason: Why,
})
export type SkillRollback = z.infer<typeof SkillRollback>

const SkillTargetType = z.enum(['agent', 'subagent', 'workflow-phase', 'provider-adapter'])
type SkillTargetType = z.infer<typeof SkillTargetType>

const targetKey = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,99}$/

export const SkillTarget = z.strictObject({
  targetType: SkillTargetType,
  targetKey: z
    .string()
    .regex(targetKey, { error: 'Letters, digits, ".", "_", ":" and "-", at most 100' })
    .describe("An agent's name, a phase (sdd:apply, or apply in every workflow), or opencode"),
})
export type SkillTarget = z.infer<typeof SkillTarget>

export const SkillAttach = z.strictObject({
  version: VersionNumber.optional().describe('Absent: the current one, whichever that is'),
})
export type SkillAttach = z.infer<typeof SkillAttach>

export const SkillAttachment = z.object({
  ...SkillTarget.shape,
  version: VersionNumber.nullable(),
  createdBy: z.string(),
  createdAt: z.number(),
})
export type SkillAttachment = z.infer<typeof SkillAttachment>

export const SkillDetails = Skill.extend({
  current: SkillVersion.nullable(),
  attachments: z.array(SkillAttachment),
})
export type SkillDetails = z.infer<typeof SkillDetails>

export const SkillQuery = PageQuery.extend({
  project: RegistryPlace.shape.project.unwrap().optional(),
  scope: RegistryScope.optional().describe("Absent: the project's and your own"),
  state: SkillState.optional().describe('Of the current version'),
  targetType: SkillTargetType.optional(),
  targetKey: SkillTarget.shape.targetKey.optional(),
})
export type SkillQuery = z.infer<typeof SkillQuery>

export const SkillAct = z.enum([
  'version.added',
  'version.activated',
  'version.deprecated',
  'version.archived',
  'rolled-back',
  'attached',
  'detached',
])
export type SkillAct = z.infer<typeof SkillAct>

/** Who changed what sessions get of a skill, and why. Added, never changed. */
export const SkillChange = z.object({
  seq: z.number().int(),
  act: SkillAct,
  version: VersionNumber.nullable(),
  target: SkillTarget.nullable(),
  actor: z.string().describe('A key'),
  reason: z.string(),
  createdAt: z.number(),
})
export type SkillChange = z.infer<typeof SkillChange>

/** A skill by name; absent scope: that of whoever names it. */
export const SkillReference = z.strictObject({
  name: SkillName,
  scope: RegistryScope.optional(),
  version: VersionNumber.nullish().describe('Absent: the current one'),
})
export type SkillReference = z.infer<typeof SkillReference>

/** As people write it: a name, `personal:name`, `name@3`. */
const shortReference = /^(?:(project|personal):)?([^@:]*)(?:@([1-9]\d{0,8}))?$/

export const SkillNamed = z.preprocess((given) => {
  const [, scope, name, version] =
    shortReference.exec(typeof given === 'string' ? given : '@') ?? []
  if (name === undefined) return given
  return { name, ...(scope && { scope }), ...(version && { version: Number(version) }) }
}, SkillReference)

export const maxNamedSkills = 50
export const maxPayloadBytes = 1024 * 1024

const Word = z.string().regex(targetKey)

export const SkillResolve = z.strictObject({
  ...RegistryPlace.shape,
  skills: z
    .array(SkillNamed)
    .max(maxNamedSkills)
    .default([])
    .describe('By name: "review", "personal:notes", "review@3"'),
  agent: z
    .strictObject({
      name: Word,
      mode: z.enum(['agent', 'subagent']).default('agent'),
      skills: z.array(SkillNamed).max(maxNamedSkills).default([]).describe('Of its definition'),
    })
    .optional(),
  workflow: Word.optional(),
  phase: Word.optional(),
  adapter: Word.optional(),
})
export type SkillResolve = z.infer<typeof SkillResolve>

export const SkillPayloadAsk = SkillResolve.extend({
  session: SessionId.optional().describe(
    'Texts of paths are those that its sandbox has found there',
  ),
})
export type SkillPayloadAsk = z.infer<typeof SkillPayloadAsk>

/** Why somebody gets a skill. */
export const SkillSourceOf = z.object({
  kind: z.enum(['request', 'definition', ...SkillTargetType.options]),
  key: z.string(),
  version: VersionNumber.nullable().describe('null: the current one'),
})
export type SkillSourceOf = z.infer<typeof SkillSourceOf>

export const SkillReason = z.enum([
  'skill_missing',
  'no_current_version',
  'version_missing',
  'version_draft',
  'version_deprecated',
  'version_archived',
  'name_taken',
])
export type SkillReason = z.infer<typeof SkillReason>

export const ResolvedSkill = z.object({
  skillId: SkillId,
  name: z.string(),
  scope: RegistryScope,
  version: VersionNumber,
  sha256: Sha256,
  ...said,
  sources: z.array(SkillSourceOf).describe('The first is why it is here, the others name it too'),
})
export type ResolvedSkill = z.infer<typeof ResolvedSkill>

export const SkippedSkill = z.object({
  name: z.string(),
  scope: RegistryScope,
  version: VersionNumber.nullable(),
  reason: SkillReason,
  source: SkillSourceOf,
})
export type SkippedSkill = z.infer<typeof SkippedSkill>

export const SkillResolution = z.object({
  skills: z.array(ResolvedSkill),
  skipped: z.array(SkippedSkill),
})
export type SkillResolution = z.infer<typeof SkillResolution>

export const PayloadReason = z.enum([
  'url_fetch_disabled',
  'path_unsafe',
  'path_not_uploaded',
  'path_missing',
  'path_not_file',
  'content_oversized',
  'payload_full',
])
export type PayloadReason = z.infer<typeof PayloadReason>

export const SkillPayloadItem = ResolvedSkill.extend({
  order: z.number().int(),
  content: z.string().nullable(),
  reason: PayloadReason.nullable().describe('Why there is no content'),
})
export type SkillPayloadItem = z.infer<typeof SkillPayloadItem>

export const SkillPayload = z.object({
  items: z.array(SkillPayloadItem),
  skipped: z.array(SkippedSkill),
})
export type SkillPayload = z.infer<typeof SkillPayload>
