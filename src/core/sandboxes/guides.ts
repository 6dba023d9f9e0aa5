import type { Layout } from '../../contract/manifest.ts'
import type { ToolDefinition } from '../../contract/tool.ts'

export function instructionsText(layout: Layout, tools: readonly ToolDefinition[]): string {
  return `# Working in this sandbox

- Your workspace is ${layout.workspace}. Stay inside it.
- Every tool call is checked before it runs. A refused call says why: do not repeat it unchanged, find another way or say what you need.
- Credentials are not here and are not needed: what needs one runs outside, through these tools: ${tools.map((tool) => tool.name).join(', ')}.
- Do not change files under .opencode/ and .proliferate/ that Gantry wrote; they are restored.
`
}

export function actionsGuideText(tools: readonly ToolDefinition[]): string {
  const sections = tools.map(
    (tool) => `## ${tool.name}\n\n${tool.description}\n\n${tool.guidance}\n`,
  )
  return `# Actions\n\nThese tools run outside the sandbox. Each call runs once, however often it is repeated.\n\n${sections.join('\n')}`
}
