import { describe, expect, test } from 'vitest'
import { hasClimbedLadder, climbLadder, type Rung } from '../../../src/core/actor/ladder.ts'
import type { Sql } from '../../../src/core/ports.ts'
import { memorySql } from '../../support/sql.ts'

const a = ['create table a (x)']
const b = ['create table b (x)']
const c = ['create table c (x)']
const breaking = { breaks: ['drop table a'] }

const namesIn = (sql: Sql) =>
  sql.all<{ name: string }>('select name from sqlite_master order by name').map(({ name }) => name)
const everythingIn = (sql: Sql) => [
  namesIn(sql),
  sql.all('select * from _schema'),
  sql.all('select * from _ladder'),
]

/** As it was in release 0.1.0: above its ladder it writes its own version down. */
function migrateAsIn010(sql: Sql, ladder: readonly (readonly string[])[]): void {
  const version = hasClimbedLadder(sql)
    ? (sql.all<{ version: number }>('select version from _schema')[0]?.version ?? 0)
    : 0
  if (version === ladder.length) return
  sql.transaction(() => {
    sql.run('create table if not exists _schema (version integer not null)')
    for (const rung of ladder.slice(version)) for (const statement of rung) sql.run(statement)
    sql.run('delete from _schema')
    sql.run('insert into _schema (version) values (?)', ladder.length)
  })
}

describe('[REL3] a ladder', () => {
  test('asking writes nothing; climbing twice is climbing once; a failed rung leaves nothing', () => {
    const sql = memorySql()
    expect(hasClimbedLadder(sql)).toBe(false)
    expect(namesIn(sql)).toEqual([])
    expect(() => climbLadder(sql, [a, ['not sql']])).toThrow()
    expect(namesIn(sql)).toEqual([])
    expect([climbLadder(sql, [a]), climbLadder(sql, [a]), climbLadder(sql, [a, b])]).toEqual([
      1, 1, 2,
    ])
    expect(namesIn(sql)).toEqual(['_ladder', '_schema', 'a', 'b'])
  })

  test('goes on where release 0.1.0 has left it, and at the top it only reads', () => {
    const sql = memorySql()
    migrateAsIn010(sql, [a])
    expect(climbLadder(sql, [a, b])).toBe(2)
    const readOnly: Sql = {
      ...sql,
      run: () => expect.fail('wrote'),
      transaction: () => expect.fail('wrote'),
    }
    expect(climbLadder(readOnly, [a, b])).toBe(2)
  })

  test('is climbed by a newer release, opened by release 0.1.0, and climbed no rung twice', () => {
    const sql = memorySql()
    climbLadder(sql, [a, b, c])
    migrateAsIn010(sql, [a])
    expect(sql.all('select version from _schema')).toEqual([{ version: 1 }])
    expect(climbLadder(sql, [a, b, c])).toBe(3)
    migrateAsIn010(sql, [a])
    expect(climbLadder(sql, [a, b, c, ['create table d (x)']])).toBe(4)
    expect(namesIn(sql)).toEqual(['_ladder', '_schema', 'a', 'b', 'c', 'd'])
  })

  test('a release with fewer rungs uses what only was added to, and changes nothing about it', () => {
    const sql = memorySql()
    climbLadder(sql, [a, b, c])
    const before = everythingIn(sql)
    expect(climbLadder(sql, [a, b])).toBe(3)
    expect(everythingIn(sql)).toEqual(before)
    expect(climbLadder(sql, [a, b, c])).toBe(3)
  })

  test('[REL4] a release with fewer rungs refuses what a newer one has changed for good, and writes nothing', () => {
    const sql = memorySql()
    const newer: Rung[] = [a, b, breaking, c]
    climbLadder(sql, newer)
    const before = everythingIn(sql)
    for (const older of [[], [a], [a, b]])
      expect(() => climbLadder(sql, older)).toThrow(
        expect.objectContaining({
          code: 'newer_release',
          message: expect.stringContaining('rung 3'),
        }),
      )
    expect(everythingIn(sql)).toEqual(before)
    expect(climbLadder(sql, newer.slice(0, 3))).toBe(4)
    expect(climbLadder(sql, newer)).toBe(4)
  })
})
