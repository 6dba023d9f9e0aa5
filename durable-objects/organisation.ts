import { DurableObject } from 'cloudflare:workers'
import { OrganisationActor } from '../src/core/organisation/organisation.ts'
import { type Env, ledgerOf, organisationApi, bindPartsOnce, sessionApi } from './bindings.ts'
import { answerCarried } from './carried.ts'
import { Opened } from './opened.ts'
import { durableSqlite } from './sqlite.ts'

/**
 * What must be counted or claimed across the sessions of one organisation, or of the deployment. It decides nothing: it carries
 * calls and alarms to its actor. The Worker calls it for creations and limits, and sessions and eval runs for what they spend.
 */
export class OrganisationObject extends DurableObject<Env> {
  readonly #opened: Opened<OrganisationActor>

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    const create = () =>
      new OrganisationActor({
        ...bindPartsOnce(env),
        id: nameOf(ctx.id),
        sql: durableSqlite(ctx.storage),
        host: {
          arm: (at) => void (at === null ? ctx.storage.deleteAlarm() : ctx.storage.setAlarm(at)),
        },
        now: () => Date.now(),
        session: (id) => sessionApi(env, id),
        organisation: (id) => organisationApi(env, id),
        ledger: (id) => ledgerOf(env, id),
      })
    this.#opened = new Opened(ctx, create)
  }

  /** Every call of the organisation's Api comes by here. */
  async ask(call: string, bytes?: Uint8Array): Promise<string | undefined> {
    return answerCarried(this.#opened.actor.api, call, bytes)
  }

  override alarm(): Promise<void> {
    return this.#opened.alarm()
  }
}

/** The organisation's id: the platform keeps the name under which an object was asked for, also for its alarms. */
function nameOf(id: DurableObjectId): string {
  if (id.name === undefined) throw new Error('Cannot open an organisation: it has no name')
  return id.name
}
