import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { binary } from '../../local/binaries.ts'
import { signalProcess, sleep } from '../../local/processes/processes.ts'
import { commandLine, findMentioning } from './mentions.ts'

/**
 * The folder of one run of the tests, and the mark of its processes: whatever the run starts has the folder in its
 * environment, arguments or working folder, because TMPDIR is there. At the end of the run, however it ends, everything
 * that mentions the folder is killed and the folder is removed: by the runner itself, or, if that was killed, by a
 * process that reads a pipe which only the runner holds.
 */
export interface RunFolder {
  path: string
  /** For whatever the run starts. */
  environment: Record<string, string>
  /** Command lines of what is still there after a while. */
  left(withinMs: number): Promise<string[]>
  /** Ends everything of the run and removes the folder. */
  end(): Promise<void>
}

export function createRunFolder(): RunFolder {
  const path = mkdtempSync(join(tmpdir(), 'gantry-run-'))
  chmodSync(path, 0o1777) // as /tmp: sandboxes have users of their own
  const cleaner = startCleaner(path)
  return {
    path,
    environment: {
      TMPDIR: path,
      GANTRY_RUN_CACHE: join(path, 'cache'),
      NODE_COMPILE_CACHE: join(path, 'compiled'),
    },
    async left(withinMs) {
      for (const end = Date.now() + withinMs; ;) {
        const pids = findMentioning(path)
        if (pids.length === 0) return []
        if (Date.now() > end) return pids.map((pid) => `${pid} ${commandLine(pid)}`)
        await sleep(100)
      }
    },
    async end() {
      cleaner.ref()
      const ended = once(cleaner, 'exit')
      cleaner.stdin?.end()
      if (cleaner.exitCode === null && cleaner.signalCode === null) await ended
      await clear(path)
    },
  }
}

function startCleaner(path: string): ChildProcess {
  const child = spawn(binary('node'), [fileURLToPath(import.meta.url)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    env: { PATH: process.env['PATH'] }, // without the folder: it would find itself
    cwd: '/',
  })
  child.stdin?.on('error', () => undefined) // its death is seen as an exit
  child.stdin?.write(`${path}\n`)
  child.unref()
  return child
}

/** Kills until two looks in a row find nothing: a process may fork between a look and its kill. */
async function clear(path: string): Promise<void> {
  const endAt = Date.now() + 30_000
  for (let emptyLooks = 0; emptyLooks < 2 && Date.now() < endAt;) {
    const pids = findMentioning(path)
    emptyLooks = pids.length === 0 ? emptyLooks + 1 : 0
    for (const pid of pids) signalProcess(pid, 'SIGKILL')
    await sleep(20)
  }
  rmSync(path, { recursive: true, force: true, maxRetries: 5 })
}

async function main(): Promise<void> {
  // It must outlive the terminal and the group that are being ended.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => undefined)
  let path = ''
  for await (const line of createInterface(process.stdin)) path = line
  if (path !== '') await clear(path)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main()
