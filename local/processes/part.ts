// A part of the stack: one child process with a log file of bounded size, in a process group of its own, so that a
// Ctrl-C reaches only the stack itself. `untilPartReady` waits until it answers; a part that fails gives an error with its
// last lines and the path of its log. The libSQL server, the control plane and the sandbox host are started as parts.

import { type ChildProcess, spawn } from 'node:child_process'
import {
  closeSync,
  copyFileSync,
  existsSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
} from 'node:fs'
import { signalProcess, sleep, settledWithin } from './processes.ts'

const maxLogBytes = 5 * 1024 * 1024

export interface PartSpec {
  /** As people read it: `libSQL server`. */
  name: string
  command: string
  args: string[]
  env: Record<string, string>
  logFile: string
  cwd?: string
  /** Written to its standard input, which is then closed. Secrets go this way: not by argv. */
  input?: string
}

/** A child process with a log file, in a process group of its own so that a Ctrl-C reaches only the parent. */
export interface Part {
  name: string
  pid: number
  logFile: string
  /** Of this run. */
  lastLines(): string
  /** How it ended; undefined while it runs. */
  ended(): string | undefined
  onEnd(callback: () => void): void
  kill(signal: NodeJS.Signals): void
  /** TERM, then KILL after the grace. */
  stop(graceMs?: number): Promise<void>
}

export function startPart(spec: PartSpec): Part {
  const logStart = rotateLog(spec.logFile)
  const log = openSync(spec.logFile, 'a', 0o600)
  const child = spawn(spec.command, spec.args, {
    detached: true,
    stdio: [spec.input === undefined ? 'ignore' : 'pipe', log, log],
    env: spec.env,
    ...(spec.cwd === undefined ? {} : { cwd: spec.cwd }),
  })
  closeSync(log)
  const trimming = setInterval(() => trimLog(spec.logFile), 60_000).unref()
  child.once('exit', () => clearInterval(trimming))
  child.stdin?.on('error', () => undefined) // its death is seen as an exit
  child.stdin?.end(spec.input)
  return partOf(spec, logStart, child)
}

function partOf(spec: PartSpec, logStart: number, child: ChildProcess): Part {
  let end: string | undefined
  const exited = new Promise<void>((resolve) => {
    child.once('error', (error) => {
      end ??= error.message
      resolve()
    })
    child.once('exit', (code, signal) => {
      end ??= signal === null ? `exit code ${code}` : `signal ${signal}`
      resolve()
    })
  })
  return {
    name: spec.name,
    pid: child.pid ?? -1,
    logFile: spec.logFile,
    lastLines: () => lastLines(spec.logFile, logStart),
    ended: () => end,
    onEnd: (callback) => void exited.then(callback),
    kill: (signal) => void (end === undefined && signalGroup(child, signal)),
    stop: async (graceMs = 3000) => {
      if (end !== undefined) return
      child.kill('SIGTERM')
      await settledWithin(exited, graceMs)
      if (end === undefined) signalGroup(child, 'SIGKILL')
      await exited
    },
  }
}

// The whole group: wrangler's children would go on serving its port.
function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid !== undefined) signalProcess(-child.pid, signal)
}

/** Where the next run's lines begin. */
function rotateLog(path: string): number {
  if (!existsSync(path)) return 0
  const { size } = statSync(path)
  if (size <= maxLogBytes) return size
  renameSync(path, `${path}.1`)
  return 0
}

// The part keeps the file open for appending, so it goes on at the new end.
function trimLog(path: string): void {
  if (!existsSync(path) || statSync(path).size <= 4 * maxLogBytes) return
  copyFileSync(path, `${path}.1`)
  truncateSync(path, 0)
}

function lastLines(path: string, from: number, count = 8): string {
  if (!existsSync(path)) return ''
  return readFileSync(path)
    .subarray(from)
    .toString('utf8')
    .trimEnd()
    .split('\n')
    .slice(-count)
    .join('\n')
}

/** Says which part, why, and where to look. */
export class PartFailed extends Error {
  constructor(part: Part, why: string, advice = 'Start again: all state is kept') {
    const lines = part.lastLines()
    super(
      [
        `The ${part.name} ${why}`,
        ...(lines === ''
          ? []
          : ['Its last lines:', ...lines.split('\n').map((line) => `  | ${line}`)]),
        `Its log: ${part.logFile}`,
        advice,
      ].join('\n'),
    )
    this.name = 'PartFailed'
  }
}

/** Probes until it answers true, the part ends, or the time is over. */
export async function untilPartReady(
  part: Part,
  probe: () => Promise<boolean>,
  options: { deadlineMs: number; everyMs?: number; advice?: string },
): Promise<void> {
  const startedAt = Date.now()
  while (Date.now() - startedAt < options.deadlineMs) {
    const end = part.ended()
    if (end !== undefined)
      throw new PartFailed(part, `ended while starting (${end})`, options.advice)
    if (await probe().catch(() => false)) return
    await sleep(options.everyMs ?? 15)
  }
  throw new PartFailed(part, `is not ready after ${options.deadlineMs / 1000} s`, options.advice)
}
