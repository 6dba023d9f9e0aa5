/**
 * What one key can do to everybody else: it sends the worst body that a route takes, again and again, while others ask
 * for `/healthz` and call back. Compared with the same without it.
 */
import type { Stack } from '../local/stack/stack.ts'
import { api } from './api.ts'
import { createTarget, sandboxToken } from './calls.ts'
import { run, type Timing } from './load.ts'
import type { Row } from './table.ts'

interface Attack {
  name: string
  method: string
  path: string
  body: string | Uint8Array<ArrayBuffer>
  key: string
}

const maxRatio = 5

/** What a stack of the tests has, too. */
type Target = Pick<Stack, 'url' | 'adminKey' | 'env' | 'organisationId'>

export async function measureStall(stack: Target): Promise<Row[]> {
  const others = await othersOf(stack)
  await others()
  const rows: Row[] = []
  for (const attack of await attacksOn(stack)) {
    const before = await others()
    const during = await under(stack, attack, others)
    const after = await others()
    for (const who of ['healthz', 'callback'] as const)
      rows.push({
        measure: `p99 of ${who} during ${attack.name}`,
        ...{ ours: during[who].p99, base: before[who].p99, baseAgain: after[who].p99, unit: 'ms' },
        aim: { most: maxRatio },
      })
  }
  return rows
}

type Others = () => Promise<Record<'healthz' | 'callback', Timing>>

/** One client each, at the same time. */
async function othersOf(stack: Target): Promise<Others> {
  const { sessionId, token } = await createTarget(stack)
  let calls = 0
  const callback = () => ({
    path: `/proliferate/${sessionId}/tools/noop`,
    body: JSON.stringify({ tool_call_id: `stall-${calls++}`, args: {} }),
    headers: { authorization: `Bearer ${token}` },
  })
  const healthz = () => ({ method: 'GET', path: '/healthz', body: '' })
  const shape = { clients: 1, requests: 300 }
  return async () => {
    const [health, calling] = await Promise.all([
      run(stack.url, { ...shape, make: healthz }),
      run(stack.url, { ...shape, make: callback }),
    ])
    return { healthz: health, callback: calling }
  }
}

/** In a loop: the next one is sent as soon as the last is answered. */
async function under<T>(stack: Target, attack: Attack, work: () => Promise<T>): Promise<T> {
  let isOver = false
  const send = async () => {
    while (!isOver) await sendOnce(stack, attack)
  }
  const sending = send()
  try {
    return await work()
  } finally {
    isOver = true
    await sending
  }
}

async function sendOnce(stack: Target, { method, path, body, key }: Attack): Promise<void> {
  const type = typeof body === 'string' ? 'application/json' : 'application/octet-stream'
  const headers = { authorization: `Bearer ${key}`, 'content-type': type }
  const answer = await fetch(stack.url + path, { method, headers, body })
  await answer.text()
}

async function attacksOn(stack: Target): Promise<Attack[]> {
  const { id } = (await api(stack, 'POST', '/v1/sessions', { sandbox: 'none' })) as { id: string }
  const key = stack.adminKey
  const check = { method: 'POST', path: '/v1/policies/check', key }
  return [
    { ...check, name: 'check of commands', body: checkBody(documentOf(0), commands()) },
    { ...check, name: 'check of patterns', body: checkBody(documentOf(1000), paths(1000)) },
    {
      ...{ name: 'put of a policy', method: 'PUT', path: '/v1/policies', key },
      body: JSON.stringify({ project: 'stall', source: documentOf(1000), format: 'json' }),
    },
    {
      ...{ name: 'prompts', method: 'POST', path: `/v1/sessions/${id}/prompts`, key },
      body: JSON.stringify({ text: 'x'.repeat(1_000_000) }),
    },
    {
      ...{ name: 'uploads', method: 'PUT', path: `/sandbox/${id}/artifacts` },
      ...{ key: await sandboxToken(stack, id), body: new Uint8Array(8 * 1024 * 1024) },
    },
  ]
}

const checkBody = (source: string, requests: object[]): string =>
  JSON.stringify({ source, format: 'json', requests })
const commands = () =>
  Array.from({ length: 4 }, () => ({ category: 'shell', command: 'ls a;'.repeat(819) }))
const paths = (characters: number) => [
  { category: 'read', paths: [`/${'a/'.repeat(characters / 2)}`] },
]

/** As many patterns as it may have, in lists of a hundred. */
function documentOf(patterns: number): string {
  const path = Array.from({ length: 100 }, (_, n) => `**/q${n}`)
  const rules = Array.from({ length: patterns / 100 }, () => ({
    match: { path },
    decision: 'deny',
  }))
  return JSON.stringify({ name: 'stall', rules })
}
