import { join } from 'node:path'
import { sleep } from '../local/processes/processes.ts'
import { startStack, type Stack } from '../local/stack/stack.ts'
import { createTargets, type Target } from './calls.ts'
import { run } from './load.ts'
import { rssOf } from './sizes.ts'
import type { Row } from './table.ts'

const sessions = 100
const callsEach = 10
/** Both hosts let go of an object that nobody has asked for so long. */
const idleMs = 15_000
const growthCalls = 5000

/** What sessions cost in the memory of the control plane, and whether calls leave some behind. */
export async function measureMemory(folder: string): Promise<Row[]> {
  return [
    ...(await measureHost('workerd', join(folder, 'workerd'))),
    ...(await measureHost('deno', join(folder, 'deno'))),
  ]
}

async function measureHost(host: 'workerd' | 'deno', stateDir: string): Promise<Row[]> {
  const env = { RATE_LIMIT_PER_MINUTE: '100000000' }
  const stack = await startStack({ stateDir, host, sandboxes: false, model: 'none', env })
  try {
    // Code that has run, and a heap that has been in use.
    await callAll(stack, await createTargets(stack, 20), 1000)
    const before = megabytes(stack)
    const targets = await createTargets(stack, sessions)
    await callAll(stack, targets, sessions * callsEach)
    const active = megabytes(stack)
    await sleep(idleMs)
    const idle = megabytes(stack)
    await callAll(stack, targets, growthCalls)
    const used = megabytes(stack)
    await callAll(stack, targets, growthCalls)
    return [
      perSession(`memory per session that is called, ${host}`, active - before),
      perSession(`memory per session that rests, ${host}`, idle - before),
      {
        measure: `memory after ${growthCalls * 2} calls / after ${growthCalls}, ${host}`,
        ours: megabytes(stack),
        base: used,
        unit: 'MB',
        aim: { most: 1.1 },
      },
    ]
  } finally {
    await stack.erase()
  }
}

const megabytes = (stack: Stack) => rssOf(stack.worker.pid()) / 1e6
const perSession = (measure: string, all: number): Row => ({
  measure,
  ours: (all / sessions) * 1000,
  unit: 'KB',
})

let fresh = 0

/** Arguments that do not fit are an answer like any other, stored and replayed, and every deployment has this tool. */
const callAll = (stack: Stack, targets: readonly Target[], requests: number) =>
  run(stack.url, {
    clients: 8,
    requests,
    make: (k) => {
      const { sessionId, token } = targets[k % targets.length] as Target
      return {
        path: `/proliferate/${sessionId}/tools/verify`,
        body: JSON.stringify({ tool_call_id: `memory-${fresh++}`, args: { unknown: k } }),
        headers: { authorization: `Bearer ${token}` },
      }
    },
  })
