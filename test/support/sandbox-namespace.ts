import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import type { Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { binary, root } from '../../local/binaries.ts'
import { signalProcess } from '../../local/processes/processes.ts'
import { openPort } from './port-relay.ts'

export const namespaceScript = join(import.meta.dirname, 'sandbox-namespace.sh')

/** Why no machine can be started here; null: one can. */
export function whyNoMachines(): string | null {
  if (process.platform !== 'linux') return 'needs Linux'
  if (process.getuid?.() !== 0) return 'needs root, for mount, process and network namespaces'
  const folder = mkdtempSync(join(tmpdir(), 'gantry-machine-'))
  try {
    const { status, stderr } = spawnSync('sh', [namespaceScript, 'start', folder, '--', 'true'])
    return status === 0 ? null : `cannot make namespaces: ${stderr.toString().trim()}`
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** What the literal places of a remote image hold, by their place: from this checkout's packages. */
export function imageFiles(
  agentFile: string,
  opencode: string = binary('opencode'),
): Record<string, string> {
  return {
    '/opt/gantry/bin/node': binary('node'),
    '/opt/gantry/bin/opencode': opencode,
    '/opt/gantry/bin/rg': binary('rg'),
    '/opt/gantry/agent.mjs': agentFile,
  }
}

export interface MachineOptions {
  /** Its file system: `upper` and `tmp` are what it wrote. Stays when the machine ends. */
  folder: string
  /** Files and folders of this computer, by their place in the machine. */
  shares: Record<string, string>
  /** Of this computer's loopback; open before with `openPorts`. */
  ports: readonly number[]
  command: readonly string[]
  stdio?: 'pipe' | 'ignore'
}

export interface Machine {
  process: ChildProcess
  /** A command inside it; fails with exit code 97 while it is not up yet. */
  command(...command: string[]): [string, string[]]
  /** Every process in it, as this computer counts. */
  pids(): number[]
  pause(): void
  wake(): void
}

/** Ends with its command, or with the thread that started it. */
export function startMachine({ folder, shares, ports, command, stdio }: MachineOptions): Machine {
  const places = Object.entries(shares).map(([target, source]) => `${source}:${target}`)
  const given = ['start', folder, ...places, ...ports.map(String), '--', ...command]
  const child = spawn('sh', [namespaceScript, ...given], {
    stdio: stdio ?? 'ignore',
    env: { PATH: process.env['PATH'], LANG: 'C.UTF-8', GANTRY_NODE: binary('node') },
    cwd: root,
  })
  const { pid } = child
  if (pid === undefined) throw new Error('Cannot start a machine')
  const pids = () => processesOf(pid)
  return {
    process: child,
    command: (...inside) => ['sh', [namespaceScript, 'inside', String(pid), ...inside]],
    pids,
    pause: () => pids().forEach((each) => signalProcess(each, 'SIGSTOP')),
    wake: () => pids().forEach((each) => signalProcess(each, 'SIGCONT')),
  }
}

/** In the machine whose `start` has this pid. */
export function processesOf(pid: number): number[] {
  try {
    const init = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
    const namespace = readlinkSync(`/proc/${init}/ns/pid`)
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name) && namespaceOf(name) === namespace)
      .map(Number)
  } catch {
    return [] // it has ended
  }
}

function namespaceOf(pid: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`)
  } catch {
    return undefined
  }
}

/** Makes ports of this computer's loopback reachable from the machine of the folder. */
export async function openPorts(folder: string, ports: readonly number[]): Promise<Server[]> {
  mkdirSync(join(folder, 'ports'), { recursive: true })
  return Promise.all(ports.map((port) => openPort(join(folder, 'ports'), port)))
}
