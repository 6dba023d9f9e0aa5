import { AppError } from '../../../contract/error.ts'
import { type Injection, injectable, maxUpstreams } from '../../../contract/secret.ts'
import type { Upstream } from '../../../contract/manifest.ts'
import type { RoomOf } from '../../actor/room.ts'
import type { KnownSecret } from '../../redaction/redaction.ts'
import type { Sql } from '../../ports.ts'
import type { SandboxCaller } from '../record/caller.ts'
import { guardOpenSession, guardOpenSandbox } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { messageOf, outsideOrganisation } from '../record/outside.ts'
import { openSecrets, type OpenValue, sealedSecrets } from '../record/secrets.ts'
import { runningTurn } from '../turns/rows.ts'

/** What is added to a request, and must not be in what the sandbox is answered. For the control plane alone. */
export interface UpstreamCredential extends KnownSecret {
  inject: Injection
}

export interface UpstreamsApi {
  /** `host` as the secret's mark spells it. */
  admit(sandbox: SandboxCaller, host: string): Promise<UpstreamCredential[]>
}

/**
 * The servers that this session's sandbox reaches by the control plane, which adds a secret to each request: the sandbox
 * can use the secret and never has it. A request passes while a turn runs and no kill switch is on; whether the host may
 * be reached at all is asked by the agent, as for every other. The upstream route asks before each request.
 */
export class Upstreams implements RoomOf<UpstreamsApi>, UpstreamsApi {
  readonly api: UpstreamsApi = this
  readonly #kernel: SessionKernel

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
  }

  async admit(sandbox: SandboxCaller, host: string): Promise<UpstreamCredential[]> {
    this.#mustMay(sandbox, host)
    const { sql, crypto } = this.#kernel.ports
    const sealed = sealedSecrets(sql).filter(({ inject }) => inject?.hosts.includes(host))
    const [values] = await Promise.all([openSecrets(sealed, crypto), this.#mustNotBeKilled()])
    // Once more: much can have happened meanwhile.
    this.#mustMay(sandbox, host)
    return credentialsFrom(values)
  }

  #mustMay(sandbox: SandboxCaller, host: string): void {
    guardOpenSession(guardOpenSandbox(this.#kernel, sandbox))
    const { sql } = this.#kernel.ports
    if (!listUpstreams(sql).some((upstream) => upstream.host === host))
      throw new AppError('not_found', `This session has no secret for "${host}"`)
    const turn = runningTurn(sql)
    if (!turn || turn.abort_requested)
      throw new AppError('forbidden', `Cannot reach "${host}": no turn is running`)
  }

  async #mustNotBeKilled(): Promise<void> {
    const { firewall } = outsideOrganisation(this.#kernel)
    const killed = await firewall.killReason().catch((error: unknown) => {
      const why = messageOf(error)
      throw new AppError('upstream_unavailable', `Cannot ask for the kill switch: ${why}`)
    })
    if (killed !== null) throw new AppError('forbidden', `Cannot reach a host: ${killed}`)
  }
}

/** By host. */
export function listUpstreams(sql: Sql): Upstream[] {
  const byHost = new Map<string, Upstream>()
  for (const { key, inject } of sealedSecrets(sql))
    for (const [n, host] of (inject?.hosts ?? []).entries()) {
      const { secrets, npm } = byHost.get(host) ?? { secrets: [], npm: [] }
      const scopes = n === 0 && inject?.npm !== undefined ? [...npm, inject.npm] : npm
      byHost.set(host, { host, secrets: [...secrets, key], npm: scopes })
    }
  return [...byHost.values()].toSorted((a, b) => (a.host < b.host ? -1 : 1)).slice(0, maxUpstreams)
}

function credentialsFrom(values: readonly OpenValue[]): UpstreamCredential[] {
  return values.flatMap(({ key, value, inject }) => {
    if (!inject) return []
    if (!injectable.test(value))
      throw new AppError('unprocessable', `Secret "${key}" cannot be put into a header`)
    return [{ name: key, value, inject }]
  })
}
