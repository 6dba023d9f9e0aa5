import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { meteredModelStream } from '../../src/http/kit/model/stream.ts'
import type { CallEnd } from '../../src/core/session/budget/model-calls.ts'
import { agentEvent } from '../support/agent.ts'
import { answers, type ModelSession, useModelWorld } from '../support/model-world.ts'
import { isLong } from '../support/long.ts'

const world = useModelWorld({
  modelLimits: { modelCallsPerMinute: 100_000, concurrentModelCalls: 1000 },
})
const claudeSession = () => world.open({ model: 'claude-sonnet-4.6' })
const text = (content: string) => ({ choices: [{ delta: { content } }] })
const chatUsage = (input: number, output: number) => ({
  ...{ choices: [], usage: { prompt_tokens: input, completion_tokens: output } },
})
const reasons = async (session: ModelSession) =>
  (await world.events(session, 'budget.estimated')).map(({ reason }) => reason)

describe('[LLM4] the vendor’s word', () => {
  const start = {
    type: 'message_start',
    message: {
      model: 'm',
      usage: {
        ...{ input_tokens: 20, output_tokens: 1 },
        ...{ cache_read_input_tokens: 300, cache_creation_input_tokens: 40 },
      },
    },
  }
  const delta = { type: 'message_delta', usage: { output_tokens: 50 } }

  test('Anthropic, streamed: caches beside the input', async () => {
    const session = await claudeSession()
    world.answer = answers.stream([start, { type: 'content_block_delta' }, delta])
    await world.messages(session)
    expect(await world.used(session)).toBe(20 + 300 + 40 + 50)
    const { json } = await world.app.call('GET', `/v1/sessions/${session.id}/budget`, world.key)
    expect(json.used.moneyUsd).toBeCloseTo(
      (20 * 3 + 300 * 0.3 + 40 * 3.75 + 50 * 15) / 1_000_000,
      9,
    )
  })

  test('Anthropic, whole', async () => {
    const session = await claudeSession()
    world.answer = answers.json({ type: 'message', usage: { input_tokens: 20, output_tokens: 9 } })
    await world.messages(session)
    expect(await world.used(session)).toBe(29)
  })

  test('OpenAI, streamed: caches as part of the prompt, thinking as part of the answer', async () => {
    const session = await world.open()
    const usage = {
      ...{ prompt_tokens: 100, completion_tokens: 30, total_tokens: 130 },
      prompt_tokens_details: { cached_tokens: 80 },
      completion_tokens_details: { reasoning_tokens: 20 },
    }
    world.answer = answers.stream([text('x'), { choices: [], usage }])
    await world.chat(session)
    expect(await world.used(session)).toBe(130)
  })

  test('OpenAI, whole, also over several lines', async () => {
    const session = await world.open()
    world.answer = (response) =>
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify(chatUsage(11, 7), null, 2))
    await world.chat(session)
    expect(await world.used(session)).toBe(18)
  })

  test('responses, streamed', async () => {
    const session = await world.open()
    const usage = { input_tokens: 50, output_tokens: 5, input_tokens_details: { cached_tokens: 9 } }
    world.answer = answers.stream([
      { type: 'response.created', response: { usage: null } },
      { type: 'response.completed', response: { usage } },
    ])
    const body = { model: 'scripted', input: 'x', store: false }
    await world.app.call('POST', '/llm/litellm/responses', session.token, body)
    expect(await world.used(session)).toBe(55)
  })

  test('counting tokens makes nothing, whatever its answer says', async () => {
    const session = await claudeSession()
    world.answer = answers.json({ input_tokens: 9, usage: { input_tokens: 5, output_tokens: 5 } })
    const body = { model: 'claude-sonnet-4-6', messages: [] }
    const path = '/llm/anthropic/v1/messages/count_tokens'
    expect((await world.app.call('POST', path, session.token, body)).status).toBe(200)
    expect(await world.used(session)).toBe(0)
    expect(await reasons(session)).toEqual([])
  })

  test.each([400, 401, 429, 500, 529])(
    'a refusal %i of the vendor costs nothing',
    async (status) => {
      const session = await world.open()
      world.answer = answers.json(chatUsage(11, 7), status)
      expect((await world.chat(session)).status).toBe(status)
      expect(await world.used(session)).toBe(0)
      expect(await reasons(session)).toEqual([])
    },
  )

  test('[LLM5] Anthropic’s first word is not the count of a whole answer', async () => {
    const session = await claudeSession()
    world.answer = answers.stream([start])
    await world.messages(session)
    expect(await world.used(session)).toBe(360 + 500)
    expect(await reasons(session)).toEqual(['The vendor did not say what the answer used'])
  })
})

describe('[LLM5] answers that do not say what they used', () => {
  test('no count', async () => {
    const session = await world.open()
    world.answer = answers.stream([text('x')])
    await world.chat(session)
    expect(await world.used(session)).toBeGreaterThan(1500)
    expect(await reasons(session)).toEqual(['The vendor did not say what the answer used'])
  })

  test.each([1e300, -5, 0, '7', null])('a count of %j', async (count) => {
    const session = await world.open()
    const usage = { prompt_tokens: count, completion_tokens: count }
    world.answer = answers.json({ text: 'x'.repeat(5000), usage })
    await world.chat(session)
    expect(await world.used(session)).toBeGreaterThan(1500)
    expect(await world.used(session)).toBeLessThan(3000)
    expect(await reasons(session)).toEqual(['The vendor says what cannot be true'])
  })

  test('the vendor breaks off', async () => {
    const session = await world.open()
    world.answer = answers.begun([text('x')], (response) => setImmediate(() => response.destroy()))
    const answer = await world.stream(session)
    await expect(answer.text()).rejects.toThrow()
    expect(await world.used(session)).toBeGreaterThan(1500)
    expect(await reasons(session)).toEqual(['The answer broke off'])
  })

  test('the sandbox does not read to the end; if the count had come, that counts', async () => {
    const session = await world.open()
    world.answer = answers.begun([text('x')], () => {})
    const answer = await world.stream(session)
    const reader = answer.body!.getReader()
    await reader.read()
    await reader.cancel()
    expect(await reasons(session)).toEqual(['The answer was not read to its end'])
    const before = await world.used(session)
    expect(before).toBeGreaterThan(1500)

    world.answer = answers.begun([text('x'), chatUsage(11, 7)], () => {})
    const told = (await world.stream(session)).body!.getReader()
    await told.read()
    await told.cancel()
    expect(await world.used(session)).toBe(before + 18)
  })

  test('the sandbox does not wait for the answer', async () => {
    const session = await world.open()
    const asked = Promise.withResolvers<void>()
    world.answer = () => asked.resolve()
    const leaving = new AbortController()
    const answer = world.stream(session, {}, leaving.signal)
    await asked.promise
    leaving.abort()
    expect((await answer).status).toBe(503)
    expect(await world.used(session)).toBeGreaterThan(1500)
    expect(await reasons(session)).toEqual(['The answer was not waited for'])
  })

  test('the vendor does not end: cut off after half an hour, and not given up before', async () => {
    const session = await world.open()
    let vendor: ServerResponse | undefined
    world.answer = answers.begun([text('x')], (response) => (vendor = response))
    const reader = (await world.stream(session)).body!.getReader()
    await reader.read()
    const next = async (ms: number) => {
      world.app.pass(ms)
      await world.app.sessions.get(session.id)?.runDue()
      vendor?.write('data: {}\n\n')
      await reader.read()
      await world.app.settle()
    }
    // Each less than what counts as a suspended machine.
    for (let passed = 0; passed < 30 * 60_000; passed += 45_000) await next(45_000)
    expect(await reasons(session)).toEqual([])
    expect(await world.used(session)).toBe(0)
    await next(60_000)
    await expect(reader.read()).rejects.toThrow('does not end')
    expect(await reasons(session)).toEqual(['The answer broke off'])
  })

  test('silence ends an answer', async () => {
    const upstream = new AbortController()
    const body = new ReadableStream<Uint8Array>({
      start: (controller) =>
        upstream.signal.addEventListener('abort', () => controller.error(new Error('cut'))),
    })
    const ends: CallEnd[] = []
    const metered = meteredModelStream(body, true, {
      ...{ provider: 'litellm', silenceMs: 20, longestMs: 1e9, now: Date.now, upstream },
      onPiece: () => {},
      onEnd: (end) => ends.push(end),
    })
    await expect(new Response(metered).text()).rejects.toThrow('cut')
    expect(ends).toEqual([{ kind: 'broken', tokens: null, reason: 'The answer broke off' }])
  })
})

describe('[LLM6] deaths on the way', () => {
  const begin = async () => {
    const session = await world.open()
    const vendor: { response?: ServerResponse } = {}
    world.answer = answers.begun([text('x')], (response) => (vendor.response = response))
    const answer = await world.stream(session)
    return { session, vendor, answer }
  }

  test('the session’s object is replaced while an answer comes: its end still counts, once', async () => {
    const { session, vendor, answer } = await begin()
    world.app.restart(session.id)
    vendor.response?.end(`data: ${JSON.stringify(chatUsage(11, 7))}\n\n`)
    await answer.text()
    expect(await world.used(session)).toBe(18)
    expect(await reasons(session)).toEqual([])
  })

  test('whoever passes it on dies: after six minutes the estimate counts, and nothing is open', async () => {
    const { session } = await begin()
    world.app.restart(session.id)
    expect(await world.used(session)).toBe(0)
    world.app.pass(6 * 60_000)
    await world.app.sessions.get(session.id)?.runDue()
    const used = await world.used(session)
    expect(used).toBeGreaterThan(1500)
    expect(await reasons(session)).toEqual(['Nothing more was heard of the answer'])
    await world.app.sessions.get(session.id)?.runDue()
    expect(await world.used(session)).toBe(used)
  })

  test('the session is closed while an answer comes', async () => {
    const { session, vendor, answer } = await begin()
    await world.app.call('POST', `/v1/sessions/${session.id}/close`, world.key, {})
    vendor.response?.end(`data: ${JSON.stringify(chatUsage(11, 7))}\n\n`)
    await answer.text()
    expect(await world.used(session)).toBe(18)
    const refused = await world.chat(session)
    expect([refused.status, refused.json.error.code]).toEqual([403, 'session_closed'])
  })
})

/** In the long run all at once that a session may ask. */
const crowd = isLong ? 200 : 40

describe(`[LLM3] [LLM4] ${crowd} at once`, () => {
  /** What each of them uses, by the vendor's word; it can use somewhat more. */
  const each = 5000
  const messages = [{ role: 'user', content: 'x'.repeat(5000) }]
  const begin = () => {
    world.answer = (response, body) => setTimeout(() => answers.usage(4600, 400)(response, body), 5)
  }
  /** Asks until it is answered, or refused for good. */
  async function insist(session: ModelSession): Promise<number> {
    for (;;) {
      const { status, json, headers } = await world.chat(session, { messages })
      if (status === 409) expect(json.error.code).toBe('budget_spent')
      if (status !== 429) return status
      expect(headers.get('retry-after')).toBe('10')
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }
  const vendorTokens = () => world.seen.length * each

  test('never pass the session’s budget by more than one request', async () => {
    begin()
    const tokens = crowd * 1250 - 1000
    const session = await world.open({ budget: { tokens } })
    const statuses = await Promise.all(Array.from({ length: crowd }, () => insist(session)))
    expect(new Set(statuses)).toEqual(new Set([200, 409]))
    expect(vendorTokens()).toBe(crowd * 1250)
    expect(await world.used(session)).toBe(crowd * 1250)
    expect(await world.events(session, 'budget.spent')).toHaveLength(1)
  })

  test('nor that of their organisation by more than one request per session', async () => {
    begin()
    await world.newOrganisation()
    const tokens = 452_000
    // More than the budget has room for: 90 fit.
    const asked = isLong ? 200 : 110
    await world.app.call('PUT', '/v1/budgets', world.key, { limits: { tokens } })
    const sessions: ModelSession[] = []
    for (let n = 0; n < 5; n++) sessions.push(await world.open())
    const statuses = await Promise.all(
      Array.from({ length: asked }, (_, n) => insist(sessions[n % 5]!)),
    )
    expect(new Set(statuses)).toEqual(new Set([200, 409]))
    expect(vendorTokens()).toBeGreaterThanOrEqual(tokens)
    expect(vendorTokens()).toBeLessThan(tokens + 5 * each)
    for (const { id } of sessions) await world.app.call('DELETE', `/v1/sessions/${id}`, world.key)
    for (const { id } of sessions) await world.app.sessions.get(id)?.runDue()
    const books = await world.app.call('GET', '/v1/budgets', world.key)
    expect([books.json.used.tokens, books.json.reserved.tokens]).toEqual([vendorTokens(), 0])
    await world.newOrganisation()
  })

  test('[LLM7] a budget of which the sandbox reports next to nothing is kept all the same', async () => {
    begin()
    const session = await world.open({ budget: { tokens: 22_000 } })
    const tokens = { input: 1, output: 0, reasoning: 0, cacheRead: 0, cacheWrite: 0 }
    const part = { turnId: session.turnId, sessionId: 's', messageId: 'm', partId: 'p' }
    const step = { ...part, reason: 'stop', cost: 0, tokens }
    for (let n = 0; n < 10; n++) {
      await insist(session)
      await world.app.settle()
      await session.say({ t: 'events', items: [agentEvent(n + 1, 'step.finished', step)] })
    }
    expect(vendorTokens()).toBe(25_000)
    const end = { turnId: session.turnId, state: 'completed', reason: null, text: '', diff: null }
    await session.say({ t: 'events', items: [agentEvent(11, 'turn.ended', end)] })
    expect(await world.events(session, 'budget.mismatch')).toEqual([
      { turnId: session.turnId, counted: 25_000, reported: 10 },
    ])
  })
})

describe('[LLM8] [LLM9] flood and kill switch', () => {
  test('a call beyond the rate is 429 with the time to wait', async () => {
    const { modelLimits } = world.app
    const before = { ...modelLimits }
    Object.assign(modelLimits, { modelCallsPerMinute: 2 })
    const session = await world.open()
    for (const _ of [1, 2]) expect((await world.chat(session)).status).toBe(200)
    const third = await world.chat(session)
    Object.assign(modelLimits, before)
    expect([third.status, third.json.error.code]).toEqual([429, 'rate_limited'])
    expect(third.headers.get('retry-after')).toBe('60')
    expect(world.seen).toHaveLength(2)
  })

  test('from the moment of the kill switch nothing passes', async () => {
    const session = await world.open()
    const turn = (on: boolean) =>
      world.app.call('POST', '/v1/kill-switch', world.key, { on, reason: 'runaway' })
    expect((await turn(true)).status).toBe(200)
    const refused = await world.chat(session)
    await turn(false)
    expect([refused.status, refused.json.error.code]).toEqual([403, 'model_refused'])
    expect(refused.json.error.message).toContain(
      'The kill switch of the organisation is on: runaway',
    )
    expect(world.seen).toEqual([])
  })
})
