import type { SessionEvent } from '../../src/contract/events.ts'

/** Reads an event stream until `enough`, then hangs up. Also gives the ids of the `id:` lines. */
export async function readStream(
  url: string,
  credential: string,
  enough: (events: SessionEvent[]) => boolean,
  headers: Record<string, string> = {},
): Promise<SessionEvent[]> {
  const hangUp = new AbortController()
  const response = await fetch(url, {
    headers: { authorization: `Bearer ${credential}`, accept: 'text/event-stream', ...headers },
    signal: hangUp.signal,
  })
  if (response.status !== 200 || !response.body)
    throw new Error(`No stream: ${response.status} ${await response.text()}`)
  const events: SessionEvent[] = []
  let rest = ''
  try {
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      const blocks = (rest + text).split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) {
        const id = /^id: (\d+)$/m.exec(block)?.[1]
        const data = /^data: (.*)$/m.exec(block)?.[1]
        if (data === undefined) continue
        const event = JSON.parse(data) as SessionEvent
        if (String(event.seq) !== id) throw new Error(`Event ${event.seq} came with the id ${id}`)
        events.push(event)
      }
      if (enough(events)) break
    }
    return events
  } finally {
    hangUp.abort()
  }
}
