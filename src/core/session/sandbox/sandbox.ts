import { AppError } from '../../../contract/error.ts'
import type { Session } from '../../../contract/session.ts'
import type { RoomOf } from '../../actor/room.ts'
import { clearTakenDeadline } from '../../actor/deadlines.ts'
import type { Halt } from '../../organisation/record/api.ts'
import type { Caller, SandboxCaller } from '../record/caller.ts'
import { guardSession, guardOwnSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { pruneSnapshots } from '../snapshots/pruning.ts'
import { Saving } from '../snapshots/saving.ts'
import { SandboxCreation } from './creation.ts'
import { LeaseExtension } from './extend.ts'
import { Halting } from './halt.ts'
import { Idle } from './idle.ts'
import { RegularSaves } from './regular-saves.ts'
import { SandboxStop } from './stop.ts'
import { SandboxWatch } from './watch.ts'

export interface SandboxApi {
  /** Generation + 1: the old sandbox is fenced first, then stopped. */
  replace(caller: Caller, reason: string, idempotencyKey?: string | null): Promise<Session>
  /** Starts again what is failed, lost or asleep. */
  retry(caller: Caller, reason: string): Promise<Session>
  /** The organisation's own: everything must stop. An old generation is left alone. */
  halt(sandbox: SandboxCaller, order: Halt): Promise<void>
  /** Likewise: its provider does not seem to have it any more. */
  check(sandbox: SandboxCaller): Promise<void>
}

/**
 * The life of the session's sandboxes, by the deadlines that drive it: one is created, watched, extended, saved, put to
 * sleep, replaced and stopped. Every step is a deadline that is set before the provider is called, so an instance that
 * dies over one is followed by one that goes on. There is one live generation at a time.
 */
export class Sandbox implements RoomOf<SandboxApi> {
  readonly api: SandboxApi = this
  readonly #kernel: SessionKernel
  readonly #view: () => Session
  readonly #watch: SandboxWatch
  readonly #stop: SandboxStop
  readonly #halting: Halting

  constructor(kernel: SessionKernel, view: () => Session) {
    const saving = new Saving(kernel)
    this.#kernel = kernel
    this.#view = view
    this.#watch = new SandboxWatch(kernel, saving)
    this.#stop = new SandboxStop(kernel)
    this.#halting = new Halting(kernel, saving)
    this.deadlines = this.#meetings(saving)
  }

  readonly deadlines: NonNullable<RoomOf<SandboxApi>['deadlines']>

  #meetings(saving: Saving) {
    const watch = this.#watch
    const creation = new SandboxCreation(this.#kernel)
    const idle = new Idle(this.#kernel, saving)
    const extension = new LeaseExtension(this.#kernel, saving, idle, watch)
    const saves = new RegularSaves(this.#kernel, saving)
    return {
      'sandbox.create': (generation: string, attempt: number) =>
        creation.onDeadline(Number(generation), attempt),
      'sandbox.connected': (generation: string) => watch.onConnected(Number(generation)),
      'sandbox.boot': () => watch.onBoot(),
      'sandbox.look': () => watch.onLook(),
      'sandbox.start': () => watch.onStartOverdue(),
      'sandbox.pulse': () => watch.onPulse(),
      'sandbox.check': (_: string, attempt: number) => watch.onCheck(attempt),
      'sandbox.renew': () => this.#kernel.commit((sql) => clearTakenDeadline(sql, 'sandbox.renew')),
      'sandbox.next': () => watch.onNext(),
      'sandbox.idle': () => idle.onDeadline(),
      'sandbox.extend': (_: string, attempt: number) => extension.onDeadline(attempt),
      'sandbox.snapshot': () => saves.onDeadline(),
      'sandbox.save': (generation: string) => this.#halting.onSave(Number(generation)),
      'sandbox.stop': (generation: string, attempt: number) =>
        this.#stop.onStop(Number(generation), attempt),
      'snapshots.prune': () => pruneSnapshots(this.#kernel),
    }
  }

  async replace(caller: Caller, reason: string, key: string | null = null): Promise<Session> {
    await this.#kernel.openSecrets()
    guardOwnSession(this.#kernel, caller, 'replace the sandbox of the session')
    this.#mustBeOpen(caller, 'replace the sandbox')
    this.#watch.replace(this.#kernel.hide(reason), key)
    return this.#view()
  }

  async retry(caller: Caller, reason: string): Promise<Session> {
    await this.#kernel.openSecrets()
    this.#mustBeOpen(caller, 'start the sandbox again')
    this.#watch.retry(this.#kernel.hide(reason))
    return this.#view()
  }

  #mustBeOpen(caller: Caller, what: string): void {
    if (guardSession(this.#kernel, caller).status === 'open') return
    throw new AppError('wrong_state', `Cannot ${what}: session is closed`)
  }

  halt(sandbox: SandboxCaller, order: Halt): Promise<void> {
    return this.#halting.halt(sandbox, order)
  }

  async check(sandbox: SandboxCaller): Promise<void> {
    const { generation } = guardSession(this.#kernel, sandbox)
    if (generation === sandbox.generation) await this.#watch.verify()
  }

  /** Every generation that may still have a machine. */
  readonly stopAll = (): Promise<void> => this.#stop.stopAll()
}
