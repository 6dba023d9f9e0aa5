import type { DeadLettersResent, DeadLetterView } from '../../../contract/status.ts'
import type { RoomOf } from '../../actor/room.ts'
import { countDeadLetters, listDeadLetters, resendDeadLetters } from '../../actor/dead-letters.ts'
import type { Listed } from '../record/caller.ts'
import type { Caller, Page } from '../record/caller.ts'
import { guardSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import type { Outbox } from './outbox.ts'
import { canBeTold, tellSessionAnew } from './tell-anew.ts'

export interface LettersApi {
  list(caller: Caller, page: Page): Promise<Listed<DeadLetterView>>
  /** Null: all of them. */
  resend(caller: Caller, seqs: number[] | null): Promise<DeadLettersResent>
}

/**
 * Rows of the session that libSQL has refused. They are kept, listed, and sent again when a caller asks for it; none is lost
 * by that. The ledger is asked first, because an earlier release told only the ledger. The routes of dead letters call it.
 */
export class Letters implements RoomOf<LettersApi> {
  readonly api: LettersApi = this
  readonly #kernel: SessionKernel
  readonly #outbox: Outbox

  constructor(kernel: SessionKernel, outbox: Outbox) {
    this.#kernel = kernel
    this.#outbox = outbox
  }

  async list(caller: Caller, page: Page): Promise<Listed<DeadLetterView>> {
    guardSession(this.#kernel, caller)
    await this.#outbox.ask().catch(() => undefined)
    guardSession(this.#kernel, caller)
    return listDeadLetters(this.#kernel.ports.sql, page, canBeTold)
  }

  async resend(caller: Caller, seqs: number[] | null): Promise<DeadLettersResent> {
    guardSession(this.#kernel, caller)
    await this.#outbox.ask()
    guardSession(this.#kernel, caller)
    return this.#kernel.commit((sql, now) => {
      const sent = resendDeadLetters(sql, now, seqs, (kind) => tellSessionAnew(sql, now, kind))
      return { sent, left: countDeadLetters(sql) }
    })
  }
}
