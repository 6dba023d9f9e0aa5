import { AppError } from '../../../contract/error.ts'
import type { PinnedFolder } from '../../../contract/ability-folder.ts'
import type { Manifest, SandboxEnv } from '../../../contract/manifest.ts'
import type { RoomOf } from '../../actor/room.ts'
import { createSecretFinder } from '../../redaction/finder.ts'
import type { SandboxCaller } from '../record/caller.ts'
import { executionFiles } from '../abilities/execution-files.ts'
import { hasExecutionCopy } from '../executions/rows.ts'
import { guardOpenSandbox } from '../record/guards.ts'
import { requestedSandboxEnv } from '../env/requests.ts'
import type { Gate } from '../gate/gate.ts'
import { mayRenew } from '../generations/renewal.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { sessionManifest } from '../manifest/manifest.ts'
import { openValues } from '../record/secrets.ts'
import type { Uploads } from '../calls/uploads.ts'

export interface AgentApi {
  /** `expiredAt`: when its token ended, for one that comes to be given another. */
  authorise(sandbox: SandboxCaller, expiredAt?: number | null): Promise<void>
  /** Refuses content that holds a secret, since evidence is for others to read, and what is too much. */
  admitUpload(sandbox: SandboxCaller, sha256: string, bytes: Uint8Array): Promise<void>
  manifest(sandbox: SandboxCaller): Promise<Manifest>
  env(sandbox: SandboxCaller): Promise<SandboxEnv>
  /** Of an ability that an execution of this session runs, as it was when it began. */
  abilityFolder(sandbox: SandboxCaller, hash: string): Promise<PinnedFolder>
}

/**
 * What the agent in the sandbox may ask of its session by HTTPS, beside the link: its manifest, its env values, uploads, and
 * whether it is fenced. Each refuses an old generation and another organisation. The routes under `/sandbox` call it.
 */
export class Agent implements RoomOf<AgentApi> {
  readonly api: AgentApi = this
  readonly #kernel: SessionKernel
  readonly #gate: Gate
  readonly #uploads: Uploads

  constructor(kernel: SessionKernel, gate: Gate, uploads: Uploads) {
    this.#kernel = kernel
    this.#gate = gate
    this.#uploads = uploads
  }

  async authorise(sandbox: SandboxCaller, expiredAt: number | null = null): Promise<void> {
    guardOpenSandbox(this.#kernel, sandbox)
    const { sql, now } = this.#kernel.ports
    if (expiredAt === null || mayRenew(sql, now(), expiredAt)) return
    throw new AppError('token_expired', 'This token ended more than an hour ago: it is not renewed')
  }

  async admitUpload(sandbox: SandboxCaller, sha256: string, bytes: Uint8Array): Promise<void> {
    guardOpenSandbox(this.#kernel, sandbox)
    const found = createSecretFinder(await this.#kernel.knownSecrets())().push(bytes)
    if (found !== null) throw new AppError('unprocessable', `Secret "${found}" is in the file`)
    await this.#uploads.admit(sandbox, sha256, bytes.length)
  }

  async manifest(sandbox: SandboxCaller): Promise<Manifest> {
    const session = guardOpenSandbox(this.#kernel, sandbox)
    const manifest = await sessionManifest(this.#kernel.ports, session)
    this.#gate.placeIs(manifest)
    return manifest
  }

  async env(sandbox: SandboxCaller): Promise<SandboxEnv> {
    const { envFiles } = guardOpenSandbox(this.#kernel, sandbox)
    const { sql, crypto } = this.#kernel.ports
    return requestedSandboxEnv(await openValues(sql, crypto), envFiles)
  }

  async abilityFolder(sandbox: SandboxCaller, hash: string): Promise<PinnedFolder> {
    const { organisationId } = guardOpenSandbox(this.#kernel, sandbox)
    const { ports } = this.#kernel
    if (!hasExecutionCopy(ports.sql, hash))
      throw new AppError('not_found', 'This session runs no such ability')
    return { files: await executionFiles(ports, organisationId, hash) }
  }
}
