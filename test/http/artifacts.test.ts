import { beforeAll, expect, test } from 'vitest'
import { sha256 } from '../../src/adapters/web-crypto.ts'
import type { Artifact } from '../../src/contract/artifact.ts'
import { attachment } from '../../src/http/artifacts.ts'
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
  expect(await response.json()).toEqual({ sha256: await sha256(bytes), size: 3 })
  expect(await app.deps.blobs().get(organisationId, await sha256(bytes))).toEqual(bytes)
})

test('an upload over 8 MiB is too large, and an old generation may not upload', async () => {
  expect((await upload(new Uint8Array(8 * 1024 * 1024 + 1))).status).toBe(413)
  const old = await app.deps.tokens.mint({ sessionId, organisationId, generation: 9 })
  expect((await upload(new Uint8Array(1), old.token)).status).toBe(403)
})

test('a download is an attachment that no browser runs', async () => {
  const html = new TextEncoder().encode('<script>alert(1)</script>')
  const { sha256: hash } = (await (await upload(html)).json()) as { sha256: string }
  const artifact: Artifact = {
    id: `art_${'0'.repeat(20)}` as Artifact['id'],
    operationId: 'op',
    path: 'shots/é "x".html',
    contentType: 'text/html\r\nx-evil: 1',
    size: html.length,
    sha256: hash,
    createdAt: 1,
  }
  const session = app.deps.session(sessionId)
  app.deps.session = () =>
    Object.assign(Object.create(session) as typeof session, { artifact: async () => artifact })
  const path = `/v1/sessions/${sessionId}/artifacts/${artifact.id}`
  const answer = await app.call('GET', path, key)
  expect(answer.text).toBe('<script>alert(1)</script>')
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="_ _x_.html"; filename*=UTF-8''%C3%A9%20%22x%22.html`,
    'content-security-policy': "sandbox; default-src 'none'",
    'x-content-type-options': 'nosniff',
  })
  expect(answer.headers.has('x-evil')).toBe(false)
  artifact.sha256 = 'f'.repeat(64)
  expect((await app.call('GET', path, key)).status).toBe(404)
})

test('a file name is quoted for old clients and complete for new ones', () => {
  expect(attachment('a/b.txt')).toBe(`attachment; filename="b.txt"; filename*=UTF-8''b.txt`)
  expect(attachment("it's (1)*\n.txt")).toBe(
    `attachment; filename="it's (1)*_.txt"; filename*=UTF-8''it%27s%20%281%29%2A%0A.txt`,
  )
  expect(attachment('folder/')).toContain('filename="artifact"')
})
