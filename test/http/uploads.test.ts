import { beforeAll, expect, test } from 'vitest'
import { storeArtifacts } from '../../src/core/session/artifacts/rows.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const mebibyte = 1024 * 1024
const hour = 60 * 60_000
const day = 24 * hour
const libsql = useLibsql()
let app: TestApp
let key: string
let organisationId: string

const open = async (uploadMegabytesPerSession: number, uploadMegabytes: number) => {
  const firewall = { uploadMegabytesPerSession, uploadMegabytes }
  app = createTestApp({ db: libsql.db, firewall })
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
}
beforeAll(() => open(60, 100))

const create = async (input: object = {}) =>
  (await app.call('POST', '/v1/sessions', key, input)).json.id as string

async function upload(sessionId: string, megabytes: number, seed: number) {
  const { token } = await app.deps.tokens.mint({ sessionId, organisationId, generation: 1 })
  const bytes = new Uint8Array(megabytes * mebibyte).fill(seed)
  const response = await app.app.request(`/sandbox/${sessionId}/artifacts`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${token}` },
    body: bytes,
  })
  const json = (await response.json()) as { sha256?: string; error?: { message: string } }
  return { status: response.status, sha256: json.sha256 ?? '', message: json.error?.message ?? '' }
}
let artifacts = 0
/** As a call does that has collected it. */
const nameIt = (sessionId: string, sha256: string, megabytes: number) =>
  app.databaseOf(sessionId).transaction(() => {
    artifacts += 1
    const file = { path: `p${artifacts}`, contentType: 't', size: megabytes * mebibyte, sha256 }
    const id = `art_${String(artifacts).padStart(20, '0')}`
    storeArtifacts(app.databaseOf(sessionId), 1, `op${artifacts}`, [{ id, ...file }])
  })
const heldIn = (organisation: string) =>
  app
    .actorOf(organisation)
    .api.uploads.hold('ses_other', 1e15)
    .then(({ refusal }) => refusal)
const stored = async () =>
  (await libsql.db().all('select 1 from blob_index where organisation_id = ?', organisationId))
    .length
async function wake(sessionId: string) {
  await app.settle()
  await app.sessions.get(sessionId)?.runDue()
  await app.settle()
}

test('[SES19] 80 MiB under a budget of one call: what no command could need is refused before it is stored', async () => {
  await open(1024, 20_480)
  const sessionId = await create({ budget: { toolCalls: 1 } })
  const answers = []
  for (let n = 0; n < 10; n += 1) answers.push(await upload(sessionId, 8, n))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, ...Array(6).fill(413)])
  expect(answers[4]?.message).toBe(
    `Cannot store ${8 * mebibyte} bytes: ${32 * mebibyte} bytes of uploads wait for an artifact that names them, and ${32 * mebibyte} are allowed`,
  )
  expect(await stored()).toBe(4)
  // The same again is no more than before.
  expect((await upload(sessionId, 8, 0)).status).toBe(200)
  // A command that uploads makes room for what it may collect.
  app
    .databaseOf(sessionId)
    .run(
      `insert into commands (id, generation, kind, body, state, created_at) values ('c', 1, 'collect', '{}', 'done', ?)`,
      app.deps.now(),
    )
  for (let n = 4; n < 8; n += 1) expect((await upload(sessionId, 8, n)).status).toBe(200)
  expect((await upload(sessionId, 1, 99)).status).toBe(413)
})

test('[SES19] what is named makes room again, up to the limit of the session', async () => {
  await open(15, 25)
  const sessionId = await create()
  for (let n = 0; n < 7; n += 1) {
    const { status, sha256 } = await upload(sessionId, 2, n)
    expect([n, status]).toEqual([n, 200])
    nameIt(sessionId, sha256, 2)
  }
  const refused = await upload(sessionId, 2, 7)
  expect([refused.status, refused.message]).toEqual([
    413,
    expect.stringMatching(/session holds 14\.0 MiB .* 15 MiB are allowed \(uploadMegabytesPer/),
  ])
  expect((await upload(sessionId, 1, 8)).status).toBe(200)
  expect(await stored()).toBe(8)
})

test('[SES19] [SES14] all sessions of an organisation share its limit, and the count goes down with what is swept or erased', async () => {
  await open(15, 16)
  const [first, second, third] = [await create(), await create(), await create()]
  const kept = await upload(first, 2, 1)
  nameIt(first, kept.sha256, 2)
  for (let n = 2; n < 6; n += 1) expect((await upload(first, 1.5, n)).status).toBe(200)
  for (let n = 6; n < 10; n += 1) expect((await upload(second, 2, n)).status).toBe(200)
  const refused = await upload(third, 2, 10)
  expect([refused.status, refused.message]).toEqual([
    413,
    expect.stringMatching(/organisation holds 16\.0 MiB .* 16 MiB are allowed \(uploadMegabytes /),
  ])
  expect((await upload(first, 1.5, 2)).status).toBe(200)
  // Another organisation has its own.
  expect(await heldIn(await app.makeOrganisation())).toContain('session holds 0.0 MiB')

  app.pass(day + hour)
  await expect
    .poll(async () => (await wake(first), app.pass(1000), (await upload(third, 2, 10)).status))
    .toBe(200)
  await expect.poll(async () => (await wake(first), stored())).toBe(6)
  expect(await app.deps.blobs().get(organisationId, kept.sha256)).not.toBeNull()
  // 2 named, 8 of the second, 2 of the third.
  for (let n = 20; n < 22; n += 1) expect((await upload(third, 2, n)).status).toBe(200)
  expect((await upload(third, 2, 22)).status).toBe(413)

  expect((await app.call('DELETE', `/v1/sessions/${second}`, key)).status).toBe(204)
  await expect
    .poll(async () => (await wake(second), app.pass(30_000), app.sessions.has(second)), {
      timeout: 60_000,
    })
    .toBe(false)
  expect((await upload(third, 2, 22)).status).toBe(200)
  expect(await stored()).toBe(5)
})

test('[SES13] [SES19] uploads that nothing names yet and two sessions share outlive the erasure of one', async () => {
  await open(60, 100)
  const [first, second] = [await create(), await create()]
  const [{ sha256 }] = [await upload(first, 2, 1), await upload(second, 2, 1)]
  await upload(first, 2, 2)
  await app.call('DELETE', `/v1/sessions/${first}`, key)
  await expect
    .poll(async () => (await wake(first), app.pass(30_000), app.sessions.has(first)), {
      timeout: 60_000,
    })
    .toBe(false)
  expect(await stored()).toBe(1)
  expect(await app.deps.blobs().get(organisationId, sha256)).toHaveLength(2 * mebibyte)
  // And it counts for the one that holds it.
  const sql = app.databaseOf(second)
  expect(sql.all('select size from uploads')).toEqual([{ size: 2 * mebibyte }])
})

test('[SES19] of many at once no more are let in than fit', async () => {
  await open(20, 100)
  const sessionId = await create()
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, seed) => upload(sessionId, 4, seed)),
  )
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(5)
  expect(await stored()).toBe(5)
})
