// Walls without OpenCode in them: the same folders and the same user, a network without relay, proxy or any other way
// out, and no process but a shell that waits for the agent's end. The agent puts the programs there that read for it what
// OpenCode may have written (git, SQLite), since whoever wrote a repository or a database may have written a trap.

import { type ChildProcess, spawn } from 'node:child_process'
import type { Writable } from 'node:stream'
import { signalMarked } from '../marked-processes.ts'
import type { Owner } from '../workspace/folder.ts'

export interface CommandLine {
  file: string
  args: string[]
  /** As whom it is started; undefined: as the agent, and the command line sees to the rest. */
  owner: Owner | undefined
}

export interface Held {
  /** Ends with the agent. undefined: there are no walls that could end. */
  child: ChildProcess | undefined
  /** Resolves once the walls stand; rejects with the reason if they cannot. */
  entered: Promise<void>
  /** What to start outside so that the program runs in there, in this folder. */
  commandLine: (folder: string, program: string, args: readonly string[]) => CommandLine
}

/** Its standard input stays open as long as the agent lives. */
export const waitForEnd = ['/bin/sh', '-c', 'exec cat >/dev/null']

const inFolder = 'cd "$1" && shift && exec "$@"'

export function enterHeldLine(
  builder: ChildProcess,
  kind: 'root' | 'user',
  become: readonly string[],
): Held['commandLine'] {
  return (folder, program, args) => {
    const pid = String(builder.pid ?? 0)
    const user = kind === 'user' ? ['--user', '--preserve-credentials'] : []
    return {
      file: 'nsenter',
      args: [
        // The builder itself is outside of the namespace of processes that it has made.
        ...['--target', pid, ...user, '--mount', '--net', '--ipc', '--uts'],
        ...[`--pid=/proc/${pid}/ns/pid_for_children`, '--', 'setpriv', ...become, '--'],
        ...['/bin/sh', '-c', inFolder, 'sh', folder, program, ...args],
      ],
      owner: undefined,
    }
  }
}

/** Where there are no walls: at most another user. */
export const openlyHeld = (owner: Owner | undefined): Held => ({
  child: undefined,
  entered: Promise.resolve(),
  commandLine: (folder, program, args) => ({
    file: '/bin/sh',
    args: ['-c', inFolder, 'sh', folder, program, ...args],
    owner,
  }),
})

export interface RunOptions {
  /** Where it starts, by its path inside; absent: the root folder. */
  folder?: string
  /** All of it, beside what `runHeld` adds so that git has one configuration everywhere; what this says of git counts. */
  environment: Record<string, string>
  input?: string | Buffer
  /** Instead of `input`: whoever writes to it while it runs, and hears what it prints, of which nothing is kept then. */
  talk?: Talk
  /** Of its standard output. What prints more is ended, or, with `beyond`, counted to its end. */
  maxBytes: number
  beyond?: 'count' | undefined
  timeoutMs: number
}

export interface Talk {
  /** Once for each start; `kill` ends it at once. */
  begin(stdin: Writable, kill: () => void): void
  hear(chunk: Buffer): void
}

export interface Ran {
  /** null: it was ended, for its time or its output, or by whoever else. */
  code: number | null
  /** At most `maxBytes`. */
  output: Buffer
  /** Of all output, also of what is not kept. */
  bytes: number
  /** The end of its standard error. */
  errors: string
}

/** Neither the machine's nor the home's, and no hook, pager, prompt, watcher or remote of the repository's. */
const gitEnvironment: Record<string, string> = {
  ...{ GIT_CONFIG_NOSYSTEM: '1', GIT_CONFIG_GLOBAL: '/dev/null', GIT_TERMINAL_PROMPT: '0' },
  ...{ GIT_PAGER: 'cat', GIT_ASKPASS: '/bin/false', GIT_ALLOW_PROTOCOL: 'none' },
  ...{ GIT_CONFIG_COUNT: '4', GIT_CONFIG_KEY_0: 'core.fsmonitor', GIT_CONFIG_VALUE_0: 'false' },
  ...{ GIT_CONFIG_KEY_1: 'core.hooksPath', GIT_CONFIG_VALUE_1: '/dev/null' },
  // Both are read from the home without being configured.
  ...{ GIT_CONFIG_KEY_2: 'core.excludesFile', GIT_CONFIG_VALUE_2: '/dev/null' },
  ...{ GIT_CONFIG_KEY_3: 'core.attributesFile', GIT_CONFIG_VALUE_3: '/dev/null' },
}

const maxErrorBytes = 4000

/** One program, to its end. */
export function runHeld(
  held: Held,
  program: string,
  args: readonly string[],
  options: RunOptions,
): Promise<Ran> {
  const { folder = '/', environment, input = '', maxBytes, talk } = options
  const { file, args: line, owner } = held.commandLine(folder, program, args)
  return new Promise((resolve, reject) => {
    const env = { ...gitEnvironment, ...environment }
    const child = spawn(file, line, { cwd: '/', env, stdio: 'pipe', detached: true, ...owner })
    const end = () => child.pid !== undefined && signalMarked(-child.pid, 'SIGKILL')
    const timer = setTimeout(end, options.timeoutMs)
    const chunks: Buffer[] = []
    let bytes = 0
    let errors = ''
    child.stdout.on('data', (chunk: Buffer) => {
      if (talk) talk.hear(chunk)
      else if (bytes < maxBytes) chunks.push(chunk)
      bytes += chunk.length
      if (bytes > maxBytes && options.beyond === undefined) end()
    })
    child.stderr.on('data', (chunk: Buffer) => {
      errors = (errors + chunk.toString('utf8')).slice(-maxErrorBytes)
    })
    child.stdin.on('error', () => undefined) // it may end without reading everything
    if (talk) talk.begin(child.stdin, end)
    else child.stdin.end(input)
    child.on('error', reject)
    child.on('exit', end) // what it left behind would hold its pipes open
    child.on('close', (code) => {
      clearTimeout(timer)
      resolve({ code, output: Buffer.concat(chunks).subarray(0, maxBytes), bytes, errors })
    })
  })
}
