import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { SqlFile } from '../../../src/hosts/deno/node-sqlite.ts'
import type { Sql } from '../../../src/core/ports.ts'
import { sqlSuite } from '../../suites/sql.ts'
import { writesSuite } from '../../suites/writes.ts'
import { memorySql } from '../../support/sql.ts'

const folder = mkdtempSync(join(tmpdir(), 'gantry-sql-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
let count = 0
const freshPath = () => join(folder, `${count++}`, 'a.sqlite')

async function withFile(work: (sql: Sql) => void | Promise<void>): Promise<void> {
  const sql = new SqlFile(freshPath())
  try {
    await work(sql)
  } finally {
    sql.close()
  }
}

sqlSuite('node:sqlite', withFile)
writesSuite('node:sqlite', withFile)

sqlSuite('memory, as tests of core use it', async (work) => work(memorySql()))

describe('a file', () => {
  test('is not made by reading, and is made by the first write', () => {
    const path = freshPath()
    const told: boolean[] = []
    const sql = new SqlFile(path, () => told.push(existsSync(path)))
    expect(sql.all('select name from sqlite_master')).toEqual([])
    expect([sql.exists(), existsSync(path), told]).toEqual([false, false, []])
    sql.run('create table things (id)')
    sql.transaction(() => sql.run('insert into things values (1)'))
    expect([sql.exists(), existsSync(path), told]).toEqual([true, true, [false]])
    sql.close()
  })

  test('keeps what was committed, leaves one file, and is written no more once closed', () => {
    const path = freshPath()
    const sql = new SqlFile(path)
    sql.run('create table things (id)')
    sql.run('insert into things values (1)')
    sql.close()
    expect(() => sql.all('select * from things')).toThrow('it was closed')
    expect(() => sql.transaction(() => {})).toThrow('it was closed')
    expect(readdirSync(join(path, '..'))).toEqual(['a.sqlite'])
    const again = new SqlFile(path)
    expect(again.all('select * from things')).toEqual([{ id: 1 }])
    again.close()
  })

  test('that is erased was never there, and can be made again', () => {
    const path = freshPath()
    const sql = new SqlFile(path)
    sql.run('create table things (id)')
    sql.erase()
    expect(readdirSync(join(path, '..'))).toEqual([])
    expect(sql.all('select name from sqlite_master')).toEqual([])
    expect(sql.exists()).toBe(false)
    sql.run('create table things (id)')
    expect(sql.exists()).toBe(true)
    sql.close()
  })

  test('commits to the disk, not only to the write-ahead log in memory', () => {
    const sql = new SqlFile(freshPath())
    sql.run('create table things (id)')
    expect(sql.all('pragma journal_mode')).toEqual([{ journal_mode: 'wal' }])
    expect(sql.all('pragma synchronous')).toEqual([{ synchronous: 2 }])
    sql.close()
  })
})
