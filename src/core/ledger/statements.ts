import type { DbStatement, OutboxRow } from '../ports.ts'

export interface RowOwner {
  sessionId: string
  organisationId: string
}

type Value = string | number | null
type Fields = Record<string, Value>

interface Table {
  name: string
  key: readonly string[]
  columns: readonly string[]
}

const owner = ['session_id', 'organisation_id'] as const
const tables = {
  session: {
    name: 'sessions',
    key: ['id'],
    columns: [
      ...[
        'id',
        'organisation_id',
        'project',
        'title',
        'status',
        'provider',
        'sandbox_state',
        'generation',
      ],
      ...['created_at', 'closed_at', 'outbox_seq'],
    ],
  },
  turn: {
    name: 'turns',
    key: ['id'],
    columns: [
      ...['id', ...owner, 'state', 'reason', 'input_tokens', 'output_tokens', 'created_at'],
      ...['started_at', 'ended_at', 'outbox_seq'],
    ],
  },
  call: {
    name: 'session_tool_invocations',
    key: ['session_id', 'tool_name', 'tool_call_id'],
    columns: [
      ...[
        ...owner,
        'tool_name',
        'tool_call_id',
        'operation_id',
        'source',
        'generation',
        'status',
        'attempts',
      ],
      ...[
        'input',
        'output',
        'error',
        'duration_ms',
        'started_at',
        'completed_at',
        'created_at',
        'outbox_seq',
      ],
    ],
  },
  artifact: {
    name: 'artifacts',
    key: ['id'],
    columns: [
      ...[
        'id',
        ...owner,
        'operation_id',
        'path',
        'content_type',
        'size',
        'sha256',
        'created_at',
        'outbox_seq',
      ],
    ],
  },
  automation_run: {
    name: 'automation_runs',
    key: ['organisation_id', 'id'],
    columns: [
      ...['id', ...owner, 'configuration_id', 'state', 'outcome', 'completion_id', 'payload'],
      ...['created_at', 'completed_at', 'outbox_seq'],
    ],
  },
  snapshot: {
    name: 'snapshots',
    key: ['id'],
    columns: [
      ...[
        'id',
        ...owner,
        'configuration_id',
        'provider',
        'operation_id',
        'message',
        'bytes',
        'created_at',
        'outbox_seq',
      ],
    ],
  },
} as const satisfies Record<string, Table>
type Kind = keyof typeof tables

/**
 * How rows of one session's outbox change libSQL. Every statement may be repeated, and an older row never undoes a
 * newer one. Rows of one kind that follow each other are one statement with one JSON value: encoding a statement per
 * row costs more than storing it.
 */
export function statementsFor(who: RowOwner, rows: readonly OutboxRow[]): DbStatement[] {
  const statements: DbStatement[] = []
  for (let from = 0; from < rows.length;) {
    const kind = rows[from]?.kind as string
    let to = from + 1
    while (rows[to]?.kind === kind) to += 1
    const run = rows.slice(from, to)
    if (kind === 'session.erased') statements.push(...eraseSession(who))
    else if (Object.hasOwn(tables, kind)) statements.push(upsert(kind as Kind, who, run))
    else throw new Error(`Unknown outbox row "${kind}"`)
    from = to
  }
  return statements
}

function upsert(kind: Kind, who: RowOwner, rows: OutboxRow[]): DbStatement {
  const { name, key, columns }: Table = tables[kind]
  const updates = columns
    .filter((column) => !key.includes(column))
    .map((column) => `${column} = excluded.${column}`)
  const records = rows.map((row) => {
    const record = recordOf(kind, who, row)
    return columns.map((column) => record[column] ?? null)
  })
  return {
    sql: `insert into ${name} (${columns.join(', ')})
      select ${columns.map((_, place) => `value ->> ${place}`).join(', ')} from json_each(?) where true
      on conflict (${key.join(', ')}) do update set ${updates.join(', ')}
      where excluded.outbox_seq >= ${name}.outbox_seq`,
    values: [JSON.stringify(records)],
  }
}

function recordOf(kind: Kind, who: RowOwner, row: OutboxRow): Fields {
  const record = snake(JSON.parse(row.payload) as Fields)
  record['organisation_id'] = who.organisationId
  record['outbox_seq'] = row.seq
  if (kind === 'session') record['id'] = who.sessionId
  else record['session_id'] = who.sessionId
  if (kind !== 'call') return record
  return {
    ...record,
    tool_name: record['tool'] ?? null,
    source: 'sandbox',
    created_at: record['started_at'] ?? null,
  }
}

function snake(payload: Fields): Fields {
  return Object.fromEntries(
    Object.entries(payload).map(([name, value]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
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
    ...['artifacts', 'turns', 'session_tool_invocations', 'automation_runs'].map((table) => ({
      sql: `delete from ${table} where organisation_id = ?1 and session_id = ?2`,
      values,
    })),
    {
      // A configuration's base stays.
      sql: 'delete from snapshots where organisation_id = ?1 and session_id = ?2 and configuration_id is null',
      values,
    },
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
