import type { Layout } from '../../contract/manifest.ts'

/** What OpenCode must know of a model: without a row here it refuses to use it, since its own catalogue is off. */
export interface ModelRow {
  id: string
  context: number
  output: number
}

export const anthropicModels: readonly ModelRow[] = [
  { id: 'claude-sonnet-4-6', context: 200_000, output: 64_000 },
  { id: 'claude-opus-4-6', context: 200_000, output: 64_000 },
]
export const litellmModels: readonly ModelRow[] = [
  { id: 'scripted', context: 128_000, output: 8192 },
]

export const pluginPath = (layout: Layout) => `${layout.configDir}/plugin/proliferate.mjs`
export const instructionsPath = (layout: Layout) => `${layout.configDir}/instructions.md`

/** Addresses and the local token come from OpenCode's environment, so the file holds no secret. */
export function opencodeConfig(layout: Layout, model: string, trustProjectConfig: boolean): object {
  const local = (path: string) => ({
    baseURL: `{env:PROLIFERATE_GATEWAY_URL}${path}`,
    apiKey: '{env:SANDBOX_MCP_AUTH_TOKEN}',
  })
  return {
    $schema: 'https://opencode.ai/config.json',
    model,
    small_model: model,
    autoupdate: false,
    share: 'disabled',
    snapshot: true,
    enabled_providers: ['anthropic', 'litellm'],
    // The last matching rule wins: "*" comes first.
    permission: { '*': 'allow', question: 'deny' },
    mcp: {},
    server: { hostname: layout.hostname, ...(layout.port > 0 && { port: layout.port }) },
    plugin: [pluginPath(layout)],
    // With the project's config off, OpenCode does not look for the repository's AGENTS.md by itself.
    instructions: [
      instructionsPath(layout),
      ...(trustProjectConfig ? [] : [`${layout.workspace}/AGENTS.md`]),
    ],
    provider: {
      anthropic: {
        options: local('/llm/anthropic/v1'),
        models: modelRows('anthropic', anthropicModels, model),
      },
      litellm: {
        npm: '@ai-sdk/openai-compatible',
        name: 'LiteLLM',
        options: local('/llm/litellm'),
        models: modelRows('litellm', litellmModels, model),
      },
    },
  }
}

function modelRows(
  provider: string,
  known: readonly ModelRow[],
  model: string,
): Record<string, object> {
  const id = model.startsWith(`${provider}/`) ? model.slice(provider.length + 1) : undefined
  const rows =
    id === undefined || known.some((row) => row.id === id)
      ? known
      : [...known, { id, ...unknownLimits }]
  return Object.fromEntries(
    rows.map((row) => [
      row.id,
      { name: row.id, tool_call: true, limit: { context: row.context, output: row.output } },
    ]),
  )
}

// Modest, so that a model nobody has described is not asked for more than it has.
const unknownLimits = { context: 128_000, output: 8192 }
