import { beforeEach, describe, expect, test } from 'vitest'
import { createBlobs } from '../../../../src/adapters/blobs.ts'
import { cryptoSha256 } from '../../../../src/adapters/web-crypto.ts'
import { LedgerActor } from '../../../../src/core/ledger/ledger.ts'
import { storeArtifacts } from '../../../../src/core/session/artifacts/rows.ts'
import type { BlobHolder, Db, OutboxRow } from '../../../../src/core/ports.ts'
import { useLibsql } from '../../../support/libsql.ts'
import { testCaller, TestSession } from '../../../support/session.ts'
import { memorySql } from '../../../support/sql.ts'

const hour = 60 * 60_000
const day = 24 * hour
const libsql = useLibsql()
const bytes = new Uint8Array(600_000).fill(7)
let hash: string
let ledger: LedgerActor
let a: BlobHolder
let b: BlobHolder
let elsewhere: BlobHolder
let tests = 0
beforeEach(async () => {
  tests += 1
  hash = await cryptoSha256(bytes)
  const [organisationId, other] = [`org_${tests}`, `org_${tests}_other`]
  a = { organisationId, sessionId: `ses_${tests}_a` }
  b = { organisationId, sessionId: `ses_${tests}_b` }
  elsewhere = { organisationId: other, sessionId: `ses_${tests}_c` }
  ledger = new LedgerActor({ sql: memorySql(), db: libsql.db, now: () => 7, log: () => {} })
})

const blobs = (db: Db = libsql.db(), at = 1) => createBlobs(db, () => at)
/** Each session's rows are numbered by itself. */
const seqs = new Map<string, number>()
function send(holder: BlobHolder, kind: string, payload: object, createdAt = 1) {
  const after = seqs.get(holder.sessionId) ?? 0
  seqs.set(holder.sessionId, after + 1)
  const row: OutboxRow = { seq: after + 1, kind, payload: JSON.stringify(payload), createdAt }
  return ledger.append({ ...holder, after, rows: [row] })
}
const name = (holder: BlobHolder) =>
  send(holder, 'artifact', {
    ...{ id: `art of ${holder.sessionId}`, operationId: 'op', path: 'p', contentType: 't' },
    ...{ size: bytes.length, sha256: hash, createdAt: 1 },
  })
const erase = (holder: BlobHolder) => send(holder, 'session.erased', {})
const isWhole = async ({ organisationId }: BlobHolder) => {
  const stored = await blobs().get(organisationId, hash)
  return stored !== null && (await cryptoSha256(stored)) === hash
}
/** Rows of an organisation in all three tables. */
const left = async ({ organisationId }: BlobHolder) => {
  const tables = ['blob_claims', 'blob_index', 'blobs']
  const rows = tables.map((table) =>
    libsql.db().all(`select 1 from ${table} where organisation_id = ?`, organisationId),
  )
  return (await Promise.all(rows)).flat().length
}

/** The real server, with something done before its nth request. */
function interrupted(
  nth: number,
  work: () => Promise<unknown>,
): { db: Db; requests: () => number } {
  const db = libsql.db()
  let requests = 0
  const before = async () => {
    if (++requests === nth) await work()
  }
  return {
    requests: () => requests,
    db: {
      all: async (...args) => (await before(), db.all(...args)),
      batch: async (statements) => (await before(), db.batch(statements)),
    },
  }
}
/** For every request of an upload that stores something: claim, look, a chunk, another one with the index. */
const steps = [1, 2, 3, 4]

describe('content that sessions share', () => {
  test('[SES13] what another session has uploaded is kept although nothing names it yet', async () => {
    await blobs().put(a, hash, bytes)
    await name(a)
    await blobs().put(b, hash, bytes)
    await erase(a)
    await name(b)
    expect(await isWhole(b)).toBe(true)
    await erase(b)
    expect(await left(b)).toBe(0)
  })

  test.each(steps)(
    '[SES13] erased before request %i of another session’s upload, it takes nothing from it',
    async (nth) => {
      const { db, requests } = interrupted(nth, () => erase(a))
      await blobs().put(a, hash, bytes)
      await name(a)
      await blobs(db).put(b, hash, bytes)
      if (requests() < nth) await erase(a)
      await name(b)
      expect(await isWhole(b)).toBe(true)
      await erase(b)
      expect(await left(b)).toBe(0)
    },
  )

  test('[SES13] what is said to be there when evidence is checked stays', async () => {
    await blobs().put(a, hash, bytes)
    expect(await blobs().hold(b, [hash])).toEqual(new Map([[hash, bytes.length]]))
    await erase(a)
    expect(await isWhole(b)).toBe(true)
    await erase(b)
    expect(await left(b)).toBe(0)
  })

  test('[SES13] two organisations with the same content have nothing to do with each other', async () => {
    for (const holder of [a, elsewhere]) await blobs().put(holder, hash, bytes)
    await erase(a)
    expect([await left(a), await isWhole(elsewhere)]).toEqual([0, true])
  })

  test('[SES13] what an earlier release has stored without a claim is held by the rows that name it', async () => {
    await blobs().put(a, hash, bytes)
    for (const holder of [a, b]) await name(holder)
    await libsql
      .db()
      .batch([
        { sql: 'delete from blob_claims where organisation_id = ?', values: [a.organisationId] },
      ])
    await erase(a)
    expect(await isWhole(b)).toBe(true)
    await erase(b)
    expect(await left(b)).toBe(0)
  })
})

describe('uploads that end in between', () => {
  test.each(steps)(
    '[SES14] its own session is erased before request %i of an upload: nothing is left',
    async (nth) => {
      const { db, requests } = interrupted(nth, () => erase(a))
      await blobs(db)
        .put(a, hash, bytes)
        .catch((error: unknown) => expect(error).toMatchObject({ code: 'not_found' }))
      expect(requests()).toBeGreaterThanOrEqual(Math.min(nth, 2))
      expect(await left(a)).toBe(0)
      expect(await blobs().hold(a, [hash])).toEqual(new Map())
      await expect(blobs().put(a, hash, bytes)).rejects.toMatchObject({ code: 'not_found' })
      expect(await left(a)).toBe(0)
    },
  )

  test.each(steps)('[SES14] cut off at request %i: whole if repeated, gone if not', async (nth) => {
    const cut = () => Promise.reject(new Error('cut'))
    for (const holder of [a, b])
      await expect(blobs(interrupted(nth, cut).db).put(holder, hash, bytes)).rejects.toThrow('cut')
    expect(await isWhole(a)).toBe(false)
    await blobs().put(b, hash, bytes)
    await erase(a)
    expect(await isWhole(b)).toBe(true)
    await erase(b)
    expect(await left(b)).toBe(0)
  })
})

test('[SES14] many small ones share their requests, and all of them are held', async () => {
  const { db, requests } = interrupted(0, () => Promise.resolve())
  const many = new Map(
    await Promise.all(
      Array.from({ length: 30 }, async (_, n) => {
        const text = new TextEncoder().encode(`text ${n} of ${tests}`)
        return [await cryptoSha256(text), text] as const
      }),
    ),
  )
  await blobs(db).putAll(a, many)
  expect(requests()).toBe(3)
  await blobs(db).putAll(a, many)
  expect(requests()).toBe(5)
  expect((await blobs().hold(a, [...many.keys()])).size).toBe(30)
  await erase(a)
  expect(await left(a)).toBe(0)
  await expect(blobs().putAll(a, many)).rejects.toMatchObject({ code: 'not_found' })
})

describe('uploads that nothing names', () => {
  const sweep = (holder: BlobHolder, keep: string[] = []) =>
    send(holder, 'uploads.swept', { before: day, keep })

  test('[SES14] go when they are a day old, unless another session holds them', async () => {
    for (const holder of [a, b]) await blobs().put(holder, hash, bytes)
    await sweep(a)
    expect(await isWhole(b)).toBe(true)
    await sweep(b)
    expect(await left(b)).toBe(0)
  })

  test('[SES14] stay if they are named, younger, uploaded again, or about to be named', async () => {
    const holders = [a, b].map(({ organisationId }, n) => ({
      organisationId: `${organisationId}_${n}`,
      sessionId: `${organisationId}_${n}`,
    }))
    const [younger, again] = holders as [BlobHolder, BlobHolder]
    await blobs(libsql.db(), day).put(younger, hash, bytes)
    await blobs().put(again, hash, bytes)
    await blobs(libsql.db(), day).put(again, hash, bytes)
    await blobs().put(a, hash, bytes)
    await name(a)
    await blobs().put(elsewhere, hash, bytes)
    for (const holder of [younger, again, a]) await sweep(holder)
    await sweep(elsewhere, [hash])
    for (const holder of [younger, again, a, elsewhere]) expect(await isWhole(holder)).toBe(true)
  })

  test('[SES14] stay if release 0.1.0 has stored them: which session names them is not on record', async () => {
    await blobs().put(a, hash, bytes)
    const sql = 'delete from blob_claims where organisation_id = ?'
    await libsql.db().batch([{ sql, values: [a.organisationId] }])
    await sweep(b)
    expect(await isWhole(a)).toBe(true)
  })

  test('[SES14] are not looked for while a call is open: it may name them', async () => {
    const session = new TestSession()
    await session.create()
    const sandbox = { organisationId: testCaller.organisationId, generation: 1 }
    const swept = () => [...session.ledger.rows.values()].filter(isSweep).length
    await session.actor.api.agent.admitUpload(sandbox, hash, bytes)
    const call = session.call('unavailable', 'x', { times: 1 })
    await expect(call).rejects.toMatchObject({ code: 'storage_unavailable' })
    await session.pass(day + 2 * hour)
    expect(swept()).toBe(0)
    await session.call('unavailable', 'x', { times: 1 })
    await session.pass(2 * hour)
    expect(swept()).toBe(1)
    await session.pass(3 * day)
    expect(swept()).toBe(1)
  })
})

test('[SES14] content whose artifact libSQL has refused counts as named', async () => {
  const session = new TestSession()
  await session.create()
  const sandbox = { organisationId: testCaller.organisationId, generation: 1 }
  await session.actor.api.agent.admitUpload(sandbox, hash, bytes)
  session.sql.transaction(() =>
    storeArtifacts(session.sql, session.now, 'op', [
      { id: 'art_1', path: 'p', contentType: 't', size: 1, sha256: hash },
    ]),
  )
  const [row] = session.sql.all<{ seq: number }>(`select seq from outbox where kind = 'artifact'`)
  session.ledger.refused = [{ seq: row?.seq ?? 0, kind: 'artifact', error: 'no', at: 1 }]
  await session.pass(day + 2 * hour)
  const payloads = [...session.ledger.rows.values()].filter(isSweep).map(({ payload }) => payload)
  expect(payloads.map((payload) => (JSON.parse(payload) as { keep: string[] }).keep)).toEqual([
    [hash],
  ])
})

const isSweep = ({ kind }: OutboxRow) => kind === 'uploads.swept'
