import type { DbStatement, OutboxRow } from '../ports.ts'
import { type Kind, type Table, tables } from './tables.ts'

export interface RowOwner {
  sessionId: string
  organisationId: string
}

/**
 * How rows of one session's outbox change libSQL. Every statement may be repeated; an older row never undoes a newer
 * one, nor a session what is another's (callers choose the ids of runs, so two may say the same). Rows of one kind that
 * follow each other are one statement with one JSON text, put together from their payloads as they are: libSQL takes it
 * apart, which costs the Worker nothing.
 */
export function statementsFor(who: RowOwner, rows: readonly OutboxRow[]): DbStatement[] {
  const statements: DbStatement[] = []
  for (let from = 0; from < rows.length;) {
    const kind = rows[from]?.kind as string
    let to = from + 1
    while (rows[to]?.kind === kind) to += 1
    const run = rows.slice(from, to)
    if (kind === 'session.erased') statements.push(...eraseSession(who))
    else if (kind === 'snapshot.deleted') statements.push(deleteSnapshots(who, run))
    else if (Object.hasOwn(tables, kind)) statements.push(upsert(kind as Kind, who, run))
    else throw new Error(`Unknown outbox row "${kind}"`)
    from = to
  }
  return statements
}

const upserts = new Map<Kind, string>()

function upsert(kind: Kind, who: RowOwner, rows: OutboxRow[]): DbStatement {
  const sql = upserts.get(kind) ?? upsertSql(tables[kind])
  upserts.set(kind, sql)
  const pairs = rows.map(({ seq, payload }) => `[${seq},${payload}]`)
  return { sql, values: [`[${pairs.join(',')}]`, who.sessionId, who.organisationId] }
}

function upsertSql({ name, key, session, payload, fixed }: Table): string {
  const sources: Record<string, string> = {
    [session]: '?2',
    organisation_id: '?3',
    outbox_seq: `value ->> '$[0]'`,
    ...fixed,
  }
  for (const [column, field] of Object.entries(payload)) {
    sources[column] = `value ->> '$[1].${field}'`
  }
  const columns = Object.keys(sources)
  const updates = columns
    .filter((column) => !key.includes(column))
    .map((column) => `${column} = excluded.${column}`)
  return `insert into ${name} (${columns.join(', ')})
    select ${Object.values(sources).join(', ')} from json_each(?1) where true
    on conflict (${key.join(', ')}) do update set ${updates.join(', ')}
    where excluded.${session} = ${name}.${session} and excluded.outbox_seq >= ${name}.outbox_seq`
}

const sessionTables = [
  'artifacts',
  'turns',
  'session_tool_invocations',
  'automation_runs',
  'runs',
  'run_events',
  'approvals',
  'operation_attempts',
  'webhook_deliveries',
]

/** Content goes only where no other session of the organisation holds it. */
function eraseSession({ sessionId, organisationId }: RowOwner): DbStatement[] {
  const orphans = `organisation_id = ?1 and sha256 in (select sha256 from artifacts where organisation_id = ?1 and session_id = ?2)
    and sha256 not in (select sha256 from artifacts where organisation_id = ?1 and session_id <> ?2)`
  const values = [organisationId, sessionId]
  return [
    { sql: `delete from blob_index where ${orphans}`, values },
    { sql: `delete from blobs where ${orphans}`, values },
    ...sessionTables.map((table) => ({
      sql: `delete from ${table} where organisation_id = ?1 and session_id = ?2`,
      values,
    })),
    {
      // A configuration's base stays, wherever it came from.
      sql: `delete from snapshots where organisation_id = ?1 and session_id = ?2 and configuration_id is null
        and id not in (select base_snapshot_id from configurations
          where organisation_id = ?1 and base_snapshot_id is not null)`,
      values,
    },
    { sql: 'delete from sessions where organisation_id = ?1 and id = ?2', values },
  ]
}

/** What the session has deleted at its provider cannot be started from any more. */
function deleteSnapshots({ sessionId, organisationId }: RowOwner, rows: OutboxRow[]): DbStatement {
  const payloads = `[${rows.map(({ payload }) => payload).join(',')}]`
  return {
    sql: `delete from snapshots where organisation_id = ? and session_id = ?
      and id in (select value ->> '$.id' from json_each(?))`,
    values: [organisationId, sessionId, payloads],
  }
}

export function watermarkStatement(sessionId: string, seq: number): DbStatement {
  return {
    sql: `insert into outbox_watermarks (session_id, seq) values (?, ?)
      on conflict (session_id) do update set seq = max(seq, excluded.seq)`,
    values: [sessionId, seq],
  }
}
