import { z } from 'zod'

// Lower-case Crockford base32: no letter that can be misread, safe in paths and headers.
export const idAlphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const body = (length: number) => `[${idAlphabet}]{${length}}`

const id = <P extends string>(prefix: P, length: number) =>
  z
    .string()
    .regex(new RegExp(`^${prefix}_${body(length)}$`), {
      error: `Expected an id like "${prefix}_…"`,
    })
    .brand<P>()

/** Twenty random characters, then ten of MAC, so that a made-up id is refused before any object is touched. */
export const SessionId = id('ses', 30)
export type SessionId = z.infer<typeof SessionId>
export const sessionIdRandomLength = 20

export const OrganisationId = id('org', 20)
export type OrganisationId = z.infer<typeof OrganisationId>

export const KeyId = id('key', 20)
export type KeyId = z.infer<typeof KeyId>

export const MemberId = id('mbr', 20)
export type MemberId = z.infer<typeof MemberId>

export const AgentId = id('agt', 20)
export type AgentId = z.infer<typeof AgentId>

export const ProfileId = id('prf', 20)
export type ProfileId = z.infer<typeof ProfileId>

export const MemoryId = id('mem', 20)
export type MemoryId = z.infer<typeof MemoryId>

/** Ids of everything that belongs to a session begin with the session's characters. */
export const ownedId = (prefix: string, sessionId: string, suffix: string): string =>
  `${prefix}_${sessionId.slice(4)}${suffix}`

export const sessionIdOfOwned = (id: string): string => `ses_${id.slice(4, 34)}`

/** The session's thirty characters, then eight of its own: a turn id alone leads to its session. */
export const TurnId = id('trn', 38)
export type TurnId = z.infer<typeof TurnId>

/** Like a turn's: the session's characters, then eight of its own. */
export const RunId = id('run', 38)
export type RunId = z.infer<typeof RunId>

export const ApprovalId = id('apr', 38)
export type ApprovalId = z.infer<typeof ApprovalId>

export const OperationId = id('opr', 38)
export type OperationId = z.infer<typeof OperationId>

export const AttemptId = id('att', 38)
export type AttemptId = z.infer<typeof AttemptId>

/** One ability at work in a session. */
export const ExecutionId = id('exe', 38)
export type ExecutionId = z.infer<typeof ExecutionId>

export const CheckpointId = id('chk', 38)
export type CheckpointId = z.infer<typeof CheckpointId>

/** One reading of what OpenCode has stored of a turn. */
export const CollectId = id('col', 38)
export type CollectId = z.infer<typeof CollectId>

export const ConfigurationId = id('cfg', 20)
export type ConfigurationId = z.infer<typeof ConfigurationId>

export const SnapshotId = id('snp', 20)
export type SnapshotId = z.infer<typeof SnapshotId>

export const ArtifactId = id('art', 20)
export type ArtifactId = z.infer<typeof ArtifactId>

export const SkillId = id('skl', 20)
export type SkillId = z.infer<typeof SkillId>

export const SkillProposalId = id('skp', 20)
export type SkillProposalId = z.infer<typeof SkillProposalId>

export const WebhookId = id('whk', 20)
export type WebhookId = z.infer<typeof WebhookId>

/** What is told to webhooks: the session's characters, then its number. */
export const DeliveryId = id('dlv', 38)
export type DeliveryId = z.infer<typeof DeliveryId>

/** Thirty characters like a session's, by the same rule: a made-up id reaches no object. */
export const EvalRunId = id('evl', 30)
export type EvalRunId = z.infer<typeof EvalRunId>

/** Made by the gate's plugin, one per question: OpenCode's own call ids repeat. */
export const AskId = id('ask', 20)
export type AskId = z.infer<typeof AskId>

/**
 * A name that callers choose (tool_call_id, Idempotency-Key): printable, bounded, no NUL, no lone surrogate,
 * so that it means the same in SQLite, in libSQL, in a log line and in a header.
 */
export const CallerKey = z
  .string()
  .min(1)
  .max(200)
  .refine((value) => value.isWellFormed() && !/\p{Cc}/u.test(value), {
    error: 'Must not contain control characters or lone surrogates',
  })
export type CallerKey = z.infer<typeof CallerKey>

export const Text = (max: number, min = 0) =>
  z
    .string()
    .min(min)
    .max(max)
    .refine((value) => value.isWellFormed() && !value.includes('\u0000'), {
      error: 'Must not contain NUL or lone surrogates',
    })
