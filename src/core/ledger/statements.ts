import { identityOf } from '../actor/outbox.ts'
import type { DbStatement, OutboxRow } from '../ports.ts'
import { eraseSession, type RowOwner, sweepUploads, type UploadSweep } from './erasing.ts'
import { type Kind, type Table, tables } from './tables.ts'

/**
 * How rows of one session's outbox change libSQL. Every statement may be repeated; an older row never undoes a newer
 * one, nor a session what is another's (callers choose the ids of runs, so two may say the same), nor what is erased. Rows of one kind that
 * follow each other are one statement with one JSON text, put together from their payloads as they are: libSQL takes it
 * apart, which costs the Worker nothing.
 */
export function statementsFor(who: RowOwner, rows: readonly OutboxRow[]): DbStatement[] {
  const statements: DbStatement[] = []
  for (let from = 0; from < rows.length;) {
    const sent = rows[from]?.kind as string
    let to = from + 1
    while (rows[to]?.kind === sent) to += 1
    const run = rows.slice(from, to).map((row) => ({ ...row, ...identityOf(row) }))
    const kind = run[0]?.kind as string
    if (kind === 'session.erased') statements.push(...eraseSession(who, lastTime(run)))
    else if (kind === 'uploads.swept') statements.push(...run.flatMap((row) => sweep(who, row)))
    else if (kind === 'snapshot.deleted') statements.push(deleteSnapshots(who, run))
    else if (Object.hasOwn(tables, kind)) statements.push(upsert(kind as Kind, who, run))
    else if (kind !== 'dead-letter.closed') throw new UnknownKind(kind)
    from = to
  }
  return statements
}

export class UnknownKind extends Error {
  constructor(kind: string) {
    super(`Unknown outbox row "${kind}"`)
  }
}

const lastTime = (rows: readonly OutboxRow[]): number => rows.at(-1)?.createdAt ?? 0

const sweep = (who: RowOwner, { payload }: OutboxRow): DbStatement[] =>
  sweepUploads(who, JSON.parse(payload) as UploadSweep)

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
    select ${Object.values(sources).join(', ')} from json_each(?1)
    where not exists (select 1 from outbox_watermarks where session_id = ?2 and erased_at is not null)
    on conflict (${key.join(', ')}) do update set ${updates.join(', ')}
    where excluded.${session} = ${name}.${session} and excluded.outbox_seq >= ${name}.outbox_seq`
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
