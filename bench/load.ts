import { Agent, request } from 'node:http'

export interface Load {
  clients: number
  requests: number
  /** The k-th request. */
  make: (k: number) => {
    method?: string
    path: string
    body: string
    headers?: Record<string, string>
  }
}
export interface Timing {
  p50: number
  p99: number
  perSecond: number
}

/** One client for every target, so that its own cost cancels out. */
export async function run(url: string, load: Load): Promise<Timing> {
  const agent = new Agent({ keepAlive: true, maxSockets: load.clients })
  const times: number[] = []
  let next = 0
  const client = async () => {
    for (let k = next++; k < load.requests; k = next++)
      times.push(await timed(url, agent, load.make(k)))
  }
  const started = performance.now()
  await Promise.all(Array.from({ length: load.clients }, client))
  const seconds = (performance.now() - started) / 1000
  agent.destroy()
  return { ...timingOf(times), perSecond: load.requests / seconds }
}

export function timingOf(times: readonly number[]): Timing {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (share: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
  const seconds = sorted.reduce((sum, ms) => sum + ms, 0) / 1000
  return { p50: at(0.5), p99: at(0.99), perSecond: sorted.length / seconds }
}

function timed(url: string, agent: Agent, call: ReturnType<Load['make']>): Promise<number> {
  const started = performance.now()
  return new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(call.body),
      ...call.headers,
    }
    const sent = request(
      url + call.path,
      { method: call.method ?? 'POST', agent, headers },
      (answer) => {
        let text = ''
        answer.on('data', (chunk: Buffer) => (text += chunk.toString()))
        answer.on('end', () => {
          if (answer.statusCode === 200) resolve(performance.now() - started)
          else
            reject(new Error(`${call.path} answered ${answer.statusCode}: ${text.slice(0, 200)}`))
        })
      },
    )
    sent.on('error', reject)
    sent.end(call.body)
  })
}
