/**
 * A session's events as a stream. `followEvents` promises each event after a number once and in order, out of a log that
 * can be read in pages and a feed that may repeat and skip; `eventStream` writes them as SSE, with heartbeats, and ends
 * when the caller's key does. Called by routes/events.ts. A caller whose stream has ended comes back with its last number.
 */
import type { SessionEvent } from '../../contract/events.ts'
import type { Log } from '../../core/ports.ts'

const heartbeatMs = 15_000

interface EventSource {
  after: number
  first: SessionEvent[]
  /** Opened after `first` was read. It may repeat events and skip some. */
  feed: ReadableStreamDefaultReader<SessionEvent>
  page: (after: number) => Promise<SessionEvent[]>
}

interface FollowedEvents<Event extends { seq: number } = SessionEvent> {
  next(): Promise<Event | null>
  cancel(): Promise<void>
}

/** Every event after `after`, once and in order: the feed says when there is more, the log says what. */
export function followEvents({ after, first, feed, page }: EventSource): FollowedEvents {
  async function* run(): AsyncGenerator<SessionEvent, void> {
    let last = after
    const unseen = (events: SessionEvent[]) => events.filter(({ seq }) => seq > last)
    async function* readLog() {
      for (
        let events = unseen(await page(last));
        events.length > 0;
        events = unseen(await page(last))
      ) {
        for (const event of events) {
          last = event.seq
          yield event
        }
      }
    }
    for (const event of first) {
      last = event.seq
      yield event
    }
    // What was stored between the first page and the opening of the feed.
    yield* readLog()
    for (;;) {
      const { done, value } = await feed.read()
      if (done) return
      if (value.seq > last + 1) yield* readLog()
      if (value.seq <= last) continue
      last = value.seq
      yield value
    }
  }
  const events = run()
  return {
    next: async () => (await events.next()).value ?? null,
    // The generator may be waiting for the feed: ending the feed ends it.
    cancel: () => feed.cancel(),
  }
}

const encoder = new TextEncoder()

/** The events as SSE. Heartbeats are made here, so that watching does not keep a session awake. */
export function eventStream<Event extends { seq: number }>(
  events: FollowedEvents<Event>,
  stillAllowed: () => Promise<boolean>,
  log: Log,
  beatMs = heartbeatMs,
): ReadableStream<Uint8Array> {
  let pending: Promise<Event | null> | null = null
  let checkedAt = Date.now()
  /** With each beat, and by the clock: a stream in which much happens has no beat. */
  async function isAllowed(isBeat: boolean): Promise<boolean> {
    if (!isBeat && Date.now() - checkedAt < beatMs) return true
    checkedAt = Date.now()
    return await stillAllowed()
  }
  async function pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    pending ??= events.next()
    const event = await beforeBeat(pending, beatMs)
    if (!(await isAllowed(event === 'beat'))) {
      await events.cancel()
      return controller.close()
    }
    if (event === 'beat') return controller.enqueue(encoder.encode(': heartbeat\n\n'))
    pending = null
    if (!event) return controller.close()
    controller.enqueue(encoder.encode(`id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n`))
  }
  return new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(encoder.encode('retry: 1000\n\n')),
    async pull(controller) {
      try {
        await pull(controller)
      } catch (error) {
        // The caller comes back with the number of its last event, so an end is as good as an error.
        log('warn', 'An event stream broke off', { error: String(error) })
        controller.close()
      }
    },
    cancel: () => events.cancel(),
  })
}

async function beforeBeat<T>(work: Promise<T>, beatMs: number): Promise<T | 'beat'> {
  const { promise: beat, resolve } = Promise.withResolvers<'beat'>()
  const timer = setTimeout(() => resolve('beat'), beatMs)
  try {
    return await Promise.race([work, beat])
  } finally {
    clearTimeout(timer)
  }
}
