import type { PermissionRequest } from '../../contract/permission.ts'
import { contractTools, toolFileName } from '../../contract/tools.ts'
import { requestOfTool } from './permission-request.ts'

/** What agents do all day, as the gate would ask it. */
export interface Everyday {
  /** In the plural. */
  name: string
  each: string
  samples: readonly { shown: string; request: PermissionRequest }[]
}

const home = '/home/user'
const workspaceRoot = `${home}/workspace`
const ownTools = contractTools.map(toolFileName)

/** In a coding session, by the agent that OpenCode starts with. */
const asked = (tool: string, input: object): PermissionRequest =>
  requestOfTool({
    tool,
    input,
    contractTools: ownTools,
    agent: 'build',
    subagent: null,
    mode: 'coding',
    workspaceRoot,
    sessionPaths: [],
    home,
  })

const commands = (...list: string[]) =>
  list.map((command) => ({ shown: command, request: asked('bash', { command }) }))

const onFiles = (tools: readonly string[], files: readonly string[]) =>
  tools.flatMap((tool) =>
    files.map((file) => ({
      shown: `${tool} ${file}`,
      request: asked(tool, { filePath: `${workspaceRoot}/${file}` }),
    })),
  )

const named = (tools: readonly string[]) =>
  tools.map((tool) => ({ shown: tool, request: asked(tool, {}) }))

const files = ['src/index.ts', 'test/index.test.ts', 'README.md', 'package.json']

export const everyday: readonly Everyday[] = [
  { name: 'reads', each: 'read', samples: onFiles(['read'], files) },
  { name: 'edits', each: 'edit', samples: onFiles(['edit', 'write'], files) },
  {
    name: 'searches',
    each: 'search',
    samples: ['grep', 'glob', 'list'].map((tool) => ({
      shown: tool,
      request: asked(tool, { pattern: 'main' }),
    })),
  },
  {
    name: 'commands',
    each: 'command',
    samples: commands('ls -la', 'npm test', 'npm run build', 'make', 'node src/index.js', 'pytest'),
  },
  {
    name: 'git commands',
    each: 'git command',
    samples: commands('git status', 'git diff', 'git add -A', 'git commit -m work'),
  },
  {
    name: 'requests to the sandbox itself',
    each: 'request to the sandbox itself',
    samples: commands('curl http://localhost:3000', 'curl http://127.0.0.1:8080/health'),
  },
  {
    name: "uses of OpenCode's own notes and subagents",
    each: "use of OpenCode's own notes and subagents",
    samples: named(['todowrite', 'todoread', 'task', 'skill']),
  },
  { name: "uses of Gantry's tools", each: "use of Gantry's tools", samples: named(ownTools) },
]
