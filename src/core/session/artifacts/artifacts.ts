import type { Artifact } from '../../../contract/artifact.ts'
import type { RoomOf } from '../../actor/room.ts'
import type { Caller, Listed, Page } from '../record/caller.ts'
import { guardSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { listArtifacts, loadArtifactRow } from './rows.ts'

export interface ArtifactsApi {
  list(caller: Caller, page: Page): Promise<Listed<Artifact>>
  get(caller: Caller, artifactId: string): Promise<Artifact>
}

/**
 * The evidence that calls and operations have stored: lists and single rows for the routes of artifacts. Rows are written
 * by `storeArtifacts` in the commit of the call or operation. The content itself is in the blob store, by its hash.
 */
export class Artifacts implements RoomOf<ArtifactsApi> {
  readonly api: ArtifactsApi = this
  readonly #kernel: SessionKernel

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
  }

  async list(caller: Caller, page: Page): Promise<Listed<Artifact>> {
    guardSession(this.#kernel, caller)
    return listArtifacts(this.#kernel.ports.sql, page)
  }

  async get(caller: Caller, artifactId: string): Promise<Artifact> {
    guardSession(this.#kernel, caller)
    return loadArtifactRow(this.#kernel.ports.sql, artifactId)
  }
}
