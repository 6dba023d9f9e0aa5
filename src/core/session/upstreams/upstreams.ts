import { AppError } from '../../../contract/error.ts'
import { type Injection, injectable, maxUpstreams } from '../../../contract/secret.ts'
import type { Upstream } from '../../../contract/manifest.ts'
import type { RoomOf } from '../../actor/room.ts'
import type { KnownSecret } from '../../redaction/redaction.ts'
import type { Sql } from '../../ports.ts'
import type { SandboxCaller } from '../record/caller.ts'
import { mustBeOpen, openSandboxSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { messageOf, organisationOf } from '../record/outside.ts'
import { openAll, type OpenValue, sealedValues } from '../record/secrets.ts'
import { runningTurn } from '../turns/rows.ts'

/** A request that may pass, and what is added to it. For the control plane alone. */
export interface AdmittedRequest {
  headers: [name: string, value: string][]
  /** Must not be in what the sandbox is answered. */
  secrets: KnownSecret[]
}

export interface UpstreamsApi {
  /** `host` as the secret's mark spells it. */
  admit(sandbox: SandboxCaller, host: string): Promise<AdmittedRequest>
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

  async admit(sandbox: SandboxCaller, host: string): Promise<AdmittedRequest> {
    this.#mustMay(sandbox, host)
    const { sql, crypto } = this.#kernel.ports
    const sealed = sealedValues(sql).filter(({ inject }) => inject?.hosts.includes(host))
    const [values] = await Promise.all([openAll(sealed, crypto), this.#mustNotBeKilled()])
    // Once more: much can have happened meanwhile.
    this.#mustMay(sandbox, host)
    return requestFor(values)
  }

  #mustMay(sandbox: SandboxCaller, host: string): void {
    mustBeOpen(openSandboxSession(this.#kernel, sandbox))
    const { sql } = this.#kernel.ports
    if (!listUpstreams(sql).some((upstream) => upstream.host === host))
      throw new AppError('not_found', `This session has no secret for "${host}"`)
    const turn = runningTurn(sql)
    if (!turn || turn.abort_requested)
      throw new AppError('forbidden', `Cannot reach "${host}": no turn is running`)
  }

  async #mustNotBeKilled(): Promise<void> {
    const { firewall } = organisationOf(this.#kernel)
    const killed = await firewall.killReason().catch((error: unknown) => {
      const why = messageOf(error)
      throw new AppError('upstream_unavailable', `Cannot ask for the kill switch: ${why}`)
    })
    if (killed !== null) throw new AppError('forbidden', `Cannot reach a host: ${killed}`)
  }
}

/** By host. If two secrets want the same header, the first name counts. */
export function listUpstreams(sql: Sql): Upstream[] {
  const byHost = new Map<string, Upstream>()
  for (const { key, inject } of sealedValues(sql))
    for (const [n, host] of (inject?.hosts ?? []).entries()) {
      const { secrets, npm } = byHost.get(host) ?? { secrets: [], npm: [] }
      const scopes = n === 0 && inject?.npm !== undefined ? [...npm, inject.npm] : npm
      byHost.set(host, { host, secrets: [...secrets, key], npm: scopes })
    }
  return [...byHost.values()].toSorted((a, b) => (a.host < b.host ? -1 : 1)).slice(0, maxUpstreams)
}

function requestFor(values: readonly OpenValue[]): AdmittedRequest {
  const headers = new Map<string, string>()
  const secrets: KnownSecret[] = []
  for (const { key, value, inject } of values) {
    if (!inject) continue
    if (!injectable.test(value))
      throw new AppError('unprocessable', `Secret "${key}" cannot be put into a header`)
    secrets.push({ name: key, value })
    if (headers.has(inject.header)) continue
    const text = headerValue(inject, value)
    headers.set(inject.header, text)
    secrets.push({ name: key, value: text })
  }
  return { headers: [...headers], secrets }
}

function headerValue({ header, scheme, user }: Injection, value: string): string {
  const how = scheme ?? (header === 'authorization' ? 'bearer' : 'plain')
  if (how === 'plain') return value
  if (how === 'bearer') return `Bearer ${value}`
  return `Basic ${btoa(`${user ?? 'x-access-token'}:${value}`)}`
}
