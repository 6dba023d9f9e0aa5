import { z } from 'zod'
import { Enclosure } from './enclosure.ts'

export const Category = z.enum([
  'read',
  'edit',
  'shell',
  'git',
  'network',
  'memory',
  'external-directory',
  'provider-tool',
  'secrets',
])
export type Category = z.infer<typeof Category>

export const Decision = z.enum(['allow', 'ask', 'deny'])
export type Decision = z.infer<typeof Decision>

/** What makes a request ask even where its category is allowed. */
export const Risk = z.enum(['destructive', 'external', 'privileged', 'ambiguous'])
export type Risk = z.infer<typeof Risk>

/**
 * What is known of phases, by topic key: the topic keys of what a phase still lacks. An empty list: it is ready. A phase
 * that is not here is not known.
 */
export const PhaseStates = z.record(z.string().max(200), z.array(z.string().max(200)).max(8))
export type PhaseStates = z.infer<typeof PhaseStates>

/**
 * What the policy decides on, complete: recorded with every decision, so that another policy can be tried on it later.
 * Paths are absolute and lexically normal.
 */
export const PermissionRequest = z.object({
  category: Category,
  operation: z.string(),
  /** As the model sees it; null for an operation of the API. */
  tool: z.string().nullable(),
  agent: z.string().nullable(),
  subagent: z.string().nullable(),
  mode: z.string(),
  workspaceRoot: z.string(),
  /** Inside the boundary though not in the workspace: the env file, OpenCode's tool-output folder. */
  sessionPaths: z.array(z.string()),
  paths: z.array(z.string()),
  command: z.string().nullable(),
  /** Where the command starts. Absent: in the workspace. */
  cwd: z.string().optional(),
  /** What "~" and $HOME mean. */
  home: z.string().optional(),
  /** Variables that the session sets for every command, and their values. */
  variables: z.record(z.string(), z.string()).optional(),
  hosts: z.array(z.string()),
  risks: z.array(Risk),
})
export type PermissionRequest = z.infer<typeof PermissionRequest>

export const PermissionDecision = z.object({
  decision: Decision,
  reason: z.string(),
  /** Which rule decided: "boundary", "default:shell", "sandbox-default@1#4", "override:build", "grant:apr_…" */
  rule: z.string(),
  policy: z.object({ name: z.string(), version: z.number().int() }),
  /** How far the sandbox was enclosed when it was decided. Decisions from before it was recorded had none. */
  enclosure: Enclosure.default('none'),
  /** Of the phases that rules about the request wait for, as they were when it was decided. */
  phases: PhaseStates.optional(),
})
export type PermissionDecision = z.infer<typeof PermissionDecision>

/** An agent's own word on categories. A subagent can only tighten its parent's. */
export const PermissionOverrides = z.partialRecord(Category, Decision)
export type PermissionOverrides = z.infer<typeof PermissionOverrides>
