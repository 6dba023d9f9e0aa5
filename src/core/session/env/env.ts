import type { EnvRequest, EnvSubmitted } from '../../../contract/env.ts'
import type { RoomOf } from '../../actor/room.ts'
import type { Listed } from '../record/caller.ts'
import type { Caller, Page } from '../record/caller.ts'
import type { Commands } from '../commands/commands.ts'
import { guardAttempt, guardSession, guardOpenSession } from '../record/guards.ts'
import { listEnvRequests, answerEnvRequests } from './requests.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { envKeys, type SealedValue } from '../record/secrets.ts'

/** How long a caller waits for the sandbox before it gets the answer without it. */
const patienceMs = 10_000

export interface EnvApi {
  requests(caller: Caller, page: Page): Promise<Listed<EnvRequest>>
  /**
   * Values arrive sealed. Says whether the sandbox has them already. Keys that exist stay as they are unless they are to
   * be replaced.
   */
  submit(caller: Caller, values: SealedValue[], replace?: boolean): Promise<EnvSubmitted['sandbox']>
  /** The names of all values that the session holds. */
  keys(caller: Caller): Promise<string[]>
}

/**
 * What the agent asks people for, and what they give. A value is stored, sealed, before the sandbox is told to fetch it, so
 * a sandbox that comes later has it too. The tool `request_env_variables` and the routes of env values call it.
 */
export class EnvValues implements RoomOf<EnvApi> {
  readonly api: EnvApi = this
  readonly #kernel: SessionKernel
  readonly #commands: Commands

  constructor(kernel: SessionKernel, commands: Commands) {
    this.#kernel = kernel
    this.#commands = commands
  }

  async requests(caller: Caller, page: Page): Promise<Listed<EnvRequest>> {
    guardSession(this.#kernel, caller)
    return listEnvRequests(this.#kernel.ports.sql, page)
  }

  async keys(caller: Caller): Promise<string[]> {
    guardSession(this.#kernel, caller)
    return envKeys(this.#kernel.ports.sql)
  }

  /** Stored first: if the sandbox cannot be reached now, the command waits for it. */
  async submit(
    caller: Caller,
    values: SealedValue[],
    replace = false,
  ): Promise<EnvSubmitted['sandbox']> {
    const session = guardSession(this.#kernel, caller)
    guardOpenSession(session)
    guardAttempt(this.#kernel, caller)
    const { host, crypto } = this.#kernel.ports
    this.#kernel.commit((sql, now) => answerEnvRequests(sql, now, values, replace))
    this.#kernel.secretsChanged()
    if (session.provider === 'none') return 'none'
    const written = this.#commands.ask('env', `env_${crypto.random(20)}`, {}).then(
      () => 'written' as const,
      () => 'pending' as const,
    )
    return Promise.race([written, host.sleep(patienceMs).then(() => 'pending' as const)])
  }
}
