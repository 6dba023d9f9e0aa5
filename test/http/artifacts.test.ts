import { beforeAll, describe, expect, test } from 'vitest'
import { cryptoSha256 } from '../../src/adapters/web-crypto.ts'
import type { ErrorBody } from '../../src/contract/error.ts'
import { storeArtifacts } from '../../src/core/session/artifacts/rows.ts'
import { receiveEnvRequest } from '../../src/core/session/env/requests.ts'
import { artifactAttachment } from '../../src/http/routes/artifacts.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let key: string
let organisationId: string
let sessionId: string
let token: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
  sessionId = (await app.call('POST', '/v1/sessions', key, {})).json.id
  token = (await app.deps.tokens.mint({ sessionId, organisationId, generation: 1 })).token
})

const upload = (bytes: Uint8Array<ArrayBuffer>, credential = token) =>
  app.app.request(`/sandbox/${sessionId}/artifacts`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${credential}` },
    body: bytes,
  })

test('an upload is stored under the hash that the server computes', async () => {
  const bytes = new Uint8Array([1, 0, 255])
  const response = await upload(bytes)
  expect(await response.json()).toEqual({ sha256: await cryptoSha256(bytes), size: 3 })
  expect(await app.deps.blobs().get(organisationId, await cryptoSha256(bytes))).toEqual(bytes)
})

test('an upload over 8 MiB is too large, and an old generation may not upload', async () => {
  expect((await upload(new Uint8Array(8 * 1024 * 1024 + 1))).status).toBe(413)
  const old = await app.deps.tokens.mint({ sessionId, organisationId, generation: 9 })
  expect((await upload(new Uint8Array(1), old.token)).status).toBe(403)
})

test('[OPS3] an upload gets a 503 that may be repeated while a table or a column that it needs is not there', async () => {
  const bytes = new TextEncoder().encode('comes too early')
  const run = (sql: string) => libsql.db().batch([{ sql, values: [] }])
  const late: [does: string, undo: string][] = [
    ...['blob_claims', 'blob_index', 'blobs', 'outbox_watermarks'].map(
      (table): [string, string] => [
        `alter table ${table} rename to later`,
        `alter table later rename to ${table}`,
      ],
    ),
    ...[
      ['outbox_watermarks', 'erased_at'],
      ['blob_claims', 'claimed_at'],
      ['blob_index', 'sha256'],
      ['blobs', 'chunk'],
    ].map(([table, column]): [string, string] => [
      `alter table ${table} rename column ${column} to later`,
      `alter table ${table} rename column later to ${column}`,
    ]),
  ]
  for (const [does, undo] of late) {
    await run(does)
    const answer = await upload(bytes)
    await run(undo)
    const { error } = (await answer.json()) as ErrorBody
    expect([answer.status, error.code], does).toEqual([503, 'storage_unavailable'])
    expect(error.message).toContain('npm run admin -- migrate')
  }
  expect((await upload(bytes)).status).toBe(200)
})

test('[API5] a download is an attachment that no browser runs', async () => {
  const html = new TextEncoder().encode('<script>alert(1)</script>')
  const { sha256: hash } = (await (await upload(html)).json()) as { sha256: string }
  const artifact = { path: 'shots/é "x".html', contentType: 'text/html\r\nx-evil: 1' }
  const store = (id: string, sha: string) =>
    storeArtifacts(app.databaseOf(sessionId), 1, id, [
      { ...artifact, id, size: html.length, sha256: sha },
    ])
  const [there, gone] = ['0', '1'].map((letter) => `art_${letter.repeat(20)}`) as [string, string]
  store(there, hash)
  store(gone, 'f'.repeat(64))
  const path = `/v1/sessions/${sessionId}/artifacts`
  const answer = await app.call('GET', `${path}/${there}`, key)
  expect(answer.text).toBe('<script>alert(1)</script>')
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="_ _x_.html"; filename*=UTF-8''%C3%A9%20%22x%22.html`,
    'content-security-policy': "sandbox; default-src 'none'",
    'x-content-type-options': 'nosniff',
  })
  expect(answer.headers.has('x-evil')).toBe(false)
  expect((await app.call('GET', `${path}/${gone}`, key)).status).toBe(404)
})

test('a file name is quoted for old clients and complete for new ones', () => {
  expect(artifactAttachment('a/b.txt')).toBe(`attachment; filename="b.txt"; filename*=UTF-8''b.txt`)
  expect(artifactAttachment("it's (1)*\n.txt")).toBe(
    `attachment; filename="it's (1)*_.txt"; filename*=UTF-8''it%27s%20%281%29%2A%0A.txt`,
  )
  expect(artifactAttachment('folder/')).toContain('filename="artifact"')
})

describe('lists come in pages', () => {
  const list = (path: string) => app.call('GET', `/v1/sessions/${sessionId}/${path}`, key)
  /** All pages, by their cursors. */
  async function pages(path: string) {
    const sizes: number[] = []
    const ids: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const { json } = await list(`${path}${cursor && `&cursor=${cursor}`}`)
      sizes.push(json.items.length)
      ids.push(
        ...json.items.map(
          (item: { id?: string; toolCallId?: string }) => item.id ?? item.toolCallId,
        ),
      )
      cursor = json.nextCursor
    }
    return { sizes, ids }
  }

  beforeAll(async () => {
    sessionId = (await app.call('POST', '/v1/sessions', key, {})).json.id
    token = (await app.deps.tokens.mint({ sessionId, organisationId, generation: 1 })).token
  })

  test('[API11] artifacts and env requests, oldest first; without a limit as many as a page may have', async () => {
    const sql = app.databaseOf(sessionId)
    const file = { contentType: 't', size: 1, sha256: 'f'.repeat(64) }
    const names = Array.from({ length: 250 }, (_, n) => `art_${String(n).padStart(20, '0')}`)
    storeArtifacts(
      sql,
      1,
      'op',
      names.map((id) => ({ ...file, id, path: id })),
    )
    for (const id of names) receiveEnvRequest(sql, 1, id, { keys: [{ key: 'A', type: 'secret' }] })
    for (const path of ['artifacts', 'env-requests']) {
      expect(await pages(`${path}?limit=100`)).toEqual({ sizes: [100, 100, 50], ids: names })
      expect((await list(path)).json.items).toHaveLength(200)
      expect((await list(`${path}?cursor=x`)).status).toBe(400)
      expect((await list(`${path}?limit=201`)).status).toBe(400)
    }
  })

  test('[API11] a page of calls or turns is shorter than its limit where more would not fit', async () => {
    const text = 'x'.repeat(200_000)
    const ids = Array.from({ length: 20 }, (_, n) => `call ${n}`)
    for (const id of ids)
      await app.call('POST', `/proliferate/${sessionId}/tools/echo`, token, {
        tool_call_id: id,
        args: { text },
      })
    const { sizes, ids: listed } = await pages('calls?limit=200')
    expect(listed).toEqual(ids)
    expect(sizes.length).toBeGreaterThan(1)
    expect(Math.max(...sizes) * 2 * text.length).toBeLessThan(3 * 1024 * 1024)
  })
})
