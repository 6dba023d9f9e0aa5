import type { SnapshotInfo } from '../../ports.ts'
import { envFilePath } from '../env/requests.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { messageOf, outsideProvider } from '../record/outside.ts'
import type { SessionRecord } from '../record/record.ts'
import { orderSnapshot, storeSnapshot } from './rows.ts'

/** Longer than a provider's own limit for it. */
export const snapshotMs = 150_000

/**
 * Takes a snapshot of the session's sandbox by its provider, bounded in time, without the secrets that the session knows.
 * What was taken is stored by the caller, in the commit that decides what becomes of the sandbox. Called before sleep,
 * before a stop, after a loss, and every ten minutes.
 */
export class Saving {
  readonly #kernel: SessionKernel
  /** One at a time: who comes meanwhile wants the files as they are afterwards. */
  #before: Promise<unknown> = Promise.resolve()

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
  }

  /**
   * Gives a step that stores it, for the commit in which the caller decides what follows; or says why there is none.
   * Each try has its own id: under an old one the provider would answer with the files of that time.
   */
  take(seen: SessionRecord, message: string, withinMs = snapshotMs): Promise<Taken> {
    const late = this.#kernel.ports.host.sleep(withinMs).then(() => 'late' as const)
    const taken = this.#before.then(() => this.#take(seen, message, withinMs, late))
    this.#before = Promise.race([taken, late]).catch(() => undefined)
    return taken
  }

  async #take(
    seen: SessionRecord,
    message: string,
    withinMs: number,
    late: Promise<'late'>,
  ): Promise<Taken> {
    const id = `snp_${this.#kernel.ports.crypto.random(20)}`
    const begunAt = this.#kernel.ports.now()
    try {
      this.#kernel.commit((sql) => orderSnapshot(sql, id, 'session'))
      const info = await Promise.race([this.#ask(seen, id), late])
      if (info === 'late') throw new Error(`Not taken within ${withinMs / 1000} s`)
      const { bytes } = info
      const store: Stored['store'] = (takenAt) =>
        this.#store(seen, { id, bytes, message, ...(takenAt === undefined ? {} : { takenAt }) })
      return { ok: true, id, bytes, begunAt, store }
    } catch (error) {
      await this.#kernel.openSecrets()
      return { ok: false, reason: this.#kernel.hide(messageOf(error)) }
    }
  }

  async #ask(seen: SessionRecord, snapshotId: string): Promise<SnapshotInfo> {
    const { id: sessionId, organisationId, generation, envFiles } = seen
    const secrets = await this.#kernel.knownSecrets()
    const generatedFiles = envFiles.map(envFilePath)
    const provider = await outsideProvider(this.#kernel)
    const input = { snapshotId, organisationId, sessionId, generation, secrets, generatedFiles }
    return provider.snapshot(input)
  }

  /** Inside a commit. */
  #store(
    seen: SessionRecord,
    taken: { id: string; bytes: number; message: string; takenAt?: number },
  ): void {
    const { sql, now } = this.#kernel.ports
    storeSnapshot(sql, now(), {
      ...taken,
      target: 'session',
      generation: seen.generation,
      configurationId: seen.configurationId,
      provider: seen.provider,
      operationId: `op_${taken.id.slice(4)}`,
    })
  }
}

interface Stored {
  ok: true
  id: string
  bytes: number
  begunAt: number
  /** As of `begunAt` if work went on meanwhile: what was done since then may be missing in it. Else as of now. */
  store: (takenAt?: number) => void
}

export type Taken = Stored | { ok: false; reason: string }

/** So much work at most is lost with a sandbox that vanishes. */
export const saveEveryMs = 10 * 60_000
