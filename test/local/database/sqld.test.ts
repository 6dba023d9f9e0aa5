import { cpSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createClient } from '@libsql/client/web'
import { expect, onTestFinished, test } from 'vitest'
import { root } from '../../../local/binaries.ts'
import { ensureFirstKey } from '../../../local/admin/first-key.ts'
import { applyMigrations, splitMigration } from '../../../local/database/migrations.ts'
import { canWriteSqld, type Sqld, startSqld } from '../../../local/database/sqld.ts'
import { createLibsql } from '../../../src/adapters/libsql.ts'
import { tempDir } from '../support.ts'

async function sqldFor(stateDir = tempDir()): Promise<Sqld> {
  const sqld = await startSqld({ stateDir })
  onTestFinished(() => sqld.stop())
  return sqld
}

async function rows(sqld: Sqld, sql: string) {
  const client = createClient({ url: sqld.url, authToken: sqld.token })
  return (await client.execute(sql)).rows.map((row) => Object.values(row))
}

test('[LOC11] the libSQL server refuses whoever has no token of its key', async () => {
  const sqld = await sqldFor()
  const body = JSON.stringify({ requests: [{ type: 'execute', stmt: { sql: 'select 1' } }] })
  const status = async (headers: Record<string, string>) =>
    (await fetch(`${sqld.url}/v2/pipeline`, { method: 'POST', headers, body })).status
  expect(await status({})).toBe(401)
  expect(await status({ authorization: `Bearer ${sqld.token.slice(0, -8)}AAAAAAAA` })).toBe(401)
  expect(await status({ authorization: `Bearer ${sqld.token}` })).toBe(200)
})

test('[LOC11] its data and its token survive a kill and a start', async () => {
  const sqld = await sqldFor()
  await rows(sqld, 'create table t (n integer)')
  await rows(sqld, 'insert into t values (7)')
  sqld.kill('SIGKILL')
  await sqld.start()
  expect(await canWriteSqld(sqld.url, sqld.token)).toBe(true)
  expect(await rows(sqld, 'select n from t')).toEqual([[7]])
})

test('[LOC11] many large writes at once all come to an end', async () => {
  const sqld = await sqldFor()
  await rows(sqld, 'create table t (bytes blob)')
  const write = async () => {
    const db = createLibsql({ url: sqld.url, token: sqld.token, requestTimeoutMs: 20_000 })
    const statement = { sql: 'insert into t values (?)', values: [new Uint8Array(512 * 1024)] }
    for (let n = 0; n < 40; n += 1) await db.batch([statement])
  }
  await Promise.all(Array.from({ length: 8 }, write))
  expect(await rows(sqld, 'select count(*) from t')).toEqual([[320]])
})

test('[HOST3] a part that cannot start is named, with its last lines, its log and what to do', async () => {
  const stateDir = tempDir()
  writeFileSync(join(stateDir, 'libsql'), 'no folder')
  const failure = await startSqld({ stateDir }).catch((error: Error) => error.message)
  expect(failure).toMatch(/^The libSQL server ended while starting \(/)
  expect(failure).toContain('Its last lines:')
  expect(failure).toContain(`Its log: ${join(stateDir, 'libsql.log')}`)
  expect(failure).toContain('If its data is damaged, move the folder "libsql"')
})

test('[HOST3] a part that dies is reported with how it ended', async () => {
  const died = Promise.withResolvers<Error>()
  const sqld = await startSqld({ stateDir: tempDir(), onDeath: died.resolve })
  onTestFinished(() => sqld.stop())
  process.kill(sqld.pid(), 'SIGKILL')
  expect((await died.promise).message).toMatch(/^The libSQL server has died \(signal SIGKILL\)/)
})

test('[LOC12] migrations are applied once and in order', async () => {
  const sqld = await sqldFor()
  const folder = tempDir()
  writeFileSync(
    join(folder, '0002_b.sql'),
    'alter table t add column b text; -- no newline at the end',
  )
  writeFileSync(join(folder, '0001_a.sql'), 'create table t (a text);\ncreate index i on t (a);\n')
  expect(await applyMigrations(sqld.url, sqld.token, folder)).toEqual(['0001_a.sql', '0002_b.sql'])
  expect(await applyMigrations(sqld.url, sqld.token, folder)).toEqual([])
  expect(await rows(sqld, 'select a, b from t')).toEqual([])
})

test('[LOC12] a migration that was changed, is missing or comes too early is refused', async () => {
  const sqld = await sqldFor()
  const folder = tempDir()
  const apply = () => applyMigrations(sqld.url, sqld.token, folder)
  writeFileSync(join(folder, '0002_b.sql'), 'create table b (x text);')
  await apply()
  writeFileSync(join(folder, '0001_a.sql'), 'create table a (x text);')
  await expect(apply()).rejects.toThrow('"0001_a.sql" comes before "0002_b.sql"')
  rmSync(join(folder, '0001_a.sql'))
  writeFileSync(join(folder, '0002_b.sql'), 'create table b (y text);')
  await expect(apply()).rejects.toThrow('"0002_b.sql" has changed since it was applied')
  rmSync(join(folder, '0002_b.sql'))
  writeFileSync(join(folder, '0003_c.sql'), 'create table c (x text);')
  await expect(apply()).rejects.toThrow('a newer release made it')
})

test('[REL5] the release before starts on what a newer one has added, refuses what it has broken, and both go on after', async () => {
  const sqld = await sqldFor()
  const folder = tempDir()
  const unknown: string[] = []
  const apply = () =>
    applyMigrations(sqld.url, sqld.token, folder, (names) => void unknown.push(...names))
  const added = join(folder, '0002_b.sql')
  const breaking = join(folder, '0003_c_breaking.sql')
  writeFileSync(join(folder, '0001_a.sql'), 'create table a (x text);')
  writeFileSync(added, 'create table b (x text);')
  expect(await apply()).toHaveLength(2)
  rmSync(added)
  expect([await apply(), unknown]).toEqual([[], ['0002_b.sql']])
  writeFileSync(added, 'create table b (x text);')
  writeFileSync(breaking, 'drop table a; create table a (y text);')
  expect(await apply()).toEqual(['0003_c_breaking.sql'])
  rmSync(breaking)
  const before = await rows(sqld, 'select * from _migrations')
  await expect(apply()).rejects.toThrow('a newer release made it. Use that release or newer')
  expect(await rows(sqld, 'select * from _migrations')).toEqual(before)
  writeFileSync(breaking, 'drop table a; create table a (y text);')
  expect(await apply()).toEqual([])
})

test('[LOC12] a migration that fails leaves nothing behind', async () => {
  const sqld = await sqldFor()
  const folder = tempDir()
  const file = join(folder, '0001_a.sql')
  writeFileSync(file, 'create table half (x text); create table nonsense here;')
  await expect(applyMigrations(sqld.url, sqld.token, folder)).rejects.toThrow(
    'Cannot apply migration "0001_a.sql"',
  )
  writeFileSync(file, 'create table half (x text);')
  expect(await applyMigrations(sqld.url, sqld.token, folder)).toEqual(['0001_a.sql'])
})

test('[LOC12] a migration is split at the ends of its statements only', () => {
  const sql = `-- a; comment
    create table a (x text default ';', "b;" text); /* more; */
    create trigger t after insert on a begin
      update a set x = 'it''s; fine'; delete from a;
    end;
    select 1 - 2 / 3`
  expect(splitMigration(sql).map((statement) => statement.replaceAll(/\s+/g, ' '))).toEqual([
    `create table a (x text default ';', "b;" text)`,
    `create trigger t after insert on a begin update a set x = 'it''s; fine'; delete from a; end`,
    'select 1 - 2 / 3',
  ])
})

test('[LOC13] the first key is written once, for the owner alone, and only its hash is stored', async () => {
  const stateDir = tempDir()
  const sqld = await sqldFor(stateDir)
  const folder = join(stateDir, 'migrations')
  mkdirSync(folder)
  cpSync(join(root, 'migrations'), folder, { recursive: true })
  await applyMigrations(sqld.url, sqld.token, folder)
  const first = await ensureFirstKey(stateDir, sqld.url, sqld.token)
  const second = await ensureFirstKey(stateDir, sqld.url, sqld.token)
  expect(first.secret).toMatch(/^gk_[0-9a-z]{32}$/)
  expect(second).toEqual({ ...first, created: false })
  expect(readFileSync(first.path, 'utf8')).toBe(`${first.secret}\n`)
  expect(statSync(first.path).mode & 0o777).toBe(0o600)
  const stored = JSON.stringify(await rows(sqld, 'select * from api_keys'))
  expect(stored).not.toContain(first.secret)
  rmSync(first.path)
  const third = await ensureFirstKey(stateDir, sqld.url, sqld.token)
  expect(third).toMatchObject({ created: true, organisationId: first.organisationId })
})
