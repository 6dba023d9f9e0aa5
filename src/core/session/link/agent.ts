import { AppError } from '../../../contract/error.ts'
import type { Manifest, SandboxEnv } from '../../../contract/manifest.ts'
import { createSecretFinder } from '../../redaction/finder.ts'
import type { SandboxCaller } from '../record/caller.ts'
import { openSandboxSession } from '../record/guards.ts'
import { sandboxEnv } from '../env/requests.ts'
import type { Gate } from '../gate/gate.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { sessionManifest } from '../manifest/manifest.ts'
import { openValues } from '../record/secrets.ts'
import { expectNames } from '../calls/uploads.ts'

export interface AgentApi {
  authorise(sandbox: SandboxCaller): Promise<void>
  /** Refuses content that holds a secret: evidence is for others to read. */
  admitUpload(sandbox: SandboxCaller, bytes: Uint8Array): Promise<void>
  manifest(sandbox: SandboxCaller): Promise<Manifest>
  env(sandbox: SandboxCaller): Promise<SandboxEnv>
}

/** What the agent in the sandbox may ask of its session, by HTTPS. Each refuses an old generation and another organisation. */
export class Agent implements AgentApi {
  readonly #kernel: SessionKernel
  readonly #gate: Gate

  constructor(kernel: SessionKernel, gate: Gate) {
    this.#kernel = kernel
    this.#gate = gate
  }

  async authorise(sandbox: SandboxCaller): Promise<void> {
    openSandboxSession(this.#kernel, sandbox)
  }

  async admitUpload(sandbox: SandboxCaller, bytes: Uint8Array): Promise<void> {
    openSandboxSession(this.#kernel, sandbox)
    const found = createSecretFinder(await this.#kernel.knownSecrets())().push(bytes)
    if (found !== null) throw new AppError('unprocessable', `Secret "${found}" is in the file`)
    openSandboxSession(this.#kernel, sandbox)
    this.#kernel.commit(expectNames)
  }

  async manifest(sandbox: SandboxCaller): Promise<Manifest> {
    const session = openSandboxSession(this.#kernel, sandbox)
    const manifest = await sessionManifest(this.#kernel.ports, session)
    this.#gate.placeIs(manifest)
    return manifest
  }

  async env(sandbox: SandboxCaller): Promise<SandboxEnv> {
    const { envFiles } = openSandboxSession(this.#kernel, sandbox)
    const { sql, crypto } = this.#kernel.ports
    return sandboxEnv(await openValues(sql, crypto), envFiles)
  }
}
