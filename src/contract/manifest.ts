import { z } from 'zod'
import { Sha256 } from './artifact.ts'
import { EnclosureMode } from './enclosure.ts'
import { WorkspaceSkill } from './workspace-skill.ts'

/** Where things are in one sandbox. Literal on E2B and Modal; under the session's folder on the local host. */
export const Layout = z.object({
  home: z.string(),
  workspace: z.string(),
  /** Loaded by OpenCode as OPENCODE_CONFIG_DIR; owned by the agent, not writable by OpenCode where uids differ. */
  configDir: z.string(),
  envFile: z.string(),
  hostname: z.string(),
  /** 0: any free port. */
  port: z.number().int(),
})
export type Layout = z.infer<typeof Layout>

export const ManifestFile = z.object({
  path: z.string().describe('Absolute'),
  content: z.string(),
  sha256: Sha256,
  mode: z.number().int(),
  /** own: Gantry's, written always and repaired. copy: in the workspace, written only where the repository has none. */
  keep: z.enum(['own', 'copy']),
})
export type ManifestFile = z.infer<typeof ManifestFile>

/** A host that the sandbox reaches by the control plane, which adds a secret to each request. */
export const Upstream = z.object({
  /** As the secret says: `name`, `name:port`, or with `http://` before it. */
  host: z.string(),
  /** Names. */
  secrets: z.array(z.string()),
  /** Scopes whose packages come from it; `*`: all. */
  npm: z.array(z.string()),
})
export type Upstream = z.infer<typeof Upstream>

export const Manifest = z.object({
  version: Sha256.describe('Hash over everything else in the manifest'),
  layout: Layout,
  files: z.array(ManifestFile),
  /** Absent: none, or what they say is known by now and is among the files. */
  workspaceSkills: z.array(WorkspaceSkill).optional(),
  /** Files of other modes that a snapshot may have brought: removed if they have exactly this content. */
  absent: z.array(z.object({ path: z.string(), sha256: Sha256 })),
  /** For OpenCode's environment. The agent adds relay address, local token and server password. */
  environment: z.record(z.string(), z.string()),
  /** The tool id that proves that the gate's plugin is loaded. */
  marker: z.string(),
  /** Tool ids that must be loaded before the sandbox is ready. */
  toolIds: z.array(z.string()),
  /** providerID/modelID as OpenCode spells it. */
  model: z.string(),
  /** OpenCode's agent that prompts are for. Absent: its own default. */
  agent: z.string().optional(),
  trustProjectConfig: z.boolean(),
  /** Absent: auto. */
  enclosure: EnclosureMode.optional(),
  /** `host:port` that the enclosure's proxy may reach though they are not on the internet. Absent: none. */
  privateHosts: z.array(z.string()).optional(),
  /** Of an eval attempt: written once into the workspace, over what is there, before its work counts. */
  fixtures: z.array(z.object({ path: z.string(), text: z.string() })).optional(),
  /** Absent: none. They are offered in a full enclosure only. */
  upstreams: z.array(Upstream).optional(),
  /** The git tree from which the session's work counts, if this sandbox goes on with it. No file: not in the version. */
  baseTree: z.string().max(64).optional(),
})
export type Manifest = z.infer<typeof Manifest>

/** Given to an agent on its standard input, as one line of JSON. */
export const Boot = z.object({
  gatewayUrl: z.string(),
  sessionId: z.string(),
  generation: z.number().int(),
  token: z.string(),
  /** The agent's own folder: spool, command memory, logs. Not readable by OpenCode where uids differ. */
  stateDir: z.string(),
  opencode: z.string().describe('Path of the OpenCode binary'),
  /** Folders put first on OpenCode's PATH, such as ripgrep's. */
  path: z.array(z.string()),
  /** Run OpenCode as this user; absent: as the agent's own. */
  uid: z.number().int().optional(),
  gid: z.number().int().optional(),
  /** In the environment of OpenCode and all its children, so that they can be found again. */
  mark: z.string(),
  /** In milliseconds, instead of what `turnPatience` says: for whoever cannot wait, such as tests. */
  patience: z.record(z.string(), z.number()).optional(),
  /** Folders that OpenCode must not see, beside the agent's own: the stack's state, other sandboxes. */
  hidden: z.array(z.string()).optional(),
  /** What everything inside an enclosure may use; absent: as much as is good for the machine. */
  limits: z
    .object({
      processes: z.number().int().positive().optional(),
      memoryMb: z.number().int().positive().optional(),
    })
    .optional(),
  /** From a host that has fetched it already; absent: the agent asks for it. */
  manifest: Manifest.optional(),
})
export type Boot = z.infer<typeof Boot>

/** For the agent alone: what belongs into the sandbox's env file, and the files that the configuration asks for. */
export const SandboxEnv = z.object({
  values: z.record(z.string(), z.string()),
  files: z.array(
    z.object({ path: z.string().describe('Relative to the workspace'), content: z.string() }),
  ),
})
export type SandboxEnv = z.infer<typeof SandboxEnv>
