import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createPartsLog } from '../../src/parts.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let organisationId: string
let key: { id: string; secret: string }
beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  organisationId = await app.makeOrganisation()
  key = await app.makeKey(organisationId, 'admin')
})
beforeEach(() => void app.logs.splice(0))
const lines = (message: string) => app.logs.filter((line) => line.message === message)
const create = async () => {
  const { id } = (await app.call('POST', '/v1/sessions', key.secret, {})).json
  const { token } = (await app.call('POST', `/v1/sessions/${id}/tokens`, key.secret, {})).json
  return { id: id as string, token: token as string }
}
const call = (session: { id: string; token: string }, tool: string, id: string, args = {}) =>
  app.call('POST', `/proliferate/${session.id}/tools/${tool}`, session.token, {
    tool_call_id: id,
    args,
  })

describe('[CALL13] each execution', () => {
  test('is a debug line with tool, call, session and duration, and a replay is none', async () => {
    const session = await create()
    const { headers } = await call(session, 'echo', 'c1', { text: 'x' })
    await call(session, 'echo', 'c1', { text: 'x' })
    expect(lines('Tool call settled')).toEqual([
      {
        level: 'debug',
        message: 'Tool call settled',
        fields: {
          ...{ tool: 'echo', toolCallId: 'c1', success: true, durationMs: expect.any(Number) },
          ...{ sessionId: session.id, organisationId, keyId: key.id },
          requestId: headers.get('x-request-id'),
        },
      },
    ])
  })

  test('that failed is an info line', async () => {
    await call(await create(), 'echo', 'c2', { text: 1 })
    expect(lines('Tool call settled')).toMatchObject([
      { level: 'info', fields: { toolCallId: 'c2', success: false } },
    ])
  })
})

describe('[API10] a line that belongs to a request', () => {
  test('names request, session, organisation and key, and no secret', async () => {
    const session = await create()
    app.logs.splice(0)
    const { headers } = await app.call('GET', `/v1/sessions/${session.id}/turns?x=1`, key.secret)
    expect(lines('Request refused')).toEqual([
      {
        level: 'debug',
        message: 'Request refused',
        fields: {
          ...{ requestId: headers.get('x-request-id'), organisationId, keyId: key.id },
          ...{ method: 'GET', path: `/v1/sessions/${session.id}/turns`, sessionId: session.id },
          ...{
            code: 'invalid_request',
            reason: expect.stringMatching(/^Invalid x: Unknown field; known are /),
          },
        },
      },
    ])
    expect(JSON.stringify(app.logs)).not.toContain(key.secret)
  })

  test('finds the session in the id of what it is about, and in the token of a sandbox', async () => {
    const session = await create()
    const runId = `run_${session.id.slice(4)}00000000`
    await app.call('GET', `/v1/runs/${runId}`, key.secret)
    await app.call('POST', `/proliferate/${session.id}/tools/none`, session.token, {
      tool_call_id: 'c',
    })
    expect(lines('Request refused').map(({ fields }) => fields)).toMatchObject([
      { sessionId: session.id, keyId: key.id, code: 'not_found' },
      { sessionId: session.id, organisationId, generation: 1, code: 'unknown_tool' },
    ])
    expect(JSON.stringify(app.logs)).not.toContain(session.token)
  })

  test('before anybody is known says only which request it was', async () => {
    await app.call('GET', '/v1/sessions', `gk_${'0'.repeat(32)}`)
    const [line] = lines('Request refused')
    expect(Object.keys(line?.fields ?? {})).toEqual([
      'requestId',
      'method',
      'path',
      'code',
      'reason',
    ])
  })
})

describe('[API10] the level of the log', () => {
  test('says from where on lines are written, as JSON that begins with time, level and message', () => {
    const written: string[] = []
    const { log, warn, error } = console
    const keep = (line: string) => void written.push(line)
    Object.assign(console, { log: keep, warn: keep, error: keep })
    try {
      const levels = ['debug', 'info', 'warn', 'error'] as const
      for (const least of levels)
        for (const level of levels) createPartsLog(least)(level, 'm', { a: least })
    } finally {
      Object.assign(console, { log, warn, error })
    }
    const shown = written.map((line) => JSON.parse(line) as Record<string, string>)
    expect(shown.map(({ a, level }) => `${a} ${level}`)).toEqual([
      ...['debug debug', 'debug info', 'debug warn', 'debug error'],
      ...['info info', 'info warn', 'info error'],
      ...['warn warn', 'warn error'],
      'error error',
    ])
    expect(Object.keys(shown[0] ?? {}).slice(0, 3)).toEqual(['at', 'level', 'message'])
  })
})
