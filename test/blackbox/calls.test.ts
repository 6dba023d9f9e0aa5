import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Session } from '../../src/contract/session.ts'
import type { ToolCall } from '../../src/contract/tool.ts'
import { type Effects, hosts, startEffects, startWire, until, useStack } from '../support/stack.ts'

describe.each(hosts)('gateway calls on %s', (host) => {
  const stack = useStack(host)
  let effects: Effects
  let session: Session
  let token: string
  beforeAll(async () => {
    effects = await startEffects()
    session = await stack().createSession()
    token = await stack().token(session)
  })
  afterAll(() => effects.close())

  const call = (tool: string, id: string, args: object = {}) =>
    stack().call(token, session, tool, id, args)
  const runsOf = (operationId: string) =>
    effects.seen.filter((effect) => effect.operationId === operationId).length
  const record = async (id: string): Promise<ToolCall> => {
    const { json } = await stack().api('GET', `/v1/sessions/${session.id}/calls?limit=100`)
    return (json.items as ToolCall[]).find((item) => item.toolCallId === id) as ToolCall
  }
  const invocation = (id: string) =>
    stack().db.all<{
      tool_name: string
      status: string
      attempts: number
      output: string
      operation_id: string
    }>(
      'select * from session_tool_invocations where session_id = ? and tool_call_id = ?',
      session.id,
      id,
    )

  test('[CALL4] the same call twice runs once and gives equal bytes', async () => {
    const args = { url: effects.url, row: true }
    const first = await call('count_once', 'twice', args)
    const again = await call('count_once', 'twice', args)
    expect([first.status, again.status, again.text]).toEqual([200, 200, first.text])
    expect([first, again].map(({ headers }) => headers.get('x-gantry-replayed'))).toEqual([
      'false',
      'true',
    ])
    const { operationId } = first.json.data
    expect(runsOf(operationId)).toBe(1)
    expect(
      await stack().db.all('select 1 from test_effects where operation_id = ?', operationId),
    ).toHaveLength(1)
    expect(
      await until(async () => (await invocation('twice')).find((row) => row.status === 'settled')),
    ).toMatchObject({
      operation_id: operationId,
      attempts: 1,
      output: first.text,
    })
  })

  test('[CALL3] twenty at once join one run and get equal bytes', async () => {
    const release = effects.hold()
    const args = { url: effects.url }
    const calls = Array.from({ length: 20 }, () => call('count_once', 'twenty', args))
    await until(() =>
      stack()
        .api('GET', `/v1/sessions/${session.id}`)
        .then(({ json }) => json.activeCalls === 1),
    )
    await until(() => effects.seen.some((effect) => effect.sessionId === session.id))
    release()
    const answers = await Promise.all(calls)
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
    expect(
      answers.filter(({ headers }) => headers.get('x-gantry-replayed') === 'false'),
    ).toHaveLength(1)
    expect(runsOf(answers[0]?.json.data.operationId)).toBe(1)
  })

  test('[CALL3] a connection cut before the answer: the second one gets the answer of the first run', async () => {
    const wire = await startWire(stack().url)
    const release = effects.hold()
    const before = effects.seen.length
    const path = `/proliferate/${session.id}/tools/count_once`
    const body = { tool_call_id: 'cut', args: { url: effects.url } }
    const lost = stack().api('POST', path, body, { credential: token, url: wire.url })
    lost.catch(() => undefined)
    await until(() => effects.seen.length > before)
    wire.cut()
    await expect(lost).rejects.toThrow()
    release()
    const answer = await call('count_once', 'cut', body.args)
    expect(answer.status).toBe(200)
    expect(runsOf(answer.json.data.operationId)).toBe(1)
    expect((await call('count_once', 'cut', body.args)).text).toBe(answer.text)
    wire.close()
  })

  test('[CALL5] one id for two tools or in two sessions is two calls', async () => {
    const other = await stack().createSession()
    const args = { url: effects.url }
    const answers = await Promise.all([
      call('count_once', 'same', args),
      call('count_repeatable', 'same', args),
      stack().call(await stack().token(other), other, 'count_once', 'same', args),
    ])
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
    const operations = answers.map(({ json }) => json.data.operationId)
    expect(new Set(operations).size).toBe(3)
    expect(operations.map(runsOf)).toEqual([1, 1, 1])
  })

  test('[CALL5] another spelling of a tool is the same tool', async () => {
    const args = { url: effects.url }
    const first = await call('count_once', 'spelling', args)
    expect((await call('count_once_alias', 'spelling', args)).text).toBe(first.text)
  })

  test('[CALL4] a settled success:false is replayed like any answer', async () => {
    const first = await call('refuse', 'no')
    expect([first.status, first.json.success]).toEqual([200, false])
    expect((await call('refuse', 'no')).text).toBe(first.text)
  })

  test('[CALL6] other arguments are 409, or success:false where the tool says so; key order does not matter', async () => {
    const args = { url: effects.url, text: 'a' }
    const first = await call('count_once', 'conflict', args)
    expect((await call('count_once', 'conflict', { text: 'a', url: effects.url })).text).toBe(
      first.text,
    )
    const other = await call('count_once', 'conflict', { ...args, text: 'b' })
    expect([other.status, other.json.error.code]).toEqual([409, 'call_conflict'])
    expect((await record('conflict')).conflicts).toBe(1)
    expect(runsOf(first.json.data.operationId)).toBe(1)

    await call('refuse', 'lenient', { text: 'a' })
    const answered = await call('refuse', 'lenient', { text: 'b' })
    expect([answered.status, answered.json.success]).toEqual([200, false])
    expect(answered.json.result).toContain('other arguments')
  })

  test('[CALL8] a handler that throws is 500 without its message; not repeatable, it never runs again', async () => {
    const first = await call('boom', 'bug')
    expect([first.status, first.json.error.code]).toEqual([500, 'internal'])
    expect((await record('bug')).state).toBe('failed')
    const second = await call('boom', 'bug')
    expect([second.status, second.json.success]).toEqual([200, false])
    expect(second.json.result).toContain('Outcome unknown')
    expect(await record('bug')).toMatchObject({ state: 'unknown', attempts: 1 })
    expect((await call('boom', 'bug')).text).toBe(second.text)
  })

  test('[CALL8] a repeatable one runs again under the same operation id', async () => {
    expect((await call('boom_repeatable', 'bug2', { times: 1 })).status).toBe(500)
    const { operationId } = await record('bug2')
    expect((await call('boom_repeatable', 'bug2', { times: 1 })).json.success).toBe(true)
    expect(await record('bug2')).toMatchObject({ state: 'settled', attempts: 2, operationId })
  })

  test('[CALL9] a retryable refusal is 503 and leaves the call pending; whoever asks next runs it', async () => {
    for (const attempt of [1, 2]) {
      const refused = await call('unavailable', 'away', { times: 2 })
      expect([refused.status, refused.json.error.code]).toEqual([503, 'storage_unavailable'])
      expect(await record('away')).toMatchObject({ state: 'pending', attempts: attempt })
    }
    expect((await call('unavailable', 'away', { times: 2 })).json.result).toBe('after 2 refusals')
  })

  test('[CALL10] arguments that do not fit are settled success:false', async () => {
    const first = await call('count_once', 'wrong', { url: 1 })
    expect([first.status, first.json.success]).toEqual([200, false])
    expect(first.json.result).toMatch(/^Invalid arguments: url: /)
    expect((await call('count_once', 'wrong', { url: 1 })).text).toBe(first.text)
  })

  test('[CALL12] arguments over 256 KiB are 413 and leave no call behind', async () => {
    const large = await call('noop', 'large', { text: 'x'.repeat(257 * 1024) })
    expect([large.status, large.json.error.code]).toEqual([413, 'too_large'])
    expect(await record('large')).toBeUndefined()
  })

  test('[CALL11] a closed session replays what it settled and refuses new ids', async () => {
    const own = await stack().createSession()
    const ownToken = await stack().token(own)
    const mine = (id: string, tool = 'noop', args = {}) =>
      stack().call(ownToken, own, tool, id, args)
    const settled = await mine('before')
    await mine('half', 'unavailable', { times: 9 })
    expect((await stack().api('POST', `/v1/sessions/${own.id}/close`, {})).status).toBe(200)
    expect((await mine('before')).text).toBe(settled.text)
    const fresh = await mine('after')
    expect([fresh.status, fresh.json.error.code]).toEqual([403, 'session_closed'])
    expect((await mine('half', 'unavailable', { times: 9 })).json.result).toContain(
      'Outcome unknown',
    )
  })
})
