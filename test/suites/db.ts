import { beforeAll, describe, expect, test } from 'vitest'
import type { Db } from '../../src/core/ports.ts'

/** What every Db must do. */
export function dbSuite(name: string, open: () => Db): void {
  describe(`Db: ${name}`, () => {
    beforeAll(async () => {
      await open().batch([
        {
          sql: 'create table things (id integer primary key, value, note text unique)',
          values: [],
        },
      ])
    })

    test('values come back as they were stored', async () => {
      const values = [
        'text \u{1f600} \n',
        42,
        1.5,
        -(2 ** 53 - 1),
        null,
        new Uint8Array([0, 255, 7]),
      ]
      for (const [id, value] of values.entries()) {
        await open().batch([
          { sql: 'insert into things (id, value) values (?, ?)', values: [id, value] },
        ])
      }
      const rows = await open().all<{ value: unknown }>(
        'select value from things where id < ? order by id',
        values.length,
      )
      expect(rows).toEqual(values.map((value) => ({ value })))
    })

    test('rows are plain objects with the names of the columns', async () => {
      const [row] = await open().all('select 1 as one, 2 as two')
      expect(Object.entries(row ?? {})).toEqual([
        ['one', 1],
        ['two', 2],
      ])
    })

    test('a batch is all or nothing', async () => {
      const batch = open().batch([
        { sql: `insert into things (id, note) values (100, 'a')`, values: [] },
        { sql: `insert into things (id, note) values (101, 'a')`, values: [] },
      ])
      await expect(batch).rejects.toThrow(/SQLITE_CONSTRAINT/)
      expect(await open().all('select id from things where id >= 100')).toEqual([])
    })

    test('a refused statement is not taken for an absent database', async () => {
      const nonsense = () => open().all('selec 1')
      await expect(nonsense()).rejects.toThrow(/SQL_PARSE_ERROR/)
      await expect(nonsense()).rejects.not.toMatchObject({ code: 'storage_unavailable' })
    })

    test('a table that is not there yet is waited for', async () => {
      const late = {
        code: 'storage_unavailable',
        message: expect.stringContaining('missing_table'),
      }
      await expect(open().all('select * from missing_table')).rejects.toMatchObject(late)
    })

    test('an empty batch does nothing', async () => {
      await open().batch([])
    })

    test('twenty writers at once all get through', async () => {
      const writes = Array.from({ length: 20 }, (_, i) =>
        open().batch([{ sql: 'insert into things (id) values (?)', values: [200 + i] }]),
      )
      await Promise.all(writes)
      const [row] = await open().all<{ n: number }>(
        'select count(*) as n from things where id between 200 and 219',
      )
      expect(row?.n).toBe(20)
    })
  })
}
