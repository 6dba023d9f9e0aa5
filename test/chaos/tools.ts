import { z } from 'zod'
import { AppError } from '../../src/contract/error.ts'
import type { ToolResult } from '../../src/contract/tool.ts'
import {
  type CallContext,
  type GatewayTool,
  gatewayTool,
} from '../../src/core/session/calls/tools/tool.ts'

const args = z.strictObject({ label: z.string(), delayMs: z.number().int().default(0) })
type Args = z.infer<typeof args>

/** The names, and whether each may run again. Every tool but `noop` leaves effects on disk and in libSQL. */
export const chaosToolKinds = {
  noop: { repeatable: false },
  count_once: { repeatable: false },
  count_repeatable: { repeatable: true },
  /** Refuses half of the time before it has done anything. */
  flaky_once: { repeatable: false },
  /** Throws after its effect. */
  boom_once: { repeatable: false },
  /** Throws half of the time after its effect. */
  boom_repeatable: { repeatable: true },
} as const
export type ChaosTool = keyof typeof chaosToolKinds

/** One execution that was carried out. */
export interface Effect {
  tool: string
  sessionId: string
  label: string
  operationId: string
  /** Of this execution. */
  nonce: string
}

export const effectsTable = `create table if not exists chaos_effects (
  nonce text primary key, tool text not null, session_id text not null, label text not null, operation_id text not null
)`

export function chaosTools(effectsUrl: string): GatewayTool[] {
  const names = Object.keys(chaosToolKinds) as ChaosTool[]
  return names.map((name) =>
    gatewayTool({
      definition: {
        name,
        aliases: [],
        domain: 'gateway',
        args,
        description: name,
        guidance: name,
        onConflict: 'refuse',
      },
      repeatable: chaosToolKinds[name].repeatable,
      run: (input, call) => (name === 'noop' ? done() : run(effectsUrl, name, input, call)),
    }),
  )
}

// The answer differs in each execution, so that equal answers prove a replay.
const done = (nonce: string = crypto.randomUUID()): ToolResult => ({ success: true, result: nonce })

let asked = 0
/** Of those that this process runs. */
const isEverySecond = (): boolean => (asked += 1) % 2 === 0

async function run(
  url: string,
  tool: ChaosTool,
  input: Args,
  call: CallContext,
): Promise<ToolResult> {
  if (tool === 'flaky_once' && isEverySecond()) {
    throw new AppError('storage_unavailable', 'Nothing was done')
  }
  const nonce = crypto.randomUUID()
  const effect: Effect = {
    tool,
    sessionId: call.sessionId,
    label: input.label,
    operationId: call.operationId,
    nonce,
  }
  await onDisk(url, effect)
  if (input.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, input.delayMs))
  await inLibsql(call, effect)
  if (tool === 'boom_once' || (tool === 'boom_repeatable' && isEverySecond())) {
    throw new Error('A bug of this tool')
  }
  return done(nonce)
}

async function onDisk(url: string, effect: Effect): Promise<void> {
  const answer = await fetch(url, { method: 'POST', body: JSON.stringify(effect) })
  await answer.arrayBuffer()
  if (!answer.ok) throw new Error(`The effects server answered ${answer.status}`)
}

/** By execution for tools that must not repeat, so that a second one shows; by operation for the others. */
async function inLibsql(call: CallContext, effect: Effect): Promise<void> {
  const { repeatable } = chaosToolKinds[effect.tool as ChaosTool]
  const insert = {
    sql: 'insert or ignore into chaos_effects (nonce, tool, session_id, label, operation_id) values (?, ?, ?, ?, ?)',
    values: [
      repeatable ? effect.operationId : effect.nonce,
      effect.tool,
      effect.sessionId,
      effect.label,
      effect.operationId,
    ],
  }
  try {
    await call.db().batch([insert])
  } catch (error) {
    // Something was done, so this is no refusal that may simply be asked again.
    if (!repeatable) throw new Error('libSQL went away in the middle', { cause: error })
    throw error
  }
}
