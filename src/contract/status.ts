import { z } from 'zod'
import { ProofMode } from './evidence.ts'
import { CheckResult } from './provider.ts'

export const DeadLetter = z.object({
  sessionId: z.string(),
  seq: z.number().int(),
  kind: z.string(),
  error: z.string(),
  at: z.number(),
})
export type DeadLetter = z.infer<typeof DeadLetter>

/** A refused row in the list of its session or organisation. */
export const DeadLetterView = z.object({
  seq: z.number().int(),
  kind: z.string(),
  reason: z.string().describe('What libSQL said'),
  at: z.number().describe('When it was refused'),
  canResend: z
    .boolean()
    .describe('False: an earlier release did not keep it, and nothing is left to tell it from'),
})
export type DeadLetterView = z.infer<typeof DeadLetterView>

export const DeadLetterResend = z.strictObject({
  seqs: z
    .array(z.number().int().min(1))
    .min(1)
    .max(500)
    .optional()
    .describe('Default: all, the oldest 500 at a time'),
})
export type DeadLetterResend = z.infer<typeof DeadLetterResend>

export const DeadLettersResent = z.object({
  sent: z.number().int().describe('On their way to libSQL again'),
  left: z.number().int().describe('Still in the list'),
})
export type DeadLettersResent = z.infer<typeof DeadLettersResent>

export const Status = z.object({
  version: z.string(),
  host: z.enum(['workerd', 'deno']),
  versions: z.record(z.string(), z.string()),
  libsql: z.object({
    reachable: z.boolean(),
    latencyMs: z.number().nullable(),
    error: z.string().nullable(),
  }),
  outbox: z.object({
    lagMs: z
      .number()
      .describe('Age of the oldest row of the organisation that has not reached libSQL'),
    pendingSessions: z.number().int(),
    reason: z.string().nullable().describe('Why they wait'),
    deadLetters: z.array(DeadLetter).describe('The newest rows that libSQL has refused'),
    deadLetterCount: z.number().int(),
  }),
  evidence: z.object({ mode: ProofMode.describe('How far evidence of changes is applied') }),
  sessions: z.object({ live: z.number().int().nullable() }),
})
export type Status = z.infer<typeof Status>

/** Of all organisations. */
export const DeploymentStatus = Status.pick({ version: true, host: true, outbox: true })
export type DeploymentStatus = z.infer<typeof DeploymentStatus>

export const Health = z.object({
  ok: z.literal(true),
  version: z.string(),
  missing: z
    .array(z.object({ name: z.string(), problem: z.string() }))
    .describe('Variables that are missing or wrong; until there are none only this route answers'),
})
export type Health = z.infer<typeof Health>

export const Readiness = z.object({
  ready: z.boolean(),
  version: z.string(),
  checks: z.array(CheckResult).describe('In the order in which they should be put right'),
})
export type Readiness = z.infer<typeof Readiness>
