import { DurableObject } from 'cloudflare:workers'
import { OrganisationActor, type OrganisationApi } from '../src/core/organisations/organisation.ts'
import type { Env } from './env.ts'
import { durableSql } from './sqlite.ts'

/** What must be counted or claimed across the sessions of one organisation. */
export class OrganisationObject extends DurableObject<Env> implements OrganisationApi {
  readonly #actor: OrganisationActor

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env)
    this.#actor = new OrganisationActor(durableSql(ctx.storage), () => Date.now())
  }

  claimCreation(key: string, bodyHash: string, freshSessionId: string) {
    return this.#actor.claimCreation(key, bodyHash, freshSessionId)
  }
  claimRun(runId: string, sessionId: string) {
    return this.#actor.claimRun(runId, sessionId)
  }
  releaseRun(runId: string, sessionId: string) {
    return this.#actor.releaseRun(runId, sessionId)
  }
  endCreation(sessionId: string) {
    return this.#actor.endCreation(sessionId)
  }
}
