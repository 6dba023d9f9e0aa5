import { describe, expect, test } from 'vitest'
import type { Sql } from '../../src/core/ports.ts'

/** What every Sql must do. `withSql` gives an empty database to each test. */
export function sqlSuite(
  name: string,
  withSql: (work: (sql: Sql) => void | Promise<void>) => Promise<void>,
): void {
  const onSql = (title: string, work: (sql: Sql) => void | Promise<void>) =>
    test(title, () => withSql(work))
  const withTable = (title: string, work: (sql: Sql) => void) =>
    onSql(title, (sql) => {
      sql.run('create table things (id integer primary key, value, note text unique)')
      work(sql)
    })
  const ids = (sql: Sql) =>
    sql.all<{ id: number }>('select id from things order by id').map(({ id }) => id)
  const add = (sql: Sql, id: number) => sql.run('insert into things (id) values (?)', id)
  const fail = () => {
    throw new Error('undone')
  }

  describe(`Sql: ${name}`, () => {
    onSql('an empty database can be read', (sql) => {
      expect(sql.all('select name from sqlite_master')).toEqual([])
      expect(() => sql.all('select * from things')).toThrow('no such table')
    })

    withTable('values come back as they were stored', (sql) => {
      const values = ['', 'text \u{1f600} \n', 0, 42, 1.5, -(2 ** 53 - 1), Date.now(), null]
      for (const [id, value] of values.entries()) {
        sql.run('insert into things (id, value) values (?, ?)', id, value)
      }
      expect(sql.all('select value from things order by id')).toEqual(
        values.map((value) => ({ value })),
      )
    })

    withTable('a mebibyte of text fits', (sql) => {
      const text = 'ä'.repeat(512 * 1024)
      sql.run('insert into things (value) values (?)', text)
      expect(sql.all('select value from things')).toEqual([{ value: text }])
    })

    withTable('rows have the names of the columns, in their order', (sql) => {
      add(sql, 1)
      const [row] = sql.all('select 2 as two, id as one from things')
      expect(Object.entries(row ?? {})).toEqual([
        ['two', 2],
        ['one', 1],
      ])
    })

    withTable('one statement serves many values, and sees a changed table', (sql) => {
      for (let id = 0; id < 20; id++) add(sql, id)
      expect(sql.all('select * from things where id = ?', 7)).toEqual([
        { id: 7, value: null, note: null },
      ])
      sql.run('alter table things add column more text')
      expect(sql.all('select * from things where id = ?', 8)).toEqual([
        { id: 8, value: null, note: null, more: null },
      ])
      for (let at = 0; at < 300; at++) expect(sql.all(`select ${at} as n`)).toEqual([{ n: at }])
    })

    withTable('a row that is changed can be returned', (sql) => {
      add(sql, 1)
      const rows = sql.all('update things set value = 2 where id = 1 returning id, value')
      expect(rows).toEqual([{ id: 1, value: 2 }])
    })

    withTable('a transaction gives back what its work gives', (sql) => {
      const outcome = sql.transaction(() => {
        add(sql, 1)
        return { n: ids(sql).length }
      })
      expect(outcome).toEqual({ n: 1 })
      expect(ids(sql)).toEqual([1])
    })

    withTable('a transaction that throws leaves nothing, and the next one works', (sql) => {
      expect(() =>
        sql.transaction(() => {
          add(sql, 1)
          sql.run('create table other (id)')
          fail()
        }),
      ).toThrow('undone')
      expect(ids(sql)).toEqual([])
      expect(sql.all(`select 1 from sqlite_master where name = 'other'`)).toEqual([])
      sql.transaction(() => add(sql, 2))
      expect(ids(sql)).toEqual([2])
    })

    withTable('a refused statement that is caught spoils nothing', (sql) => {
      sql.transaction(() => {
        sql.run(`insert into things (id, note) values (1, 'a')`)
        expect(() => sql.run(`insert into things (id, note) values (2, 'a')`)).toThrow(/UNIQUE/)
        add(sql, 3)
      })
      expect(ids(sql)).toEqual([1, 3])
    })

    withTable('an inner transaction that throws takes only its own work along', (sql) => {
      sql.transaction(() => {
        add(sql, 1)
        expect(() =>
          sql.transaction(() => {
            add(sql, 2)
            sql.transaction(() => add(sql, 3))
            fail()
          }),
        ).toThrow('undone')
        sql.transaction(() => add(sql, 4))
      })
      expect(ids(sql)).toEqual([1, 4])
    })

    withTable('an outer transaction that throws takes the inner ones along', (sql) => {
      expect(() =>
        sql.transaction(() => {
          sql.transaction(() => add(sql, 1))
          fail()
        }),
      ).toThrow('undone')
      expect(ids(sql)).toEqual([])
    })
  })
}
