import { canonicalJson } from '../../../contract/canonical.ts'
import type { EventData } from '../../../contract/events.ts'
import { evidenceLimits, type SeenPart, type SeenStep } from '../../../contract/evidence.ts'
import { mutatingTools } from '../../../contract/evidence-paths.ts'
import { hashText } from '../../hash.ts'
import type { Sql } from '../../ports.ts'

// The tool parts that came over the link while their turn ran: what the sandbox's own database says of them afterwards
// is compared with these, since whoever works in the sandbox can write that database and cannot write this one.

type Started = EventData<'tool.started'>
type Ended = 'completed' | 'failed'

/** Inside the commit that stores the event. `ended` null: it has begun. */
export function noteToldPart(
  sql: Sql,
  data: Started & { recordHash?: string | undefined },
  ended: Ended | null,
): void {
  if (data.turnId === null) return
  sql.run(
    `insert into told_parts (part_id, turn_id, message_id, session_id, tool, call_id, ended, input_hash, agent, record_hash)
     values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     on conflict (part_id) do update set ended = excluded.ended, input_hash = excluded.input_hash,
       record_hash = excluded.record_hash
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
    data.recordHash ?? null,
  )
}

export interface ToldPart extends SeenPart {
  agent: string | null
}

export function toldParts(sql: Sql, turnId: string): ToldPart[] {
  return sql.all<ToldPart>(
    `select part_id as id, message_id as messageId, session_id as sessionId, tool, call_id as callId,
       ended as end, input_hash as inputHash, record_hash as recordHash, agent
     from told_parts where turn_id = ? order by part_id`,
    turnId,
  )
}

type StepFinished = EventData<'step.finished'>

/** Inside the commit that stores the event. A turn's step that an older agent tells has no trees. */
export function noteToldStep(
  sql: Sql,
  { turnId, partId, messageId, snapshots }: StepFinished,
): void {
  if (turnId === null || snapshots === undefined) return
  sql.run(
    `insert into told_steps (turn_id, part_id, message_id, from_tree, to_tree) values (?, ?, ?, ?, ?)
     on conflict (part_id) do nothing`,
    turnId,
    partId,
    messageId,
    snapshots.from === undefined ? 'unknown' : snapshots.from,
    snapshots.to,
  )
}

export function toldSteps(sql: Sql, turnId: string): SeenStep[] {
  return sql.all<SeenStep>(
    `select message_id as messageId, from_tree as "from", to_tree as "to" from told_steps
     where turn_id = ? order by n`,
    turnId,
  )
}

/** Inside the commit that stores a bundle. */
export function noteToldFound(sql: Sql, partIds: readonly string[]): void {
  sql.run(
    'update told_parts set found = 1 where part_id in (select value from json_each(?))',
    JSON.stringify(partIds),
  )
}

/** Changes that were told as done and that no bundle of the turn had. */
export function toldNeverFound(sql: Sql, turnId: string): { partId: string; tool: string }[] {
  return sql.all<{ partId: string; tool: string }>(
    `select part_id as partId, tool from told_parts where turn_id = ? and found = 0 and ended = 'completed'
       and tool in (select value from json_each(?)) order by part_id limit 100`,
    turnId,
    JSON.stringify(mutatingTools),
  )
}

/** The last step that was told, if steps that change files were told since `since` as often as one collect may read. */
export function toldStepsToCollect(sql: Sql, turnId: string, since: string | null): string | null {
  const [row] = sql.all<{ changing: number; last: string | null }>(
    `select count(*) as changing,
       (select message_id from told_steps where turn_id = ?1 order by n desc limit 1) as last
     from told_steps s where s.turn_id = ?1
       and s.n > coalesce((select max(n) from told_steps where turn_id = ?1 and message_id = ?2), 0)
       and exists (select 1 from told_parts p where p.message_id = s.message_id
         and p.tool in (select value from json_each(?3)))`,
    turnId,
    since,
    JSON.stringify(mutatingTools),
  )
  return row && row.changing >= evidenceLimits.readsPerCollect ? row.last : null
}
