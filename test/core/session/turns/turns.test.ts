import { beforeEach, describe, expect, test } from 'vitest'
import type { EventKind } from '../../../../src/contract/events.ts'
import { agentEvent, question } from '../../../support/agent.ts'
import { testCaller, TestSession } from '../../../support/session.ts'

let session: TestSession
beforeEach(async () => {
  session = new TestSession()
  await session.create({ sandbox: 'local' })
  await session.pass(0)
})
const prompt = (text: string, { steer = false, key = null as string | null } = {}) =>
  session.actor.api.turns.prompt(testCaller, { text, steer }, key)
const turn = (id: string) => session.actor.api.turns.get(testCaller, id)
const end = (seq: number, turnId: string, state = 'completed') =>
  session.receive({
    t: 'events',
    items: [agentEvent(seq, 'turn.ended', { turnId, state, reason: null, text: null, diff: null })],
  })
const events = async (kind: EventKind) =>
  (await session.actor.api.log.events(testCaller, 0, 500))
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
    const { items } = await session.actor.api.turns.list(testCaller, { limit: 50, after: null })
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
    await session.actor.api.self.close(testCaller, 'done')
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
    await session.actor.api.self.abort(testCaller, '')
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
    await session.actor.api.self.abort(testCaller, '')
    await end(1, first.id, 'aborted')
    await session.receive({
      t: 'result',
      commandId: steer?.id ?? '',
      ok: false,
      error: 'it is not running',
    })
    const { items } = await session.actor.api.turns.list(testCaller, { limit: 9, after: null })
    expect(items).toMatchObject([{ id: first.id, state: 'aborted' }])
  })

  test('[TURN8] an abort that nobody confirms ends the turn after 30 s, and the next one starts', async () => {
    await session.connect()
    const first = await prompt('x')
    await session.actor.api.self.abort(testCaller, '')
    await session.actor.api.self.abort(testCaller, '')
    const next = await prompt('y')
    await session.pass(29_000)
    expect((await turn(first.id)).state).toBe('running')
    await session.pass(1000)
    expect(await turn(first.id)).toMatchObject({
      state: 'aborted',
      reason: 'Aborted by tester (the sandbox did not confirm the abort)',
    })
    expect((await turn(next.id)).state).toBe('running')
    expect(session.commands().filter(({ kind }) => kind === 'abort')).toHaveLength(1)
    // The agent's own word comes late: noted, but no second end.
    await end(1, first.id, 'aborted')
    expect(await events('turn.ended')).toHaveLength(1)
    expect(await events('agent.notice')).toHaveLength(1)
    expect(session.deadlines()).not.toHaveProperty('turn.abort')
  })

  test('[TURN8] [SEC9] why it was aborted is kept without secrets', async () => {
    const sealed = await session.crypto.seal('hunter2hunter2')
    await session.connect()
    void session.actor.api.env.submit(testCaller, [{ key: 'TOKEN', sealed, kind: 'secret' }])
    const running = await prompt('x')
    const waiting = await prompt('y')
    await session.actor.api.self.abort(testCaller, 'it printed hunter2hunter2')
    const why = 'it printed [secret:TOKEN]'
    expect((await turn(waiting.id)).reason).toBe(`Aborted while queued: ${why}`)
    const [abort] = session.commands().filter(({ kind }) => kind === 'abort')
    expect(abort?.body).toEqual({ turnId: running.id, reason: why })
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
    await session.actor.api.self.abort(testCaller, '')
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
    const inTime = session.actor.api.turns.wait(testCaller, first.id, 30_000)
    const tooShort = session.actor.api.turns.wait(testCaller, first.id, 2000)
    await session.pass(2000)
    expect((await tooShort).state).toBe('running')
    await end(1, first.id)
    expect((await inTime).state).toBe('completed')
  })
})

describe('why it was aborted', () => {
  const why = 'wrong branch'
  const runReason = async (turnId: string) => {
    const { runId } = await turn(turnId)
    return (await session.actor.api.runs.get(testCaller, runId ?? '')).run.reason
  }

  test('[TURN14] is told to the sandbox, and is the reason of the turn and of its run, whatever the sandbox says', async () => {
    await session.connect()
    const first = await prompt('x')
    await session.actor.api.self.abort(testCaller, why)
    const abort = session.commands().find(({ kind }) => kind === 'abort')
    expect(abort?.body).toEqual({ turnId: first.id, reason: why })
    await end(1, first.id, 'aborted')
    expect(await turn(first.id)).toMatchObject({ state: 'aborted', reason: why })
    expect(await runReason(first.id)).toBe(why)
  })

  test('[TURN14] is the reason of what was queued, in turn, event and run', async () => {
    const queued = await prompt('x')
    await session.actor.api.self.abort(testCaller, why)
    const reason = `Aborted while queued: ${why}`
    expect(await turn(queued.id)).toMatchObject({ state: 'aborted', reason })
    expect(await events('turn.ended')).toMatchObject([{ turnId: queued.id, reason }])
    expect(await runReason(queued.id)).toBe(reason)
  })

  test('[TURN14] without one it says who has', async () => {
    await session.connect()
    const first = await prompt('x')
    await session.actor.api.self.abort(testCaller, '')
    await end(1, first.id, 'aborted')
    expect((await turn(first.id)).reason).toBe('Aborted by tester')
  })

  test('[TURN14] a run that is cancelled says it to its turn', async () => {
    await session.connect()
    const first = await prompt('x')
    await session.actor.api.runs.finish(testCaller, first.runId ?? '', {
      status: 'cancelled',
      reason: why,
    })
    await end(1, first.id, 'aborted')
    expect((await turn(first.id)).reason).toBe(`The run is cancelled: ${why}`)
  })
})

describe('an agent that pings and says nothing', () => {
  const minute = 60_000
  const taken = (turnId: string, beats: boolean) =>
    session.receive({ t: 'result', commandId: turnId, ok: true, data: { sent: true, beats } })
  const alive = (turnId: string) => session.receive({ t: 'alive', turnId })
  const silence =
    (act: (turnId: string) => Promise<unknown>) => async (): Promise<[string, string]> => {
      await session.connect()
      const [first, next] = [await prompt('x'), await prompt('y')]
      await act(first.id)
      await session.pass(5 * minute)
      expect([(await turn(first.id)).state, session.linked]).toEqual(['running', false])
      await session.connect()
      return [first.id, next.id]
    }

  test.each([
    ['never takes the prompt', silence(async () => {})],
    ['takes it and is never heard of again', silence((id) => taken(id, true))],
    [
      'is heard of for an hour, and then no more',
      silence(async (id) => {
        await taken(id, true)
        for (let n = 0; n < 60; n++) {
          await session.pass(minute)
          await alive(id)
        }
      }),
    ],
  ])(
    '[TURN15] %s: it must connect again, then the turn is over and the next begins',
    async (_, go) => {
      const [first, next] = await go()
      await session.pass(minute - 1)
      expect((await turn(first)).state).toBe('running')
      await session.pass(1)
      expect(await turn(first)).toMatchObject({
        state: 'interrupted',
        reason: 'The sandbox has said nothing of the turn for 5 minutes',
      })
      expect((await turn(next)).state).toBe('running')
      const kinds = session.commands().map(({ kind, body }) => [kind, body['turnId']])
      expect(kinds.slice(-2)).toEqual([
        ['abort', first],
        ['prompt', next],
      ])
    },
  )

  test('[TURN15] whoever says that it has the turn keeps it, for hours', async () => {
    await session.connect()
    const first = await prompt('x')
    await taken(first.id, true)
    for (let n = 0; n < 180; n++) {
      await session.pass(minute)
      await alive(first.id)
    }
    expect([(await turn(first.id)).state, session.linked]).toEqual(['running', true])
  })

  test('[TURN15] a clock that jumps ends nothing: after the new connection its word is in time', async () => {
    await session.connect()
    const first = await prompt('x')
    await taken(first.id, true)
    // Its host adds the time of the suspension to what runs.
    for (const sandbox of session.sandboxes.running.values()) sandbox.endsAt += 8 * 60 * minute
    await session.jump(8 * 60 * minute)
    await session.connect()
    await alive(first.id)
    await session.pass(4 * minute)
    expect((await turn(first.id)).state).toBe('running')
  })

  test('[TURN15] the word of another turn does not count', async () => {
    await session.connect()
    const first = await prompt('x')
    await taken(first.id, true)
    await session.pass(4 * minute)
    await alive('trn_other')
    await session.pass(minute)
    expect(session.linked).toBe(false)
    expect((await turn(first.id)).state).toBe('running')
  })

  test('[TURN15] an agent of protocol 1, which says nothing of the kind, is left alone once it has the prompt', async () => {
    await session.connect()
    const first = await prompt('x')
    await session.receive({ t: 'result', commandId: first.id, ok: true, data: { sent: true } })
    await session.pass(3 * 60 * minute)
    expect([(await turn(first.id)).state, session.linked]).toEqual(['running', true])
  })

  test('[TURN15] made to connect again and away since then, it is not silent but gone: its provider is asked', async () => {
    await session.connect()
    const first = await prompt('x')
    await taken(first.id, true)
    await session.pass(20 * minute)
    expect([(await turn(first.id)).state, session.linked]).toEqual(['running', false])
    expect((await session.actor.api.self.view(testCaller)).sandbox.state).toBe('suspect')
  })

  test('[TURN15] [LIFE27] a clock that jumps after the new connection leaves it its minute', async () => {
    await session.connect()
    const first = await prompt('x')
    await taken(first.id, true)
    await session.pass(5 * minute)
    await session.connect()
    for (const sandbox of session.sandboxes.running.values()) sandbox.endsAt += 8 * 60 * minute
    await session.jump(8 * 60 * minute)
    expect((await turn(first.id)).state).toBe('running')
    await alive(first.id)
    await session.pass(2 * minute)
    expect((await turn(first.id)).state).toBe('running')
  })

  test('[TURN15] what its lost turn had asked is over with it, and no approval stays open', async () => {
    session = new TestSession()
    const gate = { ask: ['bash'], askTimeoutSeconds: 86_400 }
    await session.create({ sandbox: 'local', gate })
    await session.pass(0)
    await session.connect()
    const [first, next] = [await prompt('x'), await prompt('y')]
    await taken(first.id, true)
    await session.receive(question(`ask_${'1'.repeat(20)}`, 'bash'))
    await session.pass(5 * minute)
    await session.connect()
    await session.pass(minute)
    expect((await turn(first.id)).state).toBe('interrupted')
    expect((await turn(next.id)).state).toBe('running')
    const approvals = await session.actor.api.approvals.list(testCaller, null)
    expect(approvals.map(({ state }) => state)).toEqual(['cancelled'])
  })

  test('[TURN15] while the link is down nothing is decided here', async () => {
    await session.connect()
    const first = await prompt('x')
    await taken(first.id, true)
    await session.cut()
    await session.pass(30 * minute)
    expect((await turn(first.id)).state).toBe('running')
    await session.connect()
    await alive(first.id)
    await session.pass(4 * minute)
    expect((await turn(first.id)).state).toBe('running')
  })
})
