import { expect, test } from 'vitest'
import { LedgerActor } from '../../../src/core/ledger/ledger.ts'
import { type Kind, type Table, tables } from '../../../src/core/ledger/tables.ts'
import { useLibsql } from '../../support/libsql.ts'
import { memorySql } from '../../support/sql.ts'

const libsql = useLibsql()

/** Fields that are called otherwise than their columns; the others are the same in other letters. */
const fields: Record<string, string> = {
  'call.tool_name': 'tool',
  'call.created_at': 'startedAt',
  'change_event.import_key_hash': 'keyHash',
  'change_event.relative_path': 'path',
  'change_event.evidence_proof': 'proof',
  'change_event.source_provider': 'provider',
  'change_event.supersedes_event_id': 'supersedes',
  'eval_result.attempt_session_id': 'sessionId',
}
const fieldOf = (kind: string, column: string): string =>
  fields[`${kind}.${column}`] ??
  column.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

test.each(Object.keys(tables) as Kind[])(
  '[OUT1] a row of kind %s has each of its fields in a column, and each column has one',
  async (kind) => {
    const { name, session, fixed = {} }: Table = tables[kind]
    const organisationId = `org_${kind}`
    // An organisation writes for itself, too.
    const ownerId = session === 'organisation_id' ? organisationId : `owner_${kind}`
    const columns = await libsql
      .db()
      .all<{ name: string; type: string }>('select name, type from pragma_table_info(?)', name)
    const known = { organisation_id: organisationId, [session]: ownerId, outbox_seq: 1 }
    const own = columns.filter((column) => !(column.name in known) && !(column.name in fixed))
    const payload = Object.fromEntries(
      own.map((column, at) => {
        const field = fieldOf(kind, column.name)
        return [field, column.type.toLowerCase() === 'text' ? `of ${field}` : at + 1]
      }),
    )
    const ledger = new LedgerActor({
      ...{ sql: memorySql(), db: () => libsql.db(), now: () => 7, log: () => {} },
    })
    const row = { seq: 1, kind, createdAt: 1, payload: JSON.stringify(payload) }
    await ledger.append({ sessionId: ownerId, organisationId, after: 0, rows: [row] })
    const [stored] = await libsql.db().all<Record<string, unknown>>(`select * from ${name}`)
    expect(stored).toMatchObject({
      ...known,
      ...Object.fromEntries(
        own.map((column) => [column.name, payload[fieldOf(kind, column.name)]]),
      ),
    })
  },
)
