import type { Session } from '../../contract/session.ts'
import { clearDeadline } from '../deadlines.ts'
import type { WarmState } from '../organisations/api.ts'
import type { Sql } from '../ports.ts'
import type { CreateSession, WarmApi } from './api.ts'
import type { Caller } from './caller.ts'
import { planSession } from './create.ts'
import { callerSession } from './doors.ts'
import { markErased } from './erasure.ts'
import { endGeneration } from './generations.ts'
import type { Kernel } from './kernel.ts'
import { stopWatching } from './loss.ts'
import { organisationOf } from './outside.ts'
import { isSilent } from './readiness.ts'
import type { SessionRecord } from './record.ts'
import { viewSession } from './view.ts'
import { fitsWarm, openWarm } from './warm.ts'

/** A session that was booted before anybody asked for it. Until it is claimed it belongs to its pool. */
export class WarmDesk implements WarmApi {
  readonly #kernel: Kernel
  /** It has another policy now. */
  readonly #onAdopted: () => void

  constructor(kernel: Kernel, onAdopted: () => void) {
    this.#kernel = kernel
    this.#onAdopted = onAdopted
  }

  /** Decided once, in one commit: whoever asks later, or at the same time, hears the same. */
  async adopt(create: CreateSession): Promise<Session | null> {
    if (callerSession(this.#kernel, create).status !== 'warm') return this.#claimedBy(create)
    const plan = await planSession(this.#kernel.ports, create)
    const session = callerSession(this.#kernel, create)
    if (session.status !== 'warm') return this.#claimedBy(create)
    // A machine that has just died may still look ready.
    const isAlive = session.sandboxState === 'ready' && !isSilent(this.#kernel.ports)
    const adopted = this.#kernel.commit((sql, now) => {
      const fits = isAlive && fitsWarm(sql, create, plan)
      if (fits) openWarm(sql, now, create, plan)
      else drop(sql, now, session, 'It does not fit the session that claimed it')
      return fits
    })
    if (!adopted) return null
    this.#onAdopted()
    await this.#kernel.crash('session.created')
    return this.#view()
  }

  #claimedBy({ sessionId }: CreateSession): Session | null {
    return this.#kernel.session().claimedFor === sessionId ? this.#view() : null
  }

  async dropWarm(caller: Pick<Caller, 'organisationId'>, reason: string): Promise<boolean> {
    const session = callerSession(this.#kernel, caller)
    if (session.status !== 'warm') return session.claimedFor === null
    this.#kernel.commit((sql, now) => drop(sql, now, session, reason))
    return true
  }

  /** Repeated until the pool knows; what has changed meanwhile has set its own deadline. */
  async onDeadline(): Promise<void> {
    const state = stateOf(this.#kernel.session())
    await this.#tell(state)
    this.#kernel.commit((sql, now) => {
      const session = this.#kernel.session()
      if (stateOf(session) !== state) return
      clearDeadline(sql, 'warm')
      if (state === 'ended' && session.status === 'warm')
        drop(sql, now, session, session.sandboxReason ?? 'Its sandbox has ended')
    })
  }

  /** Its lifetime is about to end. First the pool: once it has forgotten this one, nobody can claim it any more. */
  async onEnd(): Promise<void> {
    if (this.#kernel.session().status === 'warm') await this.#tell('ended')
    this.#kernel.commit((sql, now) => {
      clearDeadline(sql, 'warm.end')
      const session = this.#kernel.session()
      if (session.status === 'warm') drop(sql, now, session, 'Its lifetime is about to end')
    })
  }

  async #tell(state: WarmState): Promise<void> {
    const { id, sandboxReason } = this.#kernel.session()
    await organisationOf(this.#kernel).warmChanged(id, state, sandboxReason)
  }

  #view(): Session {
    const { sql, now, host } = this.#kernel.ports
    return viewSession(sql, now(), host.agentConnected())
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
  stopWatching(sql)
  for (const name of ['warm', 'warm.end', 'sandbox.start']) clearDeadline(sql, name)
  endGeneration(sql, generation, now, { outcome: 'stopped', reason })
  markErased(sql, now)
}
