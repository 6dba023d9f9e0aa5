import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { binary } from '../../local/binaries.ts'
import { buildImage } from './e2b-double-box.ts'
import { shapeFault } from './modal-shapes.ts'
import { openPorts, whyNoMachines } from './sandbox-namespace.ts'

/** What happens to the next request of a call; without one: of any. */
export interface ModalFault {
  call?: string
  /** This answer, and nothing is done; with Modal's own text, not the app's. */
  status?: number
  body?: string
  headers?: Record<string, string>
  /** It is done, and the connection breaks before the answer. */
  lost?: boolean
  /** Nothing is done, and the connection breaks. */
  cut?: boolean
  /** Nothing is done, and no answer comes. */
  hangs?: boolean
  delayMs?: number
}

/** A call of the app to Modal raises or waits; `after`: it is carried out first; `skip`: so many are let pass. */
export interface VendorFault {
  on: string
  delayMs?: number
  error?: 'InternalError' | 'ResourceExhaustedError' | 'NotFoundError' | 'TimeoutError'
  after?: boolean
  skip?: number
}

export interface ModalMachine {
  id: string
  tags: Record<string, string>
  pid: number
  folder: string
}

export interface ModalState {
  machines: ModalMachine[]
  images: string[]
  names: Record<string, string>
  /** What the app asked of Modal, in order. */
  calls: string[]
}

export interface ModalDouble {
  url: string
  secret: string
  /** Everything that it keeps on this computer. */
  folder: string
  /** Names of the app's calls, in order. */
  calls: string[]
  /** Requests and answers that are not as the app defines them, and what the app says when it fails: must be empty. */
  refused: string[]
  /** What Modal can read in the app's logs. */
  log: string[]
  fault(fault: ModalFault): void
  vendorFault(fault: VendorFault): Promise<void>
  /** Makes a port of this computer's loopback reachable from sandboxes that are made later. */
  openPort(port: number): Promise<void>
  state(): Promise<ModalState>
  /** It ends, and Modal says so. */
  kill(id: string): Promise<void>
  /** It ends, and Modal no longer knows it. */
  vanish(id: string): Promise<void>
  pause(id: string): Promise<void>
  wake(id: string): Promise<void>
  /** As Modal does with entries that nobody has used for a week. */
  forgetEntries(): Promise<void>
  close(): Promise<void>
}

export interface ModalDoubleOptions {
  /** Files of this computer, by their place in every sandbox. */
  shares: Record<string, string>
}

const python = 'python3'

/** Why it cannot run here; null: it can. */
export function whyNoModal(): string | null {
  return whyNoPython() ?? whyNoMachines()
}

export function whyNoPython(): string | null {
  const newEnough = 'import sys; sys.exit(sys.version_info < (3, 9))'
  const { status } = spawnSync(python, ['-c', newEnough])
  return status === 0 ? null : 'needs python3, 3.9 or newer'
}

/**
 * Modal on this machine, as root on Linux: the real Python app with a stand-in for Modal's package, whose sandboxes are
 * namespaces with real processes.
 */
export async function startModalDouble({ shares }: ModalDoubleOptions): Promise<ModalDouble> {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-modal-'))
  buildImage(join(folder, 'base'))
  mkdirSync(join(folder, 'ports'))
  const secret = randomBytes(24).toString('hex')
  const log: string[] = []
  const refused: string[] = []
  const child = startPython(folder, secret, shares)
  const { web, control } = await portsOf(child, log, refused)
  const calls: string[] = []
  const faults: ModalFault[] = []
  const ports: Server[] = []

  const server = createServer((request, response) => {
    void serve(request, response).catch((error: unknown) => {
      refused.push(`${request.url}: ${(error as Error).message}`)
      response.destroy()
    })
  })
  // A connection that is closed while its next request comes would be a fault that nobody asked for.
  server.keepAliveTimeout = 600_000
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  const command = async <T>(name: string, order: object = {}): Promise<T> => {
    const response = await fetch(`http://127.0.0.1:${control}/${name}`, {
      method: 'POST',
      body: JSON.stringify(order),
    })
    return (await response.json()) as T
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    secret,
    folder,
    calls,
    refused,
    log,
    fault: (fault) => void faults.push(fault),
    vendorFault: (fault) => command('fault', fault),
    openPort: async (port) => {
      ports.push(...(await openPorts(folder, [port])))
      await command('ports', { port })
    },
    state: () => command('state'),
    kill: (id) => command('kill', { id }),
    vanish: (id) => command('vanish', { id }),
    pause: (id) => command('pause', { id }),
    wake: (id) => command('wake', { id }),
    forgetEntries: () => command('forget-entries'),
    close: async () => {
      server.close()
      server.closeAllConnections()
      for (const port of ports) port.close()
      await endOf(child)
      rmSync(folder, { recursive: true, force: true })
    },
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const call = (request.url ?? '').replace(/^\/v1\//, '')
    calls.push(call)
    const body = await text(request)
    const fault = takeFault(call)
    if (fault?.delayMs !== undefined)
      await new Promise((resolve) => setTimeout(resolve, fault.delayMs))
    if (fault?.cut) return void response.destroy()
    if (fault?.hangs) return
    if (fault?.status !== undefined)
      return void response.writeHead(fault.status, fault.headers).end(fault.body ?? 'injected')
    note(shapeFault(call, 'request', parse(body)))
    const answer = await pass(request, body)
    const content = await answer.text()
    note(shapeFault(call, answer.ok ? 'answer' : 'error', parse(content)))
    if (fault?.lost) return void response.destroy()
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(content)
  }

  function pass(request: IncomingMessage, body: string): Promise<Response> {
    const headers = Object.entries(request.headers).filter(([name]) => name.startsWith('x-gantry-'))
    return fetch(`http://127.0.0.1:${web}${request.url}`, {
      method: request.method ?? 'POST',
      headers: headers as [string, string][],
      body,
    })
  }

  function takeFault(call: string): ModalFault | undefined {
    const index = faults.findIndex((fault) => fault.call === undefined || fault.call === call)
    return index === -1 ? undefined : faults.splice(index, 1)[0]
  }

  function note(fault: string | null): void {
    if (fault !== null) refused.push(fault)
  }
}

function startPython(folder: string, secret: string, shares: Record<string, string>): ChildProcess {
  const places = Object.entries(shares).map(([target, source]) => `${source}:${target}`)
  return spawn(python, ['-B', join(import.meta.dirname, 'modal-double', 'serve.py')], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      GANTRY_NODE: binary('node'),
      // The app knows a newer one already.
      GANTRY_MODAL_SECRET: randomBytes(24).toString('hex'),
      GANTRY_MODAL_SECRET_BEFORE: secret,
      MODAL_DOUBLE_FOLDER: folder,
      MODAL_DOUBLE_SHARES: places.join('\n'),
      PYTHONUNBUFFERED: '1',
    },
  })
}

/** Its first line on standard error; all that follows there is a failure of the app. */
async function portsOf(
  { stdout, stderr }: ChildProcess,
  log: string[],
  refused: string[],
): Promise<{ web: number; control: number }> {
  if (stdout === null || stderr === null) throw new Error('Cannot read what Python says')
  createInterface(stdout).on('line', (line) => log.push(line))
  const lines = createInterface(stderr)
  const first = await new Promise<string>((resolve) => {
    lines.once('line', resolve)
    lines.once('close', () => resolve(''))
  })
  lines.on('line', (line) => refused.push(line))
  if (!first.startsWith('{')) throw new Error(`Cannot start the double of Modal: ${first}`)
  return JSON.parse(first) as { web: number; control: number }
}

async function endOf(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.stdin?.end()
  await ended
}

function parse(content: string): unknown {
  try {
    return JSON.parse(content)
  } catch {
    return content
  }
}
