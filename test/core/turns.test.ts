import { beforeEach, describe, expect, test } from 'vitest'
import type { EventKind } from '../../src/contract/events.ts'
import { agentEvent } from '../support/agent.ts'
import { testCaller, TestSession } from '../support/session.ts'

let session: TestSession
beforeEach(async () => {
  session = new TestSession()
  await session.create({ sandbox: 'local' })
  await session.pass(0)
})
const prompt = (text: string, { steer = false, key = null as string | null } = {}) =>
  session.actor.prompt(testCaller, { text, steer }, key)
const turn = (id: string) => session.actor.turn(testCaller, id)
const end = (seq: number, turnId: string, state = 'completed') =>
  session.receive({
    t: 'events',
    items: [agentEvent(seq, 'turn.ended', { turnId, state, reason: null, text: null, diff: null })],
  })
const events = async (kind: EventKind) =>
  (await session.actor.events(testCaller, 0, 500))
    .filter((event) => event.kind === kind)
    .map(({ data }) => data)

describe('queue', () => {
  test('[TURN2] nothing starts before the sandbox is ready; then the oldest does', async () => {
    const [one, two] = [await prompt('one'), await prompt('two')]
    expect([one.position, two.position]).toEqual([1, 2])
    await session.connect({ ready: false })
    expect(session.commands()).toEqual([])
    await session.receive({ t: 'ready', bootMs: 5 })
    expect(session.commands().map(({ id }) => id)).toEqual([one.id])
    expect((await turn(two.id)).position).toBe(1)
  })

  test('[TURN1] twenty may wait, the next is refused and leaves nothing behind', async () => {
    for (let n = 0; n < 20; n++) expect((await prompt(`${n}`)).position).toBe(n + 1)
    await expect(prompt('more', { key: 'k' })).rejects.toMatchObject({ code: 'queue_full' })
    const { items } = await session.actor.turns(testCaller, { limit: 50, after: null })
    expect(items).toHaveLength(20)
    await session.connect()
    expect((await prompt('more', { key: 'k' })).position).toBe(20)
  })

  test('[TURN2] a sandbox that is lost keeps what was queued for the next one', async () => {
    await session.connect()
    const running = await prompt('one')
    const queued = await prompt('two')
    await session.receive({ t: 'failed', reason: 'gone' })
    expect([(await turn(running.id)).state, (await turn(queued.id)).state]).toEqual([
      'interrupted',
      'queued',
    ])
    await session.pass(0)
    await session.connect({ generation: 2 })
    expect(session.commands().map(({ id }) => id)).toEqual([queued.id])
  })
})

describe('keys', () => {
  test('[TURN4] the same key and prompt give the same turn, also after its end; another prompt is refused', async () => {
    await session.connect()
    const first = await prompt('x', { key: 'k' })
    expect((await prompt('x', { key: 'k' })).id).toBe(first.id)
    await end(1, first.id)
    expect(await prompt('x', { key: 'k' })).toMatchObject({ id: first.id, state: 'completed' })
    await expect(prompt('y', { key: 'k' })).rejects.toMatchObject({ code: 'key_conflict' })
    await expect(prompt('x', { key: 'k', steer: true })).rejects.toMatchObject({
      code: 'key_conflict',
    })
    await session.actor.close(testCaller, 'done')
    expect((await prompt('x', { key: 'k' })).id).toBe(first.id)
    expect(await events('turn.queued')).toHaveLength(1)
  })

  test('[TURN4] a key of a steered prompt is delivered once', async () => {
    await session.connect()
    const first = await prompt('x')
    for (let n = 0; n < 3; n++)
      expect((await prompt('more', { steer: true, key: 's' })).id).toBe(first.id)
    expect(session.commands().filter(({ body }) => body['steer'])).toHaveLength(1)
    expect(await events('turn.steered')).toHaveLength(1)
  })
})

describe('ends', () => {
  test('[TURN3] a turn that is being aborted takes no more text: it is queued as its own turn', async () => {
    await session.connect()
    const first = await prompt('x')
    await session.actor.abort(testCaller)
    const second = await prompt('y', { steer: true })
    expect([second.id === first.id, second.state]).toEqual([false, 'queued'])
    await end(1, first.id, 'aborted')
    expect((await turn(second.id)).state).toBe('running')
  })

  test('[TURN8] what was to be merged into an aborted turn does not come back as a turn', async () => {
    await session.connect()
    const first = await prompt('x')
    await prompt('more', { steer: true })
    const steer = session.commands().find(({ body }) => body['steer'])
    await session.actor.abort(testCaller)
    await end(1, first.id, 'aborted')
    await session.receive({
      t: 'result',
      commandId: steer?.id ?? '',
      ok: false,
      error: 'it is not running',
    })
    const { items } = await session.actor.turns(testCaller, { limit: 9, after: null })
    expect(items).toMatchObject([{ id: first.id, state: 'aborted' }])
  })

  test('[TURN8] an abort that nobody confirms ends the turn after 30 s, and the next one starts', async () => {
    await session.connect()
    const first = await prompt('x')
    await session.actor.abort(testCaller)
    await session.actor.abort(testCaller)
    const next = await prompt('y')
    await session.pass(29_000)
    expect((await turn(first.id)).state).toBe('running')
    await session.pass(1000)
    expect(await turn(first.id)).toMatchObject({
      state: 'aborted',
      reason: 'The sandbox did not confirm the abort',
    })
    expect((await turn(next.id)).state).toBe('running')
    expect(session.commands().filter(({ kind }) => kind === 'abort')).toHaveLength(1)
    // The agent's own word comes late: noted, but no second end.
    await end(1, first.id, 'aborted')
    expect(await events('turn.ended')).toHaveLength(1)
    expect(await events('agent.notice')).toHaveLength(1)
    expect(session.deadlines()).not.toHaveProperty('turn.abort')
  })

  test('[TURN8] a prompt that was not delivered before its turn ended is not delivered afterwards', async () => {
    await session.connect()
    await session.cut()
    await session.connect({ ready: false })
    await session.cut()
    const first = await prompt('x')
    await session.connect()
    expect(session.commands().map(({ id }) => id)).toEqual([first.id])
    await session.cut()
    await session.actor.abort(testCaller)
    await session.pass(30_000)
    expect((await turn(first.id)).state).toBe('aborted')
    await session.connect()
    expect(session.commands().map(({ kind }) => kind)).toEqual(['abort'])
  })

  test('[TURN6] tokens are summed per turn, and an end for another turn changes nothing', async () => {
    await session.connect()
    const first = await prompt('x')
    const step = {
      turnId: first.id,
      sessionId: 's',
      messageId: 'm',
      partId: 'p',
      reason: 'stop',
      cost: 0,
    }
    const tokens = { input: 5, output: 7, reasoning: 0, cacheRead: 0, cacheWrite: 0 }
    const items = [1, 2].map((seq) => agentEvent(seq, 'step.finished', { ...step, tokens }))
    await session.receive({ t: 'events', items })
    await session.receive({ t: 'events', items })
    await end(3, 'trn_other')
    expect(await turn(first.id)).toMatchObject({
      state: 'running',
      tokens: { input: 10, output: 14 },
    })
  })

  test('[TURN7] whoever waits is answered at the end, or after the time', async () => {
    await session.connect()
    const first = await prompt('x')
    const inTime = session.actor.waitForTurn(testCaller, first.id, 30_000)
    const tooShort = session.actor.waitForTurn(testCaller, first.id, 2000)
    await session.pass(2000)
    expect((await tooShort).state).toBe('running')
    await end(1, first.id)
    expect((await inTime).state).toBe('completed')
  })
})
