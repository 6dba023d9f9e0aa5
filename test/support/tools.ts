import { z } from 'zod'
import { AppError } from '../../src/contract/error.ts'
import type { ToolDefinition, ToolResult } from '../../src/contract/tool.ts'
import {
  type CallContext,
  type GatewayTool,
  gatewayTool,
} from '../../src/core/session/calls/tools/tool.ts'

const definition = <A extends z.ZodType>(
  name: string,
  args: A,
  onConflict: ToolDefinition['onConflict'] = 'refuse',
): ToolDefinition<A> => ({
  name,
  aliases: [`${name}_alias`],
  domain: 'gateway',
  args,
  description: name,
  guidance: name,
  onConflict,
})

const Text = z.strictObject({ text: z.string().optional() })
/** Where an effect is told to. With `row`, it is a row in libSQL too. */
const Effect = z.strictObject({
  url: z.string(),
  row: z.boolean().optional(),
  text: z.string().optional(),
})

/** What a real tool does outside. Each run has a name of its own, so that a second run would show. */
async function cause(
  tool: string,
  args: z.infer<typeof Effect>,
  call: CallContext,
): Promise<ToolResult> {
  const run = crypto.randomUUID()
  const { sessionId, operationId } = call
  const answer = await fetch(args.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ tool, sessionId, operationId, run }),
  })
  await answer.arrayBuffer()
  if (args.row) {
    await call.db().batch([
      {
        sql: 'create table if not exists test_effects (run text primary key, operation_id text, tool text)',
        values: [],
      },
      {
        sql: 'insert into test_effects values (?, ?, ?) on conflict do nothing',
        values: [run, operationId, tool],
      },
    ])
  }
  return { success: true, result: args.text ?? 'done', data: { operationId, run } }
}

const refusals = new Map<string, number>()

/** Gateway tools that tests add to the real ones. */
export const testTools: readonly GatewayTool[] = [
  gatewayTool({
    definition: definition('noop', Text),
    repeatable: true,
    run: ({ text }) => ({ success: true, result: text ?? 'ok' }),
  }),
  gatewayTool({
    definition: definition('count_once', Effect),
    repeatable: false,
    run: (args, call) => cause('count_once', args, call),
  }),
  gatewayTool({
    definition: definition('count_repeatable', Effect),
    repeatable: true,
    run: (args, call) => cause('count_repeatable', args, call),
  }),
  gatewayTool({
    definition: definition('slow', z.strictObject({ ms: z.number() })),
    repeatable: true,
    async run({ ms }) {
      await new Promise((resolve) => setTimeout(resolve, ms))
      return { success: true, result: `after ${ms} ms`, data: { at: Date.now() } }
    },
  }),
  gatewayTool({
    definition: definition('boom', Text),
    repeatable: false,
    run: () => {
      throw new Error('boom')
    },
  }),
  gatewayTool({
    definition: definition('boom_repeatable', z.strictObject({ times: z.number() })),
    repeatable: true,
    async run({ times }, { operationId }) {
      return refuseTimes(operationId, times, () => new Error('boom'))
    },
  }),
  gatewayTool({
    definition: definition('refuse', Text, 'answer'),
    repeatable: false,
    run: () => ({ success: false, result: 'Refused', data: { at: Date.now() } }),
  }),
  gatewayTool({
    definition: definition('unavailable', z.strictObject({ times: z.number() })),
    repeatable: false,
    async run({ times }, { operationId }) {
      return refuseTimes(operationId, times, () => new AppError('storage_unavailable', 'Not now'))
    },
  }),
]

function refuseTimes(operationId: string, times: number, refusal: () => Error): ToolResult {
  const before = refusals.get(operationId) ?? 0
  refusals.set(operationId, before + 1)
  if (before < times) throw refusal()
  return { success: true, result: `after ${before} refusals` }
}
