import { createTokens } from '../src/adapters/tokens.ts'
import { parseConfig } from '../src/config.ts'
import type { Stack } from '../local/stack/stack.ts'
import { api } from './api.ts'
import { type Load, run, type Timing } from './load.ts'
import type { Row } from './table.ts'

export interface Target {
  sessionId: string
  token: string
}

let fresh = 0
const body = (id: string) => JSON.stringify({ tool_call_id: id, args: {} })

/** A session without a sandbox, and the token that a sandbox of it would hold. */
export async function createTarget(
  stack: Pick<Stack, 'url' | 'adminKey' | 'env' | 'organisationId'>,
): Promise<Target> {
  const { id } = (await api(stack, 'POST', '/v1/sessions', { sandbox: 'none' })) as { id: string }
  const token = await sandboxToken(stack, id)
  return { sessionId: id, token }
}

export async function sandboxToken(
  stack: Pick<Stack, 'env' | 'organisationId'>,
  sessionId: string,
): Promise<string> {
  const tokens = createTokens(parseConfig(stack.env).tokenKeys, Date.now)
  const { organisationId } = stack
  return (await tokens.mint({ sessionId, organisationId, generation: 1 })).token
}

/** A few at a time, as their users would make them. */
export async function createTargets(stack: Stack, count: number): Promise<Target[]> {
  const targets: Target[] = []
  let creating = 0
  const create = async () => {
    while (targets.length + creating < count) {
      creating += 1
      const target = await createTarget(stack)
      creating -= 1
      targets.push(target)
    }
  }
  await Promise.all(Array.from({ length: 8 }, create))
  return targets
}

export const call = (target: Target, id: string) => ({
  path: `/proliferate/${target.sessionId}/tools/noop`,
  body: body(id),
  headers: { authorization: `Bearer ${target.token}` },
})
export const baseCall = (object: string, id: string, verb: 'write' | 'read' = 'write') => ({
  path: `/${verb}/${object}`,
  body: body(id),
})
const pick = <T>(items: T[], k: number) => items[k % items.length] as T

interface Timings {
  ours: Timing
  base: Timing
  baseAgain: Timing
}

/** Ours between two runs of the baseline, after a warm-up of both. */
async function compare(
  stack: Stack,
  base: Stack,
  ours: (k: number) => ReturnType<Load['make']>,
  theirs: (k: number) => ReturnType<Load['make']>,
  { warmUp = 0, ...shape }: { clients: number; requests: number; warmUp?: number },
): Promise<Timings> {
  const warm = { clients: shape.clients, requests: Math.max(warmUp, Math.min(300, shape.requests)) }
  await run(base.url, { ...warm, make: theirs })
  await run(stack.url, { ...warm, make: ours })
  const first = await run(base.url, { ...shape, make: theirs })
  const measured = await run(stack.url, { ...shape, make: ours })
  return { ours: measured, base: first, baseAgain: await run(base.url, { ...shape, make: theirs }) }
}

/** One hot session; many that are called now and then, which is what deployments have. */
const shapes = [
  { sessions: 1, clients: [1, 32, 128], aim: 1.35 },
  { sessions: 64, clients: [1], aim: 1.6 },
  { sessions: 64, clients: [32, 128] },
  { sessions: 1000, clients: [1], aim: 1.6 },
]

export async function measureCalls(stack: Stack, base: Stack): Promise<Row[]> {
  const rows: Row[] = []
  const all = await createTargets(stack, 1000)
  for (const { sessions, clients: counts, aim } of shapes) {
    const targets = all.slice(0, sessions)
    for (const clients of counts) {
      const timing = await compare(
        stack,
        base,
        (k) => call(pick(targets, k), `first-${fresh++}`),
        (k) => baseCall(`o${k % sessions}`, `first-${fresh++}`),
        {
          clients,
          requests: clients === 1 ? Math.max(1000, sessions * 2) : 4000,
          warmUp: sessions,
        },
      )
      const name = `first call, ${clients} client(s), ${sessions} session(s)`
      rows.push(...ratioRows(name, timing, aim))
    }
  }
  return rows
}

export async function measureReplay(stack: Stack, base: Stack): Promise<Row[]> {
  const target = await createTarget(stack)
  const ids = Array.from({ length: 100 }, (_, k) => `replay-${k}`)
  const again = { clients: 8, requests: 100 }
  await run(base.url, { ...again, make: (k) => baseCall('replay', pick(ids, k)) })
  await run(stack.url, { ...again, make: (k) => call(target, pick(ids, k)) })
  const rows: Row[] = []
  for (const clients of [1, 32]) {
    const timing = await compare(
      stack,
      base,
      (k) => call(target, pick(ids, k)),
      (k) => baseCall('replay', pick(ids, k), 'read'),
      { clients, requests: clients === 1 ? 1500 : 5000 },
    )
    rows.push(...ratioRows(`replay, ${clients} client(s)`, timing, 1.2))
  }
  return rows
}

/** Does a session get slower as it gets older? Its own young self is the baseline. */
export async function measureGrowth(stack: Stack, calls: number): Promise<Row> {
  const young = await createTarget(stack)
  const old = await createTarget(stack)
  const shape = { clients: 1, requests: 1000 }
  const first = (target: Target) => () => call(target, `growth-${fresh++}`)
  await run(stack.url, { clients: 32, requests: calls, make: first(old) })
  await drained(stack, old)
  await run(stack.url, { clients: 1, requests: 10, make: first(young) })
  const before = await run(stack.url, {
    ...shape,
    requests: 300,
    make: first(await createTarget(stack)),
  })
  const ours = await run(stack.url, { ...shape, make: first(old) })
  const after = await run(stack.url, { ...shape, requests: 300, make: first(young) })
  const [row] = ratioRows(
    `call in a session with ${calls} settled calls / with 10`,
    { ours, base: before, baseAgain: after },
    1.2,
  )
  return row
}

async function drained(stack: Stack, target: Target): Promise<void> {
  for (;;) {
    const answer = await fetch(`${stack.url}/v1/sessions/${target.sessionId}`, {
      headers: { authorization: `Bearer ${stack.adminKey}` },
    })
    const { outbox } = (await answer.json()) as { outbox: { pending: number } }
    if (outbox.pending === 0) return
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
}

/** The p99 of a busy second is measured with every p50. */
const mostP99 = 2.5

export function ratioRows(name: string, timings: Timings, p50Aim?: number): [Row, Row] {
  return [ratioRow(name, timings, 'p50', p50Aim), ratioRow(name, timings, 'p99', mostP99)]
}

const ratioRow = (name: string, timings: Timings, at: 'p50' | 'p99', aim?: number): Row => ({
  measure: `${name}, ${at}`,
  ours: timings.ours[at],
  base: timings.base[at],
  baseAgain: timings.baseAgain[at],
  unit: 'ms',
  ...(aim !== undefined && { aim: { most: aim } }),
})
