import { request } from 'node:http'
import type { Stack } from '../local/stack/stack.ts'
import { call, createTarget } from './calls.ts'
import { run } from './load.ts'
import { median, type Row } from './table.ts'

const watchers = 100
const events = 21

/** From the cause of an event until the last of many watchers has it, against the first of them. */
export async function measureWatchers(stack: Stack): Promise<Row> {
  const target = await createTarget(stack)
  const path = `/v1/sessions/${target.sessionId}/events`
  const streams = await Promise.all(Array.from({ length: watchers }, () => watch(stack, path)))
  const first: number[] = []
  const last: number[] = []
  for (let n = 0; n < events; n++) {
    const started = performance.now()
    const arrivals = Promise.all(streams.map((stream) => stream.hears(`"watched-${n}"`)))
    await run(stack.url, { clients: 1, requests: 1, make: () => call(target, `watched-${n}`) })
    const times = (await arrivals).map((at) => at - started)
    first.push(Math.min(...times))
    last.push(Math.max(...times))
  }
  for (const stream of streams) stream.end()
  return {
    measure: `one event to ${watchers} watchers, last / first`,
    ours: median(last),
    base: median(first),
    unit: 'ms',
    aim: { most: 2 },
  }
}

interface Stream {
  /** When this text came. */
  hears(text: string): Promise<number>
  end(): void
}

/** As bare as can be: a hundred readers in one process must not be what is measured. */
function watch(stack: Stack, path: string): Promise<Stream> {
  const headers = { authorization: `Bearer ${stack.adminKey}`, accept: 'text/event-stream' }
  return new Promise((resolve, reject) => {
    const sent = request(stack.url + path, { headers, agent: false }, (answer) => {
      if (answer.statusCode !== 200) reject(new Error(`${path} answered ${answer.statusCode}`))
      let wanted: { text: string; resolve: (at: number) => void } | null = null
      answer.on('data', (chunk: Buffer) => {
        if (wanted === null || !chunk.includes(wanted.text)) return
        wanted.resolve(performance.now())
        wanted = null
      })
      const hears = (text: string) =>
        new Promise<number>((heard) => (wanted = { text, resolve: heard }))
      resolve({ hears, end: () => sent.destroy() })
    })
    sent.on('error', () => {})
    sent.end()
  })
}
