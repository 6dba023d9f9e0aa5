import { ownedId } from '../../../contract/ids.ts'
import type { RoomOf } from '../../actor/room.ts'
import type { Written } from '../../actor/writes.ts'
import { Waiters } from '../../actor/waiters.ts'
import { AppError } from '../../../contract/error.ts'
import { linkClose } from '../../../contract/link.ts'
import { type PromptCreate, type Turn, turnEnds, turnPatience } from '../../../contract/turn.ts'
import { runOfTurnPrompt } from './run-turns.ts'
import { abortReason, commandAbort, requestAbort } from './aborts.ts'
import { type SessionBudget, mustHaveBudget } from '../budget/budget.ts'
import type { Caller, Listed, Page } from '../record/caller.ts'
import { denyOpenQuestions } from '../gate/questions.ts'
import { guardAttempt, guardSession, guardEntry, notClaimed } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { startWaking } from '../generations/sandbox-start.ts'
import { type KeyTable, madeByKey } from '../../actor/keys.ts'
import { pulseLost } from '../generations/pulse.ts'
import { type SessionRecord, recordPersonalMemoryWithdrawn } from '../record/record.ts'
import { watchLastTurnSilence, unwatchTurnSilence, watchTurnSilence } from './silence.ts'
import {
  addTurn,
  endTurnHere,
  listTurns,
  loadTurn,
  runningTurn,
  startNextTurn,
  steerTurn,
  turnIdOf,
  wantsSandbox,
} from './rows.ts'

const promptKeys: KeyTable = { name: 'prompt_keys', made: 'turn_id', what: 'prompt' }

export interface TurnsApi {
  prompt(caller: Caller, input: PromptCreate, idempotencyKey: string | null): Promise<Turn>
  get(caller: Caller, turnId: string): Promise<Turn>
  /** Answers when the turn has ended, or after `waitMs` with the turn as it is. */
  wait(caller: Caller, turnId: string, waitMs: number): Promise<Turn>
  list(caller: Caller, page: Page): Promise<Listed<Turn>>
}

/**
 * Takes prompts, queues them, and tells how they end. A prompt is a row before anything else happens; one turn runs at a
 * time; a turn of which nothing is heard is asked for, and then ended. The link reports what the agent says of it.
 */
export class Turns implements RoomOf<TurnsApi> {
  readonly api: TurnsApi = this
  readonly #kernel: SessionKernel
  readonly #budget: SessionBudget
  readonly #waiters = new Waiters()

  constructor(kernel: SessionKernel, budget: SessionBudget) {
    this.#kernel = kernel
    this.#budget = budget
  }

  async prompt(caller: Caller, sent: PromptCreate, idempotencyKey: string | null): Promise<Turn> {
    guardSession(this.#kernel, caller)
    await this.#kernel.openSecrets()
    const { id: sessionId } = guardSession(this.#kernel, caller)
    const input = this.#kernel.redact(sent)
    const body = JSON.stringify([input.text, input.steer, input.runId ?? null])
    const turnId = await this.#budget.spend((sql, now) => {
      // After the wait: it may have been closed or replaced meanwhile.
      const session = guardSession(this.#kernel, caller)
      const known = madeByKey(sql, promptKeys, idempotencyKey, body)
      if (known) return known
      mustTakePrompts(session)
      guardAttempt(this.#kernel, caller)
      mustHaveBudget(sql, now, 'prompt')
      recordPersonalMemoryWithdrawn(sql, session, caller)
      const id = this.#steer(session, input) ?? this.#queue(session, input)
      if (idempotencyKey !== null)
        sql.run('insert into prompt_keys values (?, ?, ?, ?)', idempotencyKey, body, id, now)
      return id
    })
    await this.#kernel.crash('prompt.stored')
    return loadTurn(this.#kernel.ports.sql, sessionId, turnId)
  }

  /** Into the running turn, unless another run is meant. */
  #steer(session: SessionRecord, input: PromptCreate): string | null {
    const { sql, now, crypto } = this.#kernel.ports
    if (!input.steer) return null
    if (input.runId !== undefined && runningTurn(sql)?.run_id !== input.runId) return null
    const { generation } = session
    return steerTurn(sql, now(), { generation, messageSuffix: crypto.random(14), input })
  }

  #queue(session: SessionRecord, input: PromptCreate): string {
    const { sql, now, crypto } = this.#kernel.ports
    const id = turnIdOf(session.id, crypto.random(8))
    const runId = runOfTurnPrompt(sql, now(), {
      runId: input.runId ?? null,
      freshRunId: ownedId('run', session.id, crypto.random(8)),
      text: input.text,
    })
    addTurn(sql, now(), { id, runId, messageSuffix: crypto.random(14), prompt: input.text })
    if (session.sandboxState === 'ready') startNextTurn(sql, now(), session.generation)
    // It sleeps: this is what it waits for.
    if (session.sandboxState === 'stopped') startWaking(sql, now())
    return id
  }

  /** There may be budget again for what waits in the queue. */
  readonly startQueued = (): void => {
    const { sandboxState, generation } = this.#kernel.session()
    this.#kernel.commit((sql, now) => {
      if (sandboxState === 'ready') startNextTurn(sql, now, generation)
      if (sandboxState === 'stopped' && wantsSandbox(sql)) startWaking(sql, now)
    })
  }

  async get(caller: Caller, turnId: string): Promise<Turn> {
    return this.#load(caller, turnId)
  }

  #load(caller: Caller, turnId: string): Turn {
    const session = guardSession(this.#kernel, caller)
    return loadTurn(this.#kernel.ports.sql, session.id, turnId)
  }

  wait(caller: Caller, turnId: string, waitMs: number): Promise<Turn> {
    return this.#waiters.until(() => {
      const value = this.#load(caller, turnId)
      return { value, done: turnEnds.some((end) => end === value.state) }
    }, this.#kernel.ports.host.sleep(waitMs))
  }

  async list(caller: Caller, page: Page): Promise<Listed<Turn>> {
    const session = guardSession(this.#kernel, caller)
    return listTurns(this.#kernel.ports.sql, session.id, page)
  }

  /** The running one; queued ones are dropped. */
  readonly abort = async (caller: Caller, reason: string): Promise<void> => {
    await guardEntry(this.#kernel, caller)
    const why = this.#kernel.hide(reason) || `Aborted by ${caller.owner || caller.keyId}`
    this.#kernel.commit((sql, now) => {
      this.#kernel.answer(denyOpenQuestions(sql, now, 'The turn was aborted', 'abort'))
      requestAbort(sql, now, this.#kernel.session().generation, why)
    })
  }

  readonly deadlines = {
    'turn.abort': () => this.#onAbortOverdue(),
    'turn.silent': () => this.#onSilent(),
    'turn.lost': () => this.#onLost(),
  }

  readonly written = (tables: Written): void => {
    if (tables.has('turns')) this.#waiters.wake()
  }

  #onAbortOverdue(): void {
    this.#kernel.commit((sql, now) => {
      const running = runningTurn(sql)
      if (!running?.abort_requested) return
      const given = abortReason(sql, running.id)
      const reason = `${given ?? 'Aborted'} (the sandbox did not confirm the abort)`
      endTurnHere(sql, now, { turnId: running.id, state: 'aborted', reason })
      const session = this.#kernel.session()
      if (session.sandboxState === 'ready') startNextTurn(sql, now, session.generation)
    })
  }

  /**
   * The agent pings, and yet nothing is heard of its turn. It is made to connect again, since that makes it speak; and
   * if the clock has jumped, its word is on its way. A link that is down is looked after elsewhere.
   */
  #onSilent(): void {
    const { host } = this.#kernel.ports
    const isUp = host.agentConnected()
    if (isUp) host.closeAgent(linkClose.broke, 'Nothing was heard of the turn')
    this.#kernel.commit((sql, now) => {
      if (!runningTurn(sql)) return unwatchTurnSilence(sql)
      if (!isUp) return watchTurnSilence(sql, now)
      pulseLost(sql, now)
      watchLastTurnSilence(sql, now)
    })
  }

  /** It has connected again, and still does not know of the turn. */
  #onLost(): void {
    this.#kernel.commit((sql, now) => {
      const running = runningTurn(sql)
      if (!running) return unwatchTurnSilence(sql)
      if (!this.#kernel.ports.host.agentConnected()) return watchTurnSilence(sql, now)
      const minutes = turnPatience.silentMs / 60_000
      const reason = `The sandbox has said nothing of the turn for ${minutes} minutes`
      const { generation, sandboxState } = this.#kernel.session()
      this.#kernel.answer(denyOpenQuestions(sql, now, reason, 'turn-end'))
      endTurnHere(sql, now, { turnId: running.id, state: 'interrupted', reason })
      // Should it work on it after all.
      commandAbort(sql, now, generation, running.id, reason)
      if (sandboxState === 'ready') startNextTurn(sql, now, generation)
    })
  }
}

function mustTakePrompts(session: SessionRecord): void {
  if (session.status === 'warm') throw cannotPrompt(notClaimed)
  if (session.status !== 'open') throw cannotPrompt('session is closed')
  if (session.provider === 'none') throw cannotPrompt('session has no sandbox')
  if (session.sandboxState === 'failed' || session.sandboxState === 'lost') {
    const why = session.sandboxReason ?? 'no reason given'
    throw cannotPrompt(
      `sandbox is ${session.sandboxState} (${why}). Start again with POST /v1/sessions/${session.id}/retry or /v1/sessions/${session.id}/replace`,
    )
  }
}

const cannotPrompt = (why: string) => new AppError('wrong_state', `Cannot prompt: ${why}`)
