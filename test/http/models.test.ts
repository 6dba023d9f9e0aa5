import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { AppDeps } from '../../src/http/app.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
const vendorKey = 'sk-real-key-of-the-vendor'
let answer: (request: IncomingMessage, response: ServerResponse, body: string) => void
let seen: { method: string; url: string; headers: IncomingMessage['headers']; body: string }[] = []
const vendor = createServer((request, response) => {
  let body = ''
  request.on('data', (chunk: Buffer) => (body += chunk.toString()))
  request.on('end', () => {
    seen.push({
      method: request.method ?? '',
      url: request.url ?? '',
      headers: request.headers,
      body,
    })
    answer(request, response, body)
  })
})
let app: TestApp
let token: string
let key: string
let sessionId: string
let organisationId: string
let models: AppDeps['config']['models']

beforeAll(async () => {
  await new Promise<void>((resolve) => vendor.listen(0, '127.0.0.1', resolve))
  const baseUrl = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}`
  models = {
    anthropic: { baseUrl, apiKey: vendorKey },
    litellm: { baseUrl: `${baseUrl}/v1`, apiKey: vendorKey },
  }
  app = createTestApp({ db: libsql.db, models: { ...models } })
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
  sessionId = (await app.call('POST', '/v1/sessions', key, {})).json.id
  token = (await app.deps.tokens.mint({ sessionId, organisationId, generation: 1 })).token
})
afterAll(() => {
  vendor.closeAllConnections()
  vendor.close()
})
beforeEach(() => {
  Object.assign(app.deps.config.models, models)
  seen = []
  answer = (_request, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
})

const ask = (path: string, headers = {}, credential = token) =>
  app.call('POST', path, credential, { model: 'm' }, headers)

test('[API6] the vendor gets the real key and nothing of ours', async () => {
  const headers = {
    'anthropic-version': '1',
    cookie: 'c',
    'x-api-key': 'local',
    'x-forwarded-for': '1',
  }
  expect((await ask('/llm/anthropic/v1/messages?beta=true', headers)).status).toBe(200)
  expect((await ask('/llm/litellm/chat/completions')).status).toBe(200)
  const [anthropic, litellm] = seen
  expect(anthropic).toMatchObject({ url: '/v1/messages?beta=true', body: '{"model":"m"}' })
  expect(anthropic?.headers).toMatchObject({ 'x-api-key': vendorKey, 'anthropic-version': '1' })
  for (const name of ['authorization', 'cookie', 'x-forwarded-for']) {
    expect(anthropic?.headers).not.toHaveProperty(name)
  }
  expect(litellm).toMatchObject({ url: '/v1/chat/completions' })
  expect(litellm?.headers.authorization).toBe(`Bearer ${vendorKey}`)
  expect(JSON.stringify(seen)).not.toContain(token)
})

test('an answer streams through as it comes', async () => {
  let end = () => {}
  answer = (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write('data: 1\n\n')
    end = () => response.end('data: 2\n\n')
  }
  const response = await app.app.request('/llm/litellm/chat/completions', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: '{}',
  })
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  expect((await reader.read()).value).toBe('data: 1\n\n')
  end()
  expect((await reader.read()).value).toBe('data: 2\n\n')
  expect((await reader.read()).done).toBe(true)
})

test('who stops reading stops the vendor', async () => {
  const closed = Promise.withResolvers<void>()
  answer = (_request, response) => {
    response.on('close', () => closed.resolve())
    response.writeHead(200).write('data: 1\n\n')
  }
  const response = await app.app.request('/llm/litellm/chat/completions', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: '{}',
  })
  const reader = response.body!.getReader()
  await reader.read()
  await reader.cancel()
  await closed.promise
})

test("[API6] the vendor's errors are passed on, without the key", async () => {
  answer = (_request, response) =>
    response
      .writeHead(401, {
        'content-type': 'application/json',
        'set-cookie': 'a=b',
        'retry-after': '7',
      })
      .end(JSON.stringify({ error: `bad key ${vendorKey}` }))
  const refused = await ask('/llm/litellm/chat/completions')
  expect([refused.status, refused.text]).toEqual([401, '{"error":"bad key [secret:MODEL_KEY]"}'])
  expect(refused.headers.get('retry-after')).toBe('7')
  expect(refused.headers.has('set-cookie')).toBe(false)
})

test('[MODE8] what the vendor says it used is counted in the session', async () => {
  const usage = { prompt_tokens: 11, completion_tokens: 7 }
  answer = (_request, response) =>
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ model: 'm', usage }))
  const used = async () => (await app.call('GET', `/v1/sessions/${sessionId}`, key)).json.usage
  const before = await used()
  for (let calls = 0; calls < 2; calls += 1) await ask('/llm/litellm/chat/completions')
  await app.settle()
  expect(await used()).toEqual({
    requests: before.requests + 2,
    inputTokens: before.inputTokens + 22,
    outputTokens: before.outputTokens + 14,
  })
})

test('the key does not follow a redirect', async () => {
  answer = (_request, response) =>
    response.writeHead(302, { location: 'http://127.0.0.1:9/' }).end()
  const answered = await ask('/llm/litellm/chat/completions')
  expect([answered.status, answered.json.error.code]).toEqual([503, 'model_unavailable'])
  expect(seen).toHaveLength(1)
})

test('only calls that make something new are passed on', async () => {
  for (const path of [
    '/llm/anthropic/v1/files',
    '/llm/anthropic/v1/messages/batches',
    '/llm/anthropic/v1/messages/../files',
    '/llm/litellm/responses/resp_1',
    '/llm/other/v1/messages',
    '/llm/anthropic/',
  ]) {
    expect([path, (await ask(path)).status]).toEqual([path, 404])
  }
  const models = await app.call('GET', '/llm/litellm/models', token)
  expect(models.status).toBe(200)
  expect(seen.map(({ url }) => url)).toEqual(['/v1/models'])
})

test('only the sandbox of the current generation may ask', async () => {
  const old = await app.deps.tokens.mint({ sessionId, organisationId, generation: 5 })
  const answers = [
    await ask('/llm/litellm/chat/completions', {}, 'x'),
    await ask('/llm/litellm/chat/completions', {}, key),
    await ask('/llm/litellm/chat/completions', {}, old.token),
  ]
  expect(answers.map(({ json }) => json.error.code)).toEqual([
    'unauthenticated',
    'not_sandbox',
    'old_generation',
  ])
  expect(seen).toEqual([])
})

test('no vendor, or one that is away, is model_unavailable', async () => {
  const away = { baseUrl: 'http://127.0.0.1:9', apiKey: vendorKey }
  app.deps.config.models.litellm = away
  const gone = await ask('/llm/litellm/chat/completions')
  app.deps.config.models.litellm = null
  const none = await ask('/llm/litellm/chat/completions')
  expect([gone.status, none.status]).toEqual([503, 503])
  expect(gone.json.error.code).toBe('model_unavailable')
})

test('a request over 32 MiB is not passed on', async () => {
  const announced = await ask('/llm/litellm/chat/completions', {
    'content-length': String(2 ** 26),
  })
  expect(announced.status).toBe(413)
  const silent = await app.call(
    'POST',
    '/llm/litellm/chat/completions',
    token,
    'x'.repeat(2 ** 25 + 1),
  )
  expect([silent.status, silent.json.error.code]).toEqual([413, 'too_large'])
  expect(seen).toEqual([])
})
