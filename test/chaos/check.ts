import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import type { SessionEvent } from '../../src/contract/events.ts'
import type { Session } from '../../src/contract/session.ts'
import type { Status } from '../../src/contract/status.ts'
import type { ToolCall } from '../../src/contract/tool.ts'
import type { ChaosAgent } from './agent.ts'
import type { Call } from './calls.ts'
import type { Scene } from './storm.ts'
import { type ChaosTool, chaosToolKinds, type Effect } from './tools.ts'

/** Waits, asking libSQL only, until every session has sent what it had to send by itself. */
export async function drained(scene: Scene, withinMs: number): Promise<number> {
  const startedAt = Date.now()
  const calls = scene.callers.reduce((sum, caller) => sum + caller.calls.length, 0)
  const deleted = new Set(
    scene.lives.filter(({ end }) => end === 'deleted').map(({ sessionId }) => sessionId),
  )
  let last = ''
  while (Date.now() - startedAt < withinMs) {
    const [row] = await scene.db.all<{ known: number; pending: number }>(
      `select count(*) as known, coalesce(sum(status = 'pending'), 0) as pending from session_tool_invocations`,
    )
    const rows = await scene.db.all<{ id: string }>('select id from sessions')
    const left = rows.filter(({ id }) => deleted.has(id)).length
    const talking = scene.agents.filter((agent) => !agent.settled).length
    if (row?.known === calls && row.pending === 0 && left === 0 && talking === 0)
      return Date.now() - startedAt
    last = `${row?.known} of ${calls} calls, ${row?.pending} pending, ${left} deleted sessions left, ${talking} agents with unacknowledged events`
    await sleep(100)
  }
  scene.complain(`libSQL has not caught up after ${withinMs / 1000} s: ${last}`)
  return Date.now() - startedAt
}

/** Every promise, against what the outside has counted. Stops the control plane to read its files. */
export async function checkAll(scene: Scene, objectsDir: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {
    sessions: scene.agents.length,
    lives: scene.lives.length,
  }
  await checkCalls(scene, counts)
  for (const agent of scene.agents)
    await checkEvents(scene, agent.options.sessionId, [agent], counts)
  for (const life of scene.lives) await checkLife(scene, life, counts)
  await checkStatus(scene)
  await scene.stack.worker.stop()
  await checkOutboxes(scene, objectsDir, counts)
  counts['links'] = [...scene.agents, ...scene.host.agents.values()].reduce(
    (sum, { links }) => sum + links,
    0,
  )
  return counts
}

interface Invocation {
  status: string
  operation_id: string
  attempts: number
  output: string | null
}

async function checkCalls(scene: Scene, counts: Record<string, number>): Promise<void> {
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

async function eventsOf(scene: Scene, sessionId: string): Promise<SessionEvent[]> {
  const all: SessionEvent[] = []
  for (;;) {
    const page = await scene.admin.json<{ items: SessionEvent[] }>(
      'GET',
      `/v1/sessions/${sessionId}/events?limit=200&after=${all.at(-1)?.seq ?? 0}`,
    )
    if (!page || page.items.length === 0) return all
    all.push(...page.items)
  }
}

/** No gap, and each agent's word once and in its order. An agent that was fenced may have kept its last words. */
async function checkEvents(
  scene: Scene,
  sessionId: string,
  agents: ChaosAgent[],
  counts: Record<string, number>,
): Promise<void> {
  const log = await eventsOf(scene, sessionId)
  counts['events'] = (counts['events'] ?? 0) + log.length
  const gap = log.findIndex((event, i) => event.seq !== i + 1)
  if (gap >= 0) scene.complain(`The log of ${sessionId} has ${log[gap]?.seq} in place ${gap + 1}`)
  const heard = log
    .filter(({ kind }) => kind === 'agent.notice')
    .map(({ data }) => String(data['message']))
  for (const agent of agents) {
    const prefix = `${sessionId}.${agent.options.generation}.`
    const said = agent.events
      .filter(({ kind }) => kind === 'agent.notice')
      .map(({ data }) => String(data['message']))
    const own = heard.filter((message) => message.startsWith(prefix))
    const expected = agent.fenced || !agent.settled ? said.slice(0, own.length) : said
    if (own.join() !== expected.join()) {
      scene.complain(
        `${prefix}: the log has ${own.length} notices of ${said.length}, or in another order`,
      )
    }
  }
  checkCallEvents(scene, sessionId, log)
}

function checkCallEvents(scene: Scene, sessionId: string, log: SessionEvent[]): void {
  const ends = groupBy(
    log.filter(({ kind, data }) => kind === 'call.ended' && data['state'] !== 'failed'),
    ({ data }) => String(data['toolCallId']),
  )
  for (const [id, events] of ends) {
    if (events.length > 1) scene.complain(`Call ${id} of ${sessionId} ended ${events.length} times`)
  }
}

async function checkLife(
  scene: Scene,
  life: Scene['lives'][number],
  counts: Record<string, number>,
): Promise<void> {
  const { sessionId } = life
  const agents = [...scene.host.agents.values()].filter(
    ({ options }) => options.sessionId === sessionId,
  )
  for (const turnId of life.turnIds) {
    const messages = new Set(agents.flatMap(({ prompts }) => [...(prompts.get(turnId) ?? [])]))
    if (messages.size > 1) scene.complain(`${turnId} was sent under ${messages.size} message ids`)
  }
  counts['turns'] = (counts['turns'] ?? 0) + life.turnIds.length
  if (life.end === 'deleted') return checkDeleted(scene, sessionId)
  await checkEvents(scene, sessionId, agents, counts)
  const session = await scene.admin.json<Session>('GET', `/v1/sessions/${sessionId}`)
  if (life.end === 'closed' && session?.sandbox.state !== 'stopped') {
    scene.complain(`${sessionId} is closed, its sandbox ${session?.sandbox.state}`)
  }
  const current = agents.filter(
    ({ options }) => !scene.host.stopped.has(`${sessionId}.${options.generation}`),
  )
  if (current.length > (life.end === 'open' ? 1 : 0))
    scene.complain(`${sessionId} has ${current.length} sandboxes`)
  const rows = await scene.db.all<{ state: string }>(
    'select state from turns where session_id = ?',
    sessionId,
  )
  if (
    rows.length !== life.turnIds.length ||
    rows.some(({ state }) => ['queued', 'running'].includes(state))
  ) {
    scene.complain(
      `${sessionId}: libSQL has turns ${JSON.stringify(rows)} for ${life.turnIds.length}`,
    )
  }
}

async function checkDeleted(scene: Scene, sessionId: string): Promise<void> {
  const { status } = await scene.admin.send('GET', `/v1/sessions/${sessionId}`)
  if (status !== 404) scene.complain(`${sessionId} was deleted and answers ${status}`)
  for (const table of ['turns', 'session_tool_invocations', 'artifacts']) {
    const rows = await scene.db.all(`select 1 from ${table} where session_id = ?`, sessionId)
    if (rows.length > 0) scene.complain(`${sessionId} was deleted and has ${rows.length} ${table}`)
  }
}

async function checkStatus(scene: Scene): Promise<void> {
  const status = await scene.admin.json<Status>('GET', '/v1/status')
  const { lagMs, pendingSessions, deadLetters } = status?.outbox ?? {}
  if (lagMs !== 0 || pendingSessions !== 0)
    scene.complain(`The outbox lags ${lagMs} ms in ${pendingSessions} sessions`)
  for (const letter of deadLetters ?? []) scene.complain(`Dead letter: ${JSON.stringify(letter)}`)
}

/** The sessions' own files: whole, and libSQL has every row that they ever sent. */
async function checkOutboxes(
  scene: Scene,
  objectsDir: string,
  counts: Record<string, number>,
): Promise<void> {
  const marks = new Map(
    (
      await scene.db.all<{ session_id: string; seq: number }>(
        'select session_id, seq from outbox_watermarks',
      )
    ).map((row) => [row.session_id, row.seq]),
  )
  const ids = new Set<string>()
  for (const file of readdirSync(objectsDir).filter((name) => name.endsWith('.sqlite'))) {
    const database = new DatabaseSync(join(objectsDir, file))
    try {
      const value = (sql: string) => Object.values(database.prepare(sql).get() ?? {})[0]
      if (value(`pragma integrity_check`) !== 'ok') scene.complain(`${file} is damaged`)
      if (!value(`select 1 from sqlite_master where name = 'outbox_mark'`)) continue
      const id = String(value('select id from session'))
      ids.add(id)
      const last = value('select max(seq) from outbox')
      const own = value('select watermark from outbox_mark')
      counts['outbox rows'] = (counts['outbox rows'] ?? 0) + Number(last)
      if (own !== last || marks.get(id) !== last) {
        scene.complain(
          `${id}: outbox ends at ${last}, its mark is ${own}, libSQL's ${marks.get(id)}`,
        )
      }
    } finally {
      database.close()
    }
  }
  const living = [
    ...scene.agents.map(({ options }) => options.sessionId),
    ...scene.lives.filter(({ end }) => end !== 'deleted').map(({ sessionId }) => sessionId),
  ]
  for (const id of living) if (!ids.has(id)) scene.complain(`${id} has no file`)
  for (const { sessionId, end } of scene.lives) {
    if (end === 'deleted' && ids.has(sessionId))
      scene.complain(`${sessionId} was deleted and still has its tables`)
  }
}

function groupBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const group = groups.get(keyOf(item)) ?? []
    groups.set(keyOf(item), [...group, item])
  }
  return groups
}
