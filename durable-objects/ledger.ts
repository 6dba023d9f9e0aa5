import { DurableObject } from 'cloudflare:workers'
import { LedgerActor } from '../src/core/ledger/ledger.ts'
import type { Ledger, LedgerAppend } from '../src/core/ports.ts'
import { type Env, boundParts } from './bindings.ts'
import { durableSql } from './sqlite.ts'

/** A batching writer to libSQL. Each session always uses the same one. */
export class LedgerObject extends DurableObject<Env> implements Ledger {
  readonly #actor: LedgerActor

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.#actor = new LedgerActor({
      ...boundParts(env),
      sql: durableSql(ctx.storage),
      now: () => Date.now(),
    })
  }

  append(input: LedgerAppend) {
    return this.#actor.append(input)
  }
  status(organisationId: string | null) {
    return this.#actor.status(organisationId)
  }
}
