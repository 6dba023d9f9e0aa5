import type { Layout } from '../../../contract/manifest.ts'
import type { ToolDefinition } from '../../../contract/tool.ts'

export function instructionsGuideText(layout: Layout, tools: readonly ToolDefinition[]): string {
  return `# Working in this sandbox

- Your workspace is ${layout.workspace}. Stay inside it.
- Every tool call is checked before it runs. A refused call says why: do not repeat it unchanged, find another way or say what you need.
- Credentials are not here and are not needed: what needs one runs outside, through these tools: ${outside(
    tools,
  )
    .map((tool) => tool.name)
    .join(', ')}.
- Do not change files under .opencode/ and .proliferate/ that Gantry wrote; they are restored.
`
}

export function actionsGuideText(tools: readonly ToolDefinition[]): string {
  const inside = tools.filter((tool) => !outside(tools).includes(tool))
  return [
    '# Actions',
    'These tools run outside the sandbox. Each call runs once, however often it is repeated.',
    ...outside(tools).map(section),
    ...(inside.length > 0 ? ['These tools run in the sandbox and return at once.'] : []),
    ...inside.map(section),
    '',
  ].join('\n\n')
}

const section = (tool: ToolDefinition) =>
  `## ${tool.name}\n\n${tool.description}\n\n${tool.guidance}`

const outside = (tools: readonly ToolDefinition[]) =>
  tools.filter(({ domain }) => domain === 'gateway')
