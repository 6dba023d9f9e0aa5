import type { RoomOf } from '../../actor/room.ts'
import type { SessionPorts } from '../record/ports.ts'
import type { Session } from '../../../contract/session.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { WarmState } from '../../organisation/record/api.ts'
import type { Sql } from '../../ports.ts'
import type { CreateSession } from '../record/record.ts'
import { guardSession, type SessionCaller } from '../record/guards.ts'
import { markSessionErased } from '../steps/erase.ts'
import { endGeneration } from '../generations/generations.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { outsideOrganisation } from '../record/outside.ts'
import { isPulseSilent, stopPulse } from '../generations/pulse.ts'
import type { NewSession, SessionRecord } from '../record/record.ts'
import { fitsWarm, openWarm } from './fit.ts'

export interface WarmApi {
  /**
   * Becomes the session of this creation, whose id is its claim: asked again with the same one, it is the same session.
   * Null: it cannot be that session, or not any more, and ends.
   */
  adopt(create: CreateSession): Promise<Session | null>
  /** The organisation's own. Ends it unless somebody has got it; true: it is gone. */
  drop(caller: SessionCaller, reason: string): Promise<boolean>
}

/** What a session that is claimed must be, and what it has become. */
export interface Claiming {
  plan(ports: SessionPorts, create: CreateSession): Promise<NewSession>
  /** It has another policy now. */
  adopted(): void
  view(): Session
}

/**
 * A session that was booted before anybody asked for it. Until it is claimed it belongs to its pool, which is told of
 * every change; whoever claims it first gets it, and nobody else.
 */
export class Warm implements RoomOf<WarmApi> {
  readonly api: WarmApi = this
  readonly #kernel: SessionKernel
  readonly #claiming: Claiming

  constructor(kernel: SessionKernel, claiming: Claiming) {
    this.#kernel = kernel
    this.#claiming = claiming
  }

  /** Decided once, in one commit: whoever asks later, or at the same time, hears the same. */
  async adopt(create: CreateSession): Promise<Session | null> {
    if (guardSession(this.#kernel, create).status !== 'warm') return this.#claimedBy(create)
    const plan = await this.#claiming.plan(this.#kernel.ports, create)
    const session = guardSession(this.#kernel, create)
    if (session.status !== 'warm') return this.#claimedBy(create)
    // A machine that has just died may still look ready.
    const isAlive = session.sandboxState === 'ready' && !isPulseSilent(this.#kernel.ports)
    const adopted = this.#kernel.commit((sql, now) => {
      const fits = isAlive && fitsWarm(sql, create, plan)
      if (fits) openWarm(sql, now, create, plan)
      else drop(sql, now, session, 'It does not fit the session that claimed it')
      return fits
    })
    if (!adopted) return null
    this.#claiming.adopted()
    await this.#kernel.crash('session.created')
    return this.#claiming.view()
  }

  #claimedBy({ sessionId }: CreateSession): Session | null {
    return this.#kernel.session().claimedFor === sessionId ? this.#claiming.view() : null
  }

  async drop(caller: SessionCaller, reason: string): Promise<boolean> {
    const session = guardSession(this.#kernel, caller)
    if (session.status !== 'warm') return session.claimedFor === null
    this.#kernel.commit((sql, now) => drop(sql, now, session, reason))
    return true
  }

  readonly deadlines = {
    warm: () => this.#onChange(),
    'warm.end': () => this.#onEnd(),
  }

  /** Repeated until the pool knows. What has changed meanwhile is told again: this word may have come after that one. */
  async #onChange(): Promise<void> {
    const state = stateOf(this.#kernel.session())
    await this.#tell(state)
    this.#kernel.commit((sql, now) => {
      const session = this.#kernel.session()
      if (stateOf(session) !== state) return setDeadline(sql, 'warm', now)
      clearDeadline(sql, 'warm')
      if (state === 'ended' && session.status === 'warm')
        drop(sql, now, session, session.sandboxReason ?? 'Its sandbox has ended')
    })
  }

  /** Its lifetime is about to end. First the pool: once it has forgotten this one, nobody can claim it any more. */
  async #onEnd(): Promise<void> {
    if (this.#kernel.session().status === 'warm') await this.#tell('ended')
    this.#kernel.commit((sql, now) => {
      clearDeadline(sql, 'warm.end')
      const session = this.#kernel.session()
      if (session.status === 'warm') drop(sql, now, session, 'Its lifetime is about to end')
    })
  }

  async #tell(state: WarmState): Promise<void> {
    const { id, sandboxReason } = this.#kernel.session()
    await outsideOrganisation(this.#kernel).pools.changed(id, state, sandboxReason)
  }
}

function stateOf({ status, sandboxState, claimedFor }: SessionRecord): WarmState {
  if (claimedFor !== null) return 'claimed'
  if (status !== 'warm') return 'ended'
  if (sandboxState === 'ready') return 'ready'
  const over = ['lost', 'stopping', 'stopped', 'failed']
  return over.includes(sandboxState) ? 'ended' : 'starting'
}

/** Nobody has ever seen it, so nothing of it stays. */
function drop(sql: Sql, now: number, { generation }: SessionRecord, reason: string): void {
  stopPulse(sql)
  for (const name of ['warm', 'warm.end', 'sandbox.start'] as const) clearDeadline(sql, name)
  endGeneration(sql, generation, now, { outcome: 'stopped', reason })
  markSessionErased(sql, now)
}
