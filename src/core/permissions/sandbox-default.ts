import type { Policy } from '../../contract/policy.ts'
import { contractTools, toolFileName } from '../../contract/tools.ts'

const empty = {
  version: 1,
  approvals: { timeoutSeconds: 600 },
  groups: {},
  overrides: { agents: {}, subagents: {} },
}

/** OpenCode's own notes and agents: whatever a subagent does is asked for by itself. */
const bookkeepingTools = ['task', 'skill', 'todowrite', 'todoread', 'invalid']

/** The contract's names, and how OpenCode shows them to the model. */
const namesOfContractTools = contractTools.flatMap((tool) => [
  tool.name,
  toolFileName(tool),
  ...tool.aliases,
])

/** What the agent has started itself. By these names only: any other spelling may be somewhere else. */
const loopback = {
  host: ['localhost', '127.0.0.1', '::1', '0.0.0.0'],
  // Not ssh and its like: they would run commands that nobody has judged.
  command: ['curl *', 'wget *', 'http *', 'xh *'],
}

/** For sessions without a policy document. Risks ask, because no rule lists one. */
export const sandboxDefault: Policy = {
  ...empty,
  name: 'sandbox-default',
  description:
    'Work inside the workspace and requests to the sandbox itself are allowed; what is destructive, privileged or unclear asks; secrets and other folders are denied',
  rules: [
    { id: 'workspace', match: { category: ['read', 'edit', 'shell', 'git'] }, decision: 'allow' },
    { id: 'loopback', match: { category: 'network', ...loopback }, decision: 'allow' },
    {
      id: 'bookkeeping',
      match: { category: 'provider-tool', tool: bookkeepingTools },
      decision: 'allow',
    },
    {
      id: 'contract-tools',
      match: { category: 'provider-tool', tool: [...new Set(namesOfContractTools)] },
      decision: 'allow',
    },
  ],
}

/** For operations of the API without a policy document: the defaults of the categories alone. */
export const operationDefault: Policy = { ...empty, name: 'operation-default', rules: [] }

/** Names that no document may take. */
export const reservedPolicyNames: readonly string[] = [sandboxDefault.name, operationDefault.name]
