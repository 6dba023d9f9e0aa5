import type { PermissionRequest } from '../../../src/contract/permission.ts'
import { PolicyDocument, type Policy } from '../../../src/contract/policy.ts'
import { evaluatePermission } from '../../../src/core/policy/evaluate.ts'
import { type RequestContext, requestOfTool } from '../../../src/core/policy/permission-request.ts'
import { sandboxDefault } from '../../../src/core/policy/builtin-policy.ts'

export const root = '/home/user/work'
export const place: RequestContext = {
  agent: 'build',
  subagent: null,
  mode: 'coding',
  workspaceRoot: root,
  sessionPaths: ['/tmp/.session_env.json', '/home/user/.local/share/opencode/tool-output'],
  home: '/home/user',
  variables: { PROLIFERATE_ENV_FILE: '/tmp/.session_env.json' },
}

export const request = (change: Partial<PermissionRequest> = {}): PermissionRequest => ({
  category: 'shell',
  operation: 'run',
  tool: null,
  agent: 'build',
  subagent: null,
  mode: 'coding',
  workspaceRoot: root,
  sessionPaths: ['/tmp/.session_env.json'],
  paths: [],
  command: null,
  home: '/home/user',
  hosts: [],
  risks: [],
  ...change,
})

export const toolRequest = (tool: string, input: unknown): PermissionRequest =>
  requestOfTool({ ...place, tool, input, contractTools: ['verify', 'automation_complete'] })

export const policyOf = (rules: unknown[], change: object = {}): Policy => ({
  ...PolicyDocument.parse({ name: 'team', rules, ...change }),
  version: 3,
})

export const decideTool = (tool: string, input: unknown, policy: Policy = sandboxDefault) =>
  evaluatePermission(toolRequest(tool, input), policy)

export const decideCommand = (command: string, policy: Policy = sandboxDefault) =>
  decideTool('bash', { command }, policy)
