import type { Session } from '../../contract/session.ts'
import type { RoomOf } from '../actor/room.ts'
import { commitNewSession } from './create.ts'
import type { Caller } from './record/caller.ts'
import { guardSession, guardOwnSession, type SessionCaller } from './record/guards.ts'
import type { SessionKernel } from './record/kernel.ts'
import type { CreateSession } from './record/record.ts'
import { closeSession } from './steps/close.ts'
import { beginErase, type Erasing, finishErase } from './steps/erase.ts'
import { viewSession } from './view.ts'

export interface SelfApi {
  create(input: CreateSession): Promise<Session>
  view(caller: SessionCaller): Promise<Session>
  close(caller: Caller, reason: string): Promise<Session>
  /** Throws unless the caller may erase it. */
  mayErase(caller: Caller): Promise<void>
  erase(caller: Caller): Promise<void>
  /** Aborts the running turn, and drops the queued ones. */
  abort(caller: Caller, reason: string): Promise<Session>
}

/** What goes beyond one room when the session ends. */
interface SelfParts extends Erasing {
  abort(caller: Caller, reason: string): Promise<void>
  /** What the session holds of its organisation's budget goes back: nobody could return it afterwards. */
  giveBackBudget(): Promise<void>
  /** Likewise the bytes that it holds. */
  forgetUploads(): Promise<void>
}

/**
 * The session as a whole: it is created once, shown, closed for good, and erased with everything that it has stored. Each end
 * is a row before anything else happens, and its steps are deadlines, so a death between two of them is followed by the rest.
 * The verbs that create, close and delete sessions call it.
 */
export class Self implements RoomOf<SelfApi> {
  readonly api: SelfApi = this
  readonly #kernel: SessionKernel
  readonly #parts: SelfParts

  constructor(kernel: SessionKernel, parts: SelfParts) {
    this.#kernel = kernel
    this.#parts = parts
  }

  readonly deadlines = {
    close: () => closeSession(this.#kernel, 'The automation run is completed'),
    purge: () => this.#beginErase(),
    erase: async () => {
      await this.#parts.giveBackBudget()
      await this.#parts.forgetUploads()
      await finishErase(this.#kernel, this.#parts)
    },
  }

  async create(create: CreateSession): Promise<Session> {
    if (!this.#kernel.created) await commitNewSession(this.#kernel, create)
    return this.view(create)
  }

  async view(caller: SessionCaller): Promise<Session> {
    guardSession(this.#kernel, caller)
    return viewSession(this.#kernel)
  }

  async close(caller: Caller, reason: string): Promise<Session> {
    await this.#kernel.openSecrets()
    guardOwnSession(this.#kernel, caller, 'close the session')
    closeSession(this.#kernel, this.#kernel.hide(reason))
    return viewSession(this.#kernel)
  }

  async mayErase(caller: Caller): Promise<void> {
    guardOwnSession(this.#kernel, caller, 'delete the session')
  }

  async erase(caller: Caller): Promise<void> {
    await this.mayErase(caller)
    this.#beginErase()
  }

  #beginErase(): void {
    closeSession(this.#kernel, 'deleted')
    beginErase(this.#kernel)
  }

  async abort(caller: Caller, reason: string): Promise<Session> {
    await this.#parts.abort(caller, reason)
    return viewSession(this.#kernel)
  }
}
