import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { remoteImage, remoteLayout } from '../../src/adapters/sandboxes/remote-layout.ts'
import { type Machine, openPorts, startMachine } from './sandbox-namespace.ts'

const { uid, gid } = remoteImage

/** Of this computer's open ports, in every sandbox: a control plane has a public name there. */
export const publicName = 'gantry.test'

export interface BoxProcess {
  pid: number
  child: ChildProcess
  cmd: string
  args: string[]
  tag: string | null
  user: string
  /** All that it was given. */
  input: string
}

/** A process as it goes on in a start from a snapshot with memory: a live clone. */
export interface Clone {
  args: string[]
  uid: number
  cwd: string
  input: string
}

/** Disk and memory; what a template or a snapshot is. */
export interface Image {
  folder: string
  memory: Clone[]
}

export interface BoxOptions {
  folder: string
  image: Image
  /** Files of this computer, by their place. */
  shares: Record<string, string>
  /** Of this computer's loopback; empty: no network. */
  ports: readonly number[]
}

/** One virtual machine of the double: namespaces on a disk of its own. */
export class Box {
  readonly id = `i${randomBytes(10).toString('hex')}`
  readonly accessToken = randomBytes(16).toString('hex')
  readonly processes = new Map<number, BoxProcess>()
  readonly #options: BoxOptions
  #machine: Machine | undefined
  #servers: { close(): void }[] = []
  #frozen = false
  readonly #watch = setInterval(() => this.#frozen || this.#signalWaiting('SIGCONT'), 100).unref()

  private constructor(options: BoxOptions) {
    this.#options = options
  }

  static async start(options: BoxOptions): Promise<Box> {
    const box = new Box(options)
    execFileSync('cp', ['-a', '--reflink=auto', options.image.folder, options.folder])
    box.#servers = await openPorts(options.folder, options.ports)
    await box.#boot()
    await Promise.all(options.image.memory.map((clone) => box.#revive(clone)))
    return box
  }

  get folder(): string {
    return this.#options.folder
  }

  get isUp(): boolean {
    return this.#machine !== undefined
  }

  /** Processes in it, as this computer counts. */
  pids(): number[] {
    return this.#machine?.pids() ?? []
  }

  freeze(): void {
    // What waits outside for a process stops itself when that one stops: in this order it does not get to see it.
    this.#frozen = true
    this.#signalWaiting('SIGSTOP')
    this.#machine?.pause()
  }

  thaw(): void {
    this.#machine?.wake()
    this.#frozen = false
    this.#signalWaiting('SIGCONT')
  }

  #signalWaiting(name: 'SIGSTOP' | 'SIGCONT' | 'SIGKILL'): void {
    for (const { child } of this.processes.values()) child.kill(name)
  }

  /** Its memory is lost, its disk stays. */
  async powerOff(): Promise<void> {
    const child = this.#machine?.process
    this.#machine = undefined
    this.#signalWaiting('SIGKILL')
    this.processes.clear()
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await ended
  }

  powerOn(): Promise<void> {
    return this.#boot()
  }

  async destroy(): Promise<void> {
    clearInterval(this.#watch)
    await this.powerOff()
    for (const server of this.#servers) server.close()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** The box stands still meanwhile. */
  copyTo(folder: string): Image {
    this.freeze()
    try {
      const memory = [...this.processes.values()].flatMap((each) => cloneOf(each))
      mkdirSync(folder, { recursive: true })
      for (const name of ['upper', 'tmp'])
        execFileSync('cp', ['-a', '--reflink=auto', join(this.folder, name), folder])
      return { folder, memory }
    } finally {
      this.thaw()
    }
  }

  spawn(
    order: Pick<BoxProcess, 'cmd' | 'args' | 'tag' | 'user'>,
    { envs, cwd, stdin }: { envs: Record<string, string>; cwd: string; stdin: boolean },
  ): BoxProcess {
    const home = order.user === 'root' ? '/root' : remoteLayout.home
    const base = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: home, USER: order.user }
    const pairs = Object.entries({ ...base, ...envs }).map(([name, value]) => `${name}=${value}`)
    const as = order.user === 'root' ? [] : asUser
    const line = ['env', '-i', '-C', cwd, ...pairs, ...as, order.cmd, ...order.args]
    const child = this.#run(line, stdin)
    const process = { ...order, child, pid: child.pid ?? 0, input: '' }
    this.processes.set(process.pid, process)
    child.once('close', () => this.processes.delete(process.pid))
    return process
  }

  #run(line: string[], stdin: boolean): ChildProcess {
    if (this.#machine === undefined) throw new Error('The box is off')
    const [command, args] = this.#machine.command(...line)
    const child = spawn(command, args, { stdio: [stdin ? 'pipe' : 'ignore', 'pipe', 'pipe'] })
    child.stdin?.on('error', () => undefined)
    return child
  }

  async #boot(): Promise<void> {
    const { folder, shares, ports } = this.#options
    this.#machine = startMachine({ folder, shares, ports, command: ['sleep', 'infinity'] })
    for (;;) {
      const child = this.#run(['true'], false)
      if ((await new Promise((resolve) => child.once('close', resolve))) === 0) return
      if (this.#machine.process.exitCode !== null) throw new Error('A machine did not start')
    }
  }

  async #revive({ args, uid: owner, cwd, input }: Clone): Promise<void> {
    const [cmd = 'true', ...rest] = args
    const order = { cmd, args: rest, tag: null, user: owner === 0 ? 'root' : 'user' }
    const process = this.spawn(order, { envs: {}, cwd, stdin: true })
    const { child } = process
    child.stdout?.resume()
    child.stderr?.resume()
    child.stdin?.end(input)
    await entered(process)
  }
}

const asUser = ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--init-groups']

/** As it is now: it may have become another program since it was started, which was given the last line. */
function cloneOf({ pid, cmd, args, input }: BoxProcess): Clone[] {
  try {
    const inner = innerPids(pid)[0] ?? 0
    const now = readFileSync(`/proc/${inner}/cmdline`, 'utf8').split('\0').slice(0, -1)
    const status = readFileSync(`/proc/${inner}/status`, 'utf8')
    const isSame = now.join('\0').endsWith([cmd, ...args].join('\0'))
    return [
      {
        args: now,
        uid: Number(/^Uid:\s+(\d+)/m.exec(status)?.[1]),
        cwd: readlinkSync(`/proc/${inner}/cwd`).replace(/^.*\/root(?=\/|$)/, '') || '/',
        input: isSame ? input : `${input.trimEnd().split('\n').at(-1) ?? ''}\n`,
      },
    ]
  } catch {
    return [] // it has just ended
  }
}

/** Until the program itself runs: before, its start goes through a few others. */
export async function entered({ pid, child }: BoxProcess): Promise<void> {
  for (const until = Date.now() + 60_000; child.exitCode === null && Date.now() < until;) {
    const [inner = 0] = innerPids(pid)
    const line = readLine(inner)
    const isOnTheWay = /^(env|setpriv)\0/.test(line) || line.includes('/.machine')
    if (line !== '' && !isOnTheWay) return
    await new Promise((resolve) => setTimeout(resolve, 3))
  }
}

function readLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

/** What was entered into the machine: the child itself stays outside and waits, after a few steps of its own. */
export function innerPids(pid: number): number[] {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim()
    const pids = children === '' ? [] : children.split(' ').map(Number)
    return pids.filter((each) => namespaceOf(each) !== namespaceOf('self'))
  } catch {
    return []
  }
}

const namespaceOf = (pid: number | 'self') => readlinkSync(`/proc/${pid}/ns/pid`)

/** What the template's build leaves: the user, its folders, the places of the agent. */
export function buildImage(folder: string): Image {
  const upper = join(folder, 'upper')
  for (const path of ['etc', 'var/lib/gantry', 'opt/gantry/config', 'opt/gantry/bin', 'root'])
    mkdirSync(join(upper, path), { recursive: true })
  for (const path of [remoteLayout.home, remoteLayout.workspace]) {
    mkdirSync(join(upper, path), { recursive: true })
    chownSync(join(upper, path), uid, gid)
  }
  mkdirSync(join(folder, 'tmp'))
  writeFileSync(
    join(upper, 'etc/passwd'),
    `${othersIn('/etc/passwd')}user:x:${uid}:${gid}::${remoteLayout.home}:/bin/bash\n`,
  )
  writeFileSync(join(upper, 'etc/group'), `${othersIn('/etc/group')}user:x:${gid}:\n`)
  writeFileSync(join(upper, 'etc/hosts'), `127.0.0.1 localhost ${publicName}\n`)
  return { folder, memory: [] }
}

const othersIn = (file: string) =>
  (existsSync(file) ? readFileSync(file, 'utf8') : '')
    .split('\n')
    .filter((line) => line !== '' && line.split(':')[2] !== String(uid))
    .map((line) => `${line}\n`)
    .join('')
