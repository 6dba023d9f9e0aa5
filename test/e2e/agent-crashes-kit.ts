import {
  appendFileSync,
  chmodSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { expect } from 'vitest'
import { binary } from '../../local/binaries.ts'
import { signalProcess } from '../../local/processes/processes.ts'
import type { Stack } from '../../local/stack/stack.ts'
import { type CrashPoint, crashPoints } from '../../sandbox-agent/crash-points.ts'
import type { Approval } from '../../src/contract/approval.ts'
import type { OperationRecord } from '../../src/contract/operation.ts'
import type { Run } from '../../src/contract/run.ts'
import { type Turn, turnEnds } from '../../src/contract/turn.ts'
import { request } from '../support/stack.ts'
import { api, makeKey, resolve } from './policy-kit.ts'
import { together } from './contract-kit.ts'
import { bash, type Box, sleep, until, verify } from './support.ts'

/** The agent is killed when it comes to the point for this time. */
export interface Aim {
  point: CrashPoint
  hit: number
}

export interface Crashes {
  /** Stands in Node's place, and tells the agent alone where to ask. */
  node: string
  hits: Map<CrashPoint, number>
  kills: Map<CrashPoint, number>
  /** What was left, by point. */
  ends: Map<CrashPoint, string[]>
  /** One per session. What its agent asks before waits. */
  aim(box: Box, aim: Aim): void
  killed(box: Box): boolean
  close(): void
}

/** Where agents ask at their crash points whether they may go on. */
export async function startCrashes(): Promise<Crashes> {
  const hits = new Map<CrashPoint, number>()
  const kills = new Map<CrashPoint, number>()
  const ends = new Map<CrashPoint, string[]>()
  const aims = new Map<string, { aim: Aim; seen: number; killed: boolean }>()
  const server = createServer((incoming, response) => {
    // Without an aim, or with the server closed, nobody waits for the answer any more.
    answer(incoming, response).catch(() => void response.destroy())
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo

  async function answer({ url = '' }: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, sandbox = '', pid = '', name = ''] = url.split('/')
    const sessionId = sandbox.replace(/\.\d+$/, '')
    const point = name.replace(/^agent\./, '') as CrashPoint
    count(hits, point)
    const target = await until(`an aim for ${sessionId}`, 30_000, () => aims.get(sessionId))
    const { aim } = target
    if (target.killed || aim.point !== point || ++target.seen < aim.hit) return void response.end()
    target.killed = true
    count(kills, point)
    signalProcess(Number(pid), 'SIGKILL')
  }

  return {
    node: makeNode(`http://127.0.0.1:${port}`),
    hits,
    kills,
    ends,
    aim: (box, aim) => void aims.set(box.id, { aim, seen: 0, killed: false }),
    killed: (box) => aims.get(box.id)?.killed === true,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

const count = (counts: Map<CrashPoint, number>, point: CrashPoint) =>
  void counts.set(point, (counts.get(point) ?? 0) + 1)

/** The sandbox host passes no such address on. The shell becomes the agent, so its process id is the agent's. */
function makeNode(url: string): string {
  const path = join(mkdtempSync(join(tmpdir(), 'gantry-node-')), 'node')
  const line = `GANTRY_CRASH_URL="${url}/$GANTRY_SANDBOX/$$" exec "${binary('node')}" "$@"`
  writeFileSync(path, `#!/bin/sh\n${line}\n`, { mode: 0o755 })
  return path
}

export function printCrashes({ hits, kills, ends }: Crashes): string {
  const row = (name: string, hit: string | number, killed: string | number, end: string) =>
    `${name.padEnd(20)}${String(hit).padStart(6)}${String(killed).padStart(7)}  ${end}`
  return [
    row('crash point', 'hits', 'kills', 'turn call operation bash'),
    ...crashPoints.map((point) => {
      const ended = (ends.get(point) ?? []).join('; ')
      return row(point, hits.get(point) ?? 0, kills.get(point) ?? 0, ended)
    }),
  ].join('\n')
}

/** What is done in sandboxes and outlives them: one line for each time. */
export class Effects {
  readonly folder = mkdtempSync(join(tmpdir(), 'gantry-effects-'))
  /** An enclosure does not see the folder: bash tells it by its only way out. */
  readonly #server = createServer(({ url = '' }, response) => {
    appendFileSync(join(this.folder, basename(url)), 'ran\n')
    response.end()
  })
  address: string | undefined

  constructor() {
    chmodSync(this.folder, 0o777)
  }

  async listen(): Promise<string> {
    await new Promise<void>((done) => this.#server.listen(0, '127.0.0.1', done))
    this.address = `127.0.0.1:${(this.#server.address() as AddressInfo).port}`
    return this.address
  }

  close(): void {
    this.#server.close()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Every sandbox has another user; whoever comes second must be able to leave a trace. */
  open(box: Box): void {
    for (const what of ['bash', 'operation'] as const) {
      writeFileSync(this.path(box, what), '')
      chmodSync(this.path(box, what), 0o666)
    }
  }

  path(box: Box, what: 'bash' | 'operation'): string {
    return join(this.folder, `${box.id}.${what}`)
  }

  count(box: Box, what: 'bash' | 'operation'): number {
    return readFileSync(this.path(box, what), 'utf8').split('\n').length - 1
  }
}

export interface People {
  asker: string
  approver: string
}

export async function prepareProject(stack: Stack, effects: Effects): Promise<People> {
  const work = { category: ['read', 'edit', 'shell', 'git', 'network', 'provider-tool'] }
  const outside = { category: 'external-directory', path: `${effects.folder}/**` }
  const rules = [work, outside].map((match) => ({ match, decision: 'allow' }))
  const source = JSON.stringify({ name: 'crashes', rules })
  const body = { project: 'crashes', format: 'json', source }
  const stored = await api(stack, 'PUT', '/policies', body)
  expect([stored.status, stored.text]).toEqual([200, expect.any(String)])
  return {
    asker: await makeKey(stack, 'ada', 'write'),
    approver: await makeKey(stack, 'grace', 'approve'),
  }
}

/** A tool of OpenCode, one of the gateway, and one that asks a person. */
export const work = (box: Box, effects: Effects) => [
  together(
    { name: 'write', args: { filePath: '.proliferate/.verification/proof.txt', content: 'proof' } },
    // An operation may not name what is outside of the workspace.
    { name: 'write', args: { filePath: 'operate.sh', content: mark(box, effects, 'operation') } },
  ),
  verify(),
  bash(`rm -rf build; ${mark(box, effects, 'bash')}`),
  { text: 'All done.' },
]

function mark(box: Box, effects: Effects, what: 'bash' | 'operation'): string {
  const path = effects.path(box, what)
  if (effects.address === undefined || what === 'operation') return `echo ran >> ${path}`
  return `curl -sf --noproxy '' -x "$HTTP_PROXY" http://${effects.address}/${basename(path)}`
}

export interface Driven {
  turn: Turn
  operation: OperationRecord | null
}

/** Until the turn has ended: whoever is asked lets an operation be executed, and then says yes. */
export async function drive(box: Box, turnId: string, operate: Operate): Promise<Driven> {
  let operation: OperationRecord | null = null
  for (const end = Date.now() + 150_000; Date.now() < end; await sleep(100)) {
    const turn = (await request('GET', `${box.stack.url}/v1/turns/${turnId}`, box.stack.adminKey))
      .json as Turn
    if (turnEnds.some((state) => state === turn.state)) return { turn, operation }
    const question = await findQuestion(box)
    if (question === undefined) continue
    operation ??= await operate(box)
    await box.answer(question, 'allow')
  }
  throw new Error(`The turn of ${box.id} has not ended`)
}

async function findQuestion(box: Box): Promise<Approval | undefined> {
  const { items } = (await box.get('/approvals')).json as { items: Approval[] }
  return items.find(({ kind, state }) => kind === 'gate' && state === 'pending')
}

type Operate = (box: Box) => Promise<OperationRecord>

/** Its risk makes it ask. */
const command = { category: 'shell', operation: 'run', risks: ['ambiguous'] }

/** Asked for by one, approved by another, and waited for. */
export const operateAs =
  (stack: Stack, { asker, approver }: People): Operate =>
  async (box) => {
    const post = async <T>(path: string, body?: unknown) => {
      const answer = await api(stack, 'POST', path, body, asker)
      expect([path, answer.status < 300, answer.text]).toEqual([path, true, expect.any(String)])
      return answer.json as T
    }
    const run = await post<Run>(`/sessions/${box.id}/runs`, { intent: 'By hand' })
    const operation = { ...command, command: 'sh operate.sh' }
    const asked = await post<OperationRecord>(`/runs/${run.id}/operations`, { operation })
    const approval = { id: asked.approvalId as NonNullable<typeof asked.approvalId> }
    expect((await resolve(box, approval, 'approved', {}, approver)).status).toBe(200)
    await post(`/approvals/${approval.id}/resume`)
    return loadOperation(stack, asked.id)
  }

/** Once it has ended, or nobody can say how. */
export async function loadOperation(stack: Stack, id: string): Promise<OperationRecord> {
  return until(`operation ${id} has ended or is suspect`, 60_000, async () => {
    const found = (await api(stack, 'GET', `/operations/${id}?wait=1`)).json as OperationRecord
    const last = found.attempts.at(-1)
    return (last?.finishedAt ?? last?.suspectSince ?? null) !== null && found
  })
}
