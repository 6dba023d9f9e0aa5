import { readFileSync } from 'node:fs'
import type { Server } from 'node:net'
import { text } from 'node:stream/consumers'
import type { EnclosureReport } from '../../../src/contract/enclosure.ts'
import {
  chooseEnclosures,
  type Enclosure,
  type EnclosureInput,
} from '../../../sandbox-agent/enclosure/enclosure.ts'
import { Egress } from '../../../sandbox-agent/enclosure/egress.ts'
import { Upstreams } from '../../../sandbox-agent/gate/upstreams.ts'
import { findMasks } from '../../../sandbox-agent/enclosure/masks.ts'
import type { Ran, RunOptions } from '../../../sandbox-agent/enclosure/held.ts'
import { Reader } from '../../../sandbox-agent/enclosure/reader.ts'

// Runs one command in the strongest enclosure of whoever runs this file, and prints what came of it as JSON. The agent's
// part is here: it answers the relay's port, and connects to a port inside.

export interface Order extends Omit<EnclosureInput, 'serve'> {
  script: string
  /** Run by a reader instead, one after the other. */
  reads?: Read[]
  /** Every name is this machine for the proxy, which allows these; absent: a proxy that only says its name. */
  allowed?: string[]
  /** Where the upstreams' requests go, and under which token. */
  gateway?: { url: string; token: string }
  environment: Record<string, string>
}
export interface Read extends Pick<RunOptions, 'folder' | 'input' | 'beyond'> {
  line: string[]
  maxBytes?: number
  timeoutMs?: number
}
export interface WasRead extends Omit<Ran, 'output'> {
  output: string
}
export interface Outcome {
  report: EnclosureReport
  refused: string | null
  output: string
  /** What the command's own server said. */
  inside: string
  pid: number
}

const order = JSON.parse(await text(process.stdin)) as Order
const answer = (text: string) => (server: Server) =>
  void server.on('connection', (socket) => socket.end(text))
const serve = {
  relay: answer('the relay\n'),
  ...(order.allowed
    ? serveEgress(order.allowed)
    : { proxy: answer('the proxy\n'), socks: answer('') }),
  ...(order.gateway && { upstreams: serveUpstreams(order.gateway) }),
}
const [enclosure, weaker] = chooseEnclosures({ ...order, serve })
if (!enclosure) throw new Error('No enclosure')
if (order.reads) {
  console.log(JSON.stringify(await readAll(enclosure, order.reads)))
  process.exit(0)
}

const launched = enclosure.launch({
  file: '/bin/sh',
  args: ['-c', order.script],
  cwd: order.manifest.layout.workspace,
  masks: findMasks(order.manifest.layout.workspace),
  environment: { ...order.environment, ...enclosure.environment },
})
let output = ''
let inside = ''
let inwards: Promise<unknown> = Promise.resolve()
launched.child.stderr?.on('data', (chunk: Buffer) => (output += chunk.toString()))
launched.child.stdout?.on('data', (chunk: Buffer) => {
  output += chunk.toString()
  if (!chunk.toString().includes('listening\n')) return
  const socket = launched.connect(4096)
  inwards = new Promise((resolve) => socket.once('close', resolve))
  socket.on('data', (data: Buffer) => (inside += data.toString()))
})
const ended = new Promise((resolve) => launched.child.once('close', resolve))
const refused = await launched.entered.then(
  () => null,
  (error: unknown) => String(error),
)
if (process.argv.includes('--stay')) {
  const namespace = readFileSync(`/proc/${launched.child.pid}/task/${launched.child.pid}/children`)
  console.log(JSON.stringify({ pid: launched.child.pid, init: Number(String(namespace).trim()) }))
} else {
  await ended
  await inwards
  const { report } = enclosure
  const { pid } = launched.child
  console.log(JSON.stringify({ report, weaker: weaker?.report, refused, output, inside, pid }))
  process.exit(0)
}

function serveEgress(allowed: readonly string[]) {
  const egress = new Egress({
    decide: async (host) => ({
      allow: allowed.some((each) => each.startsWith(`${host}:`)),
      reason: 'no',
    }),
    privateHosts: () => allowed,
    resolve: async () => [{ address: '127.0.0.1', family: 4 }],
  })
  return {
    proxy: (server: Server) => egress.serve(server),
    socks: (server: Server) => egress.serveSocks(server),
  }
}

function serveUpstreams({ url, token }: NonNullable<Order['gateway']>) {
  const upstreams = new Upstreams({
    gatewayUrl: url,
    token: () => token,
    decide: async (_host, _port, secrets) => ({ allow: secrets?.[0] !== 'DENIED', reason: 'no' }),
  })
  return (servers: Server[]) => upstreams.serve(order.manifest.upstreams ?? [], servers)
}

async function readAll(walls: Enclosure, reads: Read[]): Promise<WasRead[]> {
  const reader = new Reader(async () => {
    const held = walls.hold()
    await held.entered
    return held
  })
  const done: WasRead[] = []
  for (const { line, maxBytes = 100_000, timeoutMs = 20_000, ...more } of reads) {
    const [program = '', ...args] = line
    const limits = { environment: order.environment, maxBytes, timeoutMs }
    const ran = await reader.run(program, args, { ...more, ...limits })
    done.push({ ...ran, output: ran.output.toString() })
  }
  return done
}
