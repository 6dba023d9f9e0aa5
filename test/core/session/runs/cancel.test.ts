import { beforeEach, describe, expect, test } from 'vitest'
import { operations, other, policyOf, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

let world: RunWorld
let runId: string
beforeEach(async () => {
  world = await new RunWorld().begin()
  runId = (await world.createRun()).id
})
const executions = () => world.entries(runId, 'operation-execution')
const cancels = () => world.commands().filter(({ kind }) => kind === 'cancel')

describe('[ATT22] ending a run stops what was sent to the sandbox', () => {
  test.each(['cancelled', 'failed', 'blocked'] as const)(
    '%s: the sandbox is told once, and its result is how the attempt ended',
    async (status) => {
      const operation = await world.execute(runId)
      const id = world.attemptId(operation)
      await world.finish(runId, status)
      expect(cancels()).toMatchObject([{ id: `cancel_${id}`, body: { attemptId: id } }])
      expect((await executions()).at(-1)).toMatchObject({
        status: 'cancelling',
        attemptId: id,
        actor: testCaller.keyId,
      })
      expect((await world.operation(operation.id)).attempts).toMatchObject([{ status: 'reserved' }])
      await world.receive({ t: 'result', commandId: `cancel_${id}`, ok: true, data: {} })
      await world.result(id, { status: 'failed', error: 'It was cancelled' })
      expect((await world.operation(operation.id)).attempts).toMatchObject([
        { status: 'failed', report: { error: 'It was cancelled' } },
      ])
      expect((await executions()).at(-1)).toMatchObject({ status: 'failed', late: true })
      expect(await world.verify(runId)).toMatchObject({ ok: true })
    },
  )

  test('completed is no order to stop, and other runs go on', async () => {
    const other = (await world.createRun()).id
    await world.execute(other)
    await world.execute(runId)
    await world.finish(runId)
    expect(cancels()).toEqual([])
    const third = (await world.createRun()).id
    const mine = world.attemptId(await world.execute(third))
    await world.finish(third, 'cancelled')
    expect(cancels().map(({ id }) => id)).toEqual([`cancel_${mine}`])
  })

  test('it is told again after a cut link, until it answers', async () => {
    const id = world.attemptId(await world.execute(runId))
    await world.finish(runId, 'cancelled')
    await world.cut()
    await world.meet()
    expect([world.executes(), cancels()]).toMatchObject([[{ id }], [{ id: `cancel_${id}` }]])
    await world.receive({ t: 'result', commandId: `cancel_${id}`, ok: true, data: {} })
    await world.cut()
    await world.meet()
    expect(cancels()).toEqual([])
  })

  test('without an answer it is suspect in the end', async () => {
    const operation = await world.execute(runId, { ...operations.allow, timeoutMs: 1000 })
    await world.finish(runId, 'cancelled')
    await world.pass(61_000)
    expect((await world.operation(operation.id)).attempts).toMatchObject([
      { status: 'reserved', suspectSince: world.now },
    ])
  })

  test('so does abandoning: a retry may come next', async () => {
    const operation = await world.execute(runId)
    const id = world.attemptId(operation)
    await world.actor.api.operations.abandon(testCaller, id, 'stuck')
    expect(cancels()).toMatchObject([{ body: { attemptId: id } }])
    const retry = await world.actor.api.operations.admitRetry(
      testCaller,
      operation.id,
      'after-abandoned',
    )
    await world.actor.api.operations.abandon(testCaller, retry.id, 'never sent')
    expect(cancels()).toHaveLength(1)
  })
})

describe('[ATT23] what does not fit the link', () => {
  const edit = (content: string) => ({
    ...{ category: 'edit', operation: 'write-file', targetPath: 'a' },
    content,
  })
  test.each([
    ['escapes', '\u0001'.repeat(200_000)],
    ['other scripts', '\u6f22'.repeat(400_000)],
  ])('%s: refused before anything is recorded', async (_, content) => {
    await expect(world.execute(runId, edit(content))).rejects.toMatchObject({
      code: 'too_large',
      details: [{ path: 'operation', message: 'At most 960 KiB of JSON' }],
    })
    expect(await world.kinds(runId)).toEqual(['run.created'])
    expect(world.executes()).toEqual([])
  })

  test('as much as is allowed is sent whole', async () => {
    const rule = { match: { category: 'edit' }, decision: 'allow' }
    await world.actor.api.gate.setPolicy(testCaller, policyOf({ rules: [rule] }))
    const content = 'x'.repeat(512 * 1024)
    await world.execute(runId, edit(content))
    expect(world.executes()).toMatchObject([{ body: { operation: { content } } }])
  })
})

test('[ATT24] a plan that no executor follows says so, and the attempt fails before it is sent', async () => {
  const rule = { match: { category: 'edit', risks: ['privileged'] }, decision: 'allow' }
  await world.actor.api.gate.setPolicy(testCaller, policyOf({ rules: [rule] }))
  const edit = { category: 'edit', operation: 'write-file', targetPath: 'a', content: 'x' }
  const error = 'There is no executor for "write-file" by process-sandbox'
  const operation = await world.execute(runId, { ...edit, risks: ['privileged'] })
  expect(operation).toMatchObject({
    decision: 'allow',
    plan: { strategy: 'process-sandbox', limitations: expect.arrayContaining([error]) },
    attempts: [{ status: 'failed', dispatched: false, report: { error } }],
  })
  expect((await executions()).at(-1)).toMatchObject({ executorInvoked: false })
  expect(world.executes()).toEqual([])
})

describe('[ATT25] discard', () => {
  const done = async (branch: string | null) => {
    const edit = { category: 'edit', operation: 'write-file', targetPath: 'a', content: 'x' }
    const { approvalId } = await world.execute(runId, edit)
    await world.resolve(approvalId ?? '')
    const id = world.attemptId(await world.resume(approvalId ?? ''))
    await world.result(id, { branch })
    return id
  }

  test('is a step of its own, and is recorded', async () => {
    const id = await done('gantry/1')
    const discarding = world.actor.api.operations.discard({ ...other, scopes: ['admin'] }, id)
    await world.settle()
    const command = world.commands().find(({ kind }) => kind === 'discard')
    expect(command?.body).toEqual({ attemptId: id, branch: 'gantry/1' })
    const data = { discarded: true, commit: 'abc' }
    await world.receive({ t: 'result', commandId: command?.id ?? '', ok: true, data })
    expect(await discarding).toEqual(data)
    expect((await executions()).at(-1)).toMatchObject({
      status: 'discarded',
      attemptId: id,
      commit: 'abc',
      actor: other.keyId,
    })
  })

  test('needs a success with a branch', async () => {
    const id = await done(null)
    await expect(world.actor.api.operations.discard(testCaller, id)).rejects.toMatchObject({
      code: 'wrong_state',
    })
  })
})

test('[APR10] after its deadline an approval is rejected, also if the alarm is late', async () => {
  const { approvalId } = await world.execute(runId, operations.ask)
  const id = approvalId ?? ''
  world.now = (await world.approval(id)).deadlineAt
  await expect(world.resolve(id)).rejects.toMatchObject({
    code: 'wrong_state',
    message: expect.stringContaining('rejected by deadline'),
  })
  expect(await world.approval(id)).toMatchObject({
    state: 'rejected',
    resolution: { actor: 'deadline' },
  })
})
