import type { SnapshotInfo } from '../ports.ts'
import { envFilePath } from './env.ts'
import type { Kernel } from './kernel.ts'
import { messageOf, providerOf } from './outside.ts'
import type { SessionRecord } from './record.ts'
import { orderSnapshot, storeSnapshot } from './snapshots.ts'

/** Longer than a provider's own limit for it. */
export const snapshotMs = 150_000

/** Snapshots that the session takes by itself: before sleep, and before an end that it knows of. */
export class Saving {
  readonly #kernel: Kernel
  #atWork = false

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /**
   * Gives a step that stores it, for the commit in which the caller decides what follows; or says why there is none.
   * Each try has its own id: under an old one the provider would answer with the files of that time.
   */
  async take(seen: SessionRecord, message: string): Promise<Taken> {
    if (this.#atWork) return { ok: false, reason: 'another snapshot is being taken' }
    this.#atWork = true
    const id = `snp_${this.#kernel.ports.crypto.random(20)}`
    this.#kernel.commit((sql) => orderSnapshot(sql, id, 'session'))
    try {
      const { bytes } = await this.#ask(seen, id)
      return { ok: true, id, bytes, store: () => this.#store(seen, { id, bytes, message }) }
    } catch (error) {
      await this.#kernel.openSecrets()
      return { ok: false, reason: this.#kernel.redact(messageOf(error)) }
    } finally {
      this.#atWork = false
    }
  }

  async #ask(seen: SessionRecord, snapshotId: string): Promise<SnapshotInfo> {
    const { id: sessionId, organisationId, generation, envFiles } = seen
    const secrets = await this.#kernel.knownSecrets()
    const generatedFiles = envFiles.map(envFilePath)
    const provider = await providerOf(this.#kernel)
    const late = this.#kernel.ports.host.sleep(snapshotMs).then(() => {
      throw new Error(`Not taken within ${snapshotMs / 1000} s`)
    })
    // Whichever comes second is nobody's concern any more.
    late.catch(() => undefined)
    const input = { snapshotId, organisationId, sessionId, generation, secrets, generatedFiles }
    return Promise.race([provider.snapshot(input), late])
  }

  /** Inside a commit. */
  #store(seen: SessionRecord, taken: { id: string; bytes: number; message: string }): void {
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

export type Taken =
  | { ok: true; id: string; bytes: number; store(): void }
  | { ok: false; reason: string }
