import { z } from 'zod'
import { Enclosure } from './enclosure.ts'
import { Text } from './ids.ts'
import {
  Category,
  PermissionDecision,
  PermissionOverrides,
  PhaseStates,
  Risk,
} from './permission.ts'
import { PolicyPut } from './stored-policy.ts'

const Path = Text(4096, 1).startsWith('/', { error: 'Must be an absolute path' })

/** A request as a session would make it; what is absent is as in a session that works in /home/user/workspace. */
export const SampleRequest = z.strictObject({
  category: Category,
  operation: Text(100, 1).default('sample'),
  tool: Text(200, 1).nullable().default(null),
  agent: Text(200, 1).nullable().default(null),
  subagent: Text(200, 1).nullable().default(null),
  mode: Text(100, 1).default('coding'),
  workspaceRoot: Path.default('/home/user/workspace'),
  sessionPaths: z.array(Path).max(20).default([]),
  paths: z.array(Path).max(200).default([]),
  command: Text(4 * 1024)
    .nullable()
    .default(null),
  cwd: Path.optional(),
  home: Path.default('/home/user'),
  hosts: z.array(Text(300, 1)).max(200).default([]),
  risks: z.array(Risk).max(Risk.options.length).default([]),
})
export type SampleRequest = z.infer<typeof SampleRequest>

/** Of all commands together: each is read word by word, while everybody else waits. */
const maxCommandsLength = 16 * 1024

export const PolicyCheck = z.strictObject({
  project: PolicyPut.shape.project,
  source: PolicyPut.shape.source,
  format: PolicyPut.shape.format,
  requests: z
    .array(SampleRequest)
    .max(100)
    .refine(
      (samples) =>
        samples.reduce((sum, { command }) => sum + (command?.length ?? 0), 0) <= maxCommandsLength,
      { error: `Commands must have at most ${maxCommandsLength} characters together` },
    )
    .default([]),
  enclosure: Enclosure.default('none').describe('Of the sandbox in which they would be asked'),
  phases: PhaseStates.default({}).describe(
    'What is known of phases: per topic key the topic keys that it lacks; none: it is ready',
  ),
  overrides: z
    .strictObject({
      agent: PermissionOverrides.nullable().default(null),
      subagent: PermissionOverrides.nullable().default(null),
    })
    .optional()
    .describe('What would come with every request'),
})
export type PolicyCheck = z.infer<typeof PolicyCheck>

export const PolicyChecked = z.object({
  name: z.string(),
  extends: z.string().describe('The built-in document under it, or "none"'),
  rules: z.number().int().describe('How many it has itself'),
  warnings: z
    .array(z.string())
    .describe('What it asks about or denies though the built-in policy allows it'),
  decisions: z.array(PermissionDecision).describe('One per request, in order'),
})
export type PolicyChecked = z.infer<typeof PolicyChecked>
