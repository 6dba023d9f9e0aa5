import { setTimeout as sleep } from 'node:timers/promises'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { SessionEvent } from '../../src/contract/events.ts'
import type { Session } from '../../src/contract/session.ts'
import type { Status } from '../../src/contract/status.ts'
import type { ChaosAgent } from './agent.ts'
import { checkCalls, groupBy } from './check-calls.ts'
import { checkOperations } from './check-operations.ts'
import type { Scene } from './scene.ts'

/** Every promise, against what the outside has counted. Stops the control plane to read its files. */
export async function checkAll(scene: Scene, objectsDir: string): Promise<Record<string, number>> {
  const counts: Record<string, number> = {
    sessions: scene.agents.length,
    lives: scene.lives.length,
  }
  await checkCalls(scene, counts)
  await checkOperations(scene, counts)
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
  const { lagMs, pendingSessions, deadLetters } = await outboxSent(scene)
  if (lagMs !== 0 || pendingSessions !== 0)
    scene.complain(`The outbox lags ${lagMs} ms in ${pendingSessions} sessions`)
  for (const letter of deadLetters ?? []) scene.complain(`Dead letter: ${JSON.stringify(letter)}`)
}

/** A row that failed during the storm waits for its next attempt, up to half a minute; nobody is woken by this question. */
async function outboxSent(scene: Scene): Promise<Partial<Status['outbox']>> {
  const until = Date.now() + 240_000
  for (;;) {
    const status = await scene.admin.json<Status>('GET', '/v1/status')
    const outbox = status?.outbox
    if (outbox?.pendingSessions === 0 || Date.now() > until) return outbox ?? {}
    await sleep(200)
  }
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
      const last = Number(value('select max(seq) from outbox'))
      const own = Number(value('select watermark from outbox_mark'))
      counts['outbox rows'] = (counts['outbox rows'] ?? 0) + last
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
