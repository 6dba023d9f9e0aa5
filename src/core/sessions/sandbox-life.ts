import { Creation } from './creation.ts'
import { Ending } from './ending.ts'
import { Idle } from './idle.ts'
import type { Kernel } from './kernel.ts'
import { Lifecycle } from './lifecycle.ts'
import { Lifetime } from './lifetime.ts'
import { pruneSnapshots } from './pruning.ts'
import { Saving } from './saving.ts'

/** Everything about the session's sandbox, by the deadlines that drive it. */
export class SandboxLife {
  readonly lifecycle: Lifecycle
  readonly ending: Ending
  readonly #kernel: Kernel
  readonly #creation: Creation
  readonly #idle: Idle
  readonly #lifetime: Lifetime

  /** Called when waiting commands and turns may have ended. */
  constructor(kernel: Kernel, onLoss: () => void) {
    const saving = new Saving(kernel)
    this.#kernel = kernel
    this.lifecycle = new Lifecycle(kernel, onLoss)
    this.ending = new Ending(kernel, onLoss)
    this.#creation = new Creation(kernel, onLoss)
    this.#idle = new Idle(kernel, saving, onLoss)
    this.#lifetime = new Lifetime(kernel, saving, this.#idle, this.lifecycle)
  }

  deadlines(generation: number, attempt: number): Record<string, () => void | Promise<void>> {
    return {
      'sandbox.create': () => this.#creation.onDeadline(generation, attempt),
      'sandbox.connected': () => this.lifecycle.onConnected(generation),
      'sandbox.boot': () => this.lifecycle.onBoot(),
      'sandbox.look': () => this.lifecycle.onLook(),
      'sandbox.start': () => this.lifecycle.onStartOverdue(),
      'sandbox.pulse': () => this.lifecycle.onPulse(),
      'sandbox.check': () => this.lifecycle.onCheck(attempt),
      'sandbox.next': () => this.lifecycle.onNext(),
      'sandbox.idle': () => this.#idle.onDeadline(),
      'sandbox.extend': () => this.#lifetime.onDeadline(attempt),
      'sandbox.stop': () => this.ending.onStop(generation, attempt),
      'snapshots.prune': () => pruneSnapshots(this.#kernel),
    }
  }
}
