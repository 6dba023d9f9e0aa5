import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Session } from '../../src/contract/session.ts'
import type { ToolCall } from '../../src/contract/tool.ts'
import { type Effects, hostsOf, startEffects, until, useStack } from '../support/stack.ts'

describe.each(hostsOf(import.meta.filename))('SIGKILL of the control plane on %s', (host) => {
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

  const call = (tool: string, id: string, args: object) =>
    stack().call(token, session, tool, id, args)
  const record = async (id: string): Promise<ToolCall> => {
    const { json } = await stack().api('GET', `/v1/sessions/${session.id}/calls`)
    return (json.items as ToolCall[]).find((item) => item.toolCallId === id) as ToolCall
  }
  /** Killed while the effect is outside and its answer has not come back. */
  async function killInMidCall(tool: string, id: string): Promise<void> {
    const before = effects.seen.length
    const release = effects.hold()
    const lost = call(tool, id, { url: effects.url })
    lost.catch(() => undefined)
    await until(() => effects.seen.length > before)
    await stack().restart()
    release()
    await expect(lost).rejects.toThrow()
  }

  test('[CALL4] settled calls are replayed byte for byte, and do not run again', async () => {
    const args = { url: effects.url }
    const before = [
      await call('count_once', 'kept', args),
      await call('refuse', 'kept', {}),
      await call('noop', 'kept', { text: '\u{1f600} "quoted" \u2028' }),
    ]
    const seen = effects.seen.length
    await stack().restart()
    const after = [
      await call('count_once', 'kept', args),
      await call('refuse', 'kept', {}),
      await call('noop', 'kept', { text: '\u{1f600} "quoted" \u2028' }),
    ]
    expect(after.map(({ text }) => text)).toEqual(before.map(({ text }) => text))
    expect(effects.seen).toHaveLength(seen)
  })

  test('[CALL7] a call whose runner is gone becomes unknown, says so, and never runs again', async () => {
    await killInMidCall('count_once', 'gone')
    const { operationId } = await record('gone')
    const answer = await call('count_once', 'gone', { url: effects.url })
    expect([answer.status, answer.json.success]).toEqual([200, false])
    expect(answer.json.result).toContain('Outcome unknown')
    expect((await call('count_once', 'gone', { url: effects.url })).text).toBe(answer.text)
    expect(effects.seen.filter((effect) => effect.operationId === operationId)).toHaveLength(1)
    const [row] = await until(async () => {
      const rows = await stack().db.all<{ status: string }>(
        `select status from session_tool_invocations where session_id = ? and tool_call_id = 'gone' and status = 'unknown'`,
        session.id,
      )
      return rows.length > 0 && rows
    })
    expect(row?.status).toBe('unknown')
  })

  test('[CALL7] a repeatable one runs again under the same operation id', async () => {
    await killInMidCall('count_repeatable', 'again')
    const { operationId } = await record('again')
    const answer = await call('count_repeatable', 'again', { url: effects.url })
    expect(answer.json).toMatchObject({ success: true, data: { operationId } })
    expect(await record('again')).toMatchObject({ state: 'settled', attempts: 2 })
    expect(new Set(effects.seen.slice(-2).map((effect) => effect.operationId))).toEqual(
      new Set([operationId]),
    )
  })

  test('[OUT1] what was committed just before a kill reaches libSQL without anybody asking', async () => {
    const own = await stack().createSession({ title: 'killed' })
    const ownToken = await stack().token(own)
    await Promise.all(
      Array.from({ length: 10 }, (_, n) => stack().call(ownToken, own, 'noop', `n${n}`)),
    )
    await stack().restart()
    const rows = await until(async () => {
      const found = await stack().db.all<{ status: string; attempts: number }>(
        `select status, attempts from session_tool_invocations where session_id = ? and status = 'settled'`,
        own.id,
      )
      return found.length === 10 && found
    })
    expect(rows.every(({ attempts }) => attempts === 1)).toBe(true)
    const list = await stack().api('GET', '/v1/sessions')
    expect(list.json.items.map(({ id }: Session) => id)).toContain(own.id)
  })

  test('[EVT1] the log goes on without a gap', async () => {
    const { json } = await stack().api('GET', `/v1/sessions/${session.id}/events?limit=500`)
    expect(json.items.map(({ seq }: { seq: number }) => seq)).toEqual(
      json.items.map((_: unknown, index: number) => index + 1),
    )
  })

  test('[SES2] an Idempotency-Key still stands for its session', async () => {
    const create = () =>
      stack().api('POST', '/v1/sessions', { title: 'x' }, { headers: { 'idempotency-key': 'k' } })
    const first = await create()
    await stack().restart()
    const again = await create()
    expect([first.status, again.status, again.json.id]).toEqual([201, 201, first.json.id])
    const other = await stack().api(
      'POST',
      '/v1/sessions',
      { title: 'y' },
      { headers: { 'idempotency-key': 'k' } },
    )
    expect([other.status, other.json.error.code]).toEqual([409, 'key_conflict'])
  })
})
