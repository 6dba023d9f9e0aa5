import type { Layout } from '../../../contract/manifest.ts'
import {
  type Model,
  opencodeModels,
  opencodePackages,
  type ReasoningEffort,
} from '../../../contract/models.ts'

export const pluginPath = (layout: Layout) => `${layout.configDir}/plugin/proliferate.mjs`
export const instructionsPath = (layout: Layout) => `${layout.configDir}/instructions.md`

interface ConfigInput {
  layout: Layout
  model: Model
  models: readonly Model[]
  effort: ReasoningEffort | null
  trustProjectConfig: boolean
}

/** Addresses and the local token come from OpenCode's environment, so the file holds no secret. */
export function opencodeConfig(input: ConfigInput): object {
  const { layout, models, effort, trustProjectConfig } = input
  const model = input.model.opencodeId
  const chosen = { model: input.model, effort }
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
        // Without its catalogue OpenCode takes a block that names no package for an OpenAI-compatible server.
        npm: opencodePackages.anthropic,
        name: 'Anthropic',
        options: local('/llm/anthropic/v1'),
        models: opencodeModels('anthropic', models, chosen),
      },
      litellm: {
        npm: opencodePackages.litellm,
        name: 'LiteLLM',
        options: local('/llm/litellm'),
        models: opencodeModels('litellm', models, chosen),
      },
    },
  }
}
