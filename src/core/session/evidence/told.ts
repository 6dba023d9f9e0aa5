import { canonicalJson } from '../../../contract/canonical.ts'
import type { EventData } from '../../../contract/events.ts'
import type { SeenPart } from '../../../contract/evidence.ts'
import { hashText } from '../../hash.ts'
import type { Sql } from '../../ports.ts'

// The tool parts that came over the link while their turn ran: what the sandbox's own database says of them afterwards
// is compared with these, since whoever works in the sandbox can write that database and cannot write this one.

type Started = EventData<'tool.started'>
type Ended = 'completed' | 'failed'

/** Inside the commit that stores the event. `ended` null: it has begun. */
export function noteToldPart(sql: Sql, data: Started, ended: Ended | null): void {
  if (data.turnId === null) return
  sql.run(
    `insert into told_parts (part_id, turn_id, message_id, session_id, tool, call_id, ended, input_hash, agent)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?)
     on conflict (part_id) do update set ended = excluded.ended, input_hash = excluded.input_hash
       where told_parts.ended is null and told_parts.turn_id = excluded.turn_id`,
    data.partId,
    data.turnId,
    data.messageId,
    data.sessionId,
    data.tool,
    data.callId,
    ended,
    data.shortened === true ? null : hashText(canonicalJson(data.input ?? null)),
    data.agent ?? null,
  )
}

export interface ToldPart extends SeenPart {
  agent: string | null
}

export function toldParts(sql: Sql, turnId: string): ToldPart[] {
  return sql.all<ToldPart>(
    `select part_id as id, message_id as messageId, session_id as sessionId, tool, call_id as callId,
       ended as end, input_hash as inputHash, agent
     from told_parts where turn_id = ? order by part_id`,
    turnId,
  )
}
