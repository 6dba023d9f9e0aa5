import { beforeEach, describe, expect, test } from 'vitest'
import { Operation } from '../../../../src/contract/operation.ts'
import { operations, other, policyOf, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

let world: RunWorld
let runId: string
beforeEach(async () => {
  world = await new RunWorld().begin({ idleTimeoutSeconds: 600 })
  runId = (await world.createRun()).id
})
const api = () => world.actor.api.operations
const steps = () => world.commands().filter(({ kind }) => kind === 'merge' || kind === 'discard')
/** An attempt that has left a branch. */
async function withBranch(): Promise<string> {
  const id = world.attemptId(await world.execute(runId))
  await world.result(id, { branch: 'gantry/x' })
  return id
}

describe('a merge or a discard', () => {
  test('[ATT12] [ATT25] is a command with the branch of its attempt, under an id of its own', async () => {
    const id = await withBranch()
    void api().merge(testCaller, id)
    void api().discard(testCaller, id)
    await world.settle()
    const body = { attemptId: id, branch: 'gantry/x' }
    expect(steps()).toMatchObject([
      { kind: 'merge', id: expect.stringMatching(/^merge_cmd_/), body },
      { kind: 'discard', id: expect.stringMatching(/^discard_cmd_/), body },
    ])
  })

  test('[ATT12] [ATT26] wakes a sandbox that sleeps, and only that; once that has done it, asking again is the same step', async () => {
    const id = await withBranch()
    await world.finish(runId)
    await world.pass(600_000)
    expect((await world.actor.api.self.view(testCaller)).sandbox.state).toBe('stopped')
    const asked = [api().merge(testCaller, id), api().merge(testCaller, id)]
    await world.settle()
    await world.pass(0)
    const { sandbox } = await world.actor.api.self.view(testCaller)
    expect([sandbox.state, sandbox.generation]).toEqual(['booting', 2])
    world.generation = 2
    await world.meet()
    expect(steps()).toHaveLength(1)
    const data = { merged: true, commit: 'abc', conflicts: [] }
    await world.receive({ t: 'result', commandId: steps()[0]?.id ?? '', ok: true, data }, 2)
    expect(await Promise.all(asked)).toEqual([data, data])
    expect(await api().merge(testCaller, id)).toEqual(data)
    expect((await world.actor.api.self.view(testCaller)).sandbox.generation).toBe(2)
  })

  test.each(['failed', 'lost'])('[ATT12] cannot be where the sandbox is %s', async (state) => {
    const id = await withBranch()
    world.sql.run('update session set sandbox_state = ?', state)
    world.restart()
    await expect(api().merge(testCaller, id)).rejects.toMatchObject({
      code: 'sandbox_unavailable',
      message: `Cannot merge: the sandbox is ${state}`,
    })
    // Nor can an operation be executed there.
    const operation = await world.execute(runId)
    expect(operation.attempts).toMatchObject([
      {
        status: 'failed',
        report: { error: `The sandbox is ${state}`, output: '', truncated: false, exitCode: null },
      },
    ])
  })

  test('[ATT12] is refused in a closed session, and to others', async () => {
    const id = await withBranch()
    const strange = { ...testCaller, organisationId: `org_${'9'.repeat(20)}` }
    await expect(api().discard(strange, id)).rejects.toMatchObject({ code: 'not_found' })
    // Nor by another member, unless an admin.
    await expect(api().discard(other, id)).rejects.toMatchObject({ code: 'forbidden' })
    await world.actor.api.self.close(testCaller, 'done')
    for (const act of [() => api().merge(testCaller, id), () => api().discard(testCaller, id)])
      await expect(act()).rejects.toMatchObject({ code: 'session_closed' })
    expect(steps()).toEqual([])
  })
})

describe('the result of a step', () => {
  const answer = (at: number, data: object) =>
    world.receive(
      { t: 'result', commandId: steps()[at]?.id ?? '', ok: true, data: { ...data } },
      world.generation,
    )
  const merged = { merged: true, commit: 'abc', conflicts: [] }
  const told = async () =>
    (await world.entries(runId, 'operation-execution'))
      .map(({ attemptId, status }) => [attemptId, status])
      .filter(([, status]) => /merg|discard|unknown/.test(String(status)))

  test('[ATT26] is of its own attempt, and asked of the next sandbox it is another step', async () => {
    const [one, two] = [await withBranch(), await withBranch()]
    void api().merge(testCaller, one)
    void api().merge(testCaller, two)
    await world.settle()
    await answer(1, merged)
    await answer(0, { merged: false, commit: null, conflicts: ['a'] })
    const before = [
      [one, 'merging'],
      [two, 'merging'],
      [two, 'merged'],
      [one, 'not-merged'],
    ]
    expect(await told()).toEqual(before)
    await world.actor.api.sandbox.replace(testCaller, 'x')
    // What is done stays done.
    expect(await told()).toEqual(before)
    await world.meetNext()
    void api().merge(testCaller, two)
    await world.settle()
    expect(steps()).toHaveLength(1)
    expect((await told()).at(-1)).toEqual([two, 'merging'])
  })

  test('[ATT25] a discard that is done is done, and asking again is the same', async () => {
    const id = await withBranch()
    const asked = api().discard(testCaller, id)
    await world.settle()
    await answer(0, { discarded: true, commit: 'abc' })
    const report = await asked
    expect(await told()).toEqual([
      [id, 'discarding'],
      [id, 'discarded'],
    ])
    expect(await api().discard(testCaller, id)).toEqual(report)
    expect(steps()).toHaveLength(1)
  })

  test('[ATT12] there is none of an attempt that has not succeeded, or has no branch', async () => {
    const running = world.attemptId(await world.execute(runId))
    const failed = world.attemptId(await world.execute(runId))
    await world.result(failed, { status: 'failed', branch: 'gantry/x' })
    const plain = world.attemptId(await world.execute(runId))
    await world.result(plain)
    for (const id of [running, failed, plain])
      await expect(api().merge(testCaller, id)).rejects.toMatchObject({ code: 'wrong_state' })
    expect(steps()).toEqual([])
  })
})

describe('an operation', () => {
  test('[ATT23] that does not fit the link is refused, and the refusal says where', async () => {
    const large = {
      ...{ category: 'edit', operation: 'write-file', targetPath: 'a' },
      content: '\u0001'.repeat(200_000),
    }
    await expect(world.execute(runId, large)).rejects.toMatchObject({
      code: 'too_large',
      details: [{ path: 'operation', message: 'At most 960 KiB of JSON' }],
    })
    await expect(world.operation(`opr_${'z'.repeat(38)}`)).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  test('[ATT8] says what may be done next: once approved, its resume', async () => {
    const { id, approvalId } = await world.execute(runId, operations.ask)
    const next = async () => JSON.stringify(await world.operation(id))
    const resume = `POST /v1/approvals/${approvalId}/resume`
    expect(await next()).not.toContain(resume)
    await world.resolve(approvalId ?? '')
    expect(await next()).toContain(resume)
    // A person's answer to an operation is no answer to a question of the sandbox.
    expect(world.sent.filter(({ t }) => t === 'answer')).toEqual([])
  })
})

describe('what cannot be enforced', () => {
  const operation = { ...operations.allow, targetPath: 'b.txt' }

  test('[ATT2] is asked about, by the state and not by the policy, and names everything that is missing', async () => {
    const parsed = Operation.parse(operation)
    await world.receive({ t: 'ready', bootMs: 1, enforces: [] })
    const { notEnforced } = await api().plan(testCaller, parsed)
    expect(notEnforced.length).toBeGreaterThan(0)
    await world.execute(runId, operation)
    expect((await world.entries(runId, 'permission-decision')).at(-1)).toMatchObject({
      ...{ by: 'state', decision: 'ask', rule: 'isolation' },
      reason: `The sandbox cannot enforce: ${notEnforced.join(', ')}`,
    })
  })

  test('[ATT2] does not turn into a question what the policy denies or asks', async () => {
    const rules = [{ match: { category: 'read' }, decision: 'deny' }]
    await world.actor.api.gate.setPolicy(testCaller, policyOf({ rules }))
    await world.receive({ t: 'ready', bootMs: 1, enforces: [] })
    await world.execute(runId, operation)
    expect((await world.entries(runId, 'permission-decision')).at(-1)).toMatchObject({
      ...{ by: 'policy', decision: 'deny', rule: 'p@1#0' },
    })
  })
})

describe('a resume', () => {
  test('[ATT8] is of an operation that waits, not of a gate question', async () => {
    await world.actor.api.gate.setPolicy(
      testCaller,
      policyOf({ rules: [{ match: { tool: 'bash' }, decision: 'ask' }] }),
    )
    await world.prompt('go', { runId })
    const gate = world.approvalId(await world.ask('bash'))
    await world.resolve(gate)
    world.sql.run('update approvals set resumable = 1')
    await expect(world.resume(gate)).rejects.toMatchObject({ code: 'wrong_state' })
  })

  test('[ATT8] is refused to others before anything else', async () => {
    const { approvalId } = await world.execute(runId, operations.ask)
    await world.resolve(approvalId ?? '', 'approved', other)
    const strange = { ...testCaller, organisationId: `org_${'9'.repeat(20)}` }
    await expect(api().resume(strange, approvalId ?? '')).rejects.toMatchObject({
      code: 'not_found',
    })
    expect(world.executes()).toEqual([])
  })
})
