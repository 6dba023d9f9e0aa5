import { spawn, execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Manifest } from '../src/contract/manifest.ts'
import { binary } from '../local/binaries.ts'
import { findProcesses, sandboxMark, signalProcess, sleep } from '../local/processes/processes.ts'
import { script } from '../local/model/scripted-model.ts'
import { startStack, type Stack } from '../local/stack/stack.ts'
import { api } from './api.ts'
import { sandboxToken } from './calls.ts'
import { readyAs, seen, type Seen } from './ready.ts'
import { bareNodeRss, rssOf } from './sizes.ts'
import { median, type Row } from './table.ts'

const rounds = 5

/** Until a session is ready, against the same OpenCode with the same files until it knows the same tools. */
export async function measureStart(stateDir: string): Promise<Row[]> {
  const stack = await startStack({ stateDir, host: 'workerd' })
  try {
    const first = await startSession(stack)
    const manifest = await fetchManifest(stack, first.id)
    const memory = await measureMemory(stack)
    await closeSession(stack, first.id)
    await startBare(manifest)
    const starts = await createStarts(stack)
    const base: number[] = []
    const baseAgain: number[] = []
    const ours = starts.map((): number[] => [])
    for (let round = 0; round < rounds; round++) {
      base.push(await startBare(manifest))
      for (const [n, { start }] of starts.entries()) ours[n]?.push(await start())
      baseAgain.push(await startBare(manifest))
    }
    const bare = { base: median(base), baseAgain: median(baseAgain) }
    const rows = starts.map((start, n) => startRow(start, median(ours[n] ?? []), bare))
    return [...rows, memory]
  } finally {
    await stack.erase()
  }
}

interface Start {
  measure: string
  aim: number
  /** Milliseconds; whatever it has started is at rest again, or gone. */
  start: () => Promise<number>
}

const startRow = (
  { measure, aim }: Start,
  ours: number,
  bare: { base: number; baseAgain: number },
): Row => ({
  measure: `${measure} / bare opencode serve`,
  ours,
  ...bare,
  unit: 'ms',
  aim: { most: aim },
})

async function createStarts(stack: Stack): Promise<Start[]> {
  const pool = (await api(stack, 'POST', '/v1/configurations', {
    name: 'warm',
    warmPool: { size: 1 },
  })) as { id: string }
  await poolReady(stack, pool.id)
  const { id: saved } = await startSession(stack)
  await saveSnapshot(stack, saved)
  return [
    {
      measure: 'create session until ready',
      aim: 1.15,
      start: () => timeSession(stack, {}),
    },
    {
      measure: 'create session until ready, from the warm pool',
      aim: 0.5,
      start: async () => {
        const ms = await timeSession(stack, { configurationId: pool.id })
        await poolReady(stack, pool.id)
        return ms
      },
    },
    {
      measure: 'replace sandbox until restored from its snapshot',
      aim: 1.3,
      start: () =>
        timeNext(stack, saved, () => api(stack, 'POST', `/v1/sessions/${saved}/replace`, {})),
    },
    {
      measure: 'sandbox killed until noticed and restored from its snapshot',
      aim: 3,
      start: () => timeNext(stack, saved, (generation) => killSandbox(saved, generation)),
    },
  ]
}

async function measureMemory(stack: Stack): Promise<Row> {
  const ours = agentRss(stack)
  const base = await bareNodeRss(stack.url)
  const baseAgain = await bareNodeRss(stack.url)
  return {
    measure: 'agent memory / bare Node with fetch and WebSocket',
    ours: ours / 1e6,
    base: base / 1e6,
    baseAgain: baseAgain / 1e6,
    unit: 'MB',
    aim: { most: 1.3 },
  }
}

async function timeSession(stack: Stack, input: object): Promise<number> {
  const { id, ms } = await startSession(stack, input)
  await closeSession(stack, id)
  return ms
}

async function startSession(stack: Stack, input: object = {}): Promise<{ id: string; ms: number }> {
  const started = performance.now()
  const { id } = (await api(stack, 'POST', '/v1/sessions', input)) as Seen
  await readyAs(stack, id, 1)
  return { id, ms: performance.now() - started }
}

/** From the end of one sandbox to the next one that works. */
async function timeNext(
  stack: Stack,
  id: string,
  end: (generation: number) => unknown,
): Promise<number> {
  const { generation } = (await seen(stack, id)).sandbox
  const started = performance.now()
  await end(generation)
  await readyAs(stack, id, generation + 1)
  return performance.now() - started
}

function killSandbox(id: string, generation: number): void {
  const pids = findProcesses({ marks: [`${sandboxMark}=${id}.${generation}`] })
  for (const pid of pids) signalProcess(pid, 'SIGKILL')
}

async function saveSnapshot(stack: Stack, id: string): Promise<void> {
  const calls = [
    { name: 'write', args: { filePath: 'work.txt', content: 'work\n' } },
    { name: 'save_snapshot', args: {} },
  ]
  const text = script(calls.map((call) => ({ calls: [call] })))
  await api(stack, 'POST', `/v1/sessions/${id}/prompts`, { text })
  for (;;) {
    const path = `/v1/sessions/${id}/events?limit=500`
    const { items } = (await api(stack, 'GET', path)) as { items: { kind: string }[] }
    if (items.some(({ kind }) => kind === 'turn.ended'))
      return assertStored(items.map(({ kind }) => kind))
    await sleep(100)
  }
}

function assertStored(kinds: string[]): void {
  if (!kinds.includes('snapshot.stored')) throw new Error('The snapshot was not taken')
}

export async function poolReady(stack: Stack, configurationId: string): Promise<void> {
  const path = `/v1/configurations/${configurationId}/warm-pool`
  while (((await api(stack, 'GET', path)) as { ready: number }).ready < 1) await sleep(50)
}

async function closeSession(stack: Stack, id: string): Promise<void> {
  await api(stack, 'POST', `/v1/sessions/${id}/close`, {})
  while ((await seen(stack, id)).sandbox.state !== 'stopped') await sleep(50)
}

async function fetchManifest(stack: Stack, sessionId: string): Promise<Manifest> {
  const token = await sandboxToken(stack, sessionId)
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
    await sleep(20)
  }
}
