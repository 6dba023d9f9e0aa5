// The events of a session, each once and in order, for as long as one reads them. A stream that ends, or a deployment that
// is away for a moment, is asked again from the last number.

import { SessionEvent } from '../contract/events.ts'
import {
  GantryError,
  isPassing,
  transportPause,
  transportRefusal,
  type Transport,
} from './transport.ts'

export interface EventsFrom {
  /** Those after this number. Default: 0. */
  after?: number
  signal?: AbortSignal | undefined
}

const comeBackMs = 500

export async function* followSessionEvents(
  transport: Transport,
  sessionId: string,
  { after = 0, signal }: EventsFrom = {},
): AsyncGenerator<SessionEvent, void> {
  let last = after
  while (!isOver(signal)) {
    try {
      for await (const event of streamOnce(transport, sessionId, { after: last, signal })) {
        if (event.seq <= last) continue
        last = event.seq
        yield event
      }
    } catch (error) {
      if (isOver(signal)) return
      if (!(error instanceof GantryError) || !isPassing(error)) throw error
    }
    await transportPause(comeBackMs, signal).catch(() => undefined)
  }
}

const isOver = (signal: AbortSignal | undefined): boolean => signal?.aborted === true

async function* streamOnce(
  transport: Transport,
  sessionId: string,
  { after = 0, signal }: EventsFrom,
): AsyncGenerator<SessionEvent, void> {
  const path = `/v1/sessions/${sessionId}/events`
  const asked = { method: 'GET', path, query: { after }, signal } as const
  const response = await transport.open(asked, { accept: 'text/event-stream' })
  if (!response.ok || !response.body)
    throw transportRefusal(response.status, await response.json().catch(() => null))
  for await (const data of dataOf(response.body)) {
    const event = SessionEvent.safeParse(JSON.parse(data))
    // A kind that this client does not know yet.
    if (event.success) yield event.data
  }
}

/** The `data:` of each message of a stream; comments and heartbeats are left out. */
async function* dataOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let text = ''
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw new GantryError(`The stream broke: ${String(error)}`)
      })
      if (done) return
      text += decoder.decode(value, { stream: true })
      const messages = text.split('\n\n')
      text = messages.pop() ?? ''
      for (const message of messages) {
        const lines = message.split('\n').filter((line) => line.startsWith('data:'))
        if (lines.length > 0) yield lines.map((line) => line.slice(5).trimStart()).join('\n')
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}
