// The guardian cleans up after a stack, however the stack ended, also by SIGKILL. It lives in a session of its own and
// reads a pipe that only the stack's process holds. At the end of that pipe it kills every process that carries the
// stack's mark or belongs to its sandboxes' users. If the guardian dies, the stack starts another. This file is both:
// `startGuardian` for the stack, and the program that it runs.

import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { binary } from '../binaries.ts'
import { killProcesses, stackMark } from '../processes/processes.ts'
import { type Uids, usersOf } from '../users/uids.ts'

/** Whose processes go, too. */
interface SandboxUsers {
  uids: Uids
  /** Folders of sandboxes, each of which has a user in the range. */
  roots: readonly string[]
}

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
interface Guardian {
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
