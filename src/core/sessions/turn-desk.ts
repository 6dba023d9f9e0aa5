import { AppError } from '../../contract/error.ts'
import { type PromptCreate, type Turn, turnEnds } from '../../contract/turn.ts'
import type { Caller, Page } from './api.ts'
import { denyOpenAsks } from './asks.ts'
import { callerSession } from './doors.ts'
import type { Kernel } from './kernel.ts'
import type { SessionRecord } from './record.ts'
import {
  addTurn,
  endTurnHere,
  findPromptKey,
  listTurns,
  loadTurn,
  requestAbort,
  runningTurn,
  savePromptKey,
  startNextTurn,
  steerTurn,
  turnIdOf,
} from './turns.ts'

/** Takes prompts, and tells how they end. */
export class TurnDesk {
  readonly #kernel: Kernel
  readonly #waiting = new Set<() => void>()

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  async prompt(caller: Caller, sent: PromptCreate, idempotencyKey: string | null): Promise<Turn> {
    callerSession(this.#kernel, caller)
    await this.#kernel.openSecrets()
    const session = callerSession(this.#kernel, caller)
    const input = this.#kernel.redact(sent)
    const body = JSON.stringify([input.text, input.steer])
    const turnId = this.#kernel.commit((sql, now) => {
      const known = idempotencyKey === null ? null : findPromptKey(sql, idempotencyKey, body)
      if (known) return known
      mustTakePrompts(session)
      const id = this.#steer(session, input) ?? this.#queue(session, input.text)
      if (idempotencyKey !== null) savePromptKey(sql, now, idempotencyKey, body, id)
      return id
    })
    await this.#kernel.crash('prompt.stored')
    return loadTurn(this.#kernel.ports.sql, session.id, turnId)
  }

  #steer(session: SessionRecord, input: PromptCreate): string | null {
    if (!input.steer) return null
    const { sql, now, crypto } = this.#kernel.ports
    const { generation } = session
    return steerTurn(sql, now(), { generation, messageSuffix: crypto.random(14), input })
  }

  #queue(session: SessionRecord, prompt: string): string {
    const { sql, now, crypto } = this.#kernel.ports
    const id = turnIdOf(session.id, crypto.random(8))
    addTurn(sql, now(), { id, messageSuffix: crypto.random(14), prompt })
    if (session.sandboxState === 'ready') startNextTurn(sql, now(), session.generation)
    return id
  }

  turn(caller: Caller, turnId: string): Turn {
    const session = callerSession(this.#kernel, caller)
    return loadTurn(this.#kernel.ports.sql, session.id, turnId)
  }

  async wait(caller: Caller, turnId: string, waitMs: number): Promise<Turn> {
    let timedOut = false
    const timeout = this.#kernel.ports.host.sleep(waitMs).then(() => {
      timedOut = true
    })
    for (;;) {
      const turn = this.turn(caller, turnId)
      if (timedOut || turnEnds.some((end) => end === turn.state)) return turn
      let wake = () => {}
      const changed = new Promise<void>((resolve) => (wake = resolve))
      this.#waiting.add(wake)
      await Promise.race([changed, timeout])
      this.#waiting.delete(wake)
    }
  }

  list(caller: Caller, page: Page): { items: Turn[]; next: number | null } {
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
  if (session.status !== 'open') throw cannotPrompt('session is closed')
  if (session.provider === 'none') throw cannotPrompt('session has no sandbox')
  if (session.sandboxState === 'failed' || session.sandboxState === 'lost') {
    const why = session.sandboxReason ?? 'no reason given'
    throw cannotPrompt(
      `sandbox is ${session.sandboxState} (${why}). Replace it with POST /v1/sessions/${session.id}/replace`,
    )
  }
}

const cannotPrompt = (why: string) => new AppError('wrong_state', `Cannot prompt: ${why}`)
