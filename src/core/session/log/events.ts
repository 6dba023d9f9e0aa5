import {
  type AgentEventKind,
  agentEventKinds,
  maxEventBytes,
} from '../../../contract/agent-events.ts'
import type { EventData, EventKind, SessionEvent } from '../../../contract/events.ts'
import type { AgentEvent } from '../../../contract/link.ts'
import type { Sql } from '../../ports.ts'
import { parsePlausible } from './plausible.ts'

interface EventRow {
  seq: number
  at: number
  kind: string
  data: string
}

export function appendEvent<K extends EventKind>(
  sql: Sql,
  now: number,
  kind: K,
  data: EventData<K>,
): void {
  sql.run('insert into events (at, kind, data) values (?, ?, ?)', now, kind, JSON.stringify(data))
}

/** One answer of a page must fit into one message between objects: beyond this size it is shorter than `limit`. */
const maxPageLength = 4 * 1024 * 1024

/** Empty only if there is nothing after `after`. */
export function listEvents(sql: Sql, after: number, limit: number): SessionEvent[] {
  return sql
    .all<EventRow>(
      `with page as (select seq, at, kind, data from events where seq > ? order by seq limit ?),
         measured as (select *, sum(length(data)) over (order by seq) - length(data) as before from page)
       select seq, at, kind, data from measured where before < ? order by seq`,
      after,
      limit,
      maxPageLength,
    )
    .map((row) => ({
      seq: row.seq,
      at: row.at,
      kind: row.kind as EventKind,
      data: JSON.parse(row.data) as Record<string, unknown>,
    }))
}

export function lastEventSeq(sql: Sql): number {
  return sql.all<{ seq: number | null }>('select max(seq) as seq from events')[0]?.seq ?? 0
}

export function ackedEventSeq(sql: Sql, generation: number): number {
  return (
    sql.all<{ seq: number }>('select seq from agent_cursors where generation = ?', generation)[0]
      ?.seq ?? 0
  )
}

/**
 * What of a delivery is new: repeats are dropped, and a gap ends it, since the agent sends from the acknowledged number
 * again. An event of the wrong shape keeps its number but not its content: the agent is not trusted.
 */
export function newAgentEvents(sql: Sql, generation: number, items: AgentEvent[]): AgentEvent[] {
  let expected = ackedEventSeq(sql, generation) + 1
  const fresh: AgentEvent[] = []
  for (const item of items) {
    if (item.seq < expected) continue
    if (item.seq > expected) break
    expected += 1
    fresh.push(item)
  }
  return fresh
}

/** What is for the session's own tables is left out: the log keeps only what a reader needs. */
function shownData({ kind, data }: AgentEvent): AgentEvent['data'] {
  const { patch: _, content: __, ...bare } = data
  if (kind === 'turn.ended') return { ...bare, diff: null }
  return kind === 'skill.read' ? bare : data
}

export function storeAgentEvent(
  sql: Sql,
  now: number,
  generation: number,
  item: AgentEvent,
): AgentEvent {
  const parsed = parsePlausible<Record<string, unknown>>(agentEventKinds[item.kind], item.data)
  const stored: AgentEvent = parsed.ok
    ? { ...item, data: parsed.data }
    : {
        ...item,
        kind: 'agent.notice',
        data: { message: `Dropped an event "${item.kind}" of the wrong shape` },
      }
  const data = shownData(stored)
  if (JSON.stringify(data).length <= maxEventBytes)
    appendEvent(sql, now, stored.kind, data as EventData<AgentEventKind>)
  else
    appendEvent(sql, now, 'agent.notice', {
      message: `Dropped an event "${item.kind}": it is too large`,
    })
  if (parsed.implausible)
    appendEvent(sql, now, 'agent.notice', {
      message: `Event "${item.kind}" reports what cannot be true: ${parsed.implausible}`,
    })
  sql.run(
    `insert into agent_cursors (generation, seq) values (?, ?)
     on conflict (generation) do update set seq = excluded.seq`,
    generation,
    item.seq,
  )
  return stored
}
