import { describe, expect, test } from 'vitest'
import { linkClose } from '../../src/contract/link.ts'
import { patchChecksum } from '../../src/contract/patch.ts'
import { type HostSession, useHost } from '../support/host.ts'

const host = useHost()
const part = { sessionId: 's', messageId: 'm', partId: 'p' }
const turnOf = (id: string) => host().ok('GET', `/v1/turns/${id}`)
const say = (session: HostSession, body: object, headers = {}) =>
  host().ok('POST', `${session.at}/prompts`, body, host().key, headers)

describe('turns', () => {
  test('[TURN1] [TURN2] wait for the sandbox and for each other, the oldest first', async () => {
    const session = await host().create()
    const first = await say(session, { text: 'one' })
    const second = await say(session, { text: 'two' })
    expect([first.position, second.position]).toEqual([1, 2])
    await session.meet()
    expect(session.agent.commands('prompt')).toMatchObject([
      { id: first.id, body: { turnId: first.id, text: 'one', steer: false } },
    ])
    session.agent.result(first.id, { sent: true })
    session.agent.endTurn(first.id, { text: 'done' })
    await host().live()
    expect(session.agent.commands('prompt').map(({ body }) => body.text)).toEqual(['one', 'two'])
    expect(await turnOf(first.id)).toMatchObject({ state: 'completed', text: 'done' })
    expect(await turnOf(second.id)).toMatchObject({ state: 'running' })
  })

  test('[TURN3] a steer goes into the running turn', async () => {
    const session = await host().begin()
    const turn = await session.prompt()
    await say(session, { text: 'and this', steer: true })
    await host().live()
    expect(session.agent.commands('prompt').at(-1)?.body).toMatchObject({
      text: 'and this',
      steer: true,
      turnId: turn.id,
    })
  })

  test('[TURN4] the same key is the same turn', async () => {
    const session = await host().begin()
    const headers = { 'idempotency-key': 'k' }
    const first = await say(session, { text: 'a' }, headers)
    expect((await say(session, { text: 'a' }, headers)).id).toBe(first.id)
    const body = { text: 'b' }
    const other = await host().call('POST', `${session.at}/prompts`, body, host().key, headers)
    expect(other.status).toBe(409)
    expect(session.agent.commands('prompt')).toHaveLength(1)
  })

  test('[TURN6] [LINK2] a prompt that OpenCode does not take fails its turn, and the next begins', async () => {
    const session = await host().begin()
    const turn = await say(session, { text: 'a' })
    const next = await say(session, { text: 'b' })
    await host().live()
    session.agent.fail(turn.id, 'OpenCode is away')
    await host().live()
    expect(await turnOf(turn.id)).toMatchObject({ state: 'failed', reason: 'OpenCode is away' })
    expect(await turnOf(next.id)).toMatchObject({ state: 'running' })
    expect(session.agent.messages).toContainEqual({ t: 'resultAck', commandId: turn.id })
  })

  test('[TURN8] [TURN14] abort has its reason, and ends by itself if the sandbox does not say so', async () => {
    const session = await host().begin()
    const turn = await session.prompt()
    const queued = await say(session, { text: 'later' })
    await host().ok('POST', `${session.at}/abort`, { reason: 'wrong door' })
    expect(session.agent.commands('abort')).toMatchObject([
      { body: { turnId: turn.id, reason: 'wrong door' } },
    ])
    await host().live(29_000)
    expect((await turnOf(turn.id)).state).toBe('running')
    await host().live(2000)
    expect(await turnOf(turn.id)).toMatchObject({
      state: 'aborted',
      reason: 'wrong door (the sandbox did not confirm the abort)',
    })
    expect(await turnOf(queued.id)).toMatchObject({ state: 'aborted' })
    expect((await host().ok('GET', `/v1/runs/${turn.runId}`)).run).toMatchObject({
      status: 'cancelled',
      reason: expect.stringContaining('wrong door'),
    })
  })

  test('[TURN15] a turn of which the agent says nothing is ended, and the next begins', async () => {
    const session = await host().begin()
    const turn = await say(session, { text: 'a' })
    await host().live()
    session.agent.result(turn.id, { sent: true, beats: true })
    await host().live(4 * 60_000)
    session.agent.send({ t: 'alive', turnId: turn.id })
    await host().live(4 * 60_000)
    expect((await turnOf(turn.id)).state).toBe('running')
    await host().live(61_000)
    expect((await session.events()).map(({ kind }: { kind: string }) => kind)).toContain(
      'link.disconnected',
    )
    await session.connect()
    await session.agent.meet()
    await host().live(61_000)
    expect(await turnOf(turn.id)).toMatchObject({ state: 'interrupted' })
    expect(session.agent.commands('abort')).toHaveLength(1)
  })

  test('[TURN15] an agent that does not take a prompt is made to connect again', async () => {
    const session = await host().begin()
    await say(session, { text: 'a' })
    await host().live(5 * 60_000 + 1000)
    expect((await session.agent.closed).code).toBe(linkClose.broke)
  })

  test('[TURN7] who waits for a turn is answered at its end', async () => {
    const session = await host().begin()
    const turn = await session.prompt()
    const waiting = host().ok('GET', `/v1/turns/${turn.id}?wait=30`)
    session.agent.endTurn(turn.id)
    expect((await waiting).state).toBe('completed')
  })
})

describe('events', () => {
  test('[EVT1] [EVT5] [LINK1] what the agent tells is stored once, acknowledged, and told from any number on', async () => {
    const session = await host().begin()
    const turn = await session.prompt()
    const text = { ...part, turnId: turn.id, text: 'hello', reasoning: false }
    const item = { seq: 1, at: 1, kind: 'message.text' as const, data: text }
    session.agent.send({ t: 'events', items: [item] })
    session.agent.send({ t: 'events', items: [item] })
    await host().live()
    expect(session.agent.messages.filter(({ t }) => t === 'ack')).toEqual(
      Array.from({ length: 2 }, () => ({ t: 'ack', seq: 1 })),
    )
    const [told] = await session.events('message.text')
    expect(told.data).toMatchObject({ text: 'hello', turnId: turn.id })
    expect(await session.events('message.text')).toHaveLength(1)
    const after = await host().ok('GET', `${session.at}/events?after=${told.seq - 1}`)
    expect(after.items[0].seq).toBe(told.seq)
    session.agent.close()
    await session.connect()
    const welcome = await session.agent.greet()
    expect(welcome.ackedSeq).toBe(1)
  })

  test('[EVT8] what cannot be true counts as nothing, and is noted', async () => {
    const session = await host().begin({ budget: { tokens: 1000 } })
    const turn = await session.prompt()
    session.agent.usedTokens(turn.id, { input: 1e300 })
    await host().live()
    expect((await host().ok('GET', `${session.at}/budget`)).used.tokens).toBe(0)
    expect(await session.events('agent.notice')).toHaveLength(1)
  })

  test('[SEC9] [SEC10] a secret is in no event, row or answer', async () => {
    const configurationId = await host().configuration()
    const value = 'swordfish-4711'
    await host().ok('PUT', '/v1/secrets/PASSWORD', { value, configurationId })
    const session = await host().begin({ configurationId, gate: { ask: ['bash'] } })
    const turn = await session.prompt({ text: `use ${value}` })
    await session.ask('bash', { command: `login ${value}` })
    session.agent.emit('message.text', {
      ...{ ...part, turnId: turn.id, reasoning: false },
      text: `it is ${value} or ${btoa(value)}`,
    })
    for (const delta of [value.slice(0, 7), value.slice(7)])
      session.agent.emit('message.delta', { ...part, turnId: turn.id, field: 'text', delta })
    const commands = [{ name: 'web', command: `serve ${value}`, workspacePath: '.' }]
    await session.callback('save_service_commands', { commands })
    await host().live()
    const shown = JSON.stringify([
      await host().ok('GET', `${session.at}/calls`),
      await host().rows('select * from session_tool_invocations where session_id = ?', session.id),
      await session.events(),
      await host().ok('GET', `${session.at}/approvals`),
      await host().rows('select * from approvals where session_id = ?', session.id),
      await host().rows('select * from runs where session_id = ?', session.id),
      await host().rows('select * from run_events where session_id = ?', session.id),
    ])
    expect(shown).toContain('[secret:PASSWORD]')
    for (const form of [value, btoa(value)]) expect(shown).not.toContain(form)
    const deltas = await session.events('message.delta')
    expect(
      deltas.map(({ data }: { data: { delta: string } }) => data.delta).join(''),
    ).not.toContain(value)
  })
})

describe('[LINK5] a token', () => {
  test('that has expired buys a new one over the link, and nothing else', async () => {
    const session = await host().begin()
    const { token } = session
    session.agent.close()
    host().app.pass(3_700_000)
    expect((await session.callback('verify', {}, 'x', token)).status).toBe(401)
    await session.connect(token)
    const renewed = await session.agent.next('token')
    expect(renewed.token).not.toBe(token)
    await session.connect(renewed.token)
    expect(await session.agent.greet()).toMatchObject({ t: 'welcome' })
  })

  test('is renewed on a live link', async () => {
    const session = await host().begin()
    session.agent.send({ t: 'renew' })
    const { token, expiresAt } = await session.agent.next('token')
    expect(expiresAt).toBeGreaterThan(host().now)
    const path = `/sandbox/${session.id}/env`
    expect(await host().ok('GET', path, undefined, token)).toMatchObject({ files: [] })
  })
})

test('[SES10] [SES15] [SES16] the diff is asked of the sandbox; what a turn ended with is kept, and the next sandbox counts from there', async () => {
  const session = await host().begin()
  const text = 'diff --git a/a b/a\n'
  const [base, tree] = ['a'.repeat(40), 'b'.repeat(40)]
  const file = { path: 'a', status: 'modified', additions: 1, deletions: 0 }
  const diff = { patch: text, files: [file], truncated: false, leftOut: [], base }
  const asked = host().ok('GET', `${session.at}/diff`)
  session.agent.result((await session.agent.command('diff')).id, { ...diff, patch: 'live' })
  expect(await asked).toMatchObject({ patch: 'live', live: true })
  const turn = await session.prompt()
  const patch = { base, tree, files: 1, bytes: text.length, text, checksum: patchChecksum(text) }
  session.agent.endTurn(turn.id, { diff, patch })
  await host().live()
  expect((await host().call('GET', `${session.at}/patches/${turn.id}`)).text).toBe(text)
  await session.callback('save_snapshot')
  await host().ok('POST', `${session.at}/replace`)
  expect(await host().ok('GET', `${session.at}/diff`)).toMatchObject({ patch: text, live: false })
  await host().live(61_000)
  await session.meet()
  expect(session.manifest.baseTree).toBe(base)
})

test('[TURN14] the reason of an abort stays, whatever the sandbox says of it', async () => {
  const session = await host().begin()
  const turn = await session.prompt()
  await host().ok('POST', `${session.at}/abort`, { reason: 'wrong door' })
  session.agent.endTurn(turn.id, { state: 'aborted', reason: 'Aborted' })
  await host().live()
  expect(await turnOf(turn.id)).toMatchObject({ state: 'aborted', reason: 'wrong door' })
})
