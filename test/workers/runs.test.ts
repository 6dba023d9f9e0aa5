import { evictDurableObject } from 'cloudflare:test'
import { env as bindings } from 'cloudflare:workers'
import { expect, test } from 'vitest'
import type { Env } from '../../durable-objects/env.ts'
import type { SessionObject } from '../../durable-objects/session.ts'
import { createSessionIds } from '../../src/adapters/web-crypto.ts'
import { Operation } from '../../src/contract/operation.ts'
import { SessionCreate } from '../../src/contract/session.ts'
import type { SessionApi } from '../../src/core/sessions/api.ts'

const env = bindings as unknown as Env & Record<string, string>
const organisationId = `org_${'1'.repeat(20)}`
const caller = { organisationId, keyId: `key_${'1'.repeat(20)}`, owner: 'tester' }
const other = { ...caller, keyId: `key_${'2'.repeat(20)}`, owner: 'other' }

/** A session without a sandbox, in a real object. */
async function newSession() {
  const secret = Uint8Array.from(atob(env['GANTRY_ID_SECRET'] ?? ''), (letter) =>
    letter.charCodeAt(0),
  )
  const sessionId = await createSessionIds(secret).mint()
  const stub: DurableObjectStub<SessionObject> = env.SESSION.getByName(sessionId)
  const doors = new Proxy({} as SessionApi, {
    get:
      (_, name: keyof SessionApi) =>
      async (...args: unknown[]) =>
        await (stub[name] as unknown as (...args: unknown[]) => Promise<unknown>)(...args),
  })
  await doors.create({ sessionId, ...caller, input: SessionCreate.parse({ sandbox: 'none' }) })
  return { stub, doors }
}

test('[RUN7] [APR1] [ATT6] runs, approvals, operations and budgets live in a real object, over an eviction', async () => {
  const { stub, doors } = await newSession()
  const { id: runId } = await doors.createRun(caller, { intent: 'x' }, 'key')
  const state = { deep: ['ü', null, 1.5] }
  await doors.addCheckpoint(caller, runId, { label: 'l', state })
  const operation = Operation.parse({ category: 'shell', operation: 'run', command: 'ls' })
  const options = { evaluateOnly: false, idempotencyKey: null }
  const asked = await doors.executeOperation(caller, runId, operation, options)
  const approvalId = asked.approvalId ?? ''
  const approve = { resolution: 'approved', reason: '' } as const
  await evictDurableObject(stub)
  expect((await doors.createRun(caller, { intent: 'x' }, 'key')).id).toBe(runId)
  expect((await doors.resumeRun(caller, runId, null)).checkpoint.state).toEqual(state)
  await expect(doors.resolveApproval(caller, approvalId, approve)).rejects.toMatchObject({
    code: 'forbidden',
  })
  await doors.resolveApproval(other, approvalId, approve)
  const resumed = await doors.resumeApproval(caller, approvalId)
  expect(resumed.attempts).toMatchObject([{ status: 'failed', dispatched: false }])
  const attempt = await doors.admitRetry(caller, asked.id, 'after-failure')
  await doors.abandonAttempt(caller, attempt.id, 'enough')
  await doors.setBudget(caller, { toolCalls: 0, wallSeconds: 5 })
  const record = await doors.run(caller, runId)
  expect(record).toMatchObject({
    run: { status: 'needs-human', reason: 'budget', waitsFor: ['budget'] },
    checkpoints: [{ state }],
    approvals: [{ id: approvalId, state: 'approved' }],
    attempts: [{ status: 'abandoned' }, { status: 'failed' }],
    evidence: { decisions: { ask: 1 } },
  })
  const page = await doors.runEvents(caller, runId, { limit: 3, after: 2 })
  expect([page.items.map(({ seq }) => seq), page.next]).toEqual([[3, 4, 5], 5])
  await doors.close(caller, 'done')
  expect((await doors.run(caller, runId)).run.status).toBe('cancelled')
})
