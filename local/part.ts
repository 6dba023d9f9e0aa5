import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync, renameSync, statSync } from 'node:fs'
import { signalProcess, sleep, within } from './processes.ts'

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
  /** How it ended; undefined while it runs. */
  ended(): string | undefined
  onEnd(callback: () => void): void
  kill(signal: NodeJS.Signals): void
  /** TERM, then KILL after the grace. */
  stop(graceMs?: number): Promise<void>
}

export function startPart(spec: PartSpec): Part {
  rotateLog(spec.logFile)
  const log = openSync(spec.logFile, 'a', 0o600)
  const child = spawn(spec.command, spec.args, {
    detached: true,
    stdio: [spec.input === undefined ? 'ignore' : 'pipe', log, log],
    env: spec.env,
    ...(spec.cwd === undefined ? {} : { cwd: spec.cwd }),
  })
  closeSync(log)
  child.stdin?.on('error', () => undefined) // its death is seen as an exit
  child.stdin?.end(spec.input)
  return partOf(spec, child)
}

function partOf(spec: PartSpec, child: ChildProcess): Part {
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
    ended: () => end,
    onEnd: (callback) => void exited.then(callback),
    kill: (signal) => void (end === undefined && signalGroup(child, signal)),
    stop: async (graceMs = 3000) => {
      if (end !== undefined) return
      child.kill('SIGTERM')
      await within(exited, graceMs)
      if (end === undefined) signalGroup(child, 'SIGKILL')
      await exited
    },
  }
}

// The whole group: wrangler's children would go on serving its port.
function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid !== undefined) signalProcess(-child.pid, signal)
}

function rotateLog(path: string): void {
  if (existsSync(path) && statSync(path).size > maxLogBytes) renameSync(path, `${path}.1`)
}

export function lastLines(path: string, count = 8): string {
  if (!existsSync(path)) return ''
  return readFileSync(path, 'utf8').trimEnd().split('\n').slice(-count).join('\n')
}

/** Says which part, why, and where to look. */
export class PartFailed extends Error {
  constructor(part: Pick<Part, 'name' | 'logFile'>, why: string, advice = '') {
    const lines = lastLines(part.logFile)
    super(
      [
        `The ${part.name} ${why}`,
        ...(lines === '' ? [] : ['Its last lines:', ...lines.split('\n').map((line) => `  | ${line}`)]),
        `Its log: ${part.logFile}`,
        ...(advice === '' ? [] : [advice]),
      ].join('\n'),
    )
    this.name = 'PartFailed'
  }
}

/** Probes until it answers true, the part ends, or the time is over. */
export async function untilReady(
  part: Part,
  probe: () => Promise<boolean>,
  options: { deadlineMs: number; everyMs?: number; advice?: string },
): Promise<void> {
  const startedAt = Date.now()
  while (Date.now() - startedAt < options.deadlineMs) {
    const end = part.ended()
    if (end !== undefined) throw new PartFailed(part, `ended while starting (${end})`, options.advice)
    if (await probe().catch(() => false)) return
    await sleep(options.everyMs ?? 15)
  }
  throw new PartFailed(part, `is not ready after ${options.deadlineMs / 1000} s`, options.advice)
}
