import { beforeAll, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const hour = 60 * 60_000
const day = 24 * hour
const libsql = useLibsql()
let app: TestApp
let key: string
let organisationId: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
})

const create = async () => (await app.call('POST', '/v1/sessions', key, {})).json.id as string

async function upload(sessionId: string, text: string) {
  const { token } = await app.deps.tokens.mint({ sessionId, organisationId, generation: 1 })
  const response = await app.app.request(`/sandbox/${sessionId}/artifacts`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${token}` },
    body: text,
  })
  const { sha256 } = (await response.json()) as { sha256?: string }
  return { status: response.status, sha256: sha256 ?? '' }
}
const content = async (sha256: string) => {
  const bytes = await app.deps.blobs().get(organisationId, sha256)
  return bytes && new TextDecoder().decode(bytes)
}
/** Its alarm, and everything that follows from it. */
async function wake(sessionId: string) {
  const actor = app.sessions.get(sessionId)
  await app.settle()
  await actor?.runDue()
  await app.settle()
}
/** A busy server may need more than one try. */
const eventually = (sessionId: string, look: () => Promise<unknown>) =>
  expect.poll(
    async () => {
      await wake(sessionId)
      app.pass(30_000)
      return look()
    },
    { timeout: 60_000, interval: 10 },
  )
async function erase(sessionId: string) {
  expect((await app.call('DELETE', `/v1/sessions/${sessionId}`, key)).status).toBe(204)
  await eventually(sessionId, async () => app.sessions.has(sessionId)).toBe(false)
}
const rowsIn = async (tables: string[]) =>
  (await Promise.all(tables.map((table) => libsql.db().all(`select 1 from ${table}`)))).flat()
    .length

test('[SES13] [SES14] what two sessions have uploaded lives until both are deleted; nothing is left then', async () => {
  const [first, second] = [await create(), await create()]
  const { sha256 } = await upload(first, 'shared')
  expect(await upload(second, 'shared')).toEqual({ status: 200, sha256 })
  await upload(first, 'only the first')
  await erase(first)
  expect(await content(sha256)).toBe('shared')
  expect((await upload(first, 'late')).status).toBe(404)
  await erase(second)
  expect(await rowsIn(['blob_claims', 'blob_index', 'blobs', 'sessions'])).toBe(0)
})

test('[SES14] what nothing has named for a day is deleted, each in its time', async () => {
  const sessionId = await create()
  const first = await upload(sessionId, 'first')
  app.pass(day / 2)
  const second = await upload(sessionId, 'second')
  app.pass(day / 2 - 1)
  await wake(sessionId)
  expect(await content(first.sha256)).toBe('first')
  app.pass(hour + 1)
  await eventually(sessionId, () => content(first.sha256)).toBeNull()
  expect(await content(second.sha256)).toBe('second')
  app.pass(day / 2)
  await eventually(sessionId, () => content(second.sha256)).toBeNull()
})
