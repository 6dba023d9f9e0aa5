import { errorCodeOf, errorTable } from '../../../contract/error.ts'
import { clearDeadline, ensureDeadline, setDeadline } from '../../actor/deadlines.ts'
import type { Reservation } from '../../organisation/record/api.ts'
import type { SandboxInfo, SandboxSpec, Sql } from '../../ports.ts'
import type { Answer } from '../../../contract/ask.ts'
import { loadGeneration, noteGenerationSent } from '../generations/generations.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { nextLeaseExtension, leaseEnd } from '../generations/lease.ts'
import { loseStartingSandbox, giveUpSandbox } from '../steps/lose-sandbox.ts'
import { jitteredRetryMs } from '../../actor/jitter.ts'
import { messageOf, outsideOrganisation, outsideProvider } from '../record/outside.ts'
import { isLive } from '../record/record.ts'
import { isOver } from '../record/record.ts'
import {
  bootMs,
  changeSandboxState,
  explainSandboxState,
  lookMs,
} from '../generations/sandbox-states.ts'
import {
  addStartFailure,
  countStartTry,
  loadStart,
  maxCreates,
  putOffStart,
  setStartRetryAt,
} from '../generations/sandbox-start.ts'

/**
 * From a granted place to a sandbox that the provider knows. Each step may be the last one of its instance, so each is
 * looked up before it is repeated: there is one sandbox per generation. The deadline `sandbox.create` calls it.
 */
export class SandboxCreation {
  readonly #kernel: SessionKernel

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
  }

  /** Its deadline stays until it is done, also if it is no longer wanted: something may come of what was sent. */
  async onDeadline(generation: number, attempt: number): Promise<void> {
    if (!this.#isWanted(generation)) return this.#leave(generation)
    if (this.#lostRunner(generation) && (await this.#isSettled(generation, attempt))) return
    const reservation = await this.#reserve(generation, attempt)
    if (!reservation) return
    const mayCreate = this.#kernel.commit((sql, now) =>
      this.#granted(sql, now, generation, reservation),
    )
    if (mayCreate) await this.#send(generation, attempt)
  }

  /** Sent by an instance that is gone: it may be there. */
  #lostRunner(generation: number): boolean {
    const sentBy = loadGeneration(this.#kernel.ports.sql, generation)?.sentBy ?? null
    return sentBy !== null && sentBy !== this.#kernel.instance
  }

  /** Looking is no creation, and its place is held already: however often a runner is lost, it costs no try. */
  async #isSettled(generation: number, attempt: number): Promise<boolean> {
    try {
      const { id } = this.#kernel.session()
      const found = await (await outsideProvider(this.#kernel)).get(id, generation)
      await this.#kernel.openSecrets()
      if (found) this.#created(generation, found)
      else if (this.#isWanted(generation)) return false
      else this.#leave(generation)
    } catch (error) {
      await this.#putOff(generation, attempt, `Cannot look for the sandbox: ${messageOf(error)}`)
    }
    return true
  }

  #isWanted(generation: number): boolean {
    const session = this.#kernel.session()
    const { sandboxState, generation: current } = session
    const asked = sandboxState === 'requested' || sandboxState === 'creating'
    return isLive(session) && current === generation && asked
  }

  /** Closed, replaced or given up meanwhile, and perhaps stopped before it was there: it is stopped again. */
  #leave(generation: number): void {
    this.#kernel.commit((sql, now) => {
      clearDeadline(sql, `sandbox.create:${generation}`)
      const session = this.#kernel.session()
      const current = session.generation === generation && isLive(session)
      if (!current || isOver(session.sandboxState))
        setDeadline(sql, `sandbox.stop:${generation}`, now)
    })
  }

  /** Never created without a grant: if nobody can be asked for one, it is asked again. */
  async #reserve(generation: number, attempt: number): Promise<Reservation | null> {
    const { id: sessionId, project, provider } = this.#kernel.session()
    try {
      const claim = { sessionId, generation, project, provider }
      const reservation = await outsideOrganisation(this.#kernel).sandboxes.reserve(claim)
      if (this.#isWanted(generation)) return reservation
      this.#leave(generation)
    } catch (error) {
      await this.#putOff(
        generation,
        attempt,
        `Cannot get a place for the sandbox: ${messageOf(error)}`,
      )
    }
    return null
  }

  #granted(sql: Sql, now: number, generation: number, reservation: Reservation): boolean {
    if (!reservation.granted) return this.#refused(sql, now, generation, reservation)
    if (loadStart(sql).creates >= maxCreates) {
      this.#end(sql, generation, giveUpSandbox(sql, now, 'All creations have led to nothing'))
      return false
    }
    const endsAt = now + this.#lifetimeMs(reservation.lifetimeSeconds)
    const hasWaited = loadStart(sql).retryAt !== null
    countStartTry(sql)
    noteGenerationSent(sql, generation, {
      by: this.#kernel.instance,
      endsAt,
      leaseUntil: leaseEnd(now, endsAt),
    })
    changeSandboxState(sql, now, 'create-sent', hasWaited ? 'A place was granted' : null)
    return true
  }

  #lifetimeMs(grantedSeconds: number): number {
    const { lifetimeSeconds } = this.#kernel.session().limits
    return Math.min(grantedSeconds, lifetimeSeconds ?? grantedSeconds) * 1000
  }

  #refused(
    sql: Sql,
    now: number,
    generation: number,
    { reason, retryAt }: Extract<Reservation, { granted: false }>,
  ): false {
    if (retryAt === null) {
      this.#end(sql, generation, giveUpSandbox(sql, now, reason))
      return false
    }
    const at = Math.max(retryAt, now + 1000)
    explainSandboxState(sql, now, `Waiting for a place: ${reason}`)
    setStartRetryAt(sql, at)
    setDeadline(sql, `sandbox.create:${generation}`, at)
    // Who only waits for a place may wait for long; a start in which something has failed ends in its time.
    if (loadStart(sql).failures.length === 0) putOffStart(sql, at)
    return false
  }

  async #send(generation: number, attempt: number): Promise<void> {
    try {
      const provider = await outsideProvider(this.#kernel)
      const info = await provider.create(await this.#spec(generation))
      await this.#kernel.crash('sandbox.created')
      await this.#kernel.openSecrets()
      this.#created(generation, info)
    } catch (error) {
      await this.#failed(generation, attempt, error)
    }
  }

  async #spec(generation: number): Promise<SandboxSpec> {
    const session = this.#kernel.session()
    const { crypto, tokens, config, sql, now } = this.#kernel.ports
    const { id: sessionId, organisationId, image, limits } = session
    const own = loadGeneration(sql, generation)
    const { token } = await tokens.mint({ sessionId, organisationId, generation })
    const repository = session.repositoryUrl && {
      url: session.repositoryUrl,
      ref: session.repositoryRef,
      token: session.repositoryToken && (await crypto.unseal(session.repositoryToken)),
    }
    const leftMs = (own?.leaseUntil ?? now()) - now()
    return {
      sessionId,
      organisationId,
      generation,
      gatewayUrl: config.publicUrl,
      token,
      repository: repository || null,
      snapshotId: own?.snapshotId ?? null,
      image,
      limits: {
        memoryMb: limits.memoryMb ?? null,
        processes: limits.processes ?? null,
        lifetimeSeconds: Math.max(1, Math.ceil(leftMs / 1000)),
      },
    }
  }

  #created(generation: number, info: SandboxInfo): void {
    if (!this.#isCurrent(generation)) return this.#leave(generation)
    this.#kernel.commit((sql, now) => {
      clearDeadline(sql, `sandbox.create:${generation}`)
      if (info.state === 'exited') {
        const reason = this.#kernel.hide(info.reason ?? 'The agent ended while starting')
        this.#kernel.answer(loseStartingSandbox(sql, now, reason, info.fault ?? null))
        return
      }
      const own = loadGeneration(sql, generation)
      if (own) ensureDeadline(sql, 'sandbox.extend', nextLeaseExtension(own, now))
      if (!changeSandboxState(sql, now, 'created', null)) return
      setDeadline(sql, 'sandbox.boot', now + bootMs)
      setDeadline(sql, 'sandbox.look', now + lookMs)
    })
  }

  #isCurrent(generation: number): boolean {
    const session = this.#kernel.session()
    const live = isLive(session) && !isOver(session.sandboxState)
    return live && session.generation === generation
  }

  /** A refusal will not change by asking again: the next sandbox starts from something else. */
  async #failed(generation: number, attempt: number, error: unknown): Promise<void> {
    const reason = `Cannot create the sandbox: ${messageOf(error)}`
    const code = errorCodeOf(error)
    if (code === undefined || errorTable[code].retryable)
      return this.#putOff(generation, attempt, reason)
    await this.#kernel.openSecrets()
    // Its agent may have called, though the answer to its creation was lost.
    if (!this.#isWanted(generation)) return this.#leave(generation)
    const fault = code === 'unprocessable' ? 'user' : null
    this.#kernel.commit((sql, now) =>
      this.#end(sql, generation, loseStartingSandbox(sql, now, this.#kernel.hide(reason), fault)),
    )
  }

  /** Nothing is under way here any more that could still come into being. */
  #end(sql: Sql, generation: number, answers: Answer[]): void {
    clearDeadline(sql, `sandbox.create:${generation}`)
    this.#kernel.answer(answers)
  }

  async #putOff(generation: number, attempt: number, why: string): Promise<void> {
    await this.#kernel.openSecrets()
    const reason = this.#kernel.hide(why)
    const { id: sessionId } = this.#kernel.session()
    const { log, crypto } = this.#kernel.ports
    log('warn', 'Cannot start the sandbox', { sessionId, generation, attempt, error: reason })
    if (!this.#isWanted(generation)) return this.#leave(generation)
    this.#kernel.commit((sql, now) => {
      addStartFailure(sql, { at: now, generation, reason }, 'create')
      explainSandboxState(sql, now, reason)
      const at = now + jitteredRetryMs(attempt, crypto)
      // The last one may have come true while nobody was there to hear of it.
      const isLast = loadStart(sql).creates >= maxCreates && !this.#lostRunner(generation)
      if (isLast) this.#end(sql, generation, giveUpSandbox(sql, now, reason))
      else setDeadline(sql, `sandbox.create:${generation}`, at, attempt + 1)
    })
  }
}
