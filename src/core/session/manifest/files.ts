import { canonicalJson } from '../../../contract/canonical.ts'
import type { EnclosureMode } from '../../../contract/enclosure.ts'
import type { Layout, Manifest, ManifestFile, Upstream } from '../../../contract/manifest.ts'
import type { Mode } from '../../../contract/mode.ts'
import type { Model, ReasoningEffort } from '../../../contract/models.ts'
import type { Equipment, ToolDefinition } from '../../../contract/tool.ts'
import { isToolOf } from '../../../contract/tools.ts'
import { opencodeVersion } from '../../../contract/version.ts'
import type { Crypto } from '../../ports.ts'
import type { PinnedAgents } from '../pins/agents.ts'
import { manifestWithAgents } from './agents.ts'
import { gatePluginText } from './gate-plugin.ts'
import { actionsGuideText, instructionsGuideText } from './guides.ts'
import { instructionsPath, opencodeConfig, pluginPath } from './opencode-config.ts'
import { type GivenSkill, skillFiles, skillFolder, workspaceSkills } from './skill-files.ts'
import { type ToolFile, toolFile } from './tool-files.ts'

export interface ManifestInput {
  sessionId: string
  layout: Layout
  /** The system prompt. */
  prompt: string
  model: Model
  /** Everything that may be chosen in the sandbox. */
  models: readonly Model[]
  effort: ReasoningEffort | null
  mode: Mode
  /** Absent: what the contract gives to every session. */
  equipment?: readonly Equipment[]
  /** All that exist; only those that the session has are written. */
  tools: readonly ToolDefinition[]
  /** Null: the session was started without a registered one. */
  agents?: PinnedAgents | null
  /** What it was given to remember. */
  memories?: string
  trustProjectConfig: boolean
  enclosure?: EnclosureMode
  privateHosts?: readonly string[]
  upstreams?: readonly Upstream[]
  /** Those that the session began with. */
  skills?: readonly GivenSkill[]
  /** Makes the marker's name unguessable; the same one gives the same manifest. */
  nonce?: string
}

type FileText = Pick<ManifestFile, 'path' | 'content' | 'keep'>

/** Everything that a sandbox is told to write, and how OpenCode is started in it. */
export async function buildManifest(
  input: ManifestInput,
  crypto: Pick<Crypto, 'sha256' | 'random'>,
): Promise<Manifest> {
  const { layout } = input
  const marker = `gantry_gate_${input.nonce ?? crypto.random(20)}`
  const tools = input.tools.filter((tool) => isToolOf(tool, input)).map(toolFile)
  const files: ManifestFile[] = []
  for (const file of fileTexts(input, tools, marker)) {
    files.push({ ...file, sha256: await crypto.sha256(file.content), mode: 0o644 })
  }
  const toRead = workspaceSkills(layout.configDir, input.skills ?? [])
  const manifest: Omit<Manifest, 'version'> = {
    layout,
    files,
    ...(toRead.length > 0 && { workspaceSkills: toRead }),
    absent: await absentFiles(input, crypto),
    environment: environment(input),
    marker,
    toolIds: tools.map((tool) => tool.toolId),
    model: input.model.opencodeId,
    ...(input.agents && { agent: input.agents.agent.name }),
    trustProjectConfig: input.trustProjectConfig,
    ...(input.enclosure === 'off' && { enclosure: 'off' }),
    ...(input.privateHosts?.length && { privateHosts: [...input.privateHosts] }),
    ...(input.upstreams?.length && { upstreams: [...input.upstreams] }),
  }
  return { version: await crypto.sha256(canonicalJson(manifest)), ...manifest }
}

function fileTexts(input: ManifestInput, tools: ToolFile[], marker: string): FileText[] {
  const { layout } = input
  const required = Object.fromEntries(tools.map((tool) => [tool.toolId, tool.required]))
  const plugin = gatePluginText({
    marker,
    home: layout.home,
    required,
    skills: skillFolders(input),
  })
  const config = `${JSON.stringify(opencodeConfig(input), null, 2)}\n`
  const ownConfig = manifestWithAgents(config, input)
  const shown = input.tools.filter((tool) => isToolOf(tool, input))
  const given = input.memories ? [input.memories] : []
  const instructions = [input.prompt, ...given, instructionsGuideText(layout, shown)].join('\n\n')
  const { configDir, home, workspace } = layout
  const globalDir = `${home}/.config/opencode`

  const own = [
    { path: `${configDir}/opencode.json`, content: ownConfig },
    { path: pluginPath(layout), content: plugin },
    { path: instructionsPath(layout), content: instructions },
    { path: `${configDir}/models.json`, content: '{}\n' },
    { path: `${configDir}/home/.keep`, content: '' },
    ...toolTexts(`${configDir}/tool`, tools),
    ...skillFiles(configDir, input.skills ?? []),
    ...installSeed(configDir),
    ...installSeed(`${configDir}/xdg/opencode`),
    // The contract's global paths. OpenCode is pointed at configDir instead, which it cannot write where users differ.
    ...(globalDir === configDir
      ? []
      : [
          { path: `${globalDir}/opencode.json`, content: ownConfig },
          { path: `${globalDir}/plugin/proliferate.mjs`, content: plugin },
        ]),
  ]
  const copies = [
    { path: `${workspace}/opencode.json`, content: config },
    { path: `${workspace}/.opencode/instructions.md`, content: instructions },
    { path: `${workspace}/.proliferate/actions-guide.md`, content: actionsGuideText(shown) },
    ...toolTexts(`${workspace}/.opencode/tool`, tools),
    ...installSeed(`${workspace}/.opencode/tool`),
    ...installSeed(`${workspace}/.opencode`),
  ]
  return [
    ...own.map((file) => ({ ...file, keep: 'own' as const })),
    ...copies.map((file) => ({ ...file, keep: 'copy' as const })),
  ]
}

const skillFolders = ({ layout, skills = [] }: ManifestInput): Record<string, string> =>
  Object.fromEntries(skills.map(({ name }) => [name, skillFolder(layout.configDir, name)]))

/** Tools of other sessions, which a snapshot may have brought into the workspace. Only what we wrote ourselves goes. */
async function absentFiles(
  input: ManifestInput,
  crypto: Pick<Crypto, 'sha256'>,
): Promise<Manifest['absent']> {
  const others = input.tools.filter((tool) => !isToolOf(tool, input)).map(toolFile)
  const files = toolTexts(`${input.layout.workspace}/.opencode/tool`, others)
  return Promise.all(
    files.map(async ({ path, content }) => ({ path, sha256: await crypto.sha256(content) })),
  )
}

function toolTexts(folder: string, tools: ToolFile[]): { path: string; content: string }[] {
  return tools.flatMap((tool) => [
    { path: `${folder}/${tool.toolId}.ts`, content: tool.wrapper },
    { path: `${folder}/${tool.toolId}.txt`, content: tool.guidance },
  ])
}

/** OpenCode installs its plugin package into every config folder at start, unless the folder looks installed. */
function installSeed(folder: string): { path: string; content: string }[] {
  const dependencies = { '@opencode-ai/plugin': opencodeVersion }
  const lock = { lockfileVersion: 3, packages: { '': { dependencies } } }
  return [
    { path: `${folder}/package.json`, content: `${JSON.stringify({ dependencies })}\n` },
    { path: `${folder}/package-lock.json`, content: `${JSON.stringify(lock)}\n` },
    {
      path: `${folder}/node_modules/.package-lock.json`,
      content: '{"lockfileVersion":3,"packages":{}}\n',
    },
  ]
}

/**
 * HOME and XDG_CONFIG_HOME lead into configDir because OpenCode loads plugins and tools from ~/.opencode and from its
 * global folder, whatever the project's settings: there, nothing that an agent writes may count. Bash gets the real home.
 */
function environment({
  sessionId,
  layout,
  trustProjectConfig,
}: ManifestInput): Record<string, string> {
  const { configDir, home } = layout
  return {
    HOME: `${configDir}/home`,
    XDG_CONFIG_HOME: `${configDir}/xdg`,
    XDG_DATA_HOME: `${home}/.local/share`,
    XDG_CACHE_HOME: `${home}/.cache`,
    XDG_STATE_HOME: `${home}/.local/state`,
    OPENCODE_CONFIG_DIR: configDir,
    OPENCODE_MODELS_PATH: `${configDir}/models.json`,
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
    OPENCODE_DISABLE_CLAUDE_CODE: '1',
    ...(!trustProjectConfig && { OPENCODE_DISABLE_PROJECT_CONFIG: '1' }),
    PROLIFERATE_SESSION_ID: sessionId,
    PROLIFERATE_ENV_FILE: layout.envFile,
    TMPDIR: layout.envFile.slice(0, layout.envFile.lastIndexOf('/')) || '/',
  }
}
