import { beforeAll, describe, expect, test } from 'vitest'
import { type ModelSession, useModelWorld } from '../support/model-world.ts'

const world = useModelWorld()
let chat: ModelSession
let claude: ModelSession
beforeAll(async () => {
  chat = await world.open()
  claude = await world.open({ model: 'claude-sonnet-4.6' })
})
const user = (...content: unknown[]) => ({ messages: [{ role: 'user', content }] })
const png = `data:image/png;base64,${'A'.repeat(40_000)}`

describe('[LLM1] [LLM12] the model', () => {
  test('another one is refused before the vendor hears of it, in words that vendors’ programs know', async () => {
    const answers = [
      await world.chat(chat, { model: 'gpt-5.2' }),
      await world.messages(claude, { model: 'claude-opus-4-6' }),
      await world.chat(claude, { model: 'claude-sonnet-4-6' }),
    ]
    for (const { status, json } of answers) {
      expect([status, json.type, json.error.type]).toEqual([403, 'error', 'model_refused'])
      expect(json.error).toMatchObject({ code: 'model_refused' })
      expect(json.error.message).toMatch(/^Cannot call a model: this session uses ".+" of ".+"/)
    }
    expect(world.seen).toEqual([])
  })

  test('[LLM11] a name that stands twice means the same to us and to the vendor', async () => {
    const text =
      '{"model":"gpt-5.2","messages":[],"model":"scripted","max_tokens":1,"max_tokens":2}'
    const path = '/llm/litellm/chat/completions'
    expect((await world.app.call('POST', path, chat.token, text)).status).toBe(200)
    expect(world.seen[0]?.body).toBe('{"model":"scripted","messages":[],"max_tokens":2}')
    const other = text.replace('"model":"scripted"', '"x":1').replace('"x":1', '"model":"gpt-4"')
    expect((await world.app.call('POST', path, chat.token, other)).status).toBe(403)
  })

  test.each(['', '[]', 'null', '{', '"x"', '{"messages":[]}', '{"model":7}', '{"model":""}'])(
    'a body %j is 400',
    async (body) => {
      const path = '/llm/litellm/chat/completions'
      const answer = await world.app.call('POST', path, chat.token, body)
      expect([answer.status, answer.json.error.code]).toEqual([400, 'invalid_request'])
    },
  )

  test('one that is nested more deeply than can be printed is 400', async () => {
    const levels = 100_000
    const part = '{"type":"tool_result","content":['
    const nested = part.repeat(levels) + ']}'.repeat(levels)
    const body = `{"model":"claude-sonnet-4-6","max_tokens":1,"messages":[{"content":[${nested}]}]}`
    const answer = await world.app.call('POST', '/llm/anthropic/v1/messages', claude.token, body)
    expect([answer.status, answer.json.error.code]).toEqual([400, 'invalid_request'])
  })

  test.each([0, -1, 1.5, '9', 1e9])('an output of %j tokens is 400', async (value) => {
    for (const name of ['max_tokens', 'max_completion_tokens'])
      expect((await world.chat(chat, { [name]: value })).status).toBe(400)
  })
})

describe('[LLM11] what a vendor would do beside answering', () => {
  const ofChat: [string, Record<string, unknown>][] = [
    ['searching', { web_search_options: {} }],
    ['a search tool', { tools: [{ type: 'web_search' }] }],
    ['a tool without a known type', { tools: [{ type: 7 }] }],
    ['a tool that is none', { tools: ['web_search'] }],
    ['storing', { store: true }],
    ['several answers', { n: 2 }],
    ['a dearer tier', { service_tier: 'priority' }],
    ['another address', { api_base: 'http://x' }],
    ['another key', { api_key: 'x' }],
    ['other models', { fallbacks: ['gpt-4'] }],
    ['more models', { models: ['gpt-4'] }],
    ['a field of LiteLLM', { litellm_metadata: {} }],
    ['sound', { modalities: ['audio'] }],
    ['an image from elsewhere', user({ type: 'image_url', image_url: { url: 'https://x/y' } })],
    ['a stored file', user({ type: 'file', file: { file_id: 'file-1' } })],
    [
      'an image from elsewhere, outside of a list',
      { messages: { role: 'user', content: { type: 'image_url', image_url: 'https://x' } } },
    ],
    ['a tool outside of a list', { tools: { type: 'web_search' } }],
  ]
  const ofMessages: [string, Record<string, unknown>][] = [
    ['searching', { tools: [{ type: 'web_search_20250305', name: 'web_search' }] }],
    ['fetching', { tools: [{ type: 'web_fetch_20250910', name: 'web_fetch' }] }],
    ['running code', { tools: [{ type: 'code_execution_20250825', name: 'code_execution' }] }],
    ['other servers', { mcp_servers: [{ type: 'url', url: 'https://x', name: 'x' }] }],
    ['tools of other servers', { tools: [{ type: 'mcp_toolset', mcp_server_name: 'x' }] }],
    ['a container', { container: 'c' }],
    ['being quicker for more', { speed: 'fast' }],
    ['a dearer place', { inference_geo: 'us' }],
    ['an image from elsewhere', user({ type: 'image', source: { type: 'url', url: 'https://x' } })],
    ['a stored file', user({ type: 'document', source: { type: 'file', file_id: 'f' } })],
    [
      'an image from elsewhere in a document',
      user({
        type: 'document',
        source: {
          type: 'content',
          content: [{ type: 'image', source: { type: 'url', url: 'https://x' } }],
        },
      }),
    ],
    ['a file for its container', user({ type: 'container_upload', file_id: 'f' })],
    [
      'an image from elsewhere in a result',
      user({
        type: 'tool_result',
        tool_use_id: 't',
        content: [{ type: 'image', source: { type: 'url', url: 'https://x' } }],
      }),
    ],
  ]
  const ofResponses: [string, Record<string, unknown>][] = [
    ['storing, which it does unasked', {}],
    ['storing', { store: true }],
    ['what it has stored', { store: false, previous_response_id: 'r' }],
    ['a conversation that it has stored', { store: false, conversation: 'c' }],
    ['working on its own', { store: false, background: true }],
    ['a search tool', { store: false, tools: [{ type: 'web_search_preview' }] }],
    ['running code', { store: false, tools: [{ type: 'code_interpreter', container: {} }] }],
    ['other servers', { store: false, tools: [{ type: 'mcp', server_url: 'https://x' }] }],
    ['stored items', { store: false, input: [{ type: 'item_reference', id: 'i' }] }],
    [
      'a stored image',
      { store: false, input: [{ content: [{ type: 'input_image', file_id: 'f' }] }] },
    ],
    [
      'a file from elsewhere',
      { store: false, input: [{ content: [{ type: 'input_file', file_url: 'https://x' }] }] },
    ],
  ]

  test.each(ofChat)('chat: %s is refused', async (_what, change) => {
    const { status, json } = await world.chat(chat, change)
    expect([status, json.error.code]).toEqual([403, 'model_refused'])
    expect(world.seen).toEqual([])
  })

  test.each(ofMessages)('messages: %s is refused', async (_what, change) => {
    const { status, json } = await world.messages(claude, change)
    expect([status, json.error.code]).toEqual([403, 'model_refused'])
    expect(world.seen).toEqual([])
  })

  test.each(ofResponses)('responses: %s is refused', async (_what, change) => {
    const path = '/llm/litellm/responses'
    const body = { model: 'scripted', input: [], ...change }
    const { status, json } = await world.app.call('POST', path, chat.token, body)
    expect([status, json.error.code]).toEqual([403, 'model_refused'])
    expect(world.seen).toEqual([])
  })

  test('what OpenCode sends passes, also arguments that look like any of these', async () => {
    const tool = { type: 'function', function: { name: 'bash', parameters: { file_id: 1 } } }
    const image = { type: 'image_url', image_url: { url: png } }
    const spoken = { role: 'assistant', tool_calls: [{ function: { arguments: '{"url":"x"}' } }] }
    const all = {
      ...{
        stream: true,
        stream_options: { include_usage: true },
        tools: [tool],
        tool_choice: 'auto',
      },
      ...{ temperature: 0, top_p: 1, reasoning_effort: 'high', store: false, n: 1 },
      ...{ messages: [{ role: 'user', content: [image, { type: 'text', text: 'x' }] }, spoken] },
    }
    expect((await world.chat(chat, all)).status).toBe(200)
    const use = { type: 'tool_use', id: 't', name: 'x', input: { type: 'url', file_id: 'f' } }
    const source = { type: 'base64', media_type: 'image/png', data: 'AAAA' }
    const messages = {
      ...{ system: [{ type: 'text', text: 's', cache_control: { type: 'ephemeral' } }] },
      ...{ thinking: { type: 'enabled', budget_tokens: 1024 }, stream: true },
      tools: [
        { name: 'bash', input_schema: {} },
        { type: 'custom', name: 'x' },
      ],
      messages: [
        { role: 'assistant', content: [use] },
        { role: 'user', content: [{ type: 'tool_result', content: [{ type: 'image', source }] }] },
      ],
    }
    expect((await world.messages(claude, messages)).status).toBe(200)
    const path = '/llm/litellm/responses'
    const body = { model: 'scripted', input: 'x', store: false, tools: [{ type: 'function' }] }
    expect((await world.app.call('POST', path, chat.token, body)).status).toBe(200)
    expect(world.seen).toHaveLength(3)
  })

  test('the deployment may allow fields and tools by their names', async () => {
    world.app.deps.config.modelExtras.push('web_search', 'web_search_options')
    try {
      const tools = [{ type: 'web_search_20250305', name: 'web_search' }]
      expect((await world.messages(claude, { tools })).status).toBe(200)
      expect((await world.chat(chat, { web_search_options: {} })).status).toBe(200)
      const fetching = [{ type: 'web_fetch_20250910', name: 'x' }]
      expect((await world.messages(claude, { tools: fetching })).status).toBe(403)
    } finally {
      world.app.deps.config.modelExtras.length = 0
    }
  })
})

describe('[LLM3] how much a request can use', () => {
  const estimateOf = async (change: Record<string, unknown>) => {
    const session = await world.open()
    world.answer = (response) => response.destroy()
    await world
      .stream(session, { messages: [], ...change })
      .then((answer) => answer.text())
      .catch(() => '')
    return session
  }
  const heldBy = async (change: Record<string, unknown>) => {
    // Without a count its estimate counts.
    const session = await world.open()
    await world.chat(session, change)
    return await world.used(session)
  }

  test('bytes of text count each, an image as one, a file as the whole context', async () => {
    const small = await heldBy({})
    expect(await heldBy(user({ type: 'text', text: 'x'.repeat(5000) }))).toBeGreaterThan(
      small + 5000,
    )
    const image = await heldBy(user({ type: 'image_url', image_url: { url: png } }))
    expect(image).toBeGreaterThan(small + 10_000)
    expect(image).toBeLessThan(small + 10_200)
    // An image in words is words.
    expect(await heldBy(user({ type: 'text', text: png }))).toBeGreaterThan(small + 40_000)
    const file = user({ type: 'file', file: { file_data: 'data:application/pdf;base64,AA' } })
    expect(await heldBy(file)).toBe(128_000 + 1024 + 500)
    expect(await heldBy({ max_tokens: undefined })).toBeGreaterThan(8192)
    expect((await heldBy({ max_completion_tokens: 9000 })) - small).toBeGreaterThan(8500)
  })

  test('[LLM4] a vendor that breaks off before it answers costs nothing', async () => {
    expect(await world.used(await estimateOf({}))).toBe(0)
  })
})
