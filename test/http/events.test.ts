import { beforeAll, describe, expect, test } from 'vitest'
import type { SessionEvent } from '../../src/contract/events.ts'
import { eventStream, followEvents } from '../../src/http/kit/event-stream.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'
import { random } from '../support/random.ts'

const libsql = useLibsql()
let app: TestApp
let key: string
let sessionId: string
let token: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  const organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
  sessionId = (await app.call('POST', '/v1/sessions', key, {})).json.id
  token = (await app.deps.tokens.mint({ sessionId, organisationId, generation: 1 })).token
  for (let i = 0; i < 10; i++) await makeEvents(`before-${i}`)
})

/** A tool call makes two events. */
const makeEvents = (id: string) =>
  app.call('POST', `/proliferate/${sessionId}/tools/echo`, token, { tool_call_id: id })
const path = () => `/v1/sessions/${sessionId}/events`

async function openStream(query = '', headers = {}) {
  const response = await app.app.request(`${path()}${query}`, {
    headers: { authorization: `Bearer ${key}`, accept: 'text/event-stream', ...headers },
  })
  expect(response.headers.get('content-type')).toContain('text/event-stream')
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  return {
    /** Reads until event `seq` has come. */
    async until(seq: number): Promise<number[]> {
      while (!text.includes(`id: ${seq}\n`)) {
        const { done, value } = await reader.read()
        if (done) break
        text += value
      }
      return [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id))
    },
    cancel: () => reader.cancel(),
  }
}

const upTo = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i)
const lastSeq = async () =>
  (await app.call('GET', `/v1/sessions/${sessionId}`, key)).json.lastEventSeq as number

test('[EVT] pages go on where the last one ended, without a gap', async () => {
  const last = await lastSeq()
  const seen: number[] = []
  for (let after = 0; after < last;) {
    const { json } = await app.call('GET', `${path()}?after=${after}&limit=3`, key)
    seen.push(...json.items.map(({ seq }: SessionEvent) => seq))
    after = json.nextAfter
  }
  expect(seen).toEqual(upTo(1, last))
  const end = await app.call('GET', `${path()}?after=${last}`, key)
  expect(end.json).toEqual({ items: [], nextAfter: last })
})

test('[EVT] a stream resumed after any event gives exactly the rest', async () => {
  const last = await lastSeq()
  for (let after = 0; after < last; after++) {
    const stream = await openStream('?limit=4', { 'last-event-id': String(after) })
    expect(await stream.until(last)).toEqual(upTo(after + 1, last))
    await stream.cancel()
  }
})

test('[EVT] a stream goes on with what happens while it is open', async () => {
  const last = await lastSeq()
  const stream = await openStream(`?after=${last}`)
  const reading = stream.until(last + 20)
  for (let i = 0; i < 10; i++) await makeEvents(`live-${i}`)
  expect(await reading).toEqual(upTo(last + 1, last + 20))
  expect(app.watchersOf(sessionId).size).toBe(1)
  await stream.cancel()
  expect(app.watchersOf(sessionId).size).toBe(0)
})

test('whoever may not see the session gets a refusal, not a stream', async () => {
  const stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  const answer = await app.call('GET', path(), stranger, undefined, { accept: 'text/event-stream' })
  expect(answer.status).toBe(404)
  const bad = await app.call('GET', path(), key, undefined, { 'last-event-id': 'x' })
  expect([bad.status, bad.json.error.details[0].path]).toEqual([400, 'last-event-id'])
})

describe('a feed that repeats, skips and lags', () => {
  const event = (seq: number): SessionEvent => ({
    seq,
    at: 0,
    kind: 'agent.notice',
    data: { message: String(seq) },
  })
  const logOf = (length: number) => upTo(1, length).map(event)

  function follow(log: SessionEvent[], live: number[], pageSize = 3) {
    const feed = new ReadableStream<SessionEvent>({
      start(controller) {
        for (const seq of live) controller.enqueue(event(seq))
        controller.close()
      },
    }).getReader()
    const page = async (after: number) => log.filter(({ seq }) => seq > after).slice(0, pageSize)
    return followEvents({ after: 2, first: log.slice(2, 4), feed, page })
  }

  async function drain(events: ReturnType<typeof followEvents>): Promise<number[]> {
    const seen: number[] = []
    for (let next = await events.next(); next; next = await events.next()) seen.push(next.seq)
    return seen
  }

  test('[EVT] is put in order from the log, for any feed', async () => {
    const chance = random(1)
    for (let round = 0; round < 200; round++) {
      const length = 5 + Math.floor(chance() * 30)
      const live = Array.from({ length: 40 }, () => 1 + Math.floor(chance() * length))
      const seen = await drain(follow(logOf(length), [...live, length]))
      expect(seen).toEqual(upTo(3, length))
    }
  })

  test('[EVT] what is only in the feed so far is passed on', async () => {
    expect(await drain(follow(logOf(6), [5, 6, 7, 8]))).toEqual([3, 4, 5, 6, 7, 8])
  })

  test('[EVT] heartbeats come while nothing happens, and a key that no longer holds ends the stream', async () => {
    const feed = new ReadableStream<SessionEvent>().getReader()
    const events = followEvents({ after: 0, first: [], feed, page: async () => [] })
    let beats = 0
    const stream = eventStream(
      events,
      async () => ++beats < 4,
      () => {},
      5,
    )
    const text = await new Response(stream).text()
    expect(text).toBe(`retry: 1000\n\n${': heartbeat\n\n'.repeat(3)}`)
  })

  test('[EVT7] a key that no longer holds also ends a stream in which there is always something', async () => {
    let seq = 0
    const feed = new ReadableStream<SessionEvent>({
      async pull(controller) {
        await new Promise((resolve) => setTimeout(resolve, 1))
        controller.enqueue(event(++seq))
      },
    })
    const events = followEvents({
      after: 0,
      first: [],
      feed: feed.getReader(),
      page: async () => [],
    })
    const stream = eventStream(
      events,
      async () => false,
      () => {},
      // Long enough for a busy machine to bring the first event.
      500,
    )
    const text = await new Response(stream).text()
    expect(text).toContain('id: 1\n')
    expect(text).not.toContain('heartbeat')
  })

  test('[EVT] a log that cannot be read ends the stream', async () => {
    const feed = new ReadableStream<SessionEvent>().getReader()
    const page = () => Promise.reject(new Error('gone'))
    const events = followEvents({ after: 0, first: [event(1)], feed, page })
    const text = await new Response(
      eventStream(
        events,
        async () => true,
        () => {},
      ),
    ).text()
    expect(text).toContain('id: 1\n')
  })
})
