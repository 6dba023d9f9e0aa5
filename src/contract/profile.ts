import { z } from 'zod'
import { AgentName } from './agent.ts'
import { Sha256 } from './artifact.ts'
import { ProfileId, Text } from './ids.ts'
import { RegistryPlace, RegistryScope } from './registry-scope.ts'

const ModelText = Text(100, 1)
const Phase = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, { error: 'Lower-case letters, digits, ".", "_" and "-"' })

const models = <K extends z.core.$ZodRecordKey>(key: K, what: string) =>
  z
    .record(key, ModelText)
    .refine((record) => Object.keys(record).length <= 100, {
      error: 'Must have at most 100 entries',
    })
    .default({} as never)
    .describe(what)

/** Which model each part of the work is done with. What it leaves out is as it would be without it. */
export const ProfileDefinition = z.strictObject({
  description: Text(1000).default(''),
  orchestrator: ModelText.nullable()
    .default(null)
    .describe('Of the agent that works in the session'),
  agents: models(AgentName, 'By agent, before the orchestrator'),
  subagents: models(AgentName, 'By subagent'),
  phases: models(Phase, 'By phase: of subagents whose workflows name it'),
})
export type ProfileDefinition = z.infer<typeof ProfileDefinition>

export const ProfilePut = z.strictObject({
  ...RegistryPlace.shape,
  name: AgentName.describe(
    "The name of an agent: it counts for that agent's sessions unless another is named",
  ),
  ...ProfileDefinition.shape,
})
export type ProfilePut = z.infer<typeof ProfilePut>

export const Profile = z.object({
  id: ProfileId,
  project: z.string(),
  scope: RegistryScope,
  name: z.string(),
  revision: z.number().int(),
  sha256: Sha256.describe('Of the definition'),
  ...ProfileDefinition.shape,
  archivedAt: z.number().nullable(),
  createdAt: z.number(),
  updatedAt: z.number(),
})
export type Profile = z.infer<typeof Profile>

export const ProfileRevision = z.object({
  revision: z.number().int(),
  sha256: Sha256,
  createdBy: z.string().describe('The key that stored it'),
  createdAt: z.number(),
  ...ProfileDefinition.shape,
})
export type ProfileRevision = z.infer<typeof ProfileRevision>
