import { z } from 'zod'
import { SessionObject as GantrySession } from '../durable-objects/session.ts'
import type { Env } from '../durable-objects/bindings.ts'

import { gatewayTools } from '../src/core/session/calls/tools/registry.ts'
import { gatewayTool } from '../src/core/session/calls/tools/tool.ts'
import { createWorker } from '../src/worker.ts'

export { EvalObject, LedgerObject, OrganisationObject } from '../src/worker.ts'

const noop = gatewayTool({
  definition: {
    name: 'noop',
    aliases: [],
    domain: 'gateway',
    args: z.strictObject({}),
    description: 'Does nothing',
    guidance: '',
    onConflict: 'refuse',
  },
  repeatable: true,
  run: () => ({ success: true, result: 'done' }),
})

export class SessionObject extends GantrySession {
  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env, [...gatewayTools, noop])
  }
}

export default createWorker([...gatewayTools.map((tool) => tool.definition), noop.definition])
