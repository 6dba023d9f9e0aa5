import type { Env } from '../../durable-objects/bindings.ts'
import { SessionObject as Session } from '../../durable-objects/session.ts'
import { gatewayTools } from '../../src/core/session/calls/tools/registry.ts'
import { createWorker } from '../../src/worker.ts'
import { testTools } from './tools.ts'

export { EvalObject } from '../../durable-objects/eval.ts'
export { LedgerObject } from '../../durable-objects/ledger.ts'
export { OrganisationObject } from '../../durable-objects/organisation.ts'

const tools = [...gatewayTools, ...testTools]

/** The real session with more tools. */
export class SessionObject extends Session {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, tools)
  }
}

export default createWorker(tools.map(({ definition }) => definition))
