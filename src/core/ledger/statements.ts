import type { DbStatement, OutboxRow } from '../ports.ts'

export interface RowOwner {
  sessionId: string
  organisationId: string
}

type Payload = Record<string, string | number | null>

/** How a row of a session's outbox changes libSQL. Every statement may be repeated, and an older one never wins. */
export function statementsFor(owner: RowOwner, row: OutboxRow): DbStatement[] {
  const payload = JSON.parse(row.payload) as Payload
  switch (row.kind) {
    case 'session':
      return [upsert('sessions', ['id'], { id: owner.sessionId, organisation_id: owner.organisationId, ...snake(payload), outbox_seq: row.seq })]
    case 'turn':
      return [upsert('turns', ['id'], { ...owned(owner), ...snake(payload), outbox_seq: row.seq })]
    case 'call':
      return [upsert('session_tool_invocations', ['session_id', 'tool_name', 'tool_call_id'], invocation(owner, row, payload))]
    case 'artifact':
      return [upsert('artifacts', ['id'], { ...owned(owner), ...snake(payload), outbox_seq: row.seq })]
    case 'session.erased':
      return eraseSession(owner)
    default:
      throw new Error(`Unknown outbox row "${row.kind}"`)
  }
}

function owned(owner: RowOwner) {
  return { organisation_id: owner.organisationId, session_id: owner.sessionId }
}

function invocation(owner: RowOwner, row: OutboxRow, payload: Payload): Payload {
  const { tool, ...rest } = payload
  return {
    ...owned(owner),
    tool_name: tool ?? null,
    ...snake(rest),
    source: 'sandbox',
    created_at: payload['startedAt'] ?? row.createdAt,
    outbox_seq: row.seq,
  }
}

function upsert(table: string, key: string[], values: Payload): DbStatement {
  const columns = Object.keys(values)
  const updates = columns.filter((column) => !key.includes(column)).map((column) => `${column} = excluded.${column}`)
  return {
    sql: `insert into ${table} (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})
      on conflict (${key.join(', ')}) do update set ${updates.join(', ')} where excluded.outbox_seq >= ${table}.outbox_seq`,
    values: Object.values(values),
  }
}

function snake(payload: Payload): Payload {
  return Object.fromEntries(
    Object.entries(payload).map(([name, value]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]),
  )
}

/** Content goes only where no other session of the organisation holds it. */
function eraseSession({ sessionId, organisationId }: RowOwner): DbStatement[] {
  const orphans = `organisation_id = ?1 and sha256 in (select sha256 from artifacts where organisation_id = ?1 and session_id = ?2)
    and sha256 not in (select sha256 from artifacts where organisation_id = ?1 and session_id <> ?2)`
  const values = [organisationId, sessionId]
  return [
    { sql: `delete from blob_index where ${orphans}`, values },
    { sql: `delete from blobs where ${orphans}`, values },
    ...['artifacts', 'turns', 'session_tool_invocations'].map((table) => ({
      sql: `delete from ${table} where organisation_id = ?1 and session_id = ?2`,
      values,
    })),
    { sql: 'delete from sessions where organisation_id = ?1 and id = ?2', values },
  ]
}

export function watermarkStatement(sessionId: string, seq: number): DbStatement {
  return {
    sql: `insert into outbox_watermarks (session_id, seq) values (?, ?)
      on conflict (session_id) do update set seq = max(seq, excluded.seq)`,
    values: [sessionId, seq],
  }
}
