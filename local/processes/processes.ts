// Finds and ends processes of this machine by their marks (variables in their environment) or by their user. A process
// can drop a mark but not its user, and it may fork between a look and a signal: so looks are repeated until nothing is
// found. Every room of local/ uses this file; it works on Linux by /proc and on macOS by ps.

import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'

/** In the environment of every process of a stack, and inherited by whatever those start. */
export const stackMark = 'GANTRY_MARK'
/** In the environment of every process of one sandbox. */
export const sandboxMark = 'GANTRY_SANDBOX'

export interface Wanted {
  /** `NAME=value` entries of the environment; any of them is enough. */
  marks: readonly string[]
  /** Every process of these users, too: a process can drop a mark, but not its user. */
  uids?: readonly number[] | undefined
}

/** The live processes that carry a mark or belong to the users, without this one. Zombies are not alive. */
export function findProcesses(wanted: Wanted): number[] {
  const pids = process.platform === 'linux' ? findByProc(wanted) : findByPs(wanted)
  return pids.filter((pid) => pid !== process.pid)
}

const findByProc = (wanted: Wanted): number[] => findEachProcess([wanted])[0] ?? []

/** The same for several at once, for the price of one look. Linux only. */
export function findEachProcess(wanteds: readonly Wanted[]): number[][] {
  const found = wanteds.map((): number[] => [])
  const byMark = new Map(
    wanteds.flatMap(({ marks }, at) => marks.map((mark) => [mark, at] as const)),
  )
  const byUid = new Map(
    wanteds.flatMap(({ uids = [] }, at) => uids.map((uid) => [uid, at] as const)),
  )
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const at = (byUid.size > 0 ? byUid.get(userOf(pid)) : undefined) ?? markedAs(pid, byMark)
    if (at !== undefined && !isZombie(pid)) found[at]?.push(Number(pid))
  }
  return found
}

function markedAs(pid: string, byMark: ReadonlyMap<string, number>): number | undefined {
  if (byMark.size === 0) return undefined
  const mark = environment(pid).find((entry) => byMark.has(entry))
  return mark === undefined ? undefined : byMark.get(mark)
}

function environment(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
  } catch {
    return [] // gone, or another user's
  }
}

function userOf(pid: string): number {
  try {
    return statSync(`/proc/${pid}`).uid
  } catch {
    return -1
  }
}

function isZombie(pid: string): boolean {
  return statFields(Number(pid))?.[0] === 'Z'
}

// /proc/PID/stat after the command's name, which may hold spaces and brackets: state, parent, ...
function statFields(pid: number | string): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined
  }
}

function findByPs(wanted: Wanted): number[] {
  const lines = execFileSync('ps', ['eww', '-axo', 'pid=,command='], {
    encoding: 'utf8',
    maxBuffer: 64e6,
  })
  return lines
    .split('\n')
    .filter((line) => wanted.marks.some((mark) => ` ${line} `.includes(` ${mark} `)))
    .map((line) => Number.parseInt(line, 10))
}

export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // gone already, which is what was wanted
  }
}

/** Stopped by a signal, with all its threads; also if it is gone. */
export function isProcessStopped(pid: number): boolean {
  if (process.platform !== 'linux') {
    const state = spawnSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' }).stdout
    return state === '' || /^[TZ]/.test(state)
  }
  let threads: string[]
  try {
    threads = readdirSync(`/proc/${pid}/task`)
  } catch {
    return true
  }
  return threads.every((thread) => {
    const state = statFields(`${pid}/task/${thread}`)?.[0]
    return state === undefined || 'TtZX'.includes(state)
  })
}

/** Kills until two looks in a row find nothing: a process may fork between a look and its kill. */
export async function killProcesses(
  wanted: Wanted,
  options: { graceMs?: number; deadlineMs?: number } = {},
) {
  const { graceMs = 0, deadlineMs = 10_000 } = options
  const startedAt = Date.now()
  if (graceMs > 0) {
    for (const pid of findProcesses(wanted)) signalProcess(pid, 'SIGTERM')
    while (Date.now() - startedAt < graceMs && findProcesses(wanted).length > 0) await sleep(25)
  }
  for (let emptyLooks = 0; emptyLooks < 2 && Date.now() - startedAt < graceMs + deadlineMs;) {
    const pids = findProcesses(wanted)
    emptyLooks = pids.length === 0 ? emptyLooks + 1 : 0
    for (const pid of pids) signalProcess(pid, 'SIGKILL')
    await sleep(pids.length === 0 ? 5 : 20)
  }
  return findProcesses(wanted)
}

/** Changes when a pid is reused; undefined: no such process. */
export function processStartTime(pid: number): string | undefined {
  if (process.platform === 'linux') {
    const fields = statFields(pid)
    return fields === undefined || fields[0] === 'Z' ? undefined : fields[19]
  }
  try {
    return (
      execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() ||
      undefined
    )
  } catch {
    return undefined
  }
}

export function parentProcess(pid: number): number | undefined {
  if (process.platform === 'linux') {
    const parent = statFields(pid)?.[1]
    return parent === undefined ? undefined : Number(parent)
  }
  try {
    return Number(execFileSync('ps', ['-o', 'ppid=', '-p', String(pid)], { encoding: 'utf8' }))
  } catch {
    return undefined
  }
}

export function childProcesses(pid: number): number[] {
  if (process.platform === 'linux') {
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
    return pids.map(Number).filter((child) => statFields(child)?.[1] === String(pid))
  }
  const lines = execFileSync('ps', ['-axo', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n')
  const pairs = lines.map((line) => line.trim().split(/\s+/).map(Number))
  return pairs.flatMap(([child, parent]) => (child !== undefined && parent === pid ? [child] : []))
}

export function processCommand(pid: number): string {
  try {
    if (process.platform === 'linux') return readlinkSync(`/proc/${pid}/exe`)
    return execFileSync('ps', ['-o', 'comm=', '-p', String(pid)], { encoding: 'utf8' }).trim()
  } catch {
    return ''
  }
}

export function processArguments(pid: number): string[] {
  try {
    if (process.platform === 'linux')
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1)
    return execFileSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' }).split(/\s+/)
  } catch {
    return []
  }
}

export const sleep = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms))

/** Whether the promise settled within the time. */
export async function settledWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  const timer = Promise.withResolvers<boolean>()
  const handle = setTimeout(() => timer.resolve(false), ms)
  try {
    return await Promise.race([promise.then(() => true), timer.promise])
  } finally {
    clearTimeout(handle)
  }
}
