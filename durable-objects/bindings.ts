import type { EvalRunApi } from '../src/core/eval-run/eval-run.ts'
import type { OrganisationApi } from '../src/core/organisation/organisation.ts'
import { ledgerShard, ledgerShards } from '../src/core/ledger/ledger.ts'
import type { Ledger, LedgerAnswer, LedgerStatus } from '../src/core/ports.ts'
import { remoteApi } from '../src/core/actor/remote.ts'
import type { SessionApi } from '../src/core/session/session.ts'
import type { Caller } from '../src/core/session/record/caller.ts'
import { type ConfigRead, notConfigured, readConfig } from '../src/config.ts'
import { createParts, type Parts } from '../src/parts.ts'
import { type Asked, carryTo } from './carried.ts'

/** Typed by what the objects offer, not by their classes, which need this very file. */
type Objects<T> = DurableObjectNamespace<T & Rpc.DurableObjectBranded>

export interface Env {
  SESSION: Objects<Asked & { checkWatcher(caller: Caller): Promise<void> }>
  ORGANISATION: Objects<Asked>
  /** Absent: the deployment has not been given it yet, and runs no evals. */
  EVAL?: Objects<Asked>
  LEDGER: Objects<{
    append(input: string): Promise<string>
    status(organisationId: string | null): Promise<LedgerStatus>
  }>
}

/**
 * The ids of objects by their names, for whoever asks an object. A name's id is a keyed hash, two thirds of what a stub
 * costs, and the same for every request: it is kept, until there are too many and all are forgotten.
 */
class ObjectIds {
  readonly #known = new Map<string, DurableObjectId>()

  idOf(objects: Pick<DurableObjectNamespace, 'idFromName'>, name: string): DurableObjectId {
    const known = this.#known.get(name)
    if (known !== undefined) return known
    if (this.#known.size >= maxKnownIds) this.#known.clear()
    const id = objects.idFromName(name)
    this.#known.set(name, id)
    return id
  }
}
const maxKnownIds = 2000
const sessionIds = new ObjectIds()

/** What callers may ask of a session, wherever its object lives. */
export const sessionApi = (env: Env, id: string): SessionApi =>
  apiOf(() => env.SESSION.get(sessionIds.idOf(env.SESSION, id))) as SessionApi

export const organisationApi = (env: Env, id: string): OrganisationApi =>
  apiOf(() => env.ORGANISATION.getByName(id)) as OrganisationApi

/** The writer of this owner's rows. */
export const ledgerOf = (env: Env, ownerId: string): Ledger => ({
  append: async (input) => {
    const shard = env.LEDGER.getByName(`ledger-${ledgerShard(ownerId, ledgerShards)}`)
    return JSON.parse(await shard.append(JSON.stringify(input))) as LedgerAnswer
  },
})

/** Null: the deployment has no such objects. */
export function evalRunBindings(env: Env): ((id: string) => EvalRunApi) | null {
  const { EVAL } = env
  return EVAL ? (id) => apiOf(() => EVAL.getByName(id)) as EvalRunApi : null
}

const apiOf = (object: () => unknown): object => remoteApi(carryTo(object as () => Asked))

let parts: Parts | undefined

/** Once per isolate: the environment does not change under a running one, and keys are imported once. */
export function bindPartsOnce(env: Env): Parts {
  parts ??= bindParts(env)
  return parts
}

/** Throws `not_configured` while variables are missing. */
export function bindParts(env: Env): Parts {
  const { config, problems } = configOf(env)
  if (config === null) throw notConfigured(problems)
  return createParts(config)
}

export const configOf = (env: Env): ConfigRead => readConfig(textBindings(env))

function textBindings(env: Env): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}
