import { beforeAll, expect, test } from 'vitest'
import { answers, type ModelSession, useModelWorld, vendorKey } from '../support/model-world.ts'

const world = useModelWorld()
let session: ModelSession
let claude: ModelSession
beforeAll(async () => {
  session = await world.open()
  claude = await world.open({ model: 'claude-sonnet-4.6' })
})
const ask = (path: string, credential = session.token) =>
  world.app.call('POST', path, credential, { model: 'scripted' })

test('[API6] [LLM10] the vendor gets the real key and nothing of ours', async () => {
  const headers = {
    'anthropic-version': '1',
    'anthropic-beta':
      'interleaved-thinking-2025-05-14, code-execution-2025-05-22,context-1m-2025-08-07',
    'user-agent': 'opencode',
    'x-session-id': 's',
    ...{ cookie: 'c', 'x-api-key': 'local', 'x-forwarded-for': '1' },
    ...{ 'x-litellm-api-key': 'k', 'x-litellm-tags': 't', 'openai-organization': 'o' },
    ...{ 'anthropic-dangerous-direct-browser-access': 'true', 'x-goog-api-key': 'g' },
  }
  const beta = '/llm/anthropic/v1/messages?beta=true&key=1'
  const body = { model: 'claude-sonnet-4-6', max_tokens: 1 }
  expect((await world.app.call('POST', beta, claude.token, body, headers)).status).toBe(200)
  expect((await world.chat(session)).status).toBe(200)
  const [anthropic, litellm] = world.seen
  expect(anthropic).toMatchObject({ url: '/v1/messages?beta=true', body: JSON.stringify(body) })
  // What fetch itself adds says nothing of the sandbox.
  const ours = /^(host|connection|content-length|accept-encoding|accept-language|sec-fetch-mode)$/
  const sent = Object.entries(anthropic?.headers ?? {}).filter(([name]) => !ours.test(name))
  expect(Object.fromEntries(sent)).toEqual({
    accept: '*/*',
    'x-api-key': vendorKey,
    'anthropic-version': '1',
    'anthropic-beta': 'interleaved-thinking-2025-05-14',
    'content-type': 'application/json',
    'user-agent': 'opencode',
    'x-session-id': 's',
  })
  expect(litellm).toMatchObject({ url: '/v1/chat/completions' })
  expect(litellm?.headers.authorization).toBe(`Bearer ${vendorKey}`)
  expect(JSON.stringify(world.seen)).not.toContain(session.token)
})

test('an answer streams through as it comes', async () => {
  let end = () => {}
  world.answer = answers.begun([1], (response) => {
    end = () => response.end('data: 2\n\n')
  })
  const response = await world.stream(session)
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  expect((await reader.read()).value).toBe('data: 1\n\n')
  end()
  expect((await reader.read()).value).toBe('data: 2\n\n')
  expect((await reader.read()).done).toBe(true)
})

test('who stops reading stops the vendor', async () => {
  const closed = Promise.withResolvers<void>()
  world.answer = answers.begun([1], (response) => response.on('close', () => closed.resolve()))
  const response = await world.stream(session)
  const reader = response.body!.getReader()
  await reader.read()
  await reader.cancel()
  await closed.promise
})

test("[API6] the vendor's errors are passed on, without the key", async () => {
  world.answer = (response) =>
    response
      .writeHead(401, {
        'content-type': 'application/json',
        'set-cookie': 'a=b',
        'retry-after': '7',
      })
      .end(JSON.stringify({ error: `bad key ${vendorKey}` }))
  const refused = await world.chat(session)
  expect([refused.status, refused.text]).toEqual([401, '{"error":"bad key [secret:MODEL_KEY]"}'])
  expect(refused.headers.get('retry-after')).toBe('7')
  expect(refused.headers.has('set-cookie')).toBe(false)
})

test('[MODE8] what the vendor says it used is counted in the session', async () => {
  const fresh = await world.open()
  world.answer = answers.usage(11, 7)
  for (let calls = 0; calls < 2; calls += 1) await world.chat(fresh)
  await world.app.settle()
  const { json } = await world.app.call('GET', `/v1/sessions/${fresh.id}`, world.key)
  expect(json.usage).toEqual({ requests: 2, inputTokens: 22, outputTokens: 14 })
})

test('the key does not follow a redirect', async () => {
  // To where somebody would answer.
  world.answer = (response) =>
    world.seen.length === 1
      ? response.writeHead(302, { location: '/elsewhere' }).end()
      : response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  const answered = await world.chat(session)
  expect([answered.status, answered.json.error.code]).toEqual([503, 'model_unavailable'])
  expect(world.seen).toHaveLength(1)
})

test('only calls that make something new are passed on', async () => {
  for (const path of [
    '/llm/anthropic/v1/files',
    '/llm/anthropic/v1/messages/batches',
    '/llm/anthropic/v1/messages/../files',
    '/llm/litellm/responses/resp_1',
    '/llm/litellm/completions',
    '/llm/litellm/embeddings',
    '/llm/other/v1/messages',
    '/llm/anthropic/',
  ]) {
    expect([path, (await ask(path)).status]).toEqual([path, 404])
  }
  const models = await world.app.call('GET', '/llm/litellm/models?x=1', session.token)
  expect(models.status).toBe(200)
  expect(world.seen.map(({ url }) => url)).toEqual(['/v1/models'])
})

test('[LLM2] only the sandbox of the current generation may ask', async () => {
  const { organisationId, app, key } = world
  const old = await app.deps.tokens.mint({ sessionId: session.id, organisationId, generation: 5 })
  for (const body of [{ model: 'scripted' }, {}, 'no JSON', { model: 'other' }, { tools: [1] }]) {
    const answered = await Promise.all(
      ['x', key, old.token].map((credential) =>
        app.call('POST', '/llm/litellm/chat/completions', credential, body),
      ),
    )
    expect(answered.map(({ json }) => json.error.code)).toEqual([
      'unauthenticated',
      'not_sandbox',
      'old_generation',
    ])
  }
  const models = await app.call('GET', '/llm/litellm/models', old.token)
  expect(models.json.error.code).toBe('old_generation')
  expect(world.seen).toEqual([])
})

test('[LLM4] no vendor, or one that is away, is model_unavailable and costs nothing', async () => {
  const fresh = await world.open()
  world.app.deps.config.models.litellm = { baseUrl: 'http://127.0.0.1:9', apiKey: vendorKey }
  const gone = await world.chat(fresh)
  world.app.deps.config.models.litellm = null
  const none = await world.chat(fresh)
  expect([gone.status, none.status]).toEqual([503, 503])
  expect(gone.json.error.code).toBe('model_unavailable')
  expect(await world.used(fresh)).toBe(0)
  expect(await world.events(fresh, 'budget.estimated')).toEqual([])
})

test('a request over 32 MiB is not passed on', async () => {
  const announced = await world.chat(session, {}, { 'content-length': String(2 ** 26) })
  expect(announced.status).toBe(413)
  const path = '/llm/litellm/chat/completions'
  const silent = await world.app.call('POST', path, session.token, 'x'.repeat(2 ** 25 + 1))
  expect([silent.status, silent.json.error.code]).toEqual([413, 'too_large'])
  expect(world.seen).toEqual([])
})
