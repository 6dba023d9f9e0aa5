import { z } from 'zod'
import { OfferedName } from './ability.ts'
import { AgentName } from './agent.ts'
import { SessionAgent } from './agent-resolve.ts'
import { EnclosureReport } from './enclosure.ts'
import { Budget } from './budget.ts'
import {
  CallerKey,
  ConfigurationId,
  MemberId,
  OrganisationId,
  SessionId,
  Text,
  TurnId,
} from './ids.ts'
import { ClientType, Mode, SessionType } from './mode.ts'
import { ReasoningEffort } from './models.ts'
import { SessionPin } from './pin.ts'
import { Project } from './project.ts'
import { RegistryScope } from './registry-scope.ts'
import { SystemPromptMode } from './prompts.ts'
import {
  defaultIdleTimeoutSeconds,
  ProviderName,
  Replacement,
  SandboxLimits,
  SandboxState,
} from './sandbox.ts'
import { maxNamedSkills, SkillNamed } from './skill.ts'
import { SessionMemory } from './session-memory.ts'
import { CompletionOutcome } from './tools/automation-complete.ts'

export { ProviderName, SandboxState } from './sandbox.ts'

/** Tool names as the model sees them. Whatever is in neither list is allowed. */
export const GateRules = z.strictObject({
  deny: z.array(Text(100, 1)).max(100).default([]),
  ask: z.array(Text(100, 1)).max(100).default([]),
  askTimeoutSeconds: z.number().int().min(1).max(86_400).default(600),
})
export type GateRules = z.infer<typeof GateRules>

/** "git@host:path" is how git itself writes what it reaches by ssh. */
function suggestion(url: string): string {
  const [, host, path] =
    /^(?:[\w.-]+@)?([\w-]+(?:\.[\w-]+)+):(?!\/\/)\/?(\S{1,500})$/.exec(url) ?? []
  return host ? `: for this one, https://${host}/${path} with a token if it is private` : ''
}

export const Repository = z.strictObject({
  url: Text(2000, 1)
    // git would take "ext::sh -c …" for a program to run, and a leading "-" for an option.
    .refine((url) => /^(https?:\/\/|ssh:\/\/|file:\/\/\/|\/)/.test(url), {
      error: ({ input }) =>
        `Must be an http(s), ssh or file URL, or an absolute path${suggestion(String(input))}`,
    })
    .refine((url) => !/^(https?:\/\/[^/]*@|ssh:\/\/[^/@]*:[^/]*@)/.test(url), {
      error: 'Must not contain a password: use token',
    })
    .describe(
      'https:// URL; for admins also an ssh:// or file:// URL or an absolute path on the sandbox host that GANTRY_LOCAL_REPOSITORIES lists',
    ),
  ref: Text(200, 1)
    .refine((ref) => !ref.startsWith('-'), { error: 'Must not start with "-"' })
    .optional(),
  token: Text(4000, 1)
    .optional()
    .describe('Used outside the sandbox for the clone; never returned'),
})
export type Repository = z.infer<typeof Repository>

/** The agent contract's word for how the agent is set up. */
export const AgentConfig = z.strictObject({
  agentType: z
    .literal('opencode', { error: 'Only "opencode" exists' })
    .default('opencode')
    .describe('There is no other agent'),
  tools: z
    .array(Text(100, 1))
    .max(100)
    .optional()
    .describe(
      'Kept and shown, but filters nothing: tools follow from the mode, and gate.deny forbids',
    ),
})
export type AgentConfig = z.infer<typeof AgentConfig>

export const SessionCreate = z.strictObject({
  project: Project,
  title: Text(200).default(''),
  sandbox: ProviderName.optional().describe("Default: the deployment's provider"),
  image: Text(200, 1)
    .optional()
    .describe("The provider's word for what it boots, such as a template"),
  limits: SandboxLimits.optional(),
  idleTimeoutSeconds: z
    .number()
    .int()
    .min(10)
    .max(7 * 86_400)
    .nullable()
    .optional()
    .describe(
      `Unused for so long the sandbox is saved and stopped; a prompt wakes it. null: never. Default ${defaultIdleTimeoutSeconds}`,
    ),
  replacement: Replacement.optional().describe(
    'Whether a lost sandbox is replaced by itself. Default: auto',
  ),
  configurationId: ConfigurationId.optional().describe('Absent: a scratch session'),
  sessionType: SessionType.default('coding').describe(
    'setup: the session writes its configuration',
  ),
  clientType: ClientType.default('api'),
  agent: SessionAgent.optional().describe(
    'The registered agent that works in it, by name or by what its task needs. Absent: OpenCode as it is',
  ),
  profile: z
    .strictObject({ name: AgentName, scope: RegistryScope.default('project') })
    .optional()
    .describe("Of models. Default: the one of the agent's name, if there is one"),
  agent_config: AgentConfig.optional(),
  automationRunId: CallerKey.optional().describe('For automations; made if absent'),
  repository: Repository.optional().describe(
    "Default: the configuration's repository, or an empty git repository",
  ),
  model: Text(100, 1)
    .optional()
    .describe("Default: the agent's, then the profile's, the configuration's, the deployment's"),
  reasoningEffort: ReasoningEffort.optional(),
  system_prompt: Text(100_000)
    .optional()
    .describe('Replaces the computed prompt, exactly as it is'),
  system_prompt_mode: SystemPromptMode.default('replace').describe(
    'append: added to the computed prompt instead',
  ),
  skills: z
    .array(SkillNamed)
    .max(maxNamedSkills)
    .optional()
    .describe(
      'Skills of the project by name ("review", "review@3"), or one’s own ("personal:notes"), and what is attached to OpenCode',
    ),
  memory: SessionMemory.optional().describe(
    'What it is given to remember, with tools to search and add; absent: nothing, unless its agent has memory',
  ),
  abilities: z
    .union([z.literal(true), z.array(OfferedName).max(100)], {
      error: 'true for all, or the names of abilities',
    })
    .optional()
    .describe(
      'Which abilities its model may look at and run: those that are stored now, and those of the workspace; absent: none, unless its agent has some',
    ),
  budget: Budget.optional().describe(
    'At 80 % an event; at 100 % nothing more runs until it is raised',
  ),
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

/** warm: booted, for a session of its configuration to come. Creating one claims it. */
export const SessionStatus = z.enum(['open', 'closed', 'warm'])
export type SessionStatus = z.infer<typeof SessionStatus>

const maker = MemberId.nullable().describe(
  'The member that made it; null: of a release that had no members, or still warm',
)

export const Session = z.object({
  id: SessionId,
  organisationId: OrganisationId,
  memberId: maker,
  project: z.string(),
  title: z.string(),
  status: SessionStatus,
  sandbox: z.object({
    provider: ProviderName,
    state: SandboxState,
    generation: z.number().int(),
    connected: z.boolean(),
    reason: z.string().nullable().describe('Why it is in this state, if there is something to say'),
    failures: z
      .array(z.object({ at: z.number(), generation: z.number().int(), reason: z.string() }))
      .describe('What went wrong in the last start, at most the last five'),
    retryAt: z.number().nullable().describe('There is no place for it before this time'),
    endsAt: z.number().nullable().describe('The end of what its organisation has granted'),
    enclosure: EnclosureReport.nullable().describe(
      'What the kernel holds the agent to, as the sandbox found it; null: it was not ready yet',
    ),
  }),
  idleTimeoutSeconds: z.number().nullable(),
  replacement: Replacement,
  limits: SandboxLimits,
  repository: z.object({ url: z.string(), ref: z.string().nullable() }).nullable(),
  mode: Mode,
  clientType: ClientType,
  agent_config: AgentConfig,
  configurationId: ConfigurationId.nullable(),
  snapshotId: z.string().nullable().describe('The snapshot that its sandbox starts from'),
  model: z.string(),
  reasoningEffort: ReasoningEffort.nullable(),
  prompt: z.object({
    source: z.enum(['computed', 'override', 'append']),
    warnings: z.array(z.object({ code: z.string(), message: z.string() })),
  }),
  automationRun: z
    .object({
      id: z.string(),
      state: z.enum(['running', ...CompletionOutcome.options]),
      completionId: z.string().nullable(),
      completedAt: z.number().nullable(),
    })
    .nullable(),
  usage: z
    .object({
      requests: z.number().int(),
      inputTokens: z.number().int(),
      outputTokens: z.number().int(),
    })
    .describe('Model calls, as counted on their way to the vendor'),
  pins: z
    .array(SessionPin)
    .describe('What it took from the registries when it began: later revisions change nothing'),
  gate: GateRules,
  trustProjectConfig: z.boolean(),
  turn: TurnId.nullable().describe('The turn that is running'),
  queuedTurns: z.number().int(),
  activeCalls: z.number().int(),
  lastEventSeq: z.number().int(),
  outbox: z.object({
    pending: z.number().int(),
    lagMs: z.number().int(),
    reason: z.string().nullable().describe('Why rows wait for libSQL'),
    deadLetters: z.number().int().describe('Rows that libSQL has refused'),
  }),
  createdAt: z.number(),
  closedAt: z.number().nullable(),
})
export type Session = z.infer<typeof Session>

/** A row of the list: from libSQL, so it may be a moment older than the session itself. */
export const SessionRow = z.object({
  id: SessionId,
  memberId: maker,
  project: z.string(),
  title: z.string(),
  status: SessionStatus,
  sandboxState: SandboxState,
  createdAt: z.number(),
  closedAt: z.number().nullable(),
})
export type SessionRow = z.infer<typeof SessionRow>

export { DiffReport, maxDiffBytes, SessionDiff } from './diff.ts'
