import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Gate } from '../../../sandbox-agent/gate/gate.ts'
import { realPathsOf } from '../../../sandbox-agent/gate/real-paths.ts'
import { Relay, type RelayOptions } from '../../../sandbox-agent/gate/relay.ts'
import { callUpstream } from '../../../sandbox-agent/gate/upstream.ts'
import { maxArgsBytes } from '../../../src/contract/tool.ts'
import { json, serve } from '../support.ts'

const allow = { decision: 'allow', reason: '' } as const
const ok = { success: true, result: 'done' }
const question = (askId: string) => ({
  ...{ askId, tool: 'bash', callId: 'c', sessionID: 's', input: { command: 'ls' } },
})
const part = { partId: 'p', messageId: 'm', sessionID: 's', tool: 'bash', callId: 'c' }

describe('the gate', () => {
  it('[GATE1] begins without a link, and counts from the moment in which it was lost', async () => {
    let now = 1000
    const gate = new Gate(
      () => {},
      () => now,
    )
    gate.open('trn_1')
    const first = gate.ask(question('a'), 60_000)
    now += 29_999
    gate.tick()
    gate.linkDown()
    now += 1
    gate.tick()
    expect(await first).toMatchObject({ decision: 'deny' })
    gate.linkUp()
    const second = gate.ask(question('b'), 60_000)
    now += 60_000
    gate.tick()
    expect(gate.unanswered().map(({ askId }) => askId)).toEqual(['b'])
    gate.linkDown()
    now += 20_000
    gate.linkDown()
    now += 10_000
    gate.tick()
    expect(await second).toMatchObject({ decision: 'deny' })
    expect(gate.unanswered()).toEqual([])
  })

  it('[GATE1] admits and covers nothing after the turn, and knows what was never asked', async () => {
    const gate = new Gate(() => {})
    gate.open('trn_1')
    void gate.ask(question('a'), 10)
    gate.answer('a', allow)
    const input = { command: 'ls' }
    expect(gate.wasAsked({ ...part, input })).toBe(true)
    expect(gate.wasAsked({ ...part, input: { command: 'rm' } })).toBe(false)
    gate.close('The turn has ended')
    expect(gate.admits('bash', 'c')).toBe(false)
    expect(gate.confirm(question('a'))).toEqual({ decision: 'deny', reason: 'The turn has ended' })
  })
})

async function startRelay(change: Partial<RelayOptions> & { gatewayUrl: string }): Promise<string> {
  const relay = new Relay({
    sessionId: 'ses_1',
    token: () => 'the-jwt',
    localToken: 'local',
    gate: Object.assign(new Gate(() => {}), { admits: () => true }),
    upstream: { firstBackoffMs: 1 },
    ...change,
  })
  onTestFinished(() => relay.close())
  return relay.listen()
}
const send = async (url: string, init: RequestInit & { token?: string } = {}) => {
  const { token = 'local', ...rest } = init
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const answer = await fetch(url, { method: 'POST', ...rest, headers })
  const body = (await answer.json()) as { error?: { code: string; message: string } }
  return {
    status: answer.status,
    code: body.error?.code,
    type: answer.headers.get('content-type'),
    body,
  }
}
const callOf = (args: object = {}, tool_call_id = 'one') => JSON.stringify({ tool_call_id, args })
const tools = '/proliferate/ses_1/tools'

describe('the relay', () => {
  it('[GATE1] refuses each wrong request with its own code, as JSON', async () => {
    const control = await serve((_request, response) => json(response, 200, ok))
    const url = await startRelay({ gatewayUrl: control.url })
    expect(await send(`${url}${tools}/verify`, { token: 'other', body: callOf() })).toMatchObject({
      ...{ status: 401, code: 'unauthenticated', type: 'application/json' },
    })
    const get = await fetch(`${url}/gate`, { headers: { authorization: 'Bearer local' } })
    expect([get.status, ((await get.json()) as { error: { code: string } }).error.code]).toEqual([
      405,
      'method_not_allowed',
    ])
    for (const path of [
      '/elsewhere/ses_1/tools/verify',
      '/proliferate/ses_2/tools/verify',
      '/proliferate/ses_1/other/verify',
      `${tools}/`,
      `${tools}/verify/more`,
    ])
      expect([path, (await send(`${url}${path}`, { body: callOf() })).status]).toEqual([path, 404])
    const invalid = await send(`${url}${tools}/verify`, { body: '{"tool_call_id": 1}' })
    expect(invalid).toMatchObject({ status: 400, code: 'invalid_request' })
    expect(invalid.body.error?.message).not.toBe('Invalid body')
    expect(control.received).toEqual([])
  })

  it.each([
    ['null', null],
    ['a text', 'x'],
    ['no id', { tool: 'bash', callId: 'c', sessionID: 's' }],
    ['no tool', { askId: `ask_${'1'.repeat(20)}`, callId: 'c', sessionID: 's' }],
    ['no call', { askId: `ask_${'1'.repeat(20)}`, tool: 'bash', sessionID: 's' }],
    ['no session', { askId: `ask_${'1'.repeat(20)}`, tool: 'bash', callId: 'c' }],
  ])('[GATE1] takes no question that is %s', async (_, body) => {
    const url = await startRelay({ gatewayUrl: 'http://127.0.0.1:1' })
    expect(await send(`${url}/gate`, { body: JSON.stringify(body) })).toMatchObject({
      ...{ status: 400, code: 'invalid_request' },
    })
  })

  it('[CALL12] takes a body of exactly its limit, and not one byte more', async () => {
    const control = await serve((_request, response) => json(response, 200, ok))
    const url = await startRelay({ gatewayUrl: control.url })
    const body = (bytes: number) => {
      const empty = callOf({ a: '' }).length
      return callOf({ a: 'x'.repeat(bytes - empty) })
    }
    const limit = maxArgsBytes + 4096
    expect((await send(`${url}${tools}/verify`, { body: body(limit) })).status).toBe(200)
    expect(await send(`${url}${tools}/verify`, { body: body(limit + 1) })).toMatchObject({
      ...{ status: 413, code: 'too_large' },
    })
  })

  it('[CALL16] an answered call is answered again without the gate; one that failed goes up again', async () => {
    let admitted = true
    let failing = true
    const control = await serve((_request, response) =>
      failing
        ? json(response, 403, { error: { code: 'forbidden', message: 'no' } })
        : json(response, 200, ok),
    )
    const gate = Object.assign(new Gate(() => {}), { admits: () => admitted })
    const url = await startRelay({ gatewayUrl: control.url, gate })
    const ask = () => send(`${url}${tools}/verify`, { body: callOf() })
    expect((await ask()).body).toMatchObject({ success: false })
    failing = false
    expect((await ask()).body).toEqual(ok)
    admitted = false
    expect((await ask()).body).toEqual(ok)
    expect(control.received).toHaveLength(2)
    expect((await send(`${url}${tools}/verify`, { body: callOf({}, 'two') })).status).toBe(403)
  })

  it('passes the status and the headers of a model on', async () => {
    const control = await serve((_request, response) =>
      json(response, 418, { a: 1 }, { 'x-model': 'yes' }),
    )
    const url = await startRelay({ gatewayUrl: control.url })
    const answer = await fetch(`${url}/llm/v1/x?y=1`, {
      method: 'POST',
      headers: { 'x-api-key': 'local' },
      body: '{}',
    })
    expect([answer.status, answer.headers.get('x-model')]).toEqual([418, 'yes'])
    expect(await answer.json()).toEqual({ a: 1 })
    expect(control.received[0]?.headers['authorization']).toBe('Bearer the-jwt')
  })

  it('a request that cannot be read is 500, and the relay goes on', async () => {
    const url = await startRelay({ gatewayUrl: 'http://127.0.0.1:1' })
    const bad = await send(`${url}${tools}/%E0%A4%A`, { body: callOf() })
    expect(bad).toMatchObject({ status: 500, code: 'internal' })
    expect((await send(`${url}/nowhere`, { body: '{}' })).status).toBe(404)
  })
})

it('[CALL16] the last try is not followed by a wait', async () => {
  const { url } = await serve((_request, response) => json(response, 503, {}))
  const outcome = callUpstream({
    ...{ url, token: () => 'jwt', body: '{}', maxTries: 1, firstBackoffMs: 2 ** 30 },
  })
  const late = new Promise<string>((resolve) => setTimeout(resolve, 20_000, 'late').unref())
  expect(await Promise.race([outcome, late])).toMatchObject({ answered: false })
})

it('[GATE9] every key that may name a path is followed; what is inside is named by the folder as it is known', () => {
  const base = realpathSync(mkdtempSync(join(tmpdir(), 'gantry-paths-')))
  onTestFinished(() => rmSync(base, { recursive: true, force: true }))
  for (const name of ['real', 'home', 'outside']) mkdirSync(join(base, name))
  symlinkSync(join(base, 'real'), join(base, 'work'))
  symlinkSync(join(base, 'outside'), join(base, 'real', 'link'))
  const workspace = join(base, 'work')
  const of = (input: object) => realPathsOf(input, workspace, [join(base, 'home')]).realPaths
  for (const key of ['filePath', 'path', 'workdir', 'file', 'directory'])
    expect([key, of({ [key]: 'a' })]).toEqual([key, [join(workspace, 'a')]])
  expect(of({ directory: 'link/b' })).toEqual([join(base, 'outside', 'b')])
  expect(of({ path: join(base, 'real', 'c') })).toEqual([join(workspace, 'c')])
  expect(of({ path: join(base, 'home') })).toEqual([join(base, 'home')])
})
