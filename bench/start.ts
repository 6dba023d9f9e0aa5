import { spawn, execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createTokens } from '../src/adapters/tokens.ts'
import { Manifest } from '../src/contract/manifest.ts'
import { parseConfig } from '../src/http/config.ts'
import { binary } from '../local/binaries.ts'
import { startStack, type Stack } from '../local/stack.ts'
import { bareNodeRss, rssOf } from './sizes.ts'
import type { Row } from './table.ts'

const rounds = 5

/** Create a session until it is ready, against the same OpenCode with the same files until it knows the same tools. */
export async function measureStart(stateDir: string): Promise<Row[]> {
  const stack = await startStack({ stateDir, host: 'workerd' })
  try {
    const warm = await startSession(stack)
    const manifest = await fetchManifest(stack, warm.id)
    const rss = agentRss(stack)
    const bareRss = await bareNodeRss(stack.url)
    const bareRssAgain = await bareNodeRss(stack.url)
    await closeSession(stack, warm.id)
    await startBare(manifest)
    const times = { ours: [] as number[], base: [] as number[], baseAgain: [] as number[] }
    for (let round = 0; round < rounds; round++) {
      times.base.push(await startBare(manifest))
      const { id, ms } = await startSession(stack)
      times.ours.push(ms)
      await closeSession(stack, id)
      times.baseAgain.push(await startBare(manifest))
    }
    return [
      {
        measure: 'create session until ready / bare opencode serve',
        ours: median(times.ours),
        base: median(times.base),
        baseAgain: median(times.baseAgain),
        unit: 'ms',
        aim: '<= 1.15',
        within: (ratio) => ratio <= 1.15,
      },
      {
        measure: 'agent memory / bare Node with fetch and WebSocket',
        ours: rss / 1e6,
        base: bareRss / 1e6,
        baseAgain: bareRssAgain / 1e6,
        unit: 'MB',
        aim: '<= 1.3',
        within: (ratio) => ratio <= 1.3,
      },
    ]
  } finally {
    await stack.erase()
  }
}

async function api(stack: Stack, method: string, path: string, body?: object): Promise<unknown> {
  const answer = await fetch(stack.url + path, {
    method,
    headers: { authorization: `Bearer ${stack.adminKey}`, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  })
  return answer.json()
}

interface Seen {
  id: string
  sandbox: { state: string; reason: string | null }
}

async function startSession(stack: Stack): Promise<{ id: string; ms: number }> {
  const started = performance.now()
  const { id } = (await api(stack, 'POST', '/v1/sessions', {})) as Seen
  for (;;) {
    const { sandbox } = (await api(stack, 'GET', `/v1/sessions/${id}`)) as Seen
    if (sandbox.state === 'ready') return { id, ms: performance.now() - started }
    if (sandbox.state === 'failed') throw new Error(`The sandbox failed: ${sandbox.reason}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

async function closeSession(stack: Stack, id: string): Promise<void> {
  await api(stack, 'POST', `/v1/sessions/${id}/close`, {})
  for (;;) {
    const { sandbox } = (await api(stack, 'GET', `/v1/sessions/${id}`)) as Seen
    if (sandbox.state === 'stopped') return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

async function fetchManifest(stack: Stack, sessionId: string): Promise<Manifest> {
  const tokens = createTokens(parseConfig(stack.env).tokenKeys, Date.now)
  const { organisationId } = stack
  const { token } = await tokens.mint({ sessionId, organisationId, generation: 1 })
  const answer = await fetch(`${stack.url}/sandbox/${sessionId}/manifest`, {
    headers: { authorization: `Bearer ${token}` },
  })
  return Manifest.parse(await answer.json())
}

function agentRss(stack: Stack): number {
  const lines = execFileSync('ps', ['-eo', 'pid=,args=']).toString().split('\n')
  const agent = lines.find((line) => line.includes(join(stack.stateDir, 'agent.mjs')))
  return rssOf(Number(agent?.trim().split(' ')[0]))
}

/** Milliseconds from the spawn until every tool of the manifest is known. */
async function startBare(manifest: Manifest): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-bare-'))
  const old = dirname(manifest.layout.home)
  const moved = (text: string) => text.replaceAll(old, folder)
  for (const file of manifest.files) {
    const path = moved(file.path)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, moved(file.content))
  }
  for (const name of ['home', 'tmp']) mkdirSync(join(folder, name), { recursive: true })
  const workspace = join(folder, 'workspace')
  execFileSync('git', ['init', '-q', workspace])
  const environment = Object.entries(manifest.environment).map(([name, value]) => [
    name,
    moved(value),
  ])
  const started = performance.now()
  const child = spawn(
    binary('opencode'),
    ['serve', '--hostname', '127.0.0.1', '--port', '0', '--print-logs'],
    {
      cwd: workspace,
      env: {
        PATH: process.env['PATH'],
        ...Object.fromEntries(environment),
        PROLIFERATE_GATEWAY_URL: 'http://127.0.0.1:9',
        SANDBOX_MCP_AUTH_TOKEN: 'bare',
        OPENCODE_SERVER_PASSWORD: 'bare',
      },
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  )
  try {
    const url = await listening(child.stdout)
    await knowsTools(url, [manifest.marker, ...manifest.toolIds])
    return performance.now() - started
  } finally {
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
    rmSync(folder, { recursive: true, force: true })
  }
}

async function listening(output: NodeJS.ReadableStream): Promise<string> {
  let text = ''
  for await (const chunk of output) {
    text += String(chunk)
    const found = /listening on (http:\/\/\S+)/.exec(text)?.[1]
    if (found) return found
  }
  throw new Error('OpenCode ended before it listened')
}

async function knowsTools(url: string, wanted: string[]): Promise<void> {
  const headers = { authorization: `Basic ${btoa('opencode:bare')}` }
  for (;;) {
    try {
      const answer = await fetch(`${url}/experimental/tool/ids`, {
        headers,
        signal: AbortSignal.timeout(10_000),
      })
      const ids = (await answer.json()) as string[]
      if (wanted.every((id) => ids.includes(id))) return
    } catch {
      // Not up yet.
    }
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}
