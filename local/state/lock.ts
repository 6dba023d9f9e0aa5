// The lock of a state folder: one stack per folder. The kernel holds it (through SQLite), so it ends with the process,
// however that ends, and two starts at the same time cannot both get it. The file `lock` beside it only describes the
// holder, for people and for the next start, which ends what a killed stack left. `npm start` and `npm run libsql` take
// it.

import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import {
  findProcesses,
  killProcesses,
  stackMark,
  processStartTime,
} from '../processes/processes.ts'
import { writePrivateFile } from './private-files.ts'

/** Whose stack it is, for people and for the next start. */
export interface Lock {
  pid: number
  startedAt: string
  url: string
  /** Finds every process of the stack. */
  mark: string
}

interface HeldState {
  /** What a stack that was killed together with its guardian said of itself; its processes may still run. */
  left: Lock | undefined
  describe(lock: Pick<Lock, 'url' | 'mark'>): void
  release(): void
  /** Also lets go, but leaves what is said of an earlier stack for the next start. */
  giveUp(): void
}

export function lockState(stateDir: string): HeldState {
  assertNotRunning(stateDir)
  const held = new DatabaseSync(join(stateDir, 'lock.sqlite'))
  try {
    held.exec('pragma locking_mode = exclusive; begin exclusive')
  } catch {
    held.close()
    throw new AlreadyRunning(readLock(stateDir), stateDir)
  }
  const path = join(stateDir, 'lock')
  return {
    left: readLock(stateDir),
    describe: ({ url, mark }) => {
      const startedAt = processStartTime(process.pid) ?? ''
      const mine: Lock = { pid: process.pid, startedAt, url, mark }
      writePrivateFile(path, JSON.stringify(mine))
    },
    release: () => {
      rmSync(path, { force: true })
      held.close()
    },
    giveUp: () => held.close(),
  }
}

/**
 * Ends what is left of a stack whose guardian was killed with it: a second libSQL server and a second control plane over
 * the same folders would damage them. Returns how many processes there were.
 */
export async function endStaleLockHolder({ mark }: Lock, stateDir: string): Promise<number> {
  const wanted = { marks: [`${stackMark}=${mark}`] }
  const seen = findProcesses(wanted).length
  const left = await killProcesses(wanted, { graceMs: 1000, deadlineMs: 20_000 })
  if (left.length > 0)
    throw new Error(
      `Cannot start: an earlier Gantry still uses "${stateDir}", and its processes ${left.join(', ')} ` +
        'cannot be ended. End them as their user, then start again',
    )
  return seen
}

function assertNotRunning(stateDir: string): void {
  const holder = lockHolder(stateDir)
  if (holder !== undefined) throw new AlreadyRunning(holder, stateDir)
}

class AlreadyRunning extends Error {
  constructor(holder: Lock | undefined, stateDir: string) {
    super(
      holder === undefined
        ? `Gantry is already starting for "${stateDir}". Wait for it, or stop it first`
        : `Gantry is already running for "${stateDir}" as process ${holder.pid}: ${holder.url}. ` +
            `Use that one, or stop it first with "kill ${holder.pid}"`,
    )
    this.name = 'AlreadyRunning'
  }
}

/** Who holds the lock, if that process is still the one that took it. */
export function lockHolder(stateDir: string): Lock | undefined {
  const lock = readLock(stateDir)
  return lock !== undefined && processStartTime(lock.pid) === lock.startedAt ? lock : undefined
}

function readLock(stateDir: string): Lock | undefined {
  try {
    return JSON.parse(readFileSync(join(stateDir, 'lock'), 'utf8')) as Lock
  } catch {
    return undefined
  }
}
