import { request } from 'node:http'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Gate } from '../../../sandbox-agent/gate/gate.ts'
import { Relay, type RelayOptions } from '../../../sandbox-agent/gate/relay.ts'
import { callUpstream, type UpstreamOptions } from '../../../sandbox-agent/gate/upstream.ts'
import { json, serve } from '../support.ts'

const ok = { success: true, result: 'done' }
const refusal = (code: string, message = 'no') => ({ error: { code, message } })
const quick = (url: string, change: Partial<UpstreamOptions> = {}): UpstreamOptions => ({
  url,
  token: () => 'jwt',
  body: JSON.stringify({ tool_call_id: 'one', args: {} }),
  firstBackoffMs: 1,
  ...change,
})

const resultOf = async (options: UpstreamOptions) => (await callUpstream(options)).result

describe('a callback to the control plane', () => {
  it('is tried six times with the same body, then becomes an error text', async () => {
    const { url, received } = await serve((_request, response) => json(response, 503, {}))
    const result = await resultOf(quick(url))
    expect(received).toHaveLength(6)
    expect(new Set(received.map((each) => each.body)).size).toBe(1)
    expect(result.success).toBe(false)
    expect(result.result).toMatch(/^Gateway error 503: .*gave up after 6 tries/)
  })

  it.each([429, 502, 503, 504])('[CALL16] is tried again after a %i', async (status) => {
    const { url, received } = await serve((_request, response, nth) =>
      json(response, nth === 1 ? status : 200, nth === 1 ? {} : ok),
    )
    expect(await resultOf(quick(url))).toEqual(ok)
    expect(received).toHaveLength(2)
  })

  it.each([400, 401, 403, 404, 409, 413, 500])('is not tried again after a %i', async (status) => {
    const { url, received } = await serve((_request, response) =>
      json(response, status, refusal('forbidden', 'You may not')),
    )
    const result = await resultOf(quick(url))
    expect(result).toEqual({ success: false, result: `Gateway error ${status}: You may not` })
    expect(received).toHaveLength(1)
  })

  it('[TOOL11] shows the first 200 characters of an error that is no envelope, and no half character', async () => {
    const { url } = await serve((_request, response) => {
      response.writeHead(500, { 'content-type': 'text/html' })
      response.end(`${'x'.repeat(199)}🦊${'y'.repeat(500)}`)
    })
    const { result } = await resultOf(quick(url))
    expect(result).toBe(`Gateway error 500: ${'x'.repeat(199)}`)
  })

  it('[CALL16] is tried again after a refusal whose code is marked retryable', async () => {
    const { url } = await serve((_request, response, nth) =>
      nth === 1 ? json(response, 500, refusal('storage_unavailable')) : json(response, 200, ok),
    )
    expect(await resultOf(quick(url))).toEqual(ok)
  })

  it('waits as long as Retry-After says', async () => {
    const { url } = await serve((_request, response, nth) =>
      nth === 1 ? json(response, 429, {}, { 'retry-after': '0.2' }) : json(response, 200, ok),
    )
    const startedAt = Date.now()
    expect(await resultOf(quick(url))).toEqual(ok)
    expect(Date.now() - startedAt).toBeGreaterThanOrEqual(190)
  })

  it('is tried again after a cut connection, a refused one and a timeout', async () => {
    const { url, received } = await serve((_request, response, nth) => {
      if (nth === 1) response.destroy()
      else if (nth > 2) json(response, 200, ok)
    })
    expect(await resultOf(quick(url, { tryTimeoutMs: 100 }))).toEqual(ok)
    expect(received).toHaveLength(3)
    const closed = await resultOf(quick('http://127.0.0.1:1'))
    expect(closed.result).toMatch(/^Gateway error: fetch failed/)
  })

  it('does not follow a redirect with its token', async () => {
    const elsewhere = await serve((_request, response) => json(response, 200, ok))
    const { url } = await serve((_request, response) =>
      json(response, 307, {}, { location: elsewhere.url }),
    )
    expect((await resultOf(quick(url))).success).toBe(false)
    expect(elsewhere.received).toEqual([])
  })
})

const allowing = Object.assign(new Gate(() => {}), { admits: () => true })

async function startRelay(change: Partial<RelayOptions> & { gatewayUrl: string }): Promise<string> {
  const relay = new Relay({
    sessionId: 'ses_1',
    token: () => 'the-jwt',
    localToken: 'local',
    gate: allowing,
    upstream: { firstBackoffMs: 1 },
    ...change,
  })
  onTestFinished(() => relay.close())
  return relay.listen()
}
const call = (url: string, path: string, body: unknown, token = 'local') =>
  fetch(`${url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
  })
const tool = '/proliferate/ses_1/tools/verify'

describe('the relay', () => {
  it('refuses whoever has not the local token, on every path', async () => {
    const { url: gatewayUrl, received } = await serve((_request, response) =>
      json(response, 200, ok),
    )
    const url = await startRelay({ gatewayUrl })
    for (const path of [tool, '/gate', '/llm/litellm/chat/completions', '/']) {
      expect((await call(url, path, {}, 'wrong')).status, path).toBe(401)
      expect((await fetch(`${url}${path}`)).status, path).toBe(401)
    }
    expect(received).toEqual([])
  })

  it('listens on loopback only', async () => {
    const url = await startRelay({ gatewayUrl: 'http://127.0.0.1:1' })
    expect(new URL(url).hostname).toBe('127.0.0.1')
  })

  it('sends one upstream request per id, whoever waits, and remembers the answer', async () => {
    const { url: gatewayUrl, received } = await serve(async (_request, response) => {
      await new Promise((resolve) => setTimeout(resolve, 50))
      json(response, 200, ok)
    })
    const url = await startRelay({ gatewayUrl })
    const body = { tool_call_id: 'one', args: {} }
    const answers = await Promise.all([1, 2, 3].map(() => call(url, tool, body)))
    expect(await Promise.all(answers.map((answer) => answer.json()))).toEqual([ok, ok, ok])
    expect(await (await call(url, tool, body)).json()).toEqual(ok)
    expect(received).toHaveLength(1)
    expect(received[0]?.headers.authorization).toBe('Bearer the-jwt')
    expect(received[0]?.path).toBe(tool)
  })

  it('answers 202 when the call takes long, and the result when it is asked again', async () => {
    let finish = () => {}
    const { url: gatewayUrl, received } = await serve((_request, response) => {
      finish = () => json(response, 200, ok)
    })
    const url = await startRelay({ gatewayUrl, pollMs: 30 })
    const body = { tool_call_id: 'one', args: {} }
    expect((await call(url, tool, body)).status).toBe(202)
    expect((await call(url, tool, body)).status).toBe(202)
    finish()
    expect(await (await call(url, tool, body)).json()).toEqual(ok)
    expect(received).toHaveLength(1)
  })

  it('keeps answers, not failures: the same call reaches a control plane that is back', async () => {
    const { url: gatewayUrl, received } = await serve((_request, response, nth) =>
      nth <= 6 ? json(response, 503, {}) : json(response, 200, ok),
    )
    const url = await startRelay({ gatewayUrl })
    const body = { tool_call_id: 'completion-1', args: {} }
    expect(await (await call(url, tool, body)).json()).toMatchObject({ success: false })
    expect(await (await call(url, tool, body)).json()).toEqual(ok)
    expect(await (await call(url, tool, body)).json()).toEqual(ok)
    expect(received).toHaveLength(7)
  })

  it('[GATE1] passes a gateway call on only if the gate has allowed that tool', async () => {
    const { url: gatewayUrl, received } = await serve((_request, response) =>
      json(response, 200, ok),
    )
    const gate = new Gate(() => {})
    gate.open('trn_1')
    const url = await startRelay({ gatewayUrl, gate })
    const path = '/proliferate/ses_1/tools/automation.complete'
    const body = (id: string) => ({ tool_call_id: id, args: {} })
    expect((await call(url, path, body('a'))).status).toBe(403)
    const question = { tool: 'automation_complete', callId: 'c', sessionID: 's', input: {} }
    void gate.ask({ askId: 'one', ...question }, 10)
    gate.answer('one', { decision: 'allow', reason: '' })
    expect(await (await call(url, path, body('a'))).json()).toEqual(ok)
    expect(await (await call(url, path, body('a'))).json()).toEqual(ok)
    expect((await call(url, path, body('b'))).status).toBe(403)
    void gate.ask({ askId: 'two', ...question }, 10)
    gate.answer('two', { decision: 'deny', reason: '' })
    expect((await call(url, path, body('b'))).status).toBe(403)
    expect(received).toHaveLength(1)
  })

  it('serves its own session only', async () => {
    const url = await startRelay({ gatewayUrl: 'http://127.0.0.1:1' })
    expect((await call(url, '/proliferate/ses_2/tools/verify', {})).status).toBe(404)
  })

  it('streams the model both ways and puts the JWT in place of the local key', async () => {
    const { url: gatewayUrl, received } = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: 1\n\n')
      setTimeout(() => response.end('data: 2\n\n'), 30)
    })
    const url = await startRelay({ gatewayUrl })
    const response = await fetch(`${url}/llm/anthropic/v1/messages?beta=1`, {
      method: 'POST',
      headers: { 'x-api-key': 'local', 'anthropic-version': '2023-06-01' },
      body: 'hello',
    })
    expect(await response.text()).toBe('data: 1\n\ndata: 2\n\n')
    expect(received[0]).toMatchObject({ path: '/llm/anthropic/v1/messages?beta=1', body: 'hello' })
    expect(received[0]?.headers).toMatchObject({
      authorization: 'Bearer the-jwt',
      'anthropic-version': '2023-06-01',
    })
    expect(received[0]?.headers['x-api-key']).toBeUndefined()
  })

  it('sends the JWT to the control plane only, whatever the target of the request', async () => {
    const { url: gatewayUrl, received } = await serve((_request, response) =>
      json(response, 200, ok),
    )
    const url = new URL(await startRelay({ gatewayUrl }))
    const status = await new Promise((resolve, reject) => {
      const client = request(
        {
          host: url.hostname,
          port: url.port,
          method: 'POST',
          path: 'pany://elsewhere/llm/litellm/x?y=1',
          headers: { 'x-api-key': 'local' },
        },
        (response) => resolve(response.resume().statusCode),
      )
      client.on('error', reject)
      client.end()
    })
    expect(status).toBe(200)
    expect(received.map((each) => each.path)).toEqual(['/llm/litellm/x?y=1'])
  })

  it('says that the model is unavailable when the control plane is away', async () => {
    const url = await startRelay({ gatewayUrl: 'http://127.0.0.1:1' })
    const response = await call(url, '/llm/litellm/chat/completions', {})
    expect(response.status).toBe(503)
    expect(await response.json()).toMatchObject({ error: { code: 'model_unavailable' } })
  })

  it('gives up the upstream stream when the reader leaves', async () => {
    let closed = false
    const { url: gatewayUrl } = await serve((_request, response) => {
      response.on('close', () => (closed = true))
      response.writeHead(200)
      response.write('data')
    })
    const url = await startRelay({ gatewayUrl })
    const client = request(`${url}/llm/litellm/x`, {
      method: 'POST',
      headers: { 'x-api-key': 'local' },
    })
    client.on('error', () => {})
    client.on('response', () => client.destroy())
    client.end()
    await expect.poll(() => closed).toBe(true)
  })

  it('passes questions to the gate: 202 while open, then the answer, then a confirmation', async () => {
    const gate = new Gate(() => {})
    gate.open('trn_1')
    const url = await startRelay({ gatewayUrl: 'http://127.0.0.1:1', gate, pollMs: 20 })
    const question = {
      askId: 'ask_00000000000000000000',
      tool: 'bash',
      callId: 'c1',
      sessionID: 's',
      input: { command: 'ls' },
    }
    expect((await call(url, '/gate', question)).status).toBe(202)
    gate.answer(question.askId, { decision: 'allow', reason: 'fine' })
    expect(await (await call(url, '/gate', question)).json()).toEqual({
      decision: 'allow',
      reason: 'fine',
    })
    const confirm = { ...question, confirm: true }
    expect(await (await call(url, '/gate', confirm)).json()).toMatchObject({ decision: 'allow' })
    gate.close('The turn is being aborted')
    expect(await (await call(url, '/gate', confirm)).json()).toMatchObject({ decision: 'deny' })
    expect((await call(url, '/gate', { ...question, askId: 'made-up' })).status).toBe(400)
    expect((await call(url, '/gate', { ...question, tool: '' })).status).toBe(400)
  })

  it('gives the gate call ids whole: they are compared with those of the stream', async () => {
    const gate = new Gate(() => {})
    gate.open('trn_1')
    const url = await startRelay({ gatewayUrl: 'http://127.0.0.1:1', gate, pollMs: 20 })
    const callId = `call_${'x'.repeat(3000)}`
    const askId = 'ask_00000000000000000000'
    const asked = { tool: 'bash', callId, sessionID: 's', input: {} }
    await call(url, '/gate', { askId, ...asked })
    gate.answer(askId, { decision: 'allow', reason: '' })
    expect(gate.covers({ ...asked, partId: 'p', messageId: 'm' })).toBe(true)
  })
})
