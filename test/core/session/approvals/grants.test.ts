import { beforeEach, describe, expect, test } from 'vitest'
import { Enforcement } from '../../../../src/contract/operation.ts'
import { question } from '../../../support/agent.ts'
import { operations, other, person, policyOf, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

let world: RunWorld
beforeEach(async () => {
  world = await new RunWorld().begin({ gate: { ask: ['bash'], deny: [], askTimeoutSeconds: 600 } })
})
const command = (letter: string) => ({ command: 'ls', description: letter })
const remember = (scope: 'run' | 'session', expiresInSeconds = 3600) => ({
  remember: { scope, expiresInSeconds },
})
/** Asks, is approved, and is remembered. The approval's id. */
async function approve(scope: 'run' | 'session', expiresInSeconds?: number) {
  const ask = await world.ask('bash', command('1'))
  const id = world.approvalId(ask)
  await world.resolve(id, 'approved', other, remember(scope, expiresInSeconds))
  return id
}
const again = async (letter = '1', more: Record<string, unknown> = {}) =>
  world.answerTo(await world.ask('bash', command(letter), more))

describe('[APR6] a remembered approval allows exactly this operation again', () => {
  test('it is a rule with a record, and no other operation profits', async () => {
    const turn = await world.prompt()
    const id = await approve('session')
    expect(await again()).toBe('allow')
    expect(await again('2')).toBeNull()
    expect(world.answerTo(await world.ask('read'))).toBe('allow')
    const runId = turn.runId ?? ''
    const decisions = await world.entries(runId, 'permission-decision')
    expect(decisions[1]).toMatchObject({
      by: 'grant',
      decision: 'allow',
      rule: `grant:${id}`,
      grant: id,
      reason: `Approved before: "${id}"`,
    })
    expect(await world.entries(runId, 'permission.approved')).toMatchObject([
      { approvalId: id, remember: { scope: 'session', expiresInSeconds: 3600 } },
    ])
    expect(await world.events('gate.decided')).toContainEqual(
      expect.objectContaining({ rule: `grant:${id}`, decision: 'allow' }),
    )
  })

  test('for its run, or for the session', async () => {
    const first = await world.prompt()
    await approve('run')
    expect(await again()).toBe('allow')
    await world.endTurn(first)
    const second = await world.prompt()
    const parked = await world.ask('bash', command('1'))
    expect(world.answerTo(parked)).toBeNull()
    await world.resolve(world.approvalId(parked), 'approved', other, remember('session'))
    await world.endTurn(second)
    await world.prompt()
    expect(await again()).toBe('allow')
  })

  test('until it expires, also after a restart', async () => {
    await world.prompt()
    await approve('session', 60)
    world.restart()
    await world.meet()
    world.now += 59_999
    expect(await again()).toBe('allow')
    world.now += 1
    expect(await again()).toBeNull()
  })

  test('a link that leads elsewhere makes it another operation', async () => {
    await world.prompt()
    const real = (path: string) => ({ realPaths: [`/home/user/workspace/${path}`] })
    const ask = await world.ask('bash', command('1'), real('a'))
    await world.resolve(world.approvalId(ask), 'approved', other, remember('session'))
    expect(await again('1', real('a'))).toBe('allow')
    expect(await again('1', real('b'))).toBeNull()
  })

  test('[GATE15] of an input that is not shown in full what is shown counts as well', async () => {
    await world.prompt()
    const long = { shortened: true, inputHash: 'a'.repeat(64) }
    const ask = await world.ask('bash', command('1'), long)
    await world.resolve(world.approvalId(ask), 'approved', other, remember('session'))
    expect(await again('1', long)).toBe('allow')
    expect(await again('2', long)).toBeNull()
    expect(await again('1', { ...long, inputHash: 'b'.repeat(64) })).toBeNull()
  })

  test('[GATE15] a hash that is borrowed from what was approved is refused, and recorded', async () => {
    const turn = await world.prompt()
    await approve('session')
    const { inputHash } = question(`ask_${'0'.repeat(20)}`, 'bash', command('1'))
    const ask = await world.ask('bash', { command: 'rm -rf /' }, { inputHash })
    expect(world.answerTo(ask)).toBe('deny')
    const reason = 'The hash of the question is not that of its input'
    expect((await world.events('gate.decided')).at(-1)).toMatchObject({ rule: 'state', reason })
    const decisions = await world.entries(turn.runId ?? '', 'permission-decision')
    expect(decisions.at(-1)).toMatchObject({ decision: 'deny', reason, askId: ask })
  })

  test('it never loosens what is denied', async () => {
    await world.prompt()
    await approve('session')
    const rule = { match: { tool: 'bash' }, decision: 'deny' }
    await world.actor.api.gate.setPolicy(testCaller, policyOf({ rules: [rule] }))
    expect(await again()).toBe('deny')
    await world.actor.api.gate.setPolicy(testCaller, null)
    expect(await again()).toBe('allow')
    await world.actor.api.self.abort(testCaller, '')
    expect(await again()).toBe('deny')
  })

  test('only an approval is remembered, and none that needs several people', async () => {
    await world.prompt()
    const id = world.approvalId(await world.ask('bash'))
    for (const resolution of ['rejected', 'cancelled'] as const)
      await expect(world.resolve(id, resolution, other, remember('run'))).rejects.toMatchObject({
        code: 'unprocessable',
      })
    const rule = { match: { tool: 'edit' }, decision: 'ask', approval: { quorum: 2 } }
    await world.actor.api.gate.setPolicy(testCaller, policyOf({ rules: [rule] }))
    const several = world.approvalId(await world.ask('edit', { filePath: 'a' }))
    await expect(world.resolve(several, 'approved', other, remember('run'))).rejects.toMatchObject({
      code: 'unprocessable',
    })
    expect((await world.approval(several)).votes).toEqual([])
    expect(world.rowsOf('grants')).toEqual([])
  })
})

describe('[APR6] an operation of the API is remembered as well', () => {
  test('exactly this one, without asking, and as an attempt of its own', async () => {
    const { id } = await world.createRun()
    const first = await world.execute(id, operations.ask)
    await world.resolve(first.approvalId ?? '', 'approved', other, remember('run'))
    const second = await world.execute(id, operations.ask)
    expect(second).toMatchObject({
      decision: 'allow',
      rule: `grant:${first.approvalId}`,
      approvalId: null,
      attempts: [{ status: 'reserved', dispatched: true }],
    })
    const changed = await world.execute(id, { ...operations.ask, timeoutMs: 1000 })
    expect(changed.decision).toBe('ask')
    const elsewhere = await world.execute((await world.createRun()).id, operations.ask)
    expect(elsewhere.decision).toBe('ask')
    expect(world.executes().map((command) => command.id)).toEqual([world.attemptId(second)])
  })

  test('but not in a sandbox that can hold it to less', async () => {
    const { id } = await world.createRun()
    const first = await world.execute(id, operations.ask)
    await world.resolve(first.approvalId ?? '', 'approved', other, remember('session'))
    const enforces = Enforcement.options.filter((each) => each !== 'network')
    await world.receive({ t: 'ready', bootMs: 1, enforces })
    expect((await world.execute(id, operations.ask)).decision).toBe('ask')
  })

  test('a denied one stays denied', async () => {
    const { id } = await world.createRun()
    const first = await world.execute(id, operations.ask)
    await world.resolve(first.approvalId ?? '', 'approved', other, remember('session'))
    const rule = { match: { category: 'shell' }, decision: 'deny' }
    await world.actor.api.gate.setPolicy(testCaller, policyOf({ rules: [rule] }))
    expect(await world.execute(id, operations.ask)).toMatchObject({
      decision: 'deny',
      attempts: [],
    })
  })
})

describe('[APR8] what was remembered can be revoked', () => {
  const revoke = (id: string) =>
    world.actor.api.approvals.revoke(other, id, { reason: 'no longer' })

  test('from then on it is asked about again, with a record', async () => {
    const turn = await world.prompt()
    const id = await approve('session')
    expect(await world.approval(id)).toMatchObject({
      state: 'approved',
      remembered: { scope: 'session', expiresAt: world.now + 3_600_000 },
    })
    expect(await again()).toBe('allow')
    expect(await revoke(id)).toMatchObject({ remembered: { expiresAt: world.now } })
    expect(await again()).toBeNull()
    expect(await world.entries(turn.runId ?? '', 'permission.revoked')).toMatchObject([
      { approvalId: id, actor: other.keyId, owner: other.owner, reason: 'no longer' },
    ])
    expect(await world.verify(turn.runId ?? '')).toMatchObject({ ok: true })
  })

  test('once, and only what is remembered still', async () => {
    await world.prompt()
    const plain = world.approvalId(await world.ask('bash', command('2')))
    await expect(revoke(plain)).rejects.toMatchObject({ code: 'wrong_state' })
    await world.resolve(plain)
    await expect(revoke(plain)).rejects.toMatchObject({ code: 'wrong_state' })
    const id = await approve('session', 60)
    await revoke(id)
    await expect(revoke(id)).rejects.toMatchObject({ code: 'wrong_state' })
    const expired = await approve('session', 60)
    world.now += 60_000
    await expect(revoke(expired)).rejects.toMatchObject({ code: 'wrong_state' })
  })

  test('of several that cover it, each by itself', async () => {
    const { id } = await world.createRun()
    const operation = operations.ask
    const ids: string[] = []
    const asked = [await world.execute(id, operation), await world.execute(id, operation)]
    for (const { approvalId } of asked) {
      ids.push(approvalId ?? '')
      await world.resolve(approvalId ?? '', 'approved', other, remember('session'))
    }
    await revoke(ids[0] ?? '')
    expect(await world.execute(id, operation)).toMatchObject({ rule: `grant:${ids[1]}` })
    await revoke(ids[1] ?? '')
    expect((await world.execute(id, operation)).decision).toBe('ask')
  })
})

describe('[APR9] a remembered approval holds only where its giver alone may still approve', () => {
  const askFor = (approval: Record<string, unknown>, groups: Record<string, string[]> = {}) =>
    policyOf({ groups, rules: [{ match: { tool: 'bash' }, decision: 'ask', approval }] })

  test('not where several people must', async () => {
    world = await new RunWorld().begin()
    await world.prompt()
    await world.actor.api.gate.setPolicy(testCaller, askFor({}))
    await approve('session')
    expect(await again()).toBe('allow')
    await world.actor.api.gate.setPolicy(testCaller, askFor({ quorum: 2 }))
    expect(await again()).toBeNull()
  })

  test('not where a group must that the giver is not in', async () => {
    world = await new RunWorld().begin()
    await world.prompt()
    await world.actor.api.gate.setPolicy(testCaller, askFor({}))
    await approve('session')
    await world.actor.api.gate.setPolicy(
      testCaller,
      askFor({ group: 'g' }, { g: [person('5').keyId] }),
    )
    expect(await again()).toBeNull()
    for (const id of [other.keyId, other.memberId]) {
      await world.actor.api.gate.setPolicy(testCaller, askFor({ group: 'g' }, { g: [id] }))
      expect(await again()).toBe('allow')
    }
  })
})
