import { createTokens } from '../src/adapters/tokens.ts'
import { parseConfig } from '../src/config.ts'
import type { Stack } from '../local/stack/stack.ts'
import { api } from './api.ts'
import { type Load, run, type Timing } from './load.ts'
import type { Row } from './table.ts'

interface Target {
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

const call = (target: Target, id: string) => ({
  path: `/proliferate/${target.sessionId}/tools/noop`,
  body: body(id),
  headers: { authorization: `Bearer ${target.token}` },
})
const pick = <T>(items: T[], k: number) => items[k % items.length] as T

/** Ours between two runs of the baseline, after a warm-up of both. */
async function compare(
  stack: Stack,
  base: Stack,
  ours: (k: number) => ReturnType<Load['make']>,
  theirs: (k: number) => ReturnType<Load['make']>,
  shape: { clients: number; requests: number },
): Promise<{ ours: Timing; base: Timing; baseAgain: Timing }> {
  const warm = { clients: shape.clients, requests: Math.min(300, shape.requests) }
  await run(base.url, { ...warm, make: theirs })
  await run(stack.url, { ...warm, make: ours })
  const first = await run(base.url, { ...shape, make: theirs })
  const measured = await run(stack.url, { ...shape, make: ours })
  return { ours: measured, base: first, baseAgain: await run(base.url, { ...shape, make: theirs }) }
}

export async function measureCalls(stack: Stack, base: Stack): Promise<Row[]> {
  const rows: Row[] = []
  for (const sessions of [1, 64]) {
    const targets = await Promise.all(Array.from({ length: sessions }, () => createTarget(stack)))
    for (const clients of [1, 32, 128]) {
      const requests = clients === 1 ? 1000 : 4000
      const timing = await compare(
        stack,
        base,
        (k) => call(pick(targets, k), `first-${fresh++}`),
        (k) => ({ path: `/write/o${k % sessions}`, body: body(`first-${fresh++}`) }),
        { clients, requests },
      )
      const name = `first call, ${clients} client(s), ${sessions} session(s)`
      rows.push(
        ratioRow(`${name}, p50`, timing, 'p50', sessions === 1 ? 1.5 : undefined),
        ratioRow(`${name}, p99`, timing, 'p99'),
      )
    }
  }
  return rows
}

export async function measureReplay(stack: Stack, base: Stack): Promise<Row[]> {
  const target = await createTarget(stack)
  const ids = Array.from({ length: 100 }, (_, k) => `replay-${k}`)
  const read = (k: number) => ({ path: '/read/replay', body: body(pick(ids, k)) })
  await run(base.url, {
    clients: 8,
    requests: 100,
    make: (k) => ({ ...read(k), path: '/write/replay' }),
  })
  await run(stack.url, { clients: 8, requests: 100, make: (k) => call(target, pick(ids, k)) })
  const rows: Row[] = []
  for (const clients of [1, 32]) {
    const shape = { clients, requests: clients === 1 ? 1500 : 5000 }
    const timing = await compare(stack, base, (k) => call(target, pick(ids, k)), read, shape)
    rows.push(ratioRow(`replay, ${clients} client(s), p50`, timing, 'p50', 1.3))
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
  return ratioRow(
    `call in a session with ${calls} settled calls / with 10, p50`,
    { ours, base: before, baseAgain: after },
    'p50',
    1.2,
  )
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

function ratioRow(
  measure: string,
  timing: { ours: Timing; base: Timing; baseAgain: Timing },
  at: 'p50' | 'p99',
  aim?: number,
): Row {
  return {
    measure,
    ours: timing.ours[at],
    base: timing.base[at],
    baseAgain: timing.baseAgain[at],
    unit: 'ms',
    aim: aim === undefined ? '' : `<= ${aim}`,
    ...(aim === undefined ? {} : { within: (ratio: number) => ratio <= aim }),
  }
}
