import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Stack } from '../../local/stack/stack.ts'
import type { Approval, ApprovalResolve } from '../../src/contract/approval.ts'
import type { Scope } from '../../src/contract/key.ts'
import type { Attempt } from '../../src/contract/operation.ts'
import type { PermissionRecord } from '../../src/contract/permission-record.ts'
import type { Run, RunEvent } from '../../src/contract/run.ts'
import { type Answer, request } from '../support/stack.ts'
import { type Box, until } from './support.ts'

export interface RunView {
  run: Run
  events: RunEvent[]
  approvals: Approval[]
  attempts: Attempt[]
}

export const api = (
  stack: Pick<Stack, 'url' | 'adminKey'>,
  method: string,
  path: string,
  body?: unknown,
  key?: string,
): Promise<Answer> => request(method, `${stack.url}/v1${path}`, key ?? stack.adminKey, body)

/** A key of somebody, with the scope. */
export async function makeKey(stack: Stack, owner: string, ...scopes: Scope[]): Promise<string> {
  await api(stack, 'PUT', '/settings', { newKeysCount: true })
  const { json } = await api(stack, 'POST', '/keys', { name: owner, owner, scopes })
  return (json as { secret: string }).secret
}

export async function runOf(box: Box, runId: string | null): Promise<RunView> {
  return (await request('GET', `${box.stack.url}/v1/runs/${runId}`, box.stack.adminKey))
    .json as RunView
}

export const entriesOf = (view: RunView, kind: RunEvent['kind']): Record<string, unknown>[] =>
  view.events.filter((event) => event.kind === kind).map(({ data }) => data)

export const decisionsOf = (view: RunView): PermissionRecord[] =>
  entriesOf(view, 'permission-decision') as unknown as PermissionRecord[]

/** Parked questions, once there are so many. */
export function parkedOf(box: Box, count: number): Promise<Approval[]> {
  return until(`${count} parked questions`, 30_000, async () => {
    const { items } = (await box.get('/approvals')).json as { items: Approval[] }
    const pending = items.filter(({ state }) => state === 'pending')
    return pending.length === count && pending
  })
}

export const resolve = (
  box: Box,
  { id }: Pick<Approval, 'id'>,
  resolution: ApprovalResolve['resolution'],
  more: Partial<ApprovalResolve> = {},
  key = box.stack.adminKey,
): Promise<Answer> =>
  request('POST', `${box.stack.url}/v1/approvals/${id}/resolve`, key, { resolution, ...more })

const customTool = `export default {
  description: 'Looks something up', args: {},
  async execute() { return 'looked up' },
}
`

/** As little of the protocol as OpenCode needs. */
const mcpServer = `import { createInterface } from 'node:readline'
const tool = { name: 'ping', description: 'Answers', inputSchema: { type: 'object', properties: {} } }
const answers = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'probe', version: '1' } }),
  'tools/list': () => ({ tools: [tool] }),
  'tools/call': () => ({ content: [{ type: 'text', text: 'pong' }] }),
}
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line)
  if (id === undefined) continue
  const result = answers[method]?.(params ?? {})
  const error = { code: -32601, message: 'No such method' }
  console.log(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error }) }))
}
`

/** With a tool and an MCP server of its own, for a session that trusts it. */
export function makeToolRepository(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-policy-'))
  chmodSync(folder, 0o755)
  const command = [process.execPath, 'mcp.mjs']
  const files: Record<string, string> = {
    'README.md': '# Tools\n',
    'mcp.mjs': mcpServer,
    '.opencode/tool/lookup.ts': customTool,
    'opencode.json': JSON.stringify({ mcp: { probe: { type: 'local', command, enabled: true } } }),
  }
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
  const git = (...args: string[]) => execFileSync('git', ['-C', folder, ...args])
  git('init', '--quiet', '--initial-branch=main')
  git('add', '--all')
  git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '--quiet', '-m', 'tools')
  return folder
}

/** Changes one byte of an entry where the object keeps it. The control plane must not be running. */
export function flipByte(stack: Stack, runId: string, seq: number): void {
  const folder = join(stack.stateDir, 'worker', 'objects', 'gantry-SessionObject')
  const where = 'where run_id = ? and seq = ?'
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.sqlite'))) {
    const file = new DatabaseSync(join(folder, name))
    try {
      const row = file.prepare(`select data from run_events ${where}`).get(runId, seq)
      if (row === undefined) continue
      const bytes = Buffer.from(String(row['data']))
      const at = bytes.lastIndexOf('"') - 1
      bytes[at] = (bytes[at] as number) ^ 1
      file.prepare(`update run_events set data = ? ${where}`).run(bytes.toString(), runId, seq)
      return
    } finally {
      file.close()
    }
  }
  throw new Error(`No object has entry ${seq} of ${runId}`)
}
