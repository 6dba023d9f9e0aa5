import { beforeAll, describe, expect, test } from 'vitest'
import { gatewayTool } from '../../src/core/session/calls/tools/tool.ts'
import { createTestApp, echoTool, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
/** Put together here, so that no scanner takes this file for a leak. */
const githubKey = `ghp_${'aB3dE6gH9j'.repeat(4)}`
const privateKey = ['BEGIN', 'END']
  .map((word) => `-----${word} RSA PRIVATE KEY-----`)
  .join(`\n${'MIIEow1Bz+/'.repeat(30)}\n`)
/** Has keys that nobody has sent. */
const leak = gatewayTool({
  definition: { ...echoTool, name: 'leak', aliases: [] },
  repeatable: true,
  run: ({ text }) => {
    if (text === 'throw') throw new Error(`Refused by ${githubKey}`)
    return { success: true, result: `It is ${githubKey}`, data: { [githubKey]: [privateKey] } }
  },
})
let app: TestApp
let key: string
let organisationId: string
let sessionId: string
let token: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db, tools: [leak] })
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
  const created = await app.call('POST', '/v1/sessions', key, {})
  sessionId = created.json.id
  token = (await app.deps.tokens.mint({ sessionId, organisationId, generation: 1 })).token
})

const path = (tool = 'echo', session = sessionId) => `/proliferate/${session}/tools/${tool}`
const callBack = (body: unknown, credential: string | undefined = token, tool = 'echo') =>
  app.call('POST', path(tool), credential, body)

describe('POST /proliferate/:sessionId/tools/:toolName', () => {
  test('answers with the stored bytes, and says whether they are a replay', async () => {
    const first = await callBack({ tool_call_id: 'a', args: { text: 'hi' } })
    const again = await callBack({ tool_call_id: 'a', args: { text: 'hi' } })
    expect(first.status).toBe(200)
    expect(first.json).toMatchObject({ success: true, result: 'hi' })
    expect(first.headers.get('content-type')).toBe('application/json')
    expect([first, again].map((answer) => answer.headers.get('x-gantry-replayed'))).toEqual([
      'false',
      'true',
    ])
    expect(again.text).toBe(first.text)
  })

  test('every answer has a request id and is kept by no cache, be it given, refused or not found', async () => {
    const answers = await Promise.all([
      callBack({ tool_call_id: 'headers', args: { text: 'hi' } }),
      callBack({}),
      callBack({ tool_call_id: 'headers', args: {} }, 'nobody'),
      app.call('GET', path()),
      app.call('POST', '/proliferate/nothing', token, {}),
    ])
    expect(answers.map(({ status }) => status)).toEqual([200, 400, 401, 405, 404])
    for (const { headers } of answers) {
      expect(headers.get('x-request-id')).toMatch(/^req_[0-9a-z]{20}$/)
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('cache-control')).toBe('no-store')
    }
  })

  test('[CALL1] a replaced sandbox is told so, however large its arguments or empty its body', async () => {
    const replaced = (await app.deps.tokens.mint({ sessionId, organisationId, generation: 7 }))
      .token
    const large = { tool_call_id: 'large', args: { text: 'x'.repeat(256 * 1024) } }
    const codes = async (body: unknown) =>
      Promise.all(
        [replaced, token].map(async (each) => (await callBack(body, each)).json.error.code),
      )
    expect(await codes(large)).toEqual(['old_generation', 'too_large'])
    expect(await codes('')).toEqual(['old_generation', 'invalid_request'])
    const none = await app.call('POST', path(), token)
    expect(none.json.error).toMatchObject({
      message: 'Missing or invalid tool_call_id',
      details: [{ path: 'tool_call_id' }],
    })
  })

  test('[SEC10] [CALL4] what looks like a key is in no list, row or event of a call; a replay is the first answer, byte for byte', async () => {
    const sent = { tool_call_id: 'keys', args: { text: `use ${githubKey} and ${privateKey}` } }
    const answer = await callBack(sent, token, 'leak')
    expect((await callBack(sent, token, 'leak')).text).toBe(answer.text)
    app.restart(sessionId)
    expect((await callBack(sent, token, 'leak')).text).toBe(answer.text)
    const other = { ...sent, args: { text: `use ${githubKey}x and ${privateKey}` } }
    expect((await callBack(other, token, 'leak')).status).toBe(409)
    const thrown = { tool_call_id: 'thrown', args: { text: 'throw' } }
    expect((await callBack(thrown, token, 'leak')).status).toBe(500)
    await app.settle()

    const at = `/v1/sessions/${sessionId}`
    const calls = (await app.call('GET', `${at}/calls`, key)).json.items as { tool: string }[]
    const listed = calls.filter(({ tool }) => tool === 'leak')
    const rows = await libsql
      .db()
      .all<{ input: string; output: string; error: string }>(
        `select input, output, error from session_tool_invocations where session_id = ? and tool_name = 'leak' order by started_at`,
        sessionId,
      )
    const shown = { args: { text: 'use [secret-like:github] and [secret-like:private-key]' } }
    const response = {
      result: 'It is [secret-like:github]',
      data: { '[secret-like:github]': ['[secret-like:private-key]'] },
    }
    const error = 'Refused by [secret-like:github]'
    expect(listed).toMatchObject([{ ...shown, response }, { error }])
    expect(rows.map(({ input }) => JSON.parse(input) as unknown)[0]).toEqual(shown.args)
    expect(rows[0]?.output).toBe(answer.text)
    expect(JSON.parse(answer.text)).toMatchObject(response)
    expect(rows[1]?.error).toBe(error)
    const events = (await app.call('GET', `${at}/events`, key)).text
    const kept = JSON.stringify([listed, rows, events, app.logs])
    for (const secret of [githubKey, 'MIIEow1Bz']) expect(kept).not.toContain(secret)
  })

  test('an alias is the same tool', async () => {
    const first = await callBack({ tool_call_id: 'b', args: {} })
    const again = await callBack({ tool_call_id: 'b', args: {} }, token, 'echo_alias')
    expect(again.text).toBe(first.text)
  })

  test('the same id with other arguments is a conflict', async () => {
    await callBack({ tool_call_id: 'c', args: { text: '1' } })
    const other = await callBack({ tool_call_id: 'c', args: { text: '2' } })
    expect([other.status, other.json.error.code]).toEqual([409, 'call_conflict'])
  })

  test('an unknown tool is named', async () => {
    const answer = await callBack({ tool_call_id: 'd' }, token, 'nope')
    expect(answer.status).toBe(404)
    expect(answer.json.error).toEqual({ code: 'unknown_tool', message: 'Unknown tool: nope' })
  })

  test('the order is token, 403, body, tool, session', async () => {
    const other = `ses_${'0'.repeat(30)}`
    const mint = (generation: number, session = sessionId) =>
      app.deps.tokens.mint({ sessionId: session, organisationId, generation })
    const old = await mint(7)
    const answers = [
      await app.call('POST', path('nope'), undefined, 'no json'),
      await app.call('POST', path('nope'), 'x', 'no json'),
      await app.call('POST', path('nope'), key, 'no json'),
      await app.call('POST', path('nope', other), token, 'no json'),
      await app.call('POST', path('nope'), token, 'no json'),
      await app.call('POST', path('nope'), token, { args: {} }),
      await app.call('POST', path('nope'), token, { tool_call_id: 'e' }),
      await app.call('POST', path(), old.token, { tool_call_id: 'e' }),
      await app.call('POST', path(), old.token, 'no json'),
      await app.call('POST', path('nope'), old.token, { tool_call_id: 'e' }),
    ]
    expect(answers.map(({ status, json }) => [status, json.error.code])).toEqual([
      [401, 'unauthenticated'],
      [401, 'unauthenticated'],
      [403, 'not_sandbox'],
      [403, 'other_session'],
      [400, 'invalid_request'],
      [400, 'invalid_request'],
      [404, 'unknown_tool'],
      [403, 'old_generation'],
      [403, 'old_generation'],
      [403, 'old_generation'],
    ])
    expect(answers[2]?.json.error.message).toBe('Tool routes require sandbox authentication')
  })

  test('an expired token is told apart from a bad one', async () => {
    const { token: short } = await app.deps.tokens.mint({
      sessionId,
      organisationId,
      generation: 1,
    })
    app.pass(3_600_000)
    const answer = await callBack({ tool_call_id: 'f' }, short)
    token = (await app.deps.tokens.mint({ sessionId, organisationId, generation: 1 })).token
    expect([answer.status, answer.json.error.code]).toEqual([401, 'token_expired'])
  })

  for (const [name, body] of Object.entries({
    missing: { args: {} },
    empty: { tool_call_id: '' },
    'a number': { tool_call_id: 1 },
    'too long': { tool_call_id: 'x'.repeat(201) },
    'with NUL': { tool_call_id: 'a\0b' },
    'with a line break': { tool_call_id: 'a\nb' },
    'with a lone surrogate': '{"tool_call_id":"a\\ud800"}',
  })) {
    test(`a tool_call_id that is ${name} is refused with its path`, async () => {
      const answer = await callBack(body)
      expect(answer.status).toBe(400)
      expect(answer.json.error.details[0].path).toBe('tool_call_id')
      if (!/NUL|surrogate/.test(name)) {
        expect(answer.json.error.message).toBe('Missing or invalid tool_call_id')
      }
    })
  }

  test('arguments that the tool does not know are answered, not executed', async () => {
    const runs = app.echoRuns()
    const answer = await callBack({ tool_call_id: 'g', args: { other: 1 } })
    expect([answer.status, answer.json.success]).toEqual([200, false])
    expect(answer.json.result).toBe('Invalid arguments: other: Unknown field; known are text')
    expect(app.echoRuns()).toBe(runs)
  })

  test('arguments over 256 KiB, and bodies over 1 MiB, are too large', async () => {
    const large = await callBack({ tool_call_id: 'h', args: { text: 'x'.repeat(256 * 1024) } })
    const huge = await callBack({ tool_call_id: 'h', args: { text: 'x'.repeat(1024 * 1024) } })
    expect([large.status, large.json.error.code]).toEqual([413, 'too_large'])
    expect([huge.status, huge.json.error.code]).toEqual([413, 'too_large'])
  })
})
