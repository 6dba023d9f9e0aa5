import type { ToolCall } from '../../src/contract/tool.ts'
import type { Call } from './calls.ts'
import type { Scene } from './scene.ts'
import { type ChaosTool, chaosToolKinds, type Effect } from './tools.ts'

interface Invocation {
  status: string
  operation_id: string
  attempts: number
  output: string | null
}

/** Every call has one end, the same in the session and in libSQL, and the effects that it claims. */
export async function checkCalls(scene: Scene, counts: Record<string, number>): Promise<void> {
  const { complain } = scene
  const onDisk = groupBy(scene.effects.read(), ({ label }) => label)
  const inLibsql = groupBy(
    await scene.db.all<Effect>(
      'select nonce, tool, session_id as sessionId, label, operation_id as operationId from chaos_effects',
    ),
    ({ label }) => label,
  )
  const states: Record<string, number> = {}
  for (const agent of scene.agents) {
    const { sessionId } = agent.options
    const known = new Map((await callsOf(scene, sessionId)).map((call) => [call.toolCallId, call]))
    const rows = await scene.db.all<Invocation & { tool_call_id: string }>(
      'select tool_call_id, status, operation_id, attempts, output from session_tool_invocations where session_id = ?',
      sessionId,
    )
    const invocations = new Map(rows.map((row) => [row.tool_call_id, row]))
    const made = scene.callers
      .flatMap((caller) => caller.calls)
      .filter((call) => call.sessionId === sessionId)
    if (known.size !== made.length)
      complain(`${sessionId} knows ${known.size} calls, ${made.length} were made`)
    for (const call of made) {
      const stored = known.get(call.id)
      if (!stored) complain(`${call.tool} ${call.id} was lost`)
      else {
        states[stored.state] = (states[stored.state] ?? 0) + 1
        checkState(call, stored, invocations.get(call.id), complain)
        checkEffects(call, stored, onDisk.get(call.id) ?? [], inLibsql.get(call.id) ?? [], complain)
      }
    }
    await checkArtifacts(scene, sessionId, [...known.values()])
  }
  counts['effects on disk'] = scene.effects.read().length
  for (const [state, count] of Object.entries(states)) counts[`calls ${state}`] = count
}

function checkState(
  call: Call,
  stored: ToolCall,
  row: Invocation | undefined,
  complain: Scene['complain'],
): void {
  const name = `${call.tool} ${call.id}`
  if (stored.state === 'pending') complain(`${name} is still pending`)
  if (stored.state === 'unknown' && !stored.response?.result.startsWith('Outcome unknown')) {
    complain(`${name} is unknown and does not say so: ${stored.response?.result}`)
  }
  if (call.body !== null && call.body !== JSON.stringify(stored.response)) {
    complain(`${name} was answered ${call.body}, stored is ${JSON.stringify(stored.response)}`)
  }
  const same =
    row?.status === stored.state &&
    row.operation_id === stored.operationId &&
    row.attempts === stored.attempts &&
    row.output === (stored.response && JSON.stringify(stored.response))
  if (!same)
    complain(`${name} differs: session ${JSON.stringify(stored)}, libSQL ${JSON.stringify(row)}`)
}

function checkEffects(
  call: Call,
  stored: ToolCall,
  onDisk: Effect[],
  inLibsql: Effect[],
  complain: Scene['complain'],
): void {
  if (call.tool === 'noop' || call.tool === 'verify') return
  const name = `${call.tool} ${call.id} (${stored.state})`
  const { repeatable } = chaosToolKinds[call.tool satisfies ChaosTool]
  const operations = new Set([...onDisk, ...inLibsql].map(({ operationId }) => operationId))
  if (operations.size > 1) complain(`${name} ran under ${operations.size} operation ids`)
  if (operations.size === 1 && !operations.has(stored.operationId))
    complain(`${name} ran under a foreign operation id`)
  const most = repeatable ? Infinity : 1
  if (onDisk.length > most || inLibsql.length > 1) {
    complain(
      `${name} took effect ${onDisk.length} times on disk and ${inLibsql.length} times in libSQL`,
    )
  }
  if (stored.state !== 'settled') return
  if (onDisk.length < 1 || inLibsql.length !== 1) {
    complain(`${name} has ${onDisk.length} effects on disk and ${inLibsql.length} in libSQL`)
  }
  if (!onDisk.some(({ nonce }) => nonce === stored.response?.result))
    complain(`${name} answers for an execution that was not`)
}

/** What `verify` stored, it stored once, on both sides. */
async function checkArtifacts(scene: Scene, sessionId: string, calls: ToolCall[]): Promise<void> {
  const verified = calls.filter(({ tool, state }) => tool === 'verify' && state === 'settled')
  const listed = await scene.admin.json<{ items: { operationId: string }[] }>(
    'GET',
    `/v1/sessions/${sessionId}/artifacts`,
  )
  const rows = await scene.db.all('select 1 from artifacts where session_id = ?', sessionId)
  const operations = new Set(listed?.items.map(({ operationId }) => operationId))
  const counts = [listed?.items.length, operations.size, rows.length]
  if (counts.some((count) => count !== verified.length)) {
    scene.complain(
      `${sessionId}: ${verified.length} verifications, ${counts.join(', ')} artifacts, operations, rows`,
    )
  }
  for (const call of calls) {
    if (call.tool === 'verify' && call.state !== 'settled')
      scene.complain(`verify ${call.toolCallId} is ${call.state}`)
  }
}

async function callsOf(scene: Scene, sessionId: string): Promise<ToolCall[]> {
  const all: ToolCall[] = []
  let cursor: string | null = ''
  while (cursor !== null) {
    const query: string = cursor === '' ? '' : `&cursor=${cursor}`
    const page: { items: ToolCall[]; nextCursor: string | null } | null = await scene.admin.json(
      'GET',
      `/v1/sessions/${sessionId}/calls?limit=100${query}`,
    )
    all.push(...(page?.items ?? []))
    cursor = page?.nextCursor ?? null
  }
  return all
}

export function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const group = groups.get(keyOf(item)) ?? []
    groups.set(keyOf(item), [...group, item])
  }
  return groups
}
