import { setTimeout as sleep } from 'node:timers/promises'
import type { KeyCreated } from '../../src/contract/key.ts'
import type { Run } from '../../src/contract/run.ts'
import type { Session } from '../../src/contract/session.ts'
import type { Client, Complain } from './client.ts'
import { Operator } from './operations.ts'
import { createRandom, type Random } from './random.ts'

const operatorCount = 2

interface Parts {
  admin: Client
  clientOf: (key: string) => Client
  random: Random
  complain: Complain
}

/** Each has a session with a sandbox and one run; one key asks, and a key of somebody else approves. */
export async function createOperators({
  admin,
  clientOf,
  random,
  complain,
}: Parts): Promise<Operator[]> {
  const key = { name: 'approver', owner: 'approver', scopes: ['approve'] }
  must(await admin.json('PUT', '/v1/settings', { newKeysCount: true }))
  const { secret } = must(await admin.json<KeyCreated>('POST', '/v1/keys', key))
  const create = async () => {
    const body = { title: 'operations', sandbox: 'local', idleTimeoutSeconds: null }
    const { id: sessionId } = must(await admin.json<Session>('POST', '/v1/sessions', body))
    const path = `/v1/sessions/${sessionId}/runs`
    const { id: runId } = must(await admin.json<Run>('POST', path, { intent: 'operations' }))
    await ready(admin, sessionId)
    const own = createRandom(random.below(2 ** 31))
    const approver = clientOf(secret)
    return new Operator({ sessionId, runId, asker: admin, approver, random: own, complain })
  }
  return Promise.all(Array.from({ length: operatorCount }, create))
}

/** The storm is about what was begun, so it begins with something that works. */
async function ready(admin: Client, sessionId: string): Promise<void> {
  for (;;) {
    const { sandbox } = must(await admin.json<Session>('GET', `/v1/sessions/${sessionId}`))
    if (sandbox.state === 'ready') return
    if (sandbox.state === 'failed') throw new Error(`No sandbox: ${sandbox.reason}`)
    await sleep(20)
  }
}

function must<T>(value: T | null): T {
  if (value === null) throw new Error('Cannot set the scene')
  return value
}
