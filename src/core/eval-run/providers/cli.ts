import type { CliTarget } from '../../../contract/eval-target.ts'
import type { EvalRunKernel } from '../record/kernel.ts'
import { providerStartError, providerTimeoutError } from './errors.ts'
import type { Given, Progress, Provider } from './provider.ts'
import { cliPromptFile } from './sandbox-session.ts'
import type { AttemptSandbox } from './sandboxed.ts'

const againMs = 250
/** An operation takes no longer. */
const maxSeconds = 600
const outputFile = '.agentv/cli/output'

/**
 * An attempt as one command in a sandbox of its own. EVAL_PROMPT_FILE has the question; the answer is what the command
 * prints, or what it writes to EVAL_OUTPUT_FILE. Both are relative to the workspace. The command is an operation of the
 * session, so it runs once however often the attempt is worked on. `Providers` hands it the attempts of `cli` targets.
 */
export class Cli implements Provider<CliTarget> {
  readonly #kernel: EvalRunKernel
  readonly #sandbox: AttemptSandbox

  constructor(kernel: EvalRunKernel, sandbox: AttemptSandbox) {
    this.#kernel = kernel
    this.#sandbox = sandbox
  }

  readonly find: NonNullable<Provider['find']> = (given, request) =>
    this.#sandbox.find(given, request)
  readonly abort: NonNullable<Provider['abort']> = (given, reason) =>
    this.#sandbox.abort(given, reason)
  readonly workspace: NonNullable<Provider['workspace']> = (given) => this.#sandbox.workspace(given)

  async work(given: Given<CliTarget>): Promise<Progress> {
    const sessionId = await this.#sandbox.begin(given)
    const { run, target } = given
    const session = await this.#sandbox.session(sessionId).self.view(run.caller)
    const { state } = session.sandbox
    if (state === 'failed' || state === 'lost') return failure(providerStartError(session))
    if (state !== 'ready') return this.#later()
    const seconds = Math.min(target.timeoutSeconds, maxSeconds)
    const begun = { ...given, attempt: { ...given.attempt, session_id: sessionId } }
    const ran = await this.#sandbox.run(begun, 'cli', {
      command: target.command,
      ...(target.cwd !== undefined && { cwd: target.cwd }),
      timeoutMs: seconds * 1000,
      environment: { EVAL_PROMPT_FILE: cliPromptFile, EVAL_OUTPUT_FILE: outputFile },
    })
    if (ran === 'later') return this.#later()
    if (ran.kind === 'failed') return failure(`CLI could not be run: ${ran.message}`)
    if (ran.timedOut)
      return {
        kind: 'failed',
        error: providerTimeoutError('CLI', seconds),
        isTimeout: true,
      }
    if (ran.exitCode !== 0)
      return failure(
        `CLI exited with code ${ran.exitCode}: ${(ran.stderr || ran.stdout).slice(-2000)}`,
      )
    const written = await this.#sandbox.find(begun, {
      id: 'cli output',
      kind: 'files',
      paths: [outputFile],
      texts: true,
    })
    if (written === 'later') return this.#later()
    const text = written.kind === 'files' ? written.files[0]?.text : null
    const message = { role: 'assistant', content: (text || ran.stdout).trim() }
    return { kind: 'answered', response: { outputMessages: [message] } }
  }

  #later(): Progress {
    return { kind: 'later', at: this.#kernel.ports.now() + againMs }
  }
}

const failure = (error: string): Progress => ({ kind: 'failed', error, isTimeout: false })
