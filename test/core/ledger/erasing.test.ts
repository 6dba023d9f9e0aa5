import { beforeEach, describe, expect, test } from 'vitest'
import { LedgerActor, ledgerStatements, ledgerWatermark } from '../../../src/core/ledger/ledger.ts'
import { otherTables, type Table, tables } from '../../../src/core/ledger/tables.ts'
import type { Db, DbValue } from '../../../src/core/ports.ts'
import { useLibsql } from '../../support/libsql.ts'
import { memorySql } from '../../support/sql.ts'

const day = 24 * 60 * 60_000
const libsql = useLibsql()
const projected: readonly Table[] = Object.values(tables)
let db: Db
let ledger: LedgerActor
beforeEach(() => {
  db = libsql.db()
  ledger = new LedgerActor({ sql: memorySql(), db: libsql.db, now: () => 7, log: () => {} })
})

interface Column {
  table: string
  name: string
  type: string
  required: number
}
/** Without full-text indexes, which follow the tables that they are of. */
const columnsOf = () =>
  db.all<Column>(
    `select m.name as "table", c.name as name, c.type as type, (c."notnull" or c.pk > 0) as required
     from sqlite_master m join pragma_table_info(m.name) c
     where m.type = 'table' and m.name in (select name from pragma_table_list where type = 'table')
       and m.name not glob 'sqlite_*' and m.name not glob 'libsql_*' and m.name not glob '_*'`,
  )

/** By what column the rows of a session are known; undefined: there are none, or no column says whose they are. */
const sessionColumn = (columns: readonly Column[], table: string) =>
  table === 'sessions'
    ? 'id'
    : columns.find(({ table: of, name }) => of === table && name === 'session_id')?.name

interface Owner {
  organisationId: string
  sessionId: string
  number: number
}
const gone: Owner = { organisationId: 'org_1', sessionId: 'ses_gone', number: 1 }
const kept: Owner = { organisationId: 'org_1', sessionId: 'ses_kept', number: 2 }
const other: Owner = { organisationId: 'org_2', sessionId: 'ses_other', number: 3 }

/** A value that fits. What must be unique is unique to the session. */
function valueOf({ table, name, type }: Column, owner: Owner): DbValue {
  const { organisationId, sessionId, number } = owner
  if (name === 'organisation_id') return organisationId
  if (name === 'session_id' || (table === 'sessions' && name === 'id')) return sessionId
  // Everybody has the same content, and each has something of its own.
  if (name === 'sha256') return 'shared'
  if (type.toLowerCase() === 'blob') return new Uint8Array([1])
  if (/int|real/i.test(type)) return number
  return `${table}.${name} of ${sessionId}`
}

async function fill(columns: readonly Column[], table: string, owner: Owner): Promise<void> {
  const own = columns.filter(
    (column) => column.table === table && (column.required || column.name === 'session_id'),
  )
  await db.batch([
    {
      sql: `insert or ignore into ${table} (${own.map(({ name }) => name).join(', ')})
        values (${own.map(() => '?').join(', ')})`,
      values: own.map((column) => valueOf(column, owner)),
    },
  ])
}

async function count(columns: readonly Column[], owner: Owner): Promise<Record<string, number>> {
  const names = [...new Set(columns.map(({ table }) => table))]
  const counts = await Promise.all(
    names.map(async (table) => {
      const column = sessionColumn(columns, table)
      if (column === undefined) return null
      const rows = await db.all(`select 1 from ${table} where ${column} = ?`, owner.sessionId)
      return [table, rows.length] as const
    }),
  )
  return Object.fromEntries(counts.filter((item) => item !== null))
}

const erase = ({ sessionId, organisationId, number }: Owner, createdAt = 1) =>
  ledger.append({
    sessionId,
    organisationId,
    after: number,
    rows: [{ seq: number + 1, kind: 'session.erased', payload: '{}', createdAt }],
  })

describe('erasing', () => {
  test('[SES6] every table of the real schema says what becomes of an erased session’s rows', async () => {
    const columns = await columnsOf()
    const declared = new Map<string, unknown>([
      ...projected.map((table) => [table.name, table] as const),
      ...Object.entries(otherTables),
    ])
    const real = [...new Set(columns.map(({ table }) => table))]
    expect(real.filter((table) => !declared.has(table))).toEqual([])
    expect([...declared.keys()].filter((table) => !real.includes(table))).toEqual([])
    const withoutReason = projected.filter(
      ({ session, stays }) => session === 'organisation_id' && stays === undefined,
    )
    expect(withoutReason).toEqual([])
    const fates = Object.entries(otherTables)
    expect(fates.filter(([, fate]) => typeof fate === 'object' && !fate.stays)).toEqual([])
    // What is said to be of no session has no column for one.
    const ofNone = Object.entries(otherTables).flatMap(([table, fate]) =>
      typeof fate === 'object' && fate.stays === 'Of no session' ? [table] : [],
    )
    expect(ofNone.filter((table) => sessionColumn(columns, table) !== undefined)).toEqual([])
  })

  test('[SES6] one of three is erased: none of its rows is left, and none of the others’ is gone', async () => {
    const columns = await columnsOf()
    const names = [...new Set(columns.map(({ table }) => table))]
    for (const { organisationId } of [gone, other])
      await db.batch([
        {
          sql: `insert into organisations (id, name, created_at) values (?, 'n', 1)`,
          values: [organisationId],
        },
      ])
    for (const owner of [gone, kept, other])
      for (const table of names) if (table !== 'organisations') await fill(columns, table, owner)
    await db.batch([
      {
        sql: `insert into blob_index values ('org_1', 'own', 1, 1)`,
        values: [],
      },
      { sql: `insert into blobs values ('org_1', 'own', 0, 'x')`, values: [] },
      { sql: `insert into blob_claims values ('org_1', 'own', 'ses_gone', 1)`, values: [] },
    ])
    const before = await Promise.all([count(columns, kept), count(columns, other)])
    const filled = Object.values(await count(columns, gone))
    expect(filled.filter((rows) => rows === 0)).toEqual([])
    await erase(gone)

    const left = Object.entries(await count(columns, gone))
      .filter(([, rows]) => rows > 0)
      .map(([table]) => table)
    const staying = projected.filter(({ stays }) => stays).map(({ name }) => name)
    expect(left.toSorted()).toEqual([...staying, 'outbox_watermarks'].toSorted())
    expect(await Promise.all([count(columns, kept), count(columns, other)])).toEqual(before)
    const content = await db.all(
      'select distinct organisation_id, sha256 from blob_index join blobs using (organisation_id, sha256) order by 1, 2',
    )
    expect(content).toEqual([
      { organisation_id: 'org_1', sha256: 'shared' },
      { organisation_id: 'org_2', sha256: 'shared' },
    ])
    await erase(kept)
    const rest = await db.all(
      'select organisation_id from blob_index union select organisation_id from blobs',
    )
    expect(rest).toEqual([{ organisation_id: 'org_2' }])
  })

  test('[SES6] a write that the server carries out only after the erasure changes nothing', async () => {
    const late: Owner = { organisationId: 'org_1', sessionId: 'ses_late', number: 0 }
    await erase(late)
    const turn = { id: 'trn_late', state: 'running', inputTokens: 0, outputTokens: 0, createdAt: 1 }
    const row = { seq: 9, kind: 'turn', payload: JSON.stringify(turn), createdAt: 1 }
    await db.batch([...ledgerStatements(late, [row]), ledgerWatermark(late.sessionId, 9)])
    expect(await db.all('select id from turns where id = ?', turn.id)).toEqual([])
  })

  test('[SES6] the mark of an erased session goes a day later, with the next erasure', async () => {
    const marked = () =>
      db.all('select session_id from outbox_watermarks where session_id = ?', 'ses_old')
    const old: Owner = { organisationId: 'org_1', sessionId: 'ses_old', number: 0 }
    const next: Owner = { organisationId: 'org_2', sessionId: 'ses_next', number: 0 }
    await erase(old)
    await erase({ ...next, sessionId: 'ses_soon' }, day)
    expect(await marked()).toHaveLength(1)
    await erase(next, day + 2)
    expect(await marked()).toEqual([])
  })
})
