import { readdirSync, readFileSync, statSync } from 'node:fs'
import { sleep } from './log.ts'

export interface Marked {
  /** `NAME=value` in the environment of every process of this sandbox. */
  mark: string
  /** Where the sandbox has a user of its own: its processes count even if they dropped the mark. */
  uid: number | undefined
}

/** Kills until two looks find nothing: what is killed may have forked in between. */
export async function killMarked(marked: Marked, deadlineMs = 5000): Promise<number> {
  const until = Date.now() + deadlineMs
  let killed = 0
  for (let emptyLooks = 0; emptyLooks < 2 && Date.now() < until;) {
    const pids = findMarked(marked)
    emptyLooks = pids.length === 0 ? emptyLooks + 1 : 0
    for (const pid of pids) signalMarked(pid, 'SIGKILL')
    killed += pids.length
    await sleep(pids.length === 0 ? 5 : 25)
  }
  return killed
}

export function findMarked({ mark, uid }: Marked): number[] {
  if (process.platform !== 'linux') return []
  const spared = new Set([process.pid, process.ppid])
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && !spared.has(Number(name)))
    .filter((pid) => (belongsTo(pid, uid) || environment(pid).includes(mark)) && !isZombie(pid))
    .map(Number)
}

/** A negative pid is a process group. */
export function signalMarked(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // gone already
  }
}

function environment(pid: string): string[] {
  return read(`/proc/${pid}/environ`).split('\0')
}

function isZombie(pid: string): boolean {
  const stat = read(`/proc/${pid}/stat`)
  return stat.slice(stat.lastIndexOf(')') + 2)[0] === 'Z'
}

function belongsTo(pid: string, uid: number | undefined): boolean {
  if (uid === undefined || uid === process.getuid?.()) return false
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid === uid
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
