import { beforeAll, describe, expect, test } from 'vitest'
import type { SessionEvent } from '../../src/contract/events.ts'
import type { Session } from '../../src/contract/session.ts'
import { notice, TestAgent } from '../support/agent.ts'
import { readStream } from '../support/sse.ts'
import { hostsOf, startWire, until, useStack } from '../support/stack.ts'

describe.each(hostsOf(import.meta.filename))('the link on %s', (host) => {
  const stack = useStack(host)
  const connect = async (session: Session, options: { token?: string; url?: string } = {}) =>
    TestAgent.dial(
      options.url ?? stack().url,
      session.id,
      options.token ?? (await stack().token(session)),
    )
  const eventsOf = async (session: Session): Promise<SessionEvent[]> => {
    const all: SessionEvent[] = []
    for (;;) {
      const { json } = await stack().api(
        'GET',
        `/v1/sessions/${session.id}/events?limit=500&after=${all.length}`,
      )
      if (json.items.length === 0) return all
      all.push(...(json.items as SessionEvent[]))
    }
  }
  const numbers = (events: SessionEvent[]) => events.map(({ seq }) => seq)
  const upTo = (last: number, first = 1) =>
    Array.from({ length: last - first + 1 }, (_, n) => first + n)

  describe('cut a hundred times during a stream of events', () => {
    const total = 300
    let session: Session
    let watched: SessionEvent[]
    beforeAll(async () => {
      session = await stack().createSession()
      const wire = await startWire(stack().url)
      const isLast = (event: SessionEvent) => event.data['message'] === `event ${total}`
      const watching = readStream(
        `${stack().url}/v1/sessions/${session.id}/events`,
        stack().adminKey,
        // The link's end may come in the same piece.
        (events) => events.some(isLast),
      )
      for (let cuts = 0; cuts <= 100; cuts++) {
        // The agent goes on producing: a few more events per connection, and all that is not acknowledged goes out again.
        const produced = Math.min(total, (cuts + 1) * (total / 100))
        const agent = await connect(session, { url: wire.url })
        const { ackedSeq } = await agent.greet()
        for (let from = ackedSeq; from < produced; from += 3) {
          const items = upTo(Math.min(from + 3, produced), from + 1).map((seq) => notice(seq))
          agent.send({ t: 'events', items })
        }
        if (cuts === 100) {
          if (ackedSeq < total) await agent.next('ack', ({ seq }) => seq === total)
          agent.close()
          break
        }
        // At different moments: at once, after the first acknowledgement, after the second.
        for (let acks = 0; acks < cuts % 3 && ackedSeq < produced; acks++) {
          await agent.next('ack', ({ seq }) => seq >= Math.min(produced, ackedSeq + 3 * (acks + 1)))
        }
        wire.cut()
        await agent.closed
      }
      watched = await watching
      wire.close()
    }, 240_000)

    test('[EVT5] the events are complete, in order, none twice', async () => {
      const events = await eventsOf(session)
      expect(numbers(events)).toEqual(upTo(events.length))
      const notices = events
        .filter(({ kind }) => kind === 'agent.notice')
        .map(({ data }) => data['message'])
      expect(notices).toEqual(upTo(total).map((seq) => `event ${seq}`))
    })

    test('[EVT2] whoever watched saw the same stream, nothing missing, nothing twice', async () => {
      const events = await eventsOf(session)
      expect(watched).toEqual(events.slice(0, watched.length))
    })

    test('[EVT2] a stream resumed from every number goes on with the next one', async () => {
      const events = await eventsOf(session)
      const last = events.length
      const url = `${stack().url}/v1/sessions/${session.id}/events`
      const starts = upTo(last - 1, 0)
      for (let at = 0; at < starts.length; at += 40) {
        await Promise.all(
          starts.slice(at, at + 40).map(async (after) => {
            const wanted = Math.min(3, last - after)
            const headers = { 'last-event-id': String(after) }
            const tail = await readStream(
              url,
              stack().adminKey,
              (seen) => seen.length >= wanted,
              headers,
            )
            expect(tail.slice(0, wanted)).toEqual(events.slice(after, after + wanted))
          }),
        )
      }
      const [byQuery, byHeader] = await Promise.all([
        readStream(`${url}?after=0`, stack().adminKey, (seen) => seen.length >= last),
        // The header wins.
        readStream(`${url}?after=7`, stack().adminKey, (seen) => seen.length >= last, {
          'last-event-id': '0',
        }),
      ])
      expect(byQuery).toEqual(events)
      expect(byHeader).toEqual(events)
    }, 240_000)
  })

  test('[LINK1] the welcome names a common version; without one the link closes with 4426', async () => {
    const session = await stack().createSession()
    const agent = await connect(session)
    expect(await agent.greet({ protocols: [99, 1] })).toMatchObject({ protocol: 1, ackedSeq: 0 })
    const stranger = await connect(session)
    await stranger.opened()
    stranger.send({ t: 'hello', protocols: [99], agent: 'test', boot: 'b', ready: true })
    expect((await stranger.closed).code).toBe(4426)
  })

  test('[EVT5] what is sent again is dropped, and a gap is not stored', async () => {
    const session = await stack().createSession()
    const agent = await connect(session)
    await agent.greet()
    const send = async (...seqs: number[]) => {
      const before = agent.messages.length
      agent.send({ t: 'events', items: seqs.map((seq) => notice(seq)) })
      return (await agent.next('ack', (ack) => agent.messages.indexOf(ack) >= before)).seq
    }
    expect(await send(1, 2)).toBe(2)
    expect(await send(1, 2, 3)).toBe(3)
    expect(await send(5, 6)).toBe(3)
    expect(await send(4, 5)).toBe(5)
    const stored = (await eventsOf(session)).filter(({ kind }) => kind === 'agent.notice')
    expect(stored.map(({ data }) => data['message'])).toEqual(upTo(5).map((seq) => `event ${seq}`))
  })

  test('[EVT3] an event of the wrong shape keeps its number and becomes a notice', async () => {
    const session = await stack().createSession()
    const agent = await connect(session)
    await agent.greet()
    agent.send({
      t: 'events',
      items: [{ seq: 1, at: 1, kind: 'opencode.died', data: { code: 'one' } }, notice(2)],
    })
    expect((await agent.next('ack', ({ seq }) => seq === 2)).seq).toBe(2)
    const stored = (await eventsOf(session)).filter(({ kind }) => kind === 'agent.notice')
    expect(stored[0]?.data['message']).toContain('opencode.died')
  })

  test('[LINK6] a message that is not of the protocol closes the link with 4400', async () => {
    const session = await stack().createSession()
    for (const text of ['{', '[]', '{"t":"what"}', '{"t":"events","items":[]}', '{"t":"hello"}']) {
      const agent = await connect(session)
      await agent.opened()
      agent.sendText(text)
      expect((await agent.closed).code).toBe(4400)
    }
    expect((await eventsOf(session)).map(({ kind }) => kind)).not.toContain('link.connected')
  })

  test('[LINK3] a new link supersedes the old one', async () => {
    const session = await stack().createSession()
    const old = await connect(session)
    await old.greet()
    const fresh = await connect(session)
    await fresh.greet()
    expect((await old.closed).code).toBe(4409)
    await until(
      async () => (await stack().api('GET', `/v1/sessions/${session.id}`)).json.sandbox.connected,
    )
  })

  test('[LINK4] a token of a closed session cannot open the link, and an open one ends at its next message', async () => {
    const session = await stack().createSession()
    const agent = await connect(session)
    await agent.greet()
    await stack().api('POST', `/v1/sessions/${session.id}/close`, {})
    agent.send({ t: 'events', items: [notice(1)] })
    expect((await agent.closed).code).toBe(4403)
    expect(await (await connect(session)).opened()).toBe(false)
    expect((await eventsOf(session)).map(({ kind }) => kind)).not.toContain('agent.notice')
  })

  test('[LINK5] an expired token of the current generation buys a new one and nothing else', async () => {
    const session = await stack().createSession()
    const expired = await stack().token(session, { at: Date.now() - 1.5 * 3600_000 })
    const agent = await connect(session, { token: expired })
    const { token, expiresAt } = await agent.next('token')
    expect((await agent.closed).code).toBe(4401)
    expect(expiresAt).toBeGreaterThan(Date.now())
    expect((await stack().call(expired, session, 'noop', 'x')).json.error.code).toBe(
      'token_expired',
    )
    const renewed = await connect(session, { token })
    expect((await renewed.greet()).protocol).toBe(1)
    renewed.send({ t: 'renew' })
    expect((await renewed.next('token')).token.split('.')).toHaveLength(3)
    const old = await stack().token(session, { generation: 9, at: Date.now() - 1.5 * 3600_000 })
    expect(await (await connect(session, { token: old })).opened()).toBe(false)
  })

  test('[LINK2] a command is delivered on every new link until its result has come; a second result changes nothing', async () => {
    const session = await stack().createSession()
    const token = await stack().token(session)
    const first = await connect(session)
    await first.greet()
    const answer = stack().call(token, session, 'verify', 'v')
    const command = await first.next('command')
    expect(command.kind).toBe('collect')
    first.close()
    await first.closed
    const second = await connect(session)
    await second.greet()
    expect(await second.next('command')).toEqual(command)
    const result = { t: 'result', commandId: command.id, ok: true, data: { files: [] } } as const
    second.send(result)
    second.send({ ...result, ok: false, error: 'changed my mind' })
    await second.next('resultAck')
    expect((await answer).json).toMatchObject({ success: true, data: { uploadedCount: 0 } })
    const third = await connect(session)
    await third.greet()
    third.send({ t: 'events', items: [notice(1)] })
    await third.next('ack')
    expect(third.messages.map(({ t }) => t)).not.toContain('command')
  })
})
