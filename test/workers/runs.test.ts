import { evictDurableObject } from 'cloudflare:test'
import { env as bindings } from 'cloudflare:workers'
import { expect, test } from 'vitest'
import { type Env, sessionApi } from '../../durable-objects/bindings.ts'
import type { SessionObject } from '../../durable-objects/session.ts'
import { createCryptoSessionIds } from '../../src/adapters/web-crypto.ts'
import { Operation } from '../../src/contract/operation.ts'
import { SessionCreate } from '../../src/contract/session.ts'

const env = bindings as unknown as Env & Record<string, string>
const organisationId = `org_${'1'.repeat(20)}`
const caller = {
  organisationId,
  keyId: `key_${'1'.repeat(20)}`,
  memberId: 'mbr_tester',
  owner: 'tester',
}
const other = { ...caller, keyId: `key_${'2'.repeat(20)}`, memberId: 'mbr_other', owner: 'other' }

/** A session without a sandbox, in a real object. */
async function newSession() {
  const secret = Uint8Array.from(atob(env['GANTRY_ID_SECRET'] ?? ''), (letter) =>
    letter.charCodeAt(0),
  )
  const sessionId = await createCryptoSessionIds(secret).mint()
  const stub: DurableObjectStub<SessionObject> = env.SESSION.getByName(sessionId)
  const session = sessionApi(env, sessionId)
  await session.self.create({
    sessionId,
    ...caller,
    input: SessionCreate.parse({ sandbox: 'none' }),
  })
  return { stub, session }
}

test('[RUN7] [APR1] [ATT6] runs, approvals, operations and budgets live in a real object, over an eviction', async () => {
  const { stub, session } = await newSession()
  const { id: runId } = await session.runs.create(caller, { intent: 'x' }, 'key')
  const state = { deep: ['ü', null, 1.5] }
  await session.runs.addCheckpoint(caller, runId, { label: 'l', state })
  const operation = Operation.parse({ category: 'shell', operation: 'run', command: 'ls' })
  const options = { evaluateOnly: false, idempotencyKey: null }
  const asked = await session.operations.execute(caller, runId, operation, options)
  const approvalId = asked.approvalId ?? ''
  const approve = { resolution: 'approved', reason: '' } as const
  await evictDurableObject(stub)
  expect((await session.runs.create(caller, { intent: 'x' }, 'key')).id).toBe(runId)
  expect((await session.runs.resume(caller, runId, null)).checkpoint.state).toEqual(state)
  await expect(session.approvals.resolve(caller, approvalId, approve)).rejects.toMatchObject({
    code: 'forbidden',
  })
  await session.approvals.resolve(other, approvalId, approve)
  const resumed = await session.operations.resume(caller, approvalId)
  expect(resumed.attempts).toMatchObject([{ status: 'failed', dispatched: false }])
  const attempt = await session.operations.admitRetry(caller, asked.id, 'after-failure')
  await session.operations.abandon(caller, attempt.id, 'enough')
  await session.budget.set(caller, { toolCalls: 0, wallSeconds: 5 })
  const record = await session.runs.get(caller, runId)
  expect(record).toMatchObject({
    run: { status: 'needs-human', reason: 'budget', waitsFor: ['budget'] },
    checkpoints: [{ state }],
    approvals: [{ id: approvalId, state: 'approved' }],
    attempts: [{ status: 'abandoned' }, { status: 'failed' }],
    evidence: { decisions: { ask: 1 } },
  })
  const page = await session.runs.events(caller, runId, { limit: 3, after: 2 })
  expect([page.items.map(({ seq }) => seq), page.next]).toEqual([[3, 4, 5], 5])
  await session.self.close(caller, 'done')
  expect((await session.runs.get(caller, runId)).run.status).toBe('cancelled')
})
