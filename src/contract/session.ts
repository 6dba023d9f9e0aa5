import { z } from 'zod'
import { OrganisationId, SessionId, Text, TurnId } from './ids.ts'

export const ProviderName = z.enum(['local', 'none'])
export type ProviderName = z.infer<typeof ProviderName>

export const SandboxState = z.enum([
  'none',
  'requested',
  'creating',
  'booting',
  'ready',
  'suspect',
  'lost',
  'stopping',
  'stopped',
  'failed',
])
export type SandboxState = z.infer<typeof SandboxState>

/** Tool names as the model sees them. Whatever is in neither list is allowed. */
export const GateRules = z.strictObject({
  deny: z.array(Text(100, 1)).max(100).default([]),
  ask: z.array(Text(100, 1)).max(100).default([]),
  askTimeoutSeconds: z.number().int().min(1).max(86_400).default(600),
})
export type GateRules = z.infer<typeof GateRules>

const Repository = z.strictObject({
  url: Text(2000, 1)
    // git would take "ext::sh -c …" for a program to run, and a leading "-" for an option.
    .refine((url) => /^(https?:\/\/|ssh:\/\/|file:\/\/\/|\/)/.test(url), {
      error: 'Must be an http(s), ssh or file URL, or an absolute path',
    })
    .refine((url) => !/^(https?:\/\/[^/]*@|ssh:\/\/[^/@]*:[^/]*@)/.test(url), {
      error: 'Must not contain a password: use token',
    })
    .describe('https://, ssh:// or file:// URL, or an absolute path on the sandbox host'),
  ref: Text(200, 1)
    .refine((ref) => !ref.startsWith('-'), { error: 'Must not start with "-"' })
    .optional(),
  token: Text(4000, 1).optional().describe('Used outside the sandbox for the clone; never returned'),
})
export type Repository = z.infer<typeof Repository>

export const SessionCreate = z.strictObject({
  project: z
    .string()
    .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, { error: 'Lower-case letters, digits, ".", "_" and "-"' })
    .default('default'),
  title: Text(200).default(''),
  sandbox: ProviderName.optional().describe("Default: the deployment's provider"),
  repository: Repository.optional().describe('Default: an empty git repository'),
  model: Text(100, 1).optional(),
  gate: GateRules.default({ deny: [], ask: [], askTimeoutSeconds: 600 }),
  trustProjectConfig: z
    .boolean()
    .default(false)
    .describe("Load the repository's own OpenCode configuration, plugins and tools"),
})
export type SessionCreate = z.infer<typeof SessionCreate>

/** The body of acts that end something. */
export const Reason = z.strictObject({ reason: Text(500).default('') })
export type Reason = z.infer<typeof Reason>

export const Session = z.object({
  id: SessionId,
  organisationId: OrganisationId,
  project: z.string(),
  title: z.string(),
  status: z.enum(['open', 'closed']),
  sandbox: z.object({
    provider: ProviderName,
    state: SandboxState,
    generation: z.number().int(),
    connected: z.boolean(),
    reason: z.string().nullable().describe('Why it is in this state, if there is something to say'),
  }),
  repository: z.object({ url: z.string(), ref: z.string().nullable() }).nullable(),
  model: z.string().nullable(),
  gate: GateRules,
  trustProjectConfig: z.boolean(),
  turn: TurnId.nullable().describe('The turn that is running'),
  queuedTurns: z.number().int(),
  activeCalls: z.number().int(),
  lastEventSeq: z.number().int(),
  outbox: z.object({ pending: z.number().int(), lagMs: z.number().int() }),
  createdAt: z.number(),
  closedAt: z.number().nullable(),
})
export type Session = z.infer<typeof Session>

/** A row of the list: from libSQL, so it may be a moment older than the session itself. */
export const SessionRow = z.object({
  id: SessionId,
  project: z.string(),
  title: z.string(),
  status: z.enum(['open', 'closed']),
  sandboxState: SandboxState,
  createdAt: z.number(),
  closedAt: z.number().nullable(),
})
export type SessionRow = z.infer<typeof SessionRow>

export const SessionDiff = z.object({
  at: z.number().nullable().describe('When it was taken; null if there is none yet'),
  live: z.boolean().describe('Taken from the sandbox for this request'),
  patch: z.string(),
  files: z.array(
    z.object({
      path: z.string(),
      status: z.enum(['added', 'modified', 'deleted', 'renamed']),
      additions: z.number().int(),
      deletions: z.number().int(),
    }),
  ),
  truncated: z.boolean(),
})
export type SessionDiff = z.infer<typeof SessionDiff>
/** What an agent reports; `at` and `live` are the control plane's. */
export const DiffReport = SessionDiff.pick({ patch: true, files: true, truncated: true })
export type DiffReport = z.infer<typeof DiffReport>
export const maxDiffBytes = 512 * 1024
