import { expect, test } from 'vitest'
import type { Configuration } from '../../src/contract/configuration.ts'
import type { Session } from '../../src/contract/session.ts'
import type { WarmPoolView } from '../../src/contract/warm-pool.ts'
import { request } from '../support/stack.ts'
import { bash, Box, until, useRealStack } from './support.ts'

const stack = useRealStack('workerd')

async function call<T>(method: string, path: string, body?: object): Promise<T> {
  const { url, adminKey } = stack()
  const answer = await request(method, `${url}${path}`, adminKey, body)
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
  return answer.json as T
}

test('[WARM4] [WARM9] a session of a pool works at once with a real OpenCode, and another one waits after it', async () => {
  const { id: configurationId } = await call<Configuration>('POST', '/v1/configurations', {
    name: 'warm',
    warmPool: { size: 1 },
  })
  const path = `/v1/configurations/${configurationId}`
  const pool = () => call<WarmPoolView>('GET', `${path}/warm-pool`)
  await until('the pool is full', 60_000, async () => (await pool()).ready === 1)

  const session = await call<Session>('POST', '/v1/sessions', { configurationId, title: 'mine' })
  expect(session).toMatchObject({
    status: 'open',
    title: 'mine',
    mode: 'coding',
    sandbox: { state: 'ready', connected: true, generation: 1 },
  })
  const box = new Box(stack(), session.id)
  expect(await box.bash('echo warm > warm.txt; cat warm.txt')).toBe('warm\n')
  expect(await box.run([bash('true'), { text: 'Done.' }])).toMatchObject({ text: 'Done.' })

  await until('another one waits', 60_000, async () => (await pool()).ready === 1)
  await call('PATCH', path, { warmPool: { size: 0 } })
  await box.post('/close')
  await until('nothing is left of either', 30_000, async () => {
    const limits = await call<{ usage: { concurrentSandboxes: number } }>('GET', '/v1/limits')
    return limits.usage.concurrentSandboxes === 0
  })
  const { items } = await call<{ items: Session[] }>('GET', '/v1/sessions?status=warm')
  expect(items).toEqual([])
})
