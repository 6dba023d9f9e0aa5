import { mkdtempSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest'
import { findProcesses, sandboxMark, sleep, stackMark } from '../../local/processes/processes.ts'
import { script, type ScriptStep } from '../../local/model/scripted-model.ts'
import type { ChatMessage } from '../../local/model/chat-completions.ts'
import { type Stack, type StackOptions, startStack } from '../../local/stack/stack.ts'
import type { Approval } from '../../src/contract/approval.ts'
import type { EventData, EventKind, SessionEvent } from '../../src/contract/events.ts'
import { Category, Risk } from '../../src/contract/permission.ts'
import type { Session } from '../../src/contract/session.ts'
import { type Turn, turnEnds } from '../../src/contract/turn.ts'
import { isRoot } from '../support/needs.ts'
import { isLong } from '../support/long.ts'
import { type Answer, type Host, openShared, request } from '../support/stack.ts'

export { script, sleep }

/** A busy machine gets more than what a test says; who waits in vain is red all the same. */
const patienceMs = 120_000

/** Whatever a test waits for, it must say for how long that takes. */
export async function until<T>(
  what: string,
  ms: number,
  look: () => T | Promise<T>,
): Promise<Exclude<NonNullable<T>, false>> {
  for (const end = Date.now() + Math.max(ms * 3, patienceMs); ;) {
    const value = await look()
    if (value) return value as Exclude<NonNullable<T>, false>
    if (Date.now() > end) throw new Error(`Not within ${ms / 1000} s: ${what}`)
    await sleep(100)
  }
}

/**
 * Everything real: libSQL server, control plane, sandbox host; OpenCode per session. With options a stack of its own for
 * the file, else an organisation of its own in the one that this process has.
 */
export function useRealStack(
  host: Host,
  prepare?: () => Promise<Partial<StackOptions>> | Partial<StackOptions>,
): () => Stack {
  let stack: Stack
  const isShared = prepare === undefined && !isLong
  beforeAll(async () => {
    const start = async () => startRealStack(host, await prepare?.())
    stack = await (isShared ? openShared(host, start) : start())
  })
  if (!isShared) afterAll(() => stack?.erase())
  return () => stack
}

export function startRealStack(host: Host, options: Partial<StackOptions> = {}): Promise<Stack> {
  return startStack({
    ...options,
    stateDir: options.stateDir ?? mkdtempSync(join(tmpdir(), 'gantry-e2e-')),
    host,
    env: {
      RATE_LIMIT_PER_MINUTE: '1000000',
      // Tests make their repositories there.
      GANTRY_LOCAL_REPOSITORIES: tmpdir(),
      ...options.env,
    },
  })
}

/**
 * One session with one OpenCode for the tests of a file, which come in their order: a boot costs more than most of what
 * is then tried with it. Closed after them.
 */
export function useBox(
  stack: () => Place,
  input: () => Record<string, unknown> | Promise<Record<string, unknown>> = () => ({}),
): () => Box {
  let box: Box
  beforeAll(async () => {
    box = await Box.create(stack(), await input())
    await box.ready()
  }, 240_000)
  afterAll(async () => void (await box?.post('/close').catch(() => undefined)), 60_000)
  return () => box
}

type Place = Pick<Stack, 'url' | 'adminKey' | 'sandboxSite'>
type Steps = ScriptStep[] | string

/** A session with a real OpenCode, over the public API only. */
export class Box {
  readonly stack: Place
  readonly id: string
  generation = 1

  constructor(stack: Place, id: string) {
    this.stack = stack
    this.id = id
  }

  /** Closed when the test ends. */
  static async open(stack: Place, input: Record<string, unknown> = {}): Promise<Box> {
    const box = await Box.create(stack, input)
    onTestFinished(async () => void (await box.post('/close')))
    await box.ready()
    return box
  }

  static async create(stack: Place, input: Record<string, unknown> = {}): Promise<Box> {
    const answer = await request('POST', `${stack.url}/v1/sessions`, stack.adminKey, input)
    if (answer.status !== 201) throw new Error(`Cannot create a session: ${answer.text}`)
    return new Box(stack, (answer.json as Session).id)
  }

  get(path = ''): Promise<Answer> {
    return request('GET', `${this.stack.url}/v1/sessions/${this.id}${path}`, this.stack.adminKey)
  }

  post(path: string, body: unknown = {}, headers: Record<string, string> = {}): Promise<Answer> {
    const url = `${this.stack.url}/v1/sessions/${this.id}${path}`
    return request('POST', url, this.stack.adminKey, body, headers)
  }

  async view(): Promise<Session> {
    return (await this.get()).json as Session
  }

  async ready(): Promise<void> {
    await until(`session ${this.id} is ready`, 60_000, async () => {
      const { sandbox } = await this.view()
      if (sandbox.state === 'failed' || sandbox.state === 'lost')
        throw new Error(`The sandbox is ${sandbox.state}: ${sandbox.reason}`)
      this.generation = sandbox.generation
      return sandbox.state === 'ready'
    })
  }

  async prompt(steps: Steps, options: { steer?: boolean; key?: string } = {}): Promise<Turn> {
    const { steer = false, key } = options
    const headers: Record<string, string> = key === undefined ? {} : { 'idempotency-key': key }
    const answer = await this.post('/prompts', { text: promptText(steps), steer }, headers)
    if (answer.status !== 202) throw new Error(`Cannot prompt: ${answer.text}`)
    return answer.json as Turn
  }

  async ended(turn: Pick<Turn, 'id'>, ms = 60_000): Promise<Turn> {
    return until(`turn ${turn.id} has ended`, ms, async () => {
      const url = `${this.stack.url}/v1/turns/${turn.id}?wait=10`
      const { json, status } = await request('GET', url, this.stack.adminKey).catch(() => noAnswer)
      if (status !== 200) return undefined
      const now = json as Turn
      return turnEnds.some((end) => end === now.state) ? now : undefined
    })
  }

  /** Prompts and waits for the end. */
  async run(steps: Steps): Promise<Turn> {
    return this.ended(await this.prompt(steps))
  }

  async events(pageSize = 500): Promise<SessionEvent[]> {
    const all: SessionEvent[] = []
    for (;;) {
      const after = all.at(-1)?.seq ?? 0
      const { json } = await this.get(`/events?after=${after}&limit=${pageSize}`)
      const { items } = json as { items: SessionEvent[] }
      if (items.length === 0) return all
      all.push(...items)
    }
  }

  async eventsOf<K extends EventKind>(kind: K): Promise<EventData<K>[]> {
    const events = await this.events()
    return events.filter((event) => event.kind === kind).map((event) => event.data as EventData<K>)
  }

  /** Those of one turn. */
  async eventsIn<K extends EventKind>(turn: Pick<Turn, 'id'>, kind: K): Promise<EventData<K>[]> {
    const found = await this.eventsOf(kind)
    return found.filter((data) => (data as { turnId?: string | null }).turnId === turn.id)
  }

  seen<K extends EventKind>(
    kind: K,
    fits: (data: EventData<K>) => boolean = () => true,
    ms = 30_000,
  ): Promise<EventData<K>> {
    return until(`event ${kind}`, ms, async () => (await this.eventsOf(kind)).find(fits))
  }

  /** The question that waits for a person. */
  parked(): Promise<Approval> {
    return until('a parked question', 30_000, async () => {
      const { items } = (await this.get('/approvals')).json as { items: Approval[] }
      return items.find(({ state }) => state === 'pending')
    })
  }

  answer(approval: Approval, decision: 'allow' | 'deny', reason = ''): Promise<Answer> {
    const resolution = decision === 'allow' ? 'approved' : 'rejected'
    const path = `/v1/approvals/${approval.id}/resolve`
    return request('POST', `${this.stack.url}${path}`, this.stack.adminKey, { resolution, reason })
  }

  /** What bash printed. */
  async bash(command: string): Promise<string> {
    const turn = await this.run([bash(command)])
    expect(turn).toMatchObject({ state: 'completed' })
    const isOf = ({ turnId }: { turnId: string | null }) => turnId === turn.id
    const failed = (await this.eventsOf('tool.failed')).find(isOf)
    if (failed) throw new Error(`The command has failed: ${failed.error}`)
    return (await this.eventsOf('tool.completed')).findLast(isOf)?.output ?? ''
  }

  folder(name = ''): string {
    const place = this.stack.sandboxSite
    if (place === null) throw new Error('The stack has no sandboxes')
    return join(place.root, `${this.id}.${this.generation}`, name)
  }

  processes(): number[] {
    return findProcesses({ marks: [`${sandboxMark}=${this.id}.${this.generation}`] })
  }

  opencodePid(): Promise<number> {
    return until('OpenCode runs', 15_000, () =>
      this.processes().find((pid) => argvOf(pid)[1] === 'serve'),
    )
  }

  agentPid(): number {
    const found = this.processes().find((pid) =>
      argvOf(pid).some((word) => word.endsWith('/agent.mjs')),
    )
    if (found === undefined) throw new Error('No agent runs')
    return found
  }
}

let nextSeconds = 100_000 + (process.pid % 1000) * 10

/** Leaves two children behind, in sessions of their own, one of them also without the marks. */
export async function leaveChildren(box: Box): Promise<() => number[]> {
  const [marked, bare] = [`${nextSeconds++}`, `${nextSeconds++}`]
  await box.bash(
    `setsid sleep ${marked} >/dev/null 2>&1 & setsid env -i sleep ${isRoot ? bare : marked} >/dev/null 2>&1 & echo left`,
  )
  const find = () => everybody().filter((pid) => [marked, bare].includes(argvOf(pid)[1] ?? ''))
  await until('the children run', 10_000, () => find().length === 2)
  return find
}

const everybody = () =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)

/** The project of sessions that try what no sensible policy allows: what is left to stop them is the sandbox. */
export async function anythingGoes(stack: Place): Promise<{ project: string }> {
  const everywhere = { category: 'external-directory', path: '/**' }
  const everything = { category: Category.options.filter((each) => each !== everywhere.category) }
  const risks = Risk.options
  const rules = [everything, everywhere]
    .flatMap((match) => [match, { ...match, risks }])
    .map((match) => ({ match, decision: 'allow' }))
  const source = JSON.stringify({ name: 'anything', rules })
  const project = 'anything'
  const body = { project, format: 'json', source }
  const answer = await request('PUT', `${stack.url}/v1/policies`, stack.adminKey, body)
  if (answer.status !== 200) throw new Error(`Cannot store the policy: ${answer.text}`)
  return { project }
}

const noAnswer: Pick<Answer, 'json' | 'status'> = { json: null, status: 0 }

export const promptText = (steps: Steps): string =>
  typeof steps === 'string' ? steps : `Do what the script says.\n${script(steps)}`

export const bash = (command: string): ScriptStep => ({
  calls: [{ name: 'bash', args: { command, description: 'Run a command' } }],
})
export const write = (filePath: string, content: string): ScriptStep => ({
  calls: [{ name: 'write', args: { filePath, content } }],
})
export const verify = (args: Record<string, unknown> = {}): ScriptStep => ({
  calls: [{ name: 'verify', args }],
})

export const argvOf = (pid: number): string[] => readProc(pid, 'cmdline').split('\0')
export const environOf = (pid: number): string => readProc(pid, 'environ')

function readProc(pid: number | 'self', name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8')
  } catch {
    return ''
  }
}

export const stackProcesses = (mark: string): number[] =>
  findProcesses({ marks: [`${stackMark}=${mark}`] })

/** Every port on which one of the processes listens. */
export function portsOf(pids: readonly number[]): number[] {
  const ports = pids.flatMap((pid) => {
    const sockets = new Set(socketsOf(pid))
    // Of its own network: that of an enclosure is another one.
    return listeners(pid).flatMap(({ port, socket }) => (sockets.has(socket) ? [port] : []))
  })
  return [...new Set(ports)].sort((a, b) => a - b)
}

/** Everybody's listening sockets, in the network of a process. */
export function listeners(pid: number | 'self' = 'self'): { port: number; socket: string }[] {
  const lines = ['tcp', 'tcp6'].flatMap((name) =>
    readProc(pid, `net/${name}`).trim().split('\n').slice(1),
  )
  return lines.flatMap((line) => {
    const [, address = '', , state, , , , , , socket = ''] = line.trim().split(/\s+/)
    return state === '0A'
      ? [{ port: Number.parseInt(address.split(':')[1] ?? '', 16), socket }]
      : []
  })
}

function socketsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? []
      } catch {
        return [] // closed meanwhile
      }
    })
  } catch {
    return []
  }
}

/** The messages that the model got in its last request with tools that fits. */
export function lastRequest(
  stack: Stack,
  fits: (messages: ChatMessage[]) => boolean,
): ChatMessage[] {
  const found = stack.model?.log().findLast(({ body }) => body.tools?.length && fits(body.messages))
  if (found === undefined) throw new Error('The model was not asked so')
  return found.body.messages
}

export interface Tap {
  url: string
  /** Everything that went up. */
  sent(): string
  /** How many requests with this in their first line were made. */
  asked(words: string): number
  /** Breaks the open connections whose last request has one of the words. */
  cut(...words: string[]): number
  close(): void
}

interface Wire {
  near: Socket
  request: string
}

/** A piece of network before the control plane, which can be cut and listened to. Target: known later than itself. */
export async function startTap(target: () => string): Promise<Tap> {
  const open = new Set<Wire>()
  const requests: string[] = []
  let sent = ''
  const server = createServer((near) => {
    const far = connect(Number(new URL(target()).port), '127.0.0.1')
    const wire: Wire = { near, request: '' }
    open.add(wire)
    near.on('data', (chunk: Buffer) => {
      const text = chunk.toString('latin1')
      if (sent.length < 20_000_000) sent += text
      // Connections are used again, also for the link.
      const request = /^[A-Z]+ \S+ HTTP\/1\.1/.exec(text)?.[0]
      if (request === undefined) return
      wire.request = request
      requests.push(request)
    })
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('error', () => to.destroy())
      from.on('close', () => {
        open.delete(wire)
        to.destroy()
      })
      from.pipe(to)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cut = (...words: string[]) => {
    const hit = [...open].filter(({ request }) => words.some((word) => request.includes(word)))
    for (const { near } of hit) near.resetAndDestroy()
    return hit.length
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sent: () => sent,
    asked: (words) => requests.filter((request) => request.includes(words)).length,
    cut,
    close() {
      cut('')
      server.close()
    },
  }
}
