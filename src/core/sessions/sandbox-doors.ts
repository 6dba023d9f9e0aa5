import { AppError } from '../../contract/error.ts'
import type { Manifest, SandboxEnv } from '../../contract/manifest.ts'
import { createSecretFinder } from '../redaction/finder.ts'
import type { CallAnswer, SandboxApi, ToolCallInput } from './api.ts'
import type { CallRunner } from './call-runner.ts'
import type { SandboxCaller } from './caller.ts'
import { callerSession, openSandboxSession } from './doors.ts'
import { sandboxEnv } from './env.ts'
import type { GateDesk } from './gate-desk.ts'
import type { Kernel } from './kernel.ts'
import { sessionManifest } from './manifest.ts'
import { openValues } from './secrets.ts'
import { addModelUsage, type ModelUsage } from './usage.ts'

/** What the sandbox itself may ask of its session. Each door refuses an old generation and another organisation. */
export class SandboxDoors implements SandboxApi {
  readonly #kernel: Kernel
  readonly #calls: CallRunner
  readonly #gate: GateDesk

  constructor(kernel: Kernel, calls: CallRunner, gate: GateDesk) {
    this.#kernel = kernel
    this.#calls = calls
    this.#gate = gate
  }

  async authoriseSandbox(sandbox: SandboxCaller): Promise<void> {
    openSandboxSession(this.#kernel, sandbox)
  }

  async admitUpload(sandbox: SandboxCaller, bytes: Uint8Array): Promise<void> {
    openSandboxSession(this.#kernel, sandbox)
    const found = createSecretFinder(await this.#kernel.knownSecrets())().push(bytes)
    if (found !== null) throw new AppError('unprocessable', `Secret "${found}" is in the file`)
  }

  async manifest(sandbox: SandboxCaller): Promise<Manifest> {
    const session = openSandboxSession(this.#kernel, sandbox)
    const manifest = await sessionManifest(this.#kernel.ports, session)
    this.#gate.placeIs(manifest)
    return manifest
  }

  callTool(sandbox: SandboxCaller, call: ToolCallInput): Promise<CallAnswer> {
    return this.#calls.call(sandbox, call)
  }

  async sandboxEnv(sandbox: SandboxCaller): Promise<SandboxEnv> {
    const { envFiles } = openSandboxSession(this.#kernel, sandbox)
    const { sql, crypto } = this.#kernel.ports
    return sandboxEnv(await openValues(sql, crypto), envFiles)
  }

  async addModelUsage(sandbox: SandboxCaller, usage: ModelUsage): Promise<void> {
    // Also of a sandbox that was replaced meanwhile: it was let in when the call began, and the call was paid for.
    callerSession(this.#kernel, sandbox)
    this.#kernel.commit((sql) => addModelUsage(sql, usage))
  }
}
