import { beforeAll, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let admin: string
let writer: string
beforeAll(async () => {
  const localRepositories = ['/src', 'ssh://git@host/acme']
  app = createTestApp({ db: libsql.db, localRepositories })
  const organisationId = await app.makeOrganisation()
  admin = (await app.makeKey(organisationId, 'admin')).secret
  writer = (await app.makeKey(organisationId, 'write')).secret
})

const listed = ['/src/app', 'file:///src/app', 'ssh://git@host/acme/app']
const unlisted = ['/etc', 'file:///etc', 'ssh://git@host/other', '/src/../etc']

test('[LOC29] only an admin names a repository that is read with the rights of the host', async () => {
  const { json: made } = await app.call('POST', '/v1/configurations', writer, { name: 'plain' })
  for (const url of [...listed, ...unlisted]) {
    const repository = { url }
    for (const [method, path, body] of [
      ['POST', '/v1/sessions', { repository }],
      ['POST', '/v1/configurations', { name: `c ${url}`, repository }],
      ['PATCH', `/v1/configurations/${made.id}`, { repository }],
    ] as const) {
      const { status, json } = await app.call(method, path, writer, body)
      expect([url, path, status, json.error?.code]).toEqual([url, path, 403, 'forbidden'])
      expect(json.error.message).toMatch(/scope "admin".*https URL/)
    }
  }
  const https = await app.call('POST', '/v1/sessions', writer, {
    repository: { url: 'https://host/x' },
  })
  expect(https.status).toBe(201)
})

test('[LOC29] and only one that is listed; the refusal names the variable and what to do', async () => {
  for (const url of unlisted) {
    const { status, json } = await app.call('POST', '/v1/sessions', admin, { repository: { url } })
    expect([url, status, json.error.code]).toEqual([url, 422, 'unprocessable'])
    expect(json.error.message).toMatch(/GANTRY_LOCAL_REPOSITORIES does not list it\. Add it/)
    expect(json.error.details[0].path).toBe('repository.url')
  }
  for (const url of listed) {
    const { status } = await app.call('POST', '/v1/sessions', admin, { repository: { url } })
    expect([url, status]).toEqual([url, 201])
  }
})

test('[LOC29] with a configuration that an admin has made whoever may write starts sessions', async () => {
  const repository = { url: '/src/app' }
  const { json } = await app.call('POST', '/v1/configurations', admin, { name: 'a', repository })
  const path = `/v1/configurations/${json.id}`
  expect((await app.call('PATCH', path, writer, { name: 'b' })).status).toBe(200)
  const session = await app.call('POST', '/v1/sessions', writer, { configurationId: json.id })
  expect([session.status, session.json.repository?.url]).toEqual([201, '/src/app'])
})
