import { z } from 'zod'
import { Enclosure } from './enclosure.ts'
import { Text } from './ids.ts'
import { ChangeName, Phase } from './phase.ts'
import { Category, Decision, PermissionOverrides, Risk } from './permission.ts'

export const maxPolicyBytes = 256 * 1024
export const maxPolicyRules = 500

const name = (what: string) =>
  z.string().regex(/^[a-z][a-z0-9._-]{0,63}$/, {
    error: `${what} is lower-case letters, digits, ".", "_" and "-", and starts with a letter`,
  })

const oneOrMore = <T extends z.ZodType>(item: T, expected: string) =>
  z.union([item, z.array(item).min(1).max(100)], { error: `Expected ${expected}, or a list of it` })

const enumOrMore = <T extends string>(options: readonly T[]) =>
  oneOrMore(z.enum(options), `one of ${options.join(', ')}`)

const Glob = Text(500, 1)
const globOrMore = oneOrMore(Glob, 'text of at most 500 characters')
const exactOrMore = oneOrMore(Text(200, 1), 'text of at most 200 characters')

const PathGlob = Glob.refine((glob) => !glob.split('/').includes('..'), {
  error: 'Must not contain ".."',
})

const Escalation = z.strictObject({
  afterSeconds: z.number().int().min(1).max(86_400),
  group: name('A group'),
})

const terms = {
  group: name('A group')
    .optional()
    .describe('Who may answer; absent: every key with scope approve'),
  quorum: z.number().int().min(1).max(20).optional().describe('Distinct owners; default 1'),
  escalate: Escalation.optional().describe('From then on this group may answer too'),
}
const TimeoutSeconds = z.number().int().min(1).max(86_400)

/**
 * What a rule is about. A field that is absent matches everything; a list matches if one of it does. `*` stands for any
 * text and `?` for one character; nothing else is special.
 */
export const PolicyMatch = z.strictObject({
  category: enumOrMore(Category.options).optional(),
  tool: globOrMore.optional().describe('As the model sees it; operations of the API have none'),
  path: oneOrMore(PathGlob, 'a path pattern without ".."')
    .optional()
    .describe(
      'Relative to the workspace, absolute, or "~/…"; "*" stays in one folder, "**" does not',
    ),
  command: globOrMore
    .optional()
    .describe('One simple command, its words joined by single spaces; "npm *" also matches "npm"'),
  host: globOrMore.optional().describe('"*.example.com" does not match "example.com"'),
  agent: exactOrMore.optional(),
  subagent: exactOrMore.optional(),
  mode: exactOrMore.optional(),
  enclosure: enumOrMore(Enclosure.options)
    .optional()
    .describe('How far the kernel holds the sandbox in which it is asked'),
  risks: enumOrMore(Risk.options)
    .optional()
    .describe('Has one of these; an allow covers no risk that it does not list'),
})
export type PolicyMatch = z.infer<typeof PolicyMatch>

export const RuleApproval = z.strictObject({ timeoutSeconds: TimeoutSeconds.optional(), ...terms })
export type RuleApproval = z.infer<typeof RuleApproval>

/** A phase of a change of the session's project. */
export const PhaseCondition = z.strictObject({ change: ChangeName, phase: Phase })
export type PhaseCondition = z.infer<typeof PhaseCondition>

export const PolicyRule = z.strictObject({
  id: name('A rule id').optional(),
  match: PolicyMatch,
  decision: Decision,
  sdd: PhaseCondition.optional().describe(
    'The decision holds while this phase is ready; while it is not, or is not known to be, the rule denies',
  ),
  reason: Text(500).optional(),
  approval: RuleApproval.optional(),
})
export type PolicyRule = z.infer<typeof PolicyRule>

/** Counts without a document: for OpenCode's tools, for who wants it strict, for operations of the API. */
export const BuiltinName = z.enum(['sandbox-default', 'strict', 'operation-default'])
export type BuiltinName = z.infer<typeof BuiltinName>

/** What a document builds on. */
export const PolicyBase = z.enum(['sandbox-default', 'strict', 'none'])
export type PolicyBase = z.infer<typeof PolicyBase>

/** A member stands for all its keys. */
const GroupEntry = z
  .string()
  .regex(/^(mbr|key)_[0-9a-z]{20}$/, 'Must be the id of a member (mbr_…) or of a key (key_…)')

/**
 * As it is written. The last rule that matches decides; what no rule matches is decided by the built-in document that it
 * extends, and what that leaves open falls to the category's default.
 */
export const PolicyDocument = z.strictObject({
  name: name('A policy name'),
  description: Text(2000).optional(),
  extends: PolicyBase.optional().describe('Default: sandbox-default'),
  approvals: z
    .strictObject({ timeoutSeconds: TimeoutSeconds.default(600), ...terms })
    .default({ timeoutSeconds: 600 }),
  groups: z.record(name('A group'), z.array(GroupEntry).min(1).max(100)).default({}),
  overrides: z
    .strictObject({
      agents: z.record(Text(200, 1), PermissionOverrides).default({}),
      subagents: z.record(Text(200, 1), PermissionOverrides).default({}),
    })
    .default({ agents: {}, subagents: {} }),
  rules: z.array(PolicyRule).max(maxPolicyRules).default([]),
})
export type PolicyDocument = z.infer<typeof PolicyDocument>

/** What a session's own gate lists add. They tighten and never loosen. */
export const GateTightening = z.object({
  deny: z.array(z.string()),
  ask: z.array(z.string()),
  askTimeoutSeconds: z.number().int(),
})
export type GateTightening = z.infer<typeof GateTightening>

/** A document as it is stored: its version is counted there, and that of what it extends is fixed. */
export const Policy = PolicyDocument.omit({ extends: true }).extend({
  version: z.number().int().min(1),
  builtin: z.string().optional().describe('Such as sandbox-default@1; absent: nothing under it'),
  gate: GateTightening.optional(),
})
export type Policy = z.infer<typeof Policy>

/** Who must answer an approval, and until when. */
export const ApprovalTerms = z.object({
  timeoutSeconds: z.number().int(),
  group: z
    .array(z.string())
    .nullable()
    .describe('Ids of members and keys; null: every key with scope approve'),
  quorum: z.number().int(),
  escalate: z.object({ afterSeconds: z.number().int(), group: z.array(z.string()) }).nullable(),
})
export type ApprovalTerms = z.infer<typeof ApprovalTerms>
