import { AppError } from '../../contract/error.ts'
import { type PromptCreate, type Turn, turnEnds } from '../../contract/turn.ts'
import { ownedId } from '../runs/run.ts'
import { runOfPrompt } from '../runs/run-turns.ts'
import { type BudgetDesk, mustHaveBudget } from './budget-desk.ts'
import type { TurnApi } from './api.ts'
import type { Caller, Page } from './caller.ts'
import { denyOpenAsks } from './asks.ts'
import { callerSession, notClaimed } from './doors.ts'
import type { Kernel } from './kernel.ts'
import { wakeSandbox } from './loss.ts'
import { findPromptKey, savePromptKey } from './prompt-keys.ts'
import type { SessionRecord } from './record.ts'
import {
  addTurn,
  endTurnHere,
  listTurns,
  loadTurn,
  requestAbort,
  runningTurn,
  startNextTurn,
  steerTurn,
  turnIdOf,
  wantsSandbox,
} from './turns.ts'

/** Takes prompts, and tells how they end. */
export class TurnDesk implements TurnApi {
  readonly #kernel: Kernel
  readonly #budget: BudgetDesk
  readonly #waiting = new Set<() => void>()

  constructor(kernel: Kernel, budget: BudgetDesk) {
    this.#kernel = kernel
    this.#budget = budget
  }

  async prompt(caller: Caller, sent: PromptCreate, idempotencyKey: string | null): Promise<Turn> {
    callerSession(this.#kernel, caller)
    await this.#kernel.openSecrets()
    const { id: sessionId } = callerSession(this.#kernel, caller)
    const input = this.#kernel.redact(sent)
    const body = JSON.stringify([input.text, input.steer, input.runId ?? null])
    const turnId = await this.#budget.spend((sql, now) => {
      // After the wait: it may have been closed or replaced meanwhile.
      const session = callerSession(this.#kernel, caller)
      const known = idempotencyKey === null ? null : findPromptKey(sql, idempotencyKey, body)
      if (known) return known
      mustTakePrompts(session)
      mustHaveBudget(sql, now, 'prompt')
      const id = this.#steer(session, input) ?? this.#queue(session, input)
      if (idempotencyKey !== null) savePromptKey(sql, now, idempotencyKey, body, id)
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
    const runId = runOfPrompt(sql, now(), {
      runId: input.runId ?? null,
      freshRunId: ownedId('run', session.id, crypto.random(8)),
      text: input.text,
    })
    addTurn(sql, now(), { id, runId, messageSuffix: crypto.random(14), prompt: input.text })
    if (session.sandboxState === 'ready') startNextTurn(sql, now(), session.generation)
    // It sleeps: this is what it waits for.
    if (session.sandboxState === 'stopped') wakeSandbox(sql, now())
    return id
  }

  /** There may be budget again for what waits in the queue. */
  startQueued(): void {
    const { sandboxState, generation } = this.#kernel.session()
    this.#kernel.commit((sql, now) => {
      if (sandboxState === 'ready') startNextTurn(sql, now, generation)
      if (sandboxState === 'stopped' && wantsSandbox(sql)) wakeSandbox(sql, now)
    })
  }

  async turn(caller: Caller, turnId: string): Promise<Turn> {
    return this.#load(caller, turnId)
  }

  #load(caller: Caller, turnId: string): Turn {
    const session = callerSession(this.#kernel, caller)
    return loadTurn(this.#kernel.ports.sql, session.id, turnId)
  }

  async waitForTurn(caller: Caller, turnId: string, waitMs: number): Promise<Turn> {
    let timedOut = false
    const timeout = this.#kernel.ports.host.sleep(waitMs).then(() => {
      timedOut = true
    })
    for (;;) {
      const turn = this.#load(caller, turnId)
      if (timedOut || turnEnds.some((end) => end === turn.state)) return turn
      let wake = () => {}
      const changed = new Promise<void>((resolve) => (wake = resolve))
      this.#waiting.add(wake)
      await Promise.race([changed, timeout])
      this.#waiting.delete(wake)
    }
  }

  async turns(caller: Caller, page: Page): Promise<{ items: Turn[]; next: number | null }> {
    const session = callerSession(this.#kernel, caller)
    return listTurns(this.#kernel.ports.sql, session.id, page)
  }

  abort(caller: Caller): void {
    const session = callerSession(this.#kernel, caller)
    this.#kernel.commit((sql, now) => {
      this.#kernel.answer(denyOpenAsks(sql, now, 'The turn was aborted', 'abort'))
      requestAbort(sql, now, session.generation)
    })
    this.wake()
  }

  onAbortOverdue(): void {
    this.#kernel.commit((sql, now) => {
      const running = runningTurn(sql)
      if (!running?.abort_requested) return
      endTurnHere(sql, now, {
        turnId: running.id,
        state: 'aborted',
        reason: 'The sandbox did not confirm the abort',
      })
      const session = this.#kernel.session()
      if (session.sandboxState === 'ready') startNextTurn(sql, now, session.generation)
    })
    this.wake()
  }

  /** Turns may have ended: whoever waits for one looks again. */
  wake(): void {
    for (const wake of this.#waiting) wake()
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
