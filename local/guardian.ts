import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { binary } from './binaries.ts'
import { killProcesses, stackMark } from './processes.ts'
import { type Uids, usersOf } from './uids.ts'

/** Whose processes go, too. */
export interface SandboxUsers {
  uids: Uids
  /** Folders of sandboxes, each of which has a user in the range. */
  roots: readonly string[]
}

/**
 * Cleans up after a stack whatever way the stack ended, SIGKILL included: it lives in a session of its own, reads
 * a pipe that only the stack's process holds, and on end-of-file kills everything that carries the stack's mark.
 */
export function startGuardian(mark: string, users?: SandboxUsers): Guardian {
  let stopped = false
  let child = spawnGuardian(mark, users)
  const watch = () => {
    child.on('exit', () => {
      if (stopped) return
      child = spawnGuardian(mark, users)
      watch()
    })
  }
  watch()
  return {
    pid: () => child.pid,
    stop: async () => {
      stopped = true
      child.ref()
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.stdin?.end()
      if (child.exitCode === null && child.signalCode === null) await ended
    },
  }
}
export interface Guardian {
  pid: () => number | undefined
  /** Makes it kill whatever is left, and waits for that. */
  stop: () => Promise<void>
}

function spawnGuardian(mark: string, users: SandboxUsers | undefined): ChildProcess {
  const env = { PATH: process.env['PATH'] } // without the mark: it would find itself
  const args = [
    fileURLToPath(import.meta.url),
    mark,
    ...(users === undefined ? [] : [JSON.stringify(users)]),
  ]
  const child = spawn(binary('node'), args, {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    env,
  })
  child.stdin?.on('error', () => undefined) // its death is seen as an exit
  child.unref()
  return child
}

async function main(): Promise<void> {
  const [mark, users] = process.argv.slice(2)
  if (mark === undefined) throw new Error('Usage: guardian.ts <mark> [users as JSON]')
  // It must outlive the terminal and the group that are being ended.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
  for await (const _ of process.stdin);
  const { uids, roots } = JSON.parse(users ?? '{"uids":[1,0],"roots":[]}') as SandboxUsers
  const wanted = { marks: [`${stackMark}=${mark}`], uids: usersOf(roots, uids) }
  await killProcesses(wanted, { deadlineMs: 30_000 })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main()
