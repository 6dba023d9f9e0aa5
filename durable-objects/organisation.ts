import { DurableObject } from 'cloudflare:workers'
import { ledgerShard, ledgerShards } from '../src/core/ledger/ledger.ts'
import { type OrganisationApi, organisationDoors } from '../src/core/organisations/api.ts'
import { OrganisationActor } from '../src/core/organisations/organisation.ts'
import { addDoors } from './doors.ts'
import { type Env, partsOf } from './env.ts'
import { durableSql } from './sqlite.ts'

// oxlint-disable-next-line no-unsafe-declaration-merging -- addDoors puts every one of them on the prototype
export interface OrganisationObject extends OrganisationApi {}
/** What must be counted or claimed across the sessions of one organisation. */
// oxlint-disable-next-line no-unsafe-declaration-merging -- as above
export class OrganisationObject extends DurableObject<Env> {
  static {
    addDoors<OrganisationApi, OrganisationObject>(
      this.prototype,
      organisationDoors,
      (object) => object.#actor,
    )
  }
  readonly #actor: OrganisationActor

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    const parts = partsOf(env)
    this.#actor = new OrganisationActor({
      ...parts,
      id: nameOf(ctx.id),
      sql: durableSql(ctx.storage),
      host: {
        arm: (at) => void (at === null ? ctx.storage.deleteAlarm() : ctx.storage.setAlarm(at)),
      },
      now: () => Date.now(),
      session: (id) => env.SESSION.getByName(id),
      organisation: (id) => env.ORGANISATION.getByName(id),
      ledger: (id) => env.LEDGER.getByName(`ledger-${ledgerShard(id, ledgerShards)}`),
    })
  }

  override async alarm(): Promise<void> {
    // Not awaited: a slow provider must not hold up the other deadlines. Each comes back by itself if it is lost.
    this.ctx.waitUntil(this.#actor.runDue())
  }
}

/** The organisation's id: the platform keeps the name under which an object was asked for, also for its alarms. */
function nameOf(id: DurableObjectId): string {
  if (id.name === undefined) throw new Error('Cannot open an organisation: it has no name')
  return id.name
}
