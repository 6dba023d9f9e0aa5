import { describe, expect, test } from 'vitest'
import { operations, other, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

const strange = { ...testCaller, organisationId: `org_${'9'.repeat(20)}` }
const gate = { deny: [], ask: ['bash'], askTimeoutSeconds: 60 }

describe('an approval whose time is over', () => {
  test('[APR10] is rejected by whoever comes first, though its alarm is late', async () => {
    const world = await new RunWorld().begin({ gate })
    await world.prompt()
    const ask = await world.ask('bash')
    const id = world.approvalId(ask)
    world.now += 60_000
    await expect(world.resolve(id)).rejects.toMatchObject({
      code: 'wrong_state',
      message: expect.stringContaining('rejected by deadline'),
    })
    expect(world.answerTo(ask)).toBe('deny')
    expect(await world.approval(id)).toMatchObject({
      state: 'rejected',
      resolution: { actor: 'deadline', owner: null, reason: 'Nobody answered in time' },
    })
  })

  test('[BUD1] gives its call back, and a question that waits for it goes on', async () => {
    const world = await new RunWorld().begin({ gate, budget: { toolCalls: 1 } })
    await world.prompt()
    const asked = await world.ask('bash')
    const waits = await world.ask('read')
    expect([asked, waits].map(world.answerTo)).toEqual([null, null])
    await world.resolve(world.approvalId(asked), 'rejected')
    expect([asked, waits].map(world.answerTo)).toEqual(['deny', 'allow'])
  })
})

describe('a revocation', () => {
  test('[APR8] is for those of the organisation, and shows no secret in its reason', async () => {
    const world = await new RunWorld().begin()
    const { id: runId } = await world.createRun()
    const { approvalId } = await world.execute(runId, operations.ask)
    const id = approvalId ?? ''
    const remember = { scope: 'session', expiresInSeconds: 600 } as const
    await world.resolve(id, 'approved', other, { remember })
    const { approvals } = world.actor.api
    await expect(approvals.revoke(strange, id, { reason: 'x' })).rejects.toMatchObject({
      code: 'not_found',
    })
    expect((await world.approval(id)).remembered).not.toBeNull()
    const key = `ghp_${'a1B2'.repeat(9)}`
    await approvals.revoke(testCaller, id, { reason: `leaked ${key}` })
    expect(await world.entries(runId, 'permission.revoked')).toMatchObject([
      { approvalId: id, actor: testCaller.keyId, reason: expect.stringContaining('leaked [') },
    ])
    expect(JSON.stringify(await world.timeline(runId))).not.toContain(key)
  })
})

test('[RUN9] [APR5] the close of a session cancels every open run and what it waits for', async () => {
  const world = await new RunWorld().begin()
  const runs = [(await world.createRun()).id, (await world.createRun()).id]
  const asked = [
    await world.execute(runs[0] ?? '', operations.ask),
    await world.execute(runs[1] ?? '', operations.ask),
  ]
  await world.actor.api.self.close(testCaller, 'enough')
  for (const id of runs) expect(await world.run(id)).toMatchObject({ status: 'cancelled' })
  for (const { approvalId } of asked)
    expect(await world.approval(approvalId ?? '')).toMatchObject({
      state: 'cancelled',
      resolution: { actor: 'close', owner: null, reason: 'The run was cancelled' },
    })
})
