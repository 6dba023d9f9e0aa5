import { z } from 'zod'
import { AbilityName } from './ability.ts'
import { Sha256 } from './artifact.ts'
import { canonicalJson } from './canonical.ts'
import { isByteLengthOver } from './byte-length.ts'
import { AgentId, Text } from './ids.ts'
import { PermissionOverrides } from './permission.ts'
import { RegistryPlace, RegistryScope } from './registry-scope.ts'

/** OpenCode has agents of these names. */
export const openCodeAgents: readonly string[] = [
  'build',
  'plan',
  'general',
  'explore',
  'title',
  'summary',
  'compaction',
]

export const AgentName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, {
    error: 'Lower-case letters, digits, "_" and "-", at most 64, and no "_" or "-" at the start',
  })
  .refine((name) => !openCodeAgents.includes(name), {
    error: `OpenCode has an agent of this name: choose another one than ${openCodeAgents.join(', ')}`,
  })

export const AgentMode = z.enum(['agent', 'subagent'])
export type AgentMode = z.infer<typeof AgentMode>

/** What an agent can do, a workflow, or one of its phases. */
const Word = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, { error: 'Lower-case letters, digits, ".", "_" and "-"' })
const distinct = (values: readonly unknown[]): boolean =>
  new Set(values.map(canonicalJson)).size === values.length
const words = <T extends z.ZodType>(word: T) =>
  z.array(word).max(50).refine(distinct, { error: 'Must not name one twice' }).default([])

export const Capability = Word
export const Workflow = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,63}(:[a-z0-9][a-z0-9._-]{0,63})?$/, {
    error:
      'A workflow, a phase, or both as "workflow:phase", in lower-case letters, digits, ".", "_" and "-"',
  })
  .describe('"sdd", "apply" or "sdd:apply"')

export const AgentSkill = z.strictObject({
  name: Word,
  version: Text(64, 1).nullable().default(null).describe('null: the one that is current'),
})

/** Inside the workspace, and nowhere else. */
const WorkspacePath = Text(500, 1).refine((path) => !/^[/~]|(^|\/)\.\.(\/|$)|[\n\r\\]/.test(path), {
  error: 'Must be a relative path inside the workspace, without ".."',
})

export const Instructions = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('inline'), value: Text(100_000, 1) }),
  z.strictObject({
    kind: z.literal('path'),
    value: WorkspacePath.describe('Of a file that the agent is told to read and follow'),
  }),
])

const maxAdapterBytes = 32_768
const maxAdapterDepth = 20

const isDeeperThan = (depth: number, value: unknown): boolean =>
  value !== null &&
  typeof value === 'object' &&
  (depth === 0 || Object.values(value).some((item) => isDeeperThan(depth - 1, item)))

/** Whatever a provider's own settings are: kept and given back, and never read. */
const Adapters = z
  .record(Word, z.record(z.string().max(200), z.unknown()))
  .refine((adapters) => !isDeeperThan(maxAdapterDepth, adapters), {
    error: `Must not be nested deeper than ${maxAdapterDepth}`,
  })
  .refine((adapters) => !isByteLengthOver(canonicalJson(adapters), maxAdapterBytes), {
    error: `Must have at most ${maxAdapterBytes} bytes as JSON`,
  })
  .default({})
  .describe('By provider, opaque. Empty: the agent is for every provider')

/** What a registered agent is, apart from where it is kept. Every change is a new revision of it. */
export const AgentDefinition = z.strictObject({
  description: Text(1000).default(''),
  mode: AgentMode.default('agent'),
  parent: AgentName.nullable()
    .default(null)
    .describe('Of a subagent: the agent, in the same project and scope, that delegates to it'),
  instructions: Instructions.nullable().default(null),
  capabilities: words(Capability),
  workflows: words(Workflow),
  skills: words(
    z.preprocess((skill) => (typeof skill === 'string' ? { name: skill } : skill), AgentSkill),
  ),
  permissions: PermissionOverrides.default({}).describe(
    'By category. A subagent only tightens; the boundary of the workspace cannot be moved',
  ),
  memory: z.strictObject({ scopes: words(RegistryScope) }).default({ scopes: [] }),
  abilities: z
    .array(AbilityName)
    .max(100)
    .optional()
    .describe('Those that it may run, where they do not say themselves whom they are for'),
  model: Text(100, 1).nullable().default(null).describe('null: by profile, then configuration'),
  adapters: Adapters,
})
export type AgentDefinition = z.infer<typeof AgentDefinition>

const place = RegistryPlace.shape

export const AgentPut = z
  .strictObject({ ...place, name: AgentName, ...AgentDefinition.shape })
  .refine(({ mode, parent }) => (mode === 'subagent') === (parent !== null), {
    path: ['parent'],
    error: 'A subagent needs a parent, and an agent has none',
  })
export type AgentPut = z.infer<typeof AgentPut>

const kept = {
  id: AgentId,
  project: z.string(),
  scope: RegistryScope,
  name: z.string(),
  revision: z.number().int(),
  sha256: Sha256.describe('Of the definition'),
  parentId: AgentId.nullable(),
}

export const Agent = z.object({
  ...kept,
  ...AgentDefinition.shape,
  archivedAt: z.number().nullable(),
  createdAt: z.number(),
  updatedAt: z.number(),
})
export type Agent = z.infer<typeof Agent>

/** A row of the list: without what may be long. */
export const AgentRow = Agent.omit({ instructions: true, adapters: true })
export type AgentRow = z.infer<typeof AgentRow>

/** What a release brings, before a project has it. */
export const ShippedAgent = z.object({ name: z.string(), ...AgentDefinition.shape })
export type ShippedAgent = z.infer<typeof ShippedAgent>
export const ShippedAgents = z.object({ items: z.array(ShippedAgent) })
export type ShippedAgents = z.infer<typeof ShippedAgents>

export const AgentPlace = z.strictObject(place)
export type AgentPlace = z.infer<typeof AgentPlace>
export const StoredAgents = z.object({ items: z.array(Agent) })
export type StoredAgents = z.infer<typeof StoredAgents>

export const AgentRevision = z.object({
  revision: z.number().int(),
  sha256: Sha256,
  createdBy: z.string().describe('The key that stored it'),
  createdAt: z.number(),
})
export type AgentRevision = z.infer<typeof AgentRevision>

export const AgentRevisionView = AgentRevision.extend(AgentDefinition.shape)
export type AgentRevisionView = z.infer<typeof AgentRevisionView>
