import type { Env } from '../../durable-objects/bindings.ts'
import { SessionObject as GantrySession } from '../../durable-objects/session.ts'
import { gatewayTools } from '../../src/core/session/calls/tools/registry.ts'
import { createWorker } from '../../src/worker.ts'
import { chaosTools } from './tools.ts'

export { EvalObject } from '../../durable-objects/eval.ts'
export { LedgerObject } from '../../durable-objects/ledger.ts'
export { OrganisationObject } from '../../durable-objects/organisation.ts'

/** Gantry as it is, with tools whose effects can be counted. */
export class SessionObject extends GantrySession {
  constructor(ctx: DurableObjectState, env: Env & { EFFECTS_URL: string }) {
    super(ctx, env, [...gatewayTools, ...chaosTools(env.EFFECTS_URL)])
  }
}

export default createWorker([...gatewayTools, ...chaosTools('')].map((tool) => tool.definition))
