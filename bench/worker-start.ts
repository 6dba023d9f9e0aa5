import type { Stack } from '../local/stack/stack.ts'
import { baseCall, call, createTarget } from './calls.ts'
import { run } from './load.ts'
import { median, type Row } from './table.ts'

const rounds = 7

/** From the start of the process until it has answered a first call, for a session that was there before. */
export async function measureWorkerStart(stack: Stack, base: Stack): Promise<Row> {
  const target = await createTarget(stack)
  const times: { ours: number[]; base: number[] } = { ours: [], base: [] }
  for (let n = 0; n <= rounds; n++) {
    times.base.push(await restart(base, () => baseCall('o0', `start-${n}`)))
    times.ours.push(await restart(stack, () => call(target, `start-${n}`)))
  }
  // The first round of each has filled the caches of the file system.
  const [ours, theirs] = [times.ours.slice(1), times.base.slice(1)]
  return {
    measure: 'Worker start until the first call is answered',
    ours: median(ours),
    base: median(theirs),
    unit: 'ms',
    aim: { most: 1.5 },
  }
}

async function restart(server: Stack, make: () => ReturnType<typeof baseCall>): Promise<number> {
  await server.worker.stop()
  const started = performance.now()
  await server.worker.start()
  await run(server.url, { clients: 1, requests: 1, make })
  return performance.now() - started
}
