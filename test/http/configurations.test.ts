import { beforeAll, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let organisationId: string
let key: string
let strangerId: string
let stranger: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'write')).secret
  strangerId = await app.makeOrganisation()
  stranger = (await app.makeKey(strangerId, 'write')).secret
})

const path = '/v1/configurations'
const make = async (body: object, credential = key) => {
  const answer = await app.call('POST', path, credential, body)
  expect(answer.status).toBe(201)
  return answer.json
}
const outcome = async (...call: Parameters<TestApp['call']>) => {
  const { status, json } = await app.call(...call)
  return [status, json?.error?.code]
}

test('[CONF1] a configuration is made with its defaults and can be read again', async () => {
  const answer = await app.call('POST', path, key, { name: 'plain' })
  expect(answer.json).toEqual({
    id: expect.stringMatching(/^cfg_[0-9a-z]{20}$/),
    organisationId,
    project: 'default',
    name: 'plain',
    repository: null,
    defaultModel: null,
    trustProjectConfig: false,
    serviceCommands: [],
    envFiles: [],
    baseSnapshotId: null,
    warmPool: { size: 0 },
    createdAt: app.deps.now(),
    updatedAt: app.deps.now(),
  })
  const location = answer.headers.get('location') ?? ''
  expect((await app.call('GET', location, key)).json).toEqual(answer.json)
})

test('[CONF1] a name is taken once in a project, and free in others', async () => {
  await make({ name: 'web' })
  const again = await app.call('POST', path, key, { name: 'web' })
  expect([again.status, again.json.error.code]).toEqual([409, 'wrong_state'])
  expect(again.json.error.message).toBe(
    'Cannot create configuration "web": its project has one of this name already',
  )
  await make({ name: 'web', project: 'other' })
  await make({ name: 'web' }, stranger)
  const { id } = await make({ name: 'web2' })
  expect(await outcome('PATCH', `${path}/${id}`, key, { name: 'web' })).toEqual([
    409,
    'wrong_state',
  ])
  // Its own name is not in its way.
  expect((await app.call('PATCH', `${path}/${id}`, key, { name: 'web2' })).status).toBe(200)
})

test('[CONF2] two organisations with the same names do not see each other’s', async () => {
  const names = { project: 'shared', name: 'same' }
  const [mine, theirs] = [await make(names), await make(names, stranger)]
  for (const [credential, own, foreign] of [
    [key, mine, theirs],
    [stranger, theirs, mine],
  ]) {
    const list = await app.call('GET', `${path}?project=shared`, credential)
    expect(list.json.items.map(({ id }: { id: string }) => id)).toEqual([own.id])
    const at = `${path}/${foreign.id}`
    expect(await outcome('GET', at, credential)).toEqual([404, 'not_found'])
    expect(await outcome('PATCH', at, credential, { name: 'x' })).toEqual([404, 'not_found'])
    expect(await outcome('DELETE', at, credential)).toEqual([404, 'not_found'])
    expect((await app.call('GET', `${path}/${own.id}`, credential)).json).toEqual(own)
  }
  const unknown = `cfg_${'0'.repeat(20)}`
  for (const id of [unknown, 'x', '%00', '..%2f'])
    expect([id, ...(await outcome('GET', `${path}/${id}`, key))]).toEqual([id, 404, 'not_found'])
})

test('[CONF3] the list comes newest first, page by page, of one project if asked', async () => {
  const ids: string[] = []
  for (let i = 0; i < 5; i++) {
    // Two of each moment, so that the cursor must tell them apart.
    if (i % 2 === 0) app.pass(1)
    ids.push((await make({ name: `l${i}`, project: 'listed' })).id)
  }
  const seen: string[] = []
  let cursor = ''
  do {
    const { json } = await app.call('GET', `${path}?project=listed&limit=2${cursor}`, key)
    expect(json.items[0]).not.toHaveProperty('envFiles')
    seen.push(...json.items.map(({ id }: { id: string }) => id))
    cursor = json.nextCursor === null ? '' : `&cursor=${json.nextCursor}`
  } while (cursor !== '')
  expect(seen.toSorted()).toEqual(ids.toSorted())
  expect(seen[0]).toBe(ids[4])
  expect(seen.slice(3).toSorted()).toEqual(ids.slice(0, 2).toSorted())
  expect(await outcome('GET', `${path}?cursor=x`, key)).toEqual([400, 'invalid_request'])
})

test('[CONF4] a change replaces what it names and nothing else', async () => {
  const serviceCommands = [{ name: 'web', command: 'npm start', workspacePath: '.' }]
  const before = await make({ name: 'change', serviceCommands, defaultModel: 'gpt-5.2' })
  app.pass(10)
  const change = { trustProjectConfig: true, defaultModel: null }
  const { json } = await app.call('PATCH', `${path}/${before.id}`, key, change)
  expect(json).toEqual({ ...before, ...change, updatedAt: before.updatedAt + 10 })
  for (const wrong of [{ project: 'other' }, { id: before.id }, { createdAt: 1 }, { name: null }])
    expect(await outcome('PATCH', `${path}/${before.id}`, key, wrong)).toEqual([
      400,
      'invalid_request',
    ])
})

test('[CONF5] the repository’s token is in no answer', async () => {
  const repository = { url: 'https://host/x', ref: 'main', token: 'canary-token-1' }
  const made = await app.call('POST', path, key, { name: 'private', repository })
  expect(made.json.repository).toEqual({ url: 'https://host/x', ref: 'main', hasToken: true })
  const at = `${path}/${made.json.id}`
  const answers = [
    made,
    await app.call('GET', at, key),
    await app.call('GET', `${path}?limit=200`, key),
    await app.call('PATCH', at, key, { repository: { ...repository, token: 'canary-token-2' } }),
    await app.call('PATCH', at, key, { repository: { ...repository, url: 'ftp://x' } }),
    await app.call('PATCH', at, key, { repository: { ...repository, token: ['canary-token-3'] } }),
    await app.call('POST', path, key, { name: 'private', repository }),
  ]
  expect(answers.map(({ status }) => status)).toEqual([201, 200, 200, 200, 400, 400, 409])
  for (const { text } of answers) expect(text).not.toContain('canary-token')
  const moved = await app.call('PATCH', at, key, { repository: { url: 'https://elsewhere/x' } })
  expect(moved.json.repository.hasToken).toBe(false)
})

test('[CONF6] a model is stored under its one name, and an unknown one is refused with the nearest', async () => {
  const { id, defaultModel } = await make({ name: 'm', defaultModel: 'anthropic/claude-opus-4-6' })
  expect(defaultModel).toBe('claude-opus-4.6')
  const wrong = await app.call('PATCH', `${path}/${id}`, key, { defaultModel: 'claude-opus-9' })
  expect([wrong.status, wrong.json.error.code]).toEqual([422, 'unprocessable'])
  expect(wrong.json.error.message).toContain('claude-opus-4.6')
})

test('[CONF7] service commands and env files keep the limits of their tools', async () => {
  const { id } = await make({ name: 'limits' })
  const command = { name: 'web', command: 'npm start' }
  const file = {
    path: '.env',
    format: 'dotenv',
    mode: 'secret',
    keys: [{ key: 'A', required: true }],
  }
  for (const [field, value] of Object.entries({
    'serviceCommands.0.workspacePath': { serviceCommands: [{ ...command, workspacePath: '../x' }] },
    'serviceCommands.0.command': { serviceCommands: [{ ...command, command: 'x'.repeat(1001) }] },
    serviceCommands: { serviceCommands: Array.from({ length: 11 }, () => command) },
    'envFiles.0.path': { envFiles: [{ ...file, path: 'a\\b' }] },
    'envFiles.0.keys.0.value': { envFiles: [{ ...file, keys: [{ ...file.keys[0], value: 'v' }] }] },
  })) {
    const answer = await app.call('PATCH', `${path}/${id}`, key, value)
    expect([answer.status, answer.json.error.details[0].path]).toEqual([400, field])
  }
  const good = { serviceCommands: [command], envFiles: [file] }
  const { json } = await app.call('PATCH', `${path}/${id}`, key, good)
  expect(json.serviceCommands).toEqual([{ ...command, workspacePath: '.' }])
  expect(json.envFiles).toEqual([{ ...file, workspacePath: '.' }])
})

test('[CONF8] only a snapshot of the organisation can be the base', async () => {
  const { id } = await make({ name: 'based' })
  const snapshot = (letter: string) => `snp_${letter.repeat(20)}`
  await libsql.db().batch(
    [
      [snapshot('a'), organisationId],
      [snapshot('b'), strangerId],
    ].map(([snapshotId = '', owner = '']) => ({
      sql: `insert into snapshots (id, organisation_id, session_id, provider, operation_id, message, bytes, created_at, outbox_seq)
            values (?, ?, 'ses', 'local', ?, '', 1, 1, 1)`,
      values: [snapshotId, owner, `op ${snapshotId}`],
    })),
  )
  const change = (baseSnapshotId: string | null) =>
    outcome('PATCH', `${path}/${id}`, key, { baseSnapshotId })
  expect(await change(snapshot('b'))).toEqual([404, 'not_found'])
  expect(await change(snapshot('c'))).toEqual([404, 'not_found'])
  expect(await change(snapshot('a'))).toEqual([200, undefined])
  expect((await app.call('GET', `${path}/${id}`, key)).json.baseSnapshotId).toBe(snapshot('a'))
  expect(await change(null)).toEqual([200, undefined])
})

test('[CONF9] a deleted configuration is gone with its secrets, and its name is free', async () => {
  const { id } = await make({ name: 'gone' })
  await app.call('PUT', '/v1/secrets/A', key, { value: 'v', configurationId: id })
  expect(await outcome('DELETE', `${path}/${id}`, key)).toEqual([204, undefined])
  expect(await outcome('DELETE', `${path}/${id}`, key)).toEqual([404, 'not_found'])
  expect(await outcome('GET', `/v1/secrets?configurationId=${id}`, key)).toEqual([404, 'not_found'])
  const rows = await libsql.db().all('select 1 from secrets where configuration_id = ?', id)
  expect(rows).toEqual([])
  await make({ name: 'gone' })
})

test('[TOOL5] one automation run, one session; a refused creation leaves the run free, another organisation has its own', async () => {
  const start = (run: string, more: object = {}, credential = key, configurationId = mine) =>
    outcome('POST', '/v1/sessions', credential, {
      clientType: 'automation',
      automationRunId: run,
      configurationId,
      ...more,
    })
  const mine = (await make({ name: 'automated' })).id
  expect(await start('run-a', { model: 'no-such-model' })).toEqual([422, 'unprocessable'])
  expect(await start('run-a')).toEqual([201, undefined])
  expect(await start('run-a')).toEqual([409, 'wrong_state'])
  const theirs = (await make({ name: 'automated' }, stranger)).id
  expect(await start('run-a', {}, stranger, theirs)).toEqual([201, undefined])
})
