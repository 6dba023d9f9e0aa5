// Runs one shell command inside the walls that this machine has (see enclosure.ts), within limits for time, output,
// memory and processes. When the command ends, everything that it started ends as well. The executor calls it for
// `run`, and the git commands for git itself.

import { type ChildProcess, spawn } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import type { Enforcement, IsolationPlan } from '../../../src/contract/operation.ts'
import { sleep } from '../../log.ts'
import { shellPath } from '../../shell.ts'
import { findMarked, signalMarked, killMarked } from '../../marked-processes.ts'
import { censusOf, censusOverLimit } from './census.ts'
import { encloseRun, quoteForEnclosure } from './enclosure.ts'
import type { Outcome } from './outcome.ts'
import { attemptMark, runSiteEnvironment, type Site } from './site.ts'
import type { Held } from './probe.ts'
import { Printed } from './show.ts'

export interface Run {
  site: Site
  attemptId: string
  held: Held
  plan: Pick<IsolationPlan, 'network' | 'limits'>
  command: string
  folder: string
  environment: Record<string, string>
  /** What it prints to standard error is told by itself. */
  apart?: boolean
  /** Whether this path is there afterwards, seen from its folder, is told. */
  looksFor?: string | undefined
  /** Folders that nothing inside the walls can write. */
  readOnly?: readonly string[]
  /** Nobody wants it any more. */
  stop?: AbortSignal | undefined
}

const graceMs = 2000
const lookEveryMs = 100
/** Its pipe may be held open by somebody that could not be found. */
const closeWithinMs = 1000
/** What is printed past the limit is read and dropped, but not for ever. */
const maxPrintedBytes = 64 * 1024 * 1024

/**
 * The environment and the command come by a pipe and are used inside the walls only: a variable that makes every
 * program load a library would else be heard by the programs that build the walls.
 */
const script = 'eval "$(cat <&3)"'

export async function runEnclosed(run: Run): Promise<Outcome> {
  const { site, held, plan, attemptId } = run
  const inner = innerScript(run)
  const line = encloseRun(held.enclosure, site.owner, { ...plan, readOnly: run.readOnly }, script)
  const child = spawn(line.file, line.args, {
    cwd: '/',
    env: runSiteEnvironment(site, attemptId),
    // After the first three: what to run, its standard error, and whether what is looked for is there.
    stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe', 'pipe'],
    detached: true,
    ...line.owner,
  })
  const pipe = child.stdio[3] as Writable
  pipe.on('error', () => undefined) // it may be gone before it has read it
  pipe.end(inner)
  return { ...(await new Watch(child, run).ended()), enforced: enforcedOn(run) }
}

function enforcedOn({ held, plan }: Run): Enforcement[] {
  return held.enforces.filter(
    (each) => each !== 'real-path' && (each !== 'network' || !plan.network),
  )
}

function innerScript(run: Run): string {
  const { site, folder, environment, attemptId, apart = false, looksFor } = run
  const marks = { ...site.marks, [attemptMark]: attemptId }
  const exports = Object.entries({ ...environment, ...marks }).map(([name, value]) => {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
      throw new Error(`Cannot run: "${name}" is no name of a variable`)
    return `export ${name}=${quoteForEnclosure(value)}`
  })
  return [
    ...exports,
    `cd -- ${quoteForEnclosure(folder)} || exit 126`,
    'unset OLDPWD',
    // As a child: the first process of a namespace hears no signal that it has not asked for.
    `${childOf(run)} ${apart ? '2>&4' : '2>&1'} 3<&- 4>&- 5>&-`,
    'code=$?',
    ...(looksFor === undefined
      ? []
      : [`[ ! -e ${quoteForEnclosure(looksFor)} ] || echo found >&5`]),
    'exit $code',
  ].join('\n')
}

/** The kernel gives no program a word or a variable that is longer. */
const maxWordBytes = 120 * 1024

/** What is too long for a program of its own is read by this shell, which needs no words for it. */
function childOf({ command, environment }: Run): string {
  const words = [command, ...Object.entries(environment).map(([name, value]) => `${name}=${value}`)]
  return words.every((word) => Buffer.byteLength(word) <= maxWordBytes)
    ? `${shellPath()} -c ${quoteForEnclosure(command)}`
    : `(eval ${quoteForEnclosure(command)})`
}

/** Follows one child to its end, and ends it if it takes too much of anything. */
class Watch {
  readonly #child: ChildProcess
  readonly #run: Run
  readonly #printed: Printed
  readonly #complained: Printed
  #found = false
  #stderr = ''
  /** Why it was ended. */
  #why: string | undefined
  #isTimedOut = false

  constructor(child: ChildProcess, run: Run) {
    this.#child = child
    this.#run = run
    this.#printed = new Printed(run.plan.limits.outputBytes)
    this.#complained = new Printed(run.plan.limits.outputBytes)
    child.stdout?.on('data', (chunk: Buffer) => this.#read(chunk, this.#printed))
    child.stderr?.on('data', (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString('utf8')).slice(0, 4000)
    })
    const [, , , , complaints, found] = child.stdio as unknown as Readable[]
    complaints?.on('data', (chunk: Buffer) => this.#read(chunk, this.#complained))
    found?.on('data', () => (this.#found = true))
  }

  async ended(): Promise<Omit<Outcome, 'enforced'>> {
    const { timeoutMs } = this.#run.plan.limits
    const closed = new Promise((resolve) => this.#child.once('close', resolve))
    const timer = setTimeout(() => this.#timeOut(timeoutMs), timeoutMs)
    const census = setInterval(() => this.#look(), lookEveryMs)
    const { stop } = this.#run
    const onStop = () => this.#ask('It was cancelled')
    stop?.addEventListener('abort', onStop)
    if (stop?.aborted) onStop()
    try {
      const { code, signal } = await this.#exit()
      await this.#killAll()
      await Promise.race([closed, sleep(closeWithinMs)])
      return this.#outcome(code, signal)
    } finally {
      clearTimeout(timer)
      clearInterval(census)
      stop?.removeEventListener('abort', onStop)
      for (const stream of this.#child.stdio) stream?.destroy()
    }
  }

  #outcome(code: number | null, signal: string | null): Omit<Outcome, 'enforced'> {
    const { text, cut } = this.#printed.text()
    const { apart = false, looksFor } = this.#run
    const complained = this.#complained.text()
    const error = this.#why ?? describeEnd(code, signal, this.#stderr.trim())
    return {
      output: text,
      ...(apart && { stderr: complained.text }),
      ...(looksFor !== undefined && { found: this.#found }),
      truncated: cut || complained.cut,
      exitCode: this.#why === undefined ? code : null,
      ...(this.#isTimedOut && { timedOut: true }),
      error,
    }
  }

  #exit(): Promise<{ code: number | null; signal: string | null }> {
    return new Promise((resolve, reject) => {
      this.#child.once('error', (error) => reject(new Error(`Cannot run: ${error.message}`)))
      this.#child.once('exit', (code, signal) => resolve({ code, signal }))
    })
  }

  #read(chunk: Buffer, stream: Printed): void {
    stream.add(chunk)
    if (stream.bytes > maxPrintedBytes) this.#end(`It printed more than ${maxPrintedBytes} bytes`)
  }

  #timeOut(timeoutMs: number): void {
    this.#isTimedOut = this.#why === undefined
    this.#ask(`It had not ended after ${timeoutMs} ms`)
  }

  /** It may put things in order first. */
  #ask(why: string): void {
    this.#why ??= why
    signalMarked(-(this.#child.pid ?? 0), 'SIGTERM')
    setTimeout(() => this.#end(''), graceMs).unref()
  }

  #look(): void {
    const { limits } = this.#run.plan
    const over = censusOverLimit(this.#processes(), limits)
    if (over !== undefined) this.#end(`It used ${over}`)
  }

  #end(why: string): void {
    this.#why ??= why
    signalMarked(-(this.#child.pid ?? 0), 'SIGKILL')
  }

  /** With a namespace all of it is gone with its first process. */
  async #killAll(): Promise<void> {
    signalMarked(-(this.#child.pid ?? 0), 'SIGKILL')
    if (this.#run.held.enclosure === 'none') await killMarked(this.#marked)
  }

  #processes(): number[] {
    if (this.#run.held.enclosure === 'none') return findMarked(this.#marked)
    return censusOf(this.#child.pid ?? 0, this.#run.plan.limits.processes * 2)
  }

  get #marked() {
    return { mark: `${attemptMark}=${this.#run.attemptId}`, uid: undefined }
  }
}

function describeEnd(code: number | null, signal: string | null, stderr: string): string | null {
  if (code === 0) return null
  const end = code === null ? `It was killed by ${signal}` : `Exit code ${code}`
  return stderr === '' ? end : `${end}: ${stderr}`
}
