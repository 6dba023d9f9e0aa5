import { expect, test } from 'vitest'
import { signalProcess } from '../../local/processes/processes.ts'
import type { Session } from '../../src/contract/session.ts'
import { createRandom } from '../chaos/random.ts'
import { request } from '../support/stack.ts'
import {
  endedEval,
  evalAttempts,
  evalBody,
  type EvalCaseInput,
  evalEvents,
  startEval,
} from './evals-kit.ts'
import { findAgent } from './recovery-kit.ts'
import { bash, Box, sleep, until, useRealStack, write } from './support.ts'

// An eval run while the control plane, the sandbox host and agents at work are killed, at moments that a seed chooses.

const stack = useRealStack('workerd', () => ({}))
const ids = ['a', 'b', 'c', 'd', 'e', 'f']
const cases = ids.map((id): EvalCaseInput => ({
  id,
  steps: [bash('sleep 1'), write('made.txt', `${id}\n`), { text: `It is done: ${id}.` }],
  evaluators: [{ name: 'made', type: 'file_matches', path: 'made.txt', equals: `${id}\n` }],
}))
const target = { name: 'oc', provider: 'opencode', model: 'scripted', workers: 3 }
const kinds = ['agent', 'host', 'worker'] as const

async function kill(kind: (typeof kinds)[number], runId: string): Promise<boolean> {
  if (kind === 'worker') {
    stack().worker.kill('SIGKILL')
    await until('the control plane is dead', 10_000, () => !stack().worker.running())
    await stack().worker.start()
    return true
  }
  if (kind === 'host') {
    const host = stack().sandboxHost!
    host.kill('SIGKILL')
    await until('the sandbox host is dead', 10_000, () => !host.running())
    await host.start()
    return true
  }
  // Between two sandboxes there may be nobody at work for a moment.
  for (let looks = 0; looks < 40; looks += 1) {
    const attempts = await evalAttempts(stack(), runId)
    if (attempts.every(({ state }) => state === 'done')) return false
    for (const { sessionId } of attempts.filter(({ state }) => state === 'working')) {
      const pid = sessionId && findAgent(new Box(stack(), sessionId))
      if (pid) return (signalProcess(pid, 'SIGKILL'), true)
    }
    await sleep(250)
  }
  return false
}

test.each([3, 16])(
  '[EVR6] seed %i: agents, the sandbox host and the control plane are killed, and every case has one result and one session',
  async (seed) => {
    const random = createRandom(seed)
    const run = await startEval(stack(), evalBody(cases, [target], { workers: 3 }))
    const isOpen = async () =>
      (await evalAttempts(stack(), run.id)).some(({ state }) => state !== 'done')
    const killed: string[] = []
    for (let at = 0; at < 7 && (await isOpen()); at += 1) {
      await sleep(500 + random.below(2500))
      const kind = kinds[(at + random.below(2)) % 3]!
      if (await kill(kind, run.id)) killed.push(kind)
    }
    await endedEval(stack(), run.id, 300_000)
    const attempts = await evalAttempts(stack(), run.id)
    const told = attempts.map(({ result }) => result?.error ?? result?.score)
    process.stdout.write(`${JSON.stringify({ seed, killed, told })}\n`)
    expect(new Set(killed)).toEqual(new Set(kinds))
    expect(attempts.map(({ result }) => result?.eval_id)).toEqual(ids)
    const events = await evalEvents(stack(), run.id)
    for (const { n } of attempts) {
      const own = events.filter(({ data }) => data['n'] === n).map(({ kind }) => kind)
      expect([n, own]).toEqual([n, ['attempt.started', 'attempt.ended']])
    }
    // One session each, with one turn: nothing was begun a second time.
    const list = await request('GET', `${stack().url}/v1/sessions?limit=200`, stack().adminKey)
    const made = (list.json as { items: Session[] }).items.filter(({ id }) =>
      attempts.some(({ sessionId }) => sessionId === id),
    )
    const own = new Set(attempts.flatMap(({ sessionId }) => sessionId ?? []))
    expect([own.size, made.length]).toEqual([ids.length, ids.length])
    for (const id of own) {
      const feed = await request(
        'GET',
        `${stack().url}/v1/sessions/${id}/events?limit=500`,
        stack().adminKey,
      )
      const begun = (feed.json as { items: { kind: string }[] }).items.filter(
        ({ kind }) => kind === 'turn.started',
      )
      expect([id, begun.length <= 1]).toEqual([id, true])
    }
  },
)
