// What a case of an eval costs beside the turn that it is made of: the same prompt to the same scripted model, both in
// sandboxes of the warm pool, one after the other.

import { script } from '../local/model/scripted-model.ts'
import { startStack, type Stack } from '../local/stack/stack.ts'
import type { EvalRun } from '../src/contract/eval-run.ts'
import type { Session } from '../src/contract/session.ts'
import type { Turn } from '../src/contract/turn.ts'
import { api } from './api.ts'
import { poolReady } from './start.ts'
import { median, type Row } from './table.ts'

const rounds = 7
const prompt = script([
  { calls: [{ name: 'bash', args: { command: 'sleep 1; ls', description: 'Looks' } }] },
  { calls: [{ name: 'write', args: { filePath: 'made.txt', content: 'made\n' } }] },
  { text: 'It is done.' },
])

export async function measureEvalOverhead(stateDir: string): Promise<Row> {
  const stack = await startStack({ stateDir, host: 'workerd' })
  try {
    const pool = { name: 'warm', warmPool: { size: 1 } }
    const { id } = (await api(stack, 'POST', '/v1/configurations', pool)) as { id: string }
    const base: number[] = []
    const baseAgain: number[] = []
    const ours: number[] = []
    for (let round = 0; round <= rounds; round += 1) {
      const times = [await turnMs(stack, id), await caseMs(stack, id), await turnMs(stack, id)]
      // The first is for the caches.
      if (round === 0) continue
      for (const [at, list] of [base, ours, baseAgain].entries()) list.push(times[at] ?? 0)
    }
    return {
      ...{ measure: 'a case of an eval / the bare turn, both warm', unit: 'ms' },
      ...{ ours: median(ours), base: median(base), baseAgain: median(baseAgain) },
      aim: { most: 1.2 },
    }
  } finally {
    await stack.erase()
  }
}

/** From the request until the answer is there, and the session closed. */
async function turnMs(stack: Stack, configurationId: string): Promise<number> {
  await poolReady(stack, configurationId)
  const begun = performance.now()
  const { id } = (await api(stack, 'POST', '/v1/sessions', { configurationId })) as Session
  const turn = (await api(stack, 'POST', `/v1/sessions/${id}/prompts`, { text: prompt })) as Turn
  const ended = (await api(stack, 'GET', `/v1/turns/${turn.id}?wait=30`)) as Turn
  if (ended.state !== 'completed') throw new Error(`The turn is ${ended.state}: ${ended.reason}`)
  const ms = performance.now() - begun
  await api(stack, 'POST', `/v1/sessions/${id}/close`, {})
  return ms
}

/** The same until its result is stored. */
async function caseMs(stack: Stack, configuration: string): Promise<number> {
  await poolReady(stack, configuration)
  const suite = {
    workspace: { configuration },
    evalcases: [
      {
        ...{ id: 'one', expected_outcome: 'It is done', input: prompt },
        execution: { evaluators: [{ type: 'contains', value: 'done' }] },
      },
    ],
  }
  // Without a model of its own: one that names it gets no session of the pool.
  const targets = [{ name: 'oc', provider: 'opencode', permissions: 'once' }]
  const begun = performance.now()
  const { id } = (await api(stack, 'POST', '/v1/evals/runs', {
    ...{ suite: 's.json', targets: 't.json' },
    files: [
      { path: 's.json', content: JSON.stringify(suite) },
      { path: 't.json', content: JSON.stringify({ targets }) },
    ],
  })) as EvalRun
  for (let after = 0; ;) {
    const path = `/v1/evals/runs/${id}/events?after=${after}&waitSeconds=20`
    const page = (await api(stack, 'GET', path)) as {
      items: { kind: string; data: { score?: number; error?: string } }[]
      nextAfter: number
    }
    after = page.nextAfter
    const ended = page.items.find(({ kind }) => kind === 'attempt.ended')
    if (!ended) continue
    if (ended.data.score !== 1) throw new Error(`The case failed: ${ended.data.error}`)
    return performance.now() - begun
  }
}
