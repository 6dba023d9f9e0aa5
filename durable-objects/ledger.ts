import { DurableObject } from 'cloudflare:workers'
import { LedgerActor } from '../src/core/ledger/ledger.ts'
import type { LedgerAppend } from '../src/core/ports.ts'
import { type Env, bindPartsOnce } from './bindings.ts'
import { durableSqlite } from './sqlite.ts'

/**
 * A batching writer to libSQL. It decides nothing: it carries rows and alarms to its actor. Sessions, organisations and eval
 * runs send it their outboxes; each always uses the same one, so that its rows arrive in order.
 */
export class LedgerObject extends DurableObject<Env> {
  readonly #actor: LedgerActor

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.#actor = new LedgerActor({
      ...bindPartsOnce(env),
      sql: durableSqlite(ctx.storage),
      now: () => Date.now(),
      sleep: (ms) => scheduler.wait(ms),
    })
  }

  /** As one text each way, like every call to an object. */
  async append(input: string): Promise<string> {
    return JSON.stringify(await this.#actor.append(JSON.parse(input) as LedgerAppend))
  }
  status(organisationId: string | null) {
    return this.#actor.status(organisationId)
  }
}
