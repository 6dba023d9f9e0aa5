import type { Stack } from '../local/stack/stack.ts'
import { sleep } from '../local/processes/processes.ts'
import { api } from './api.ts'
import { call, createTargets, type Target } from './calls.ts'
import { openSocket } from './events.ts'
import { run, timingOf } from './load.ts'
import { rssOf } from './sizes.ts'
import { printColumns } from './table.ts'

const hello = { t: 'hello', protocols: [1], agent: 'bench', boot: 'bench', ready: true }

/** Many live sessions, each with the link of an agent, and a steady trickle of calls over all of them. */
export async function soak(
  stack: Stack,
  { sessions, perSecond, minutes }: { sessions: number; perSecond: number; minutes: number },
): Promise<void> {
  const targets = await createTargets(stack, sessions)
  const links = await openLinks(stack, targets)
  const lines = [['minute', 'calls', 'failed', 'p50 ms', 'p99 ms', 'memory MB', 'lag ms']]
  try {
    for (let minute = 1; minute <= Math.ceil(minutes); minute++) {
      const ms = Math.min(1, minutes - minute + 1) * 60_000
      lines.push([String(minute), ...(await oneMinute(stack, targets, perSecond, ms))])
      console.log(lines.at(-1)?.join('  '))
    }
  } finally {
    for (const link of links) link.close()
  }
  printColumns(lines)
}

/** A few at a time: an agent has the whole of its boot to say hello. */
async function openLinks(stack: Stack, targets: readonly Target[]): Promise<WebSocket[]> {
  const links: WebSocket[] = []
  for (const { sessionId, token } of targets) {
    const headers = { authorization: `Bearer ${token}` }
    const link = await openSocket(`${stack.url}/sandbox/${sessionId}/link`, headers)
    link.send(JSON.stringify(hello))
    links.push(link)
  }
  return links
}

/** The rate is kept whatever the answers take: each second's calls are begun in it. */
async function oneMinute(
  stack: Stack,
  targets: readonly Target[],
  perSecond: number,
  ms: number,
): Promise<string[]> {
  const times: number[] = []
  let failed = 0
  const begun: Promise<void>[] = []
  const startedAt = Date.now()
  for (let n = 0; n < (ms / 1000) * perSecond; n++) {
    await sleep(Math.max(0, startedAt + (n * 1000) / perSecond - Date.now()))
    const target = targets[Math.floor(Math.random() * targets.length)] as Target
    const make = () => call(target, `soak-${startedAt}-${n}`)
    begun.push(
      run(stack.url, { clients: 1, requests: 1, make }).then(
        ({ p50 }) => void times.push(p50),
        () => void (failed += 1),
      ),
    )
  }
  await Promise.all(begun)
  const { p50, p99 } = timingOf(times)
  const memory = rssOf(stack.worker.pid()) / 1e6
  const figures = [p50.toFixed(2), p99.toFixed(1), memory.toFixed(0)]
  return [String(begun.length), String(failed), ...figures, String(await lagOf(stack))]
}

/** How far libSQL is behind. */
async function lagOf(stack: Stack): Promise<number> {
  const { outbox } = (await api(stack, 'GET', '/v1/status')) as { outbox: { lagMs: number } }
  return outbox.lagMs
}
