import type { Phase } from '../../../contract/phase.ts'
import { clearTakenDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { RoomOf } from '../../actor/room.ts'
import type { Written } from '../../actor/writes.ts'
import { presentPhasesByChange } from '../../registry/phases/phases.ts'
import { saveKnownPhases } from '../gate/known-phases.ts'
import type { SessionPolicy } from '../gate/policy.ts'
import type { Caller } from '../record/caller.ts'
import { guardSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { runningTurn } from '../turns/rows.ts'

export interface PhasesApi {
  /** Somebody has saved an artifact in the session's project: these phases of the change are there now. */
  saved(
    caller: Pick<Caller, 'organisationId'>,
    change: string,
    present: readonly Phase[],
  ): Promise<void>
}

/** While libSQL is away; then the next turn looks again. */
const maxAttempts = 20

/**
 * What the session knows of the phases that its policy names, so that the gate need not ask libSQL. It looks when a turn
 * begins and when its policy changes, and is told when an artifact is saved. What it does not know counts as not ready.
 */
export class Phases implements RoomOf<PhasesApi> {
  readonly api: PhasesApi = this
  readonly #kernel: SessionKernel
  readonly #policy: SessionPolicy
  /** The turn for which it has looked last. */
  #lookedFor: string | null = null

  constructor(kernel: SessionKernel, policy: SessionPolicy) {
    this.#kernel = kernel
    this.#policy = policy
  }

  async saved(
    caller: Pick<Caller, 'organisationId'>,
    change: string,
    present: readonly Phase[],
  ): Promise<void> {
    guardSession(this.#kernel, caller)
    if (!this.#policy.changesNamed().has(change)) return
    this.#kernel.commit((sql, now) => saveKnownPhases(sql, now, { change, present }))
    this.#policy.changed()
  }

  readonly written = (tables: Written): void => {
    if (!this.#kernel.created || !(tables.has('turns') || tables.has('policy'))) return
    if (tables.has('policy')) this.#policy.changed()
    if (this.#policy.changesNamed().size === 0) return
    const turnId = runningTurn(this.#kernel.ports.sql)?.id ?? null
    const hasBegun = turnId !== null && turnId !== this.#lookedFor
    if (hasBegun) this.#lookedFor = turnId
    if (hasBegun || tables.has('policy'))
      this.#kernel.commit((sql, now) => setDeadline(sql, 'phases', now))
  }

  readonly deadlines = { phases: (_: string, attempt: number) => this.#look(attempt) }

  async #look(attempt: number): Promise<void> {
    const changes = [...this.#policy.changesNamed()]
    const { organisationId, project } = this.#kernel.session()
    // The first one is 0.
    const mayFail = attempt + 1 < maxAttempts
    const asked = presentPhasesByChange(
      this.#kernel.ports.db(),
      { organisationId, project },
      changes,
    )
    const found = mayFail ? await asked : await asked.catch(() => null)
    this.#kernel.commit((sql, now) => {
      if (found)
        for (const change of changes)
          saveKnownPhases(sql, now, { change, present: found.get(change) ?? [] })
      clearTakenDeadline(sql, 'phases')
    })
    this.#policy.changed()
  }
}
