import type { ProviderResponse } from '../../../contract/eval-response.ts'
import type { OpencodeTarget } from '../../../contract/eval-target.ts'
import type { SessionEvent } from '../../../contract/events.ts'
import type { Turn } from '../../../contract/turn.ts'
import { responseOfOpencodeEvents } from '../../evals/response/opencode.ts'
import type { EvalRunKernel } from '../record/kernel.ts'
import { tellEvalEvent } from '../record/events.ts'
import { attemptSubject } from '../record/attempts.ts'
import { providerBlockedError, providerStartError, providerTimeoutError } from './errors.ts'
import { providerPrompt } from './prompt.ts'
import type { Given, Progress, Provider } from './provider.ts'
import { type AttemptSandbox, sandboxedKey } from './sandboxed.ts'

/** How long one wait for the turn lasts: well within the lease of a deadline. */
const waitMs = 3000
const eventsAtOnce = 500
const maxEvents = 20_000

/**
 * An attempt as one turn of a session of its own. The turn's end is the authority; the session's events say what OpenCode
 * did. Nothing is ever asked of a person: what the target rejects ends the attempt with an error that names it.
 */
export class Opencode implements Provider<OpencodeTarget> {
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
  readonly spentMicros: NonNullable<Provider['spentMicros']> = (given) =>
    this.#sandbox.spentMicros(given)
  readonly workspace: NonNullable<Provider['workspace']> = (given) => this.#sandbox.workspace(given)

  async work(asked: Given<OpencodeTarget>): Promise<Progress> {
    const sessionId = await this.#sandbox.begin(asked)
    const given = { ...asked, attempt: { ...asked.attempt, session_id: sessionId } }
    const turnId = given.attempt.turn_id ?? (await this.#prompt(given, sessionId))
    const session = this.#sandbox.session(sessionId)
    const turn = await session.turns.wait(given.run.caller, turnId, waitMs)
    const { blocked } = await session.evals.facts(given.run.caller)
    if (blocked) {
      if (!hasEnded(turn)) await this.#sandbox.abort(given, 'The eval target rejected a permission')
      return failure(providerBlockedError(blocked.title, blocked.reason, given.target.name))
    }
    if (hasEnded(turn)) return this.#ended(given, turn)
    return turn.state === 'running' ? this.#running(given, turn) : this.#queued(given)
  }

  async #prompt(given: Given<OpencodeTarget>, sessionId: string): Promise<string> {
    const prompt = { text: providerPrompt(given.evalCase), steer: false }
    const { turns } = this.#sandbox.session(sessionId)
    const caller = { ...given.run.caller, evalRunId: given.run.id }
    const { id } = await turns.prompt(caller, prompt, sandboxedKey(given, 'prompt'))
    this.#kernel.commit((sql) =>
      sql.run(
        `update attempts set turn_id = ?, state = 'working' where n = ? and state <> 'done'`,
        id,
        given.attempt.n,
      ),
    )
    return id
  }

  /** It waits for its sandbox, or for a place; its time has not begun. */
  async #queued({ run, attempt }: Given<OpencodeTarget>): Promise<Progress> {
    const session = await this.#sandbox.session(attempt.session_id ?? '').self.view(run.caller)
    const { state } = session.sandbox
    return state === 'failed' || state === 'lost'
      ? failure(providerStartError(session))
      : this.#later()
  }

  async #running(given: Given<OpencodeTarget>, { startedAt }: Turn): Promise<Progress> {
    const { timeoutSeconds } = given.target
    const dueAt = (startedAt ?? this.#kernel.ports.now()) + timeoutSeconds * 1000
    if (this.#kernel.ports.now() < dueAt) return this.#later()
    await this.#sandbox.abort(given, 'The eval attempt took too long')
    return {
      kind: 'failed',
      error: providerTimeoutError('OpenCode', timeoutSeconds),
      isTimeout: true,
    }
  }

  async #ended(given: Given<OpencodeTarget>, turn: Turn): Promise<Progress> {
    const { run, attempt } = given
    const sessionId = attempt.session_id ?? ''
    if (turn.state !== 'completed') {
      const view = await this.#sandbox.session(sessionId).self.view(run.caller)
      const isGone = view.sandbox.state === 'failed' || view.sandbox.state === 'lost'
      if (isGone && turn.startedAt === null) return failure(providerStartError(view))
      return failure(`OpenCode turn was ${turn.state}: ${turn.reason ?? 'no reason given'}`)
    }
    const events = await this.#events(given, sessionId)
    if (events === null) return failure(`OpenCode turn has more than ${maxEvents} events`)
    this.#warn(given, events)
    const response = responseOfOpencodeEvents(events, (turn.endedAt ?? 0) - (turn.startedAt ?? 0))
    const costUsd = (await this.#sandbox.spentMicros(given)) / 1_000_000
    return { kind: 'answered', response: { ...shortened(response), costUsd } }
  }

  /** Null: there are too many; the answer and the last calls are at their end. */
  async #events({ run }: Given, sessionId: string): Promise<SessionEvent[] | null> {
    const { log } = this.#sandbox.session(sessionId)
    const all: SessionEvent[] = []
    for (let after = 0; all.length <= maxEvents;) {
      const page = await log.events(run.caller, after, eventsAtOnce)
      const last = page.at(-1)
      if (!last) return all
      after = last.seq
      all.push(...page.filter(({ kind }) => isGraded.test(kind)))
    }
    return null
  }

  /** The agent's notices, such as that its log could not be written: only who asked for them sees them. */
  #warn({ run, attempt }: Given, events: readonly SessionEvent[]): void {
    if (!run.verbose) return
    const notices = events.filter(({ kind }) => kind === 'agent.notice')
    this.#kernel.commit((sql, now) => {
      for (const { seq, data } of notices) {
        const message = String(data['message'])
        const once = `warned ${attempt.n}.${attempt.attempt} ${seq}`
        tellEvalEvent(sql, now, 'attempt.warned', { ...attemptSubject(attempt), message }, once)
      }
    })
  }

  #later(): Progress {
    return { kind: 'later', at: this.#kernel.ports.now() }
  }
}

const isGraded = /^(?:message\.text|tool\.|step\.finished|agent\.notice)/

const hasEnded = ({ state }: Turn): boolean => state !== 'queued' && state !== 'running'

const failure = (error: string): Progress => ({ kind: 'failed', error, isTimeout: false })

const maxOutput = 20_000

/** Every call stays: one that is left out here would be one that was not made. */
const shortened = (response: ProviderResponse): ProviderResponse => ({
  ...response,
  outputMessages: response.outputMessages.map((message) => ({
    ...message,
    ...(message.toolCalls && {
      toolCalls: message.toolCalls.map((call) =>
        typeof call.output === 'string' && call.output.length > maxOutput
          ? { ...call, output: `${call.output.slice(0, maxOutput)}…` }
          : call,
      ),
    }),
  })),
})
