import { beforeEach, describe, expect, test } from 'vitest'
import type { Attempt, RetryPolicy } from '../../../../src/contract/operation.ts'
import { operations, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

let world: RunWorld
let runId: string
beforeEach(async () => {
  world = await new RunWorld().begin()
  runId = (await world.createRun()).id
})
const refused = (code: string) => ({ code })
const isRefused = (act: Promise<unknown>) =>
  expect(act).rejects.toMatchObject(refused('wrong_state'))
const executions = () => world.entries(runId, 'operation-execution')
const admit = (id: string, policy: RetryPolicy) =>
  world.actor.api.operations.admitRetry(testCaller, id, policy)
const execute = (id: string) => world.actor.api.operations.executeAttempt(testCaller, id)
const abandon = (id: string) => world.actor.api.operations.abandon(testCaller, id, 'because')
const stuckMs = 60_000 + 60_000

type State = 'admitted' | 'dispatched' | 'suspect' | 'succeeded' | 'failed' | 'abandoned'
const stateOf = ({ status, dispatched, suspectSince }: Attempt): State => {
  if (status !== 'reserved') return status
  if (suspectSince !== null) return 'suspect'
  return dispatched ? 'dispatched' : 'admitted'
}
/** An attempt in a state, with the operation that it belongs to. */
async function reach(state: State): Promise<{ id: string; operationId: string }> {
  const operation = await world.execute(runId)
  const operationId = operation.id
  await world.result(world.attemptId(operation), { status: 'failed' })
  const { id } = await admit(operationId, 'after-failure')
  if (state === 'admitted') return { id, operationId }
  if (state === 'abandoned') await abandon(id)
  else await execute(id)
  if (state === 'suspect') await world.pass(stuckMs)
  if (state === 'succeeded' || state === 'failed') await world.result(id, { status: state })
  return { id, operationId }
}
const events = {
  dispatch: (id: string) => execute(id),
  succeed: (id: string) => world.result(id),
  fail: (id: string) => world.result(id, { status: 'failed' }),
  unknown: (id: string) => world.result(id, { status: 'unknown', error: 'lost track' }),
  refuse: (id: string) => world.result(id, {}, false),
  deadline: () => world.pass(stuckMs),
  lose: () => world.actor.api.sandbox.replace(testCaller, 'x'),
  abandon: (id: string) => abandon(id),
}
const byPeople: readonly string[] = ['dispatch', 'abandon']
const changes: [State, keyof typeof events, State][] = [
  ['admitted', 'dispatch', 'dispatched'],
  ['admitted', 'abandon', 'abandoned'],
  ['dispatched', 'succeed', 'succeeded'],
  ['dispatched', 'fail', 'failed'],
  ['dispatched', 'unknown', 'suspect'],
  ['dispatched', 'refuse', 'suspect'],
  ['dispatched', 'deadline', 'suspect'],
  ['dispatched', 'lose', 'suspect'],
  ['dispatched', 'abandon', 'abandoned'],
  ['suspect', 'succeed', 'succeeded'],
  ['suspect', 'fail', 'failed'],
  ['suspect', 'abandon', 'abandoned'],
]
const states: State[] = ['admitted', 'dispatched', 'suspect', 'succeeded', 'failed', 'abandoned']
const table = states.flatMap((state) =>
  (Object.keys(events) as (keyof typeof events)[]).map((event) => {
    const found = changes.find(([from, cause]) => from === state && cause === event)
    return [state, event, found?.[2] ?? null] as const
  }),
)

describe('[ATT13] every state x event', () => {
  test.each(table)('%s + %s: %s', async (state, event, becomes) => {
    const { id, operationId } = await reach(state)
    const load = async () =>
      (await world.operation(operationId)).attempts.find((attempt) => attempt.id === id) as Attempt
    const before = await load()
    expect(stateOf(before)).toBe(state)
    const act = events[event](id)
    if (becomes === null && byPeople.includes(event)) await isRefused(act)
    else await act
    const after = await load()
    expect(stateOf(after)).toBe(becomes ?? state)
    if (becomes === null) expect(after).toEqual(before)
    // What is reserved and sent has a deadline or a person who is waited for.
    const { waitsFor, status } = await world.run(runId)
    expect(waitsFor.includes(id)).toBe(stateOf(after) === 'suspect')
    expect(status).toBe(waitsFor.length > 0 ? 'needs-human' : 'running')
    expect(`attempt:${id}` in world.deadlines()).toBe(stateOf(after) === 'dispatched')
    expect((await world.verify(runId)).ok).toBe(true)
  })
})

describe('suspects', () => {
  test('[ATT14] without a result in time it stays reserved, and a person decides', async () => {
    const operation = await world.execute(runId)
    const id = world.attemptId(operation)
    await world.pass(stuckMs - 1)
    expect((await world.run(runId)).status).toBe('running')
    await world.pass(1)
    const [attempt] = (await world.operation(operation.id)).attempts
    expect(attempt).toMatchObject({
      status: 'reserved',
      suspectSince: world.now,
      reason: 'No result in time',
    })
    expect((await executions()).at(-1)).toMatchObject({ status: 'suspect', attemptId: id })
    await isRefused(admit(operation.id, 'after-failure-or-abandoned'))
    expect((await world.operation(operation.id)).next).toEqual([`POST /v1/attempts/${id}/abandon`])
    await world.pass(3_600_000)
    expect((await executions()).filter(({ status }) => status === 'suspect')).toHaveLength(1)
  })

  test('[ATT14] a late result of it counts, and the run goes on', async () => {
    const operation = await world.execute(runId)
    await world.pass(stuckMs)
    await world.result(world.attemptId(operation), { output: 'late' })
    expect((await world.operation(operation.id)).attempts).toMatchObject([
      { status: 'succeeded', suspectSince: null, report: { output: 'late' } },
    ])
    expect(await world.run(runId)).toMatchObject({ status: 'running', waitsFor: [] })
  })

  test('[ATT14] what was under way when its sandbox went is suspect at once, and is sent to no other', async () => {
    const ways: (() => Promise<unknown>)[] = [
      () => world.actor.api.sandbox.replace(testCaller, 'x'),
      () => world.receive({ t: 'failed', reason: 'x' }, world.generation),
    ]
    for (const way of ways) {
      const operation = await world.execute(runId)
      const id = world.attemptId(operation)
      await way()
      expect((await world.operation(operation.id)).attempts[0]?.suspectSince).toBe(world.now)
      await world.meetNext()
      expect(world.executes()).toEqual([])
      await world.result(id)
      expect((await world.operation(operation.id)).attempts[0]?.status).toBe('reserved')
      await abandon(id)
    }
    expect((await world.run(runId)).status).toBe('running')
  })

  test('[ATT14] in a closed session it can still be abandoned', async () => {
    const operation = await world.execute(runId)
    const id = world.attemptId(operation)
    await world.actor.api.self.close(testCaller, 'x')
    expect((await world.operation(operation.id)).attempts[0]?.suspectSince).toBe(world.now)
    expect(world.deadlines()).not.toHaveProperty([`attempt:${id}`])
    expect(await abandon(id)).toMatchObject({ status: 'abandoned' })
    expect((await executions()).at(-1)).toMatchObject({ status: 'abandoned', late: true })
    expect((await world.run(runId)).status).toBe('cancelled')
  })
})

describe('abandon', () => {
  test('[ATT15] [R1-42] only what is reserved; actor and reason are recorded, nothing runs', async () => {
    const operation = await world.execute(runId)
    const id = world.attemptId(operation)
    expect(await abandon(id)).toMatchObject({
      status: 'abandoned',
      actor: testCaller.keyId,
      reason: 'because',
    })
    expect((await executions()).at(-1)).toMatchObject({
      status: 'abandoned',
      actor: testCaller.keyId,
      reason: 'because',
      executorInvoked: false,
    })
    await world.result(id)
    expect((await world.operation(operation.id)).attempts[0]?.status).toBe('abandoned')
    await world.cut()
    await world.meet()
    expect(world.executes()).toEqual([])
  })
})

describe('retries', () => {
  test('[ATT16] [R1-43] evaluation writes nothing', async () => {
    const { operationId } = await reach('failed')
    const tables = ['attempts', 'run_events', 'outbox', 'events', 'runs', 'commands', 'deadlines']
    const before = tables.map((name) => world.rowsOf(name))
    const evaluation = await world.actor.api.operations.evaluateRetry(
      testCaller,
      operationId,
      'after-failure',
    )
    expect(evaluation).toMatchObject({
      allowed: true,
      reasonCode: 'retryable',
      attemptCount: 2,
      retryableStatuses: ['failed'],
      latest: { sequence: 2 },
      active: null,
    })
    expect(tables.map((name) => world.rowsOf(name))).toEqual(before)
  })

  test('[ATT17] [D34] without an attempt evaluation allows and admission refuses', async () => {
    const asked = await world.execute(runId, operations.ask)
    for (const policy of ['never', 'after-failure', 'after-failure-or-abandoned'] as const) {
      const evaluation = await world.actor.api.operations.evaluateRetry(
        testCaller,
        asked.id,
        policy,
      )
      expect(evaluation).toMatchObject({ allowed: true, reasonCode: 'no-attempts' })
      await isRefused(admit(asked.id, policy))
    }
    const denied = await world.execute(runId, operations.deny)
    await isRefused(admit(denied.id, 'after-failure'))
  })

  test('[ATT17] [R1-49] admission reserves the next in order and runs nothing', async () => {
    const operation = await world.execute(runId)
    await world.result(world.attemptId(operation), { status: 'failed' })
    const attempt = await admit(operation.id, 'after-failure')
    expect(attempt).toMatchObject({ sequence: 2, status: 'reserved', dispatched: false })
    expect((await executions()).at(-1)).toMatchObject({
      attemptId: attempt.id,
      retryPolicy: 'after-failure',
      retryAdmission: true,
      executorInvoked: false,
      operationExecuted: false,
    })
    expect(world.executes()).toHaveLength(1)
    expect((await world.operation(operation.id)).next).toEqual([
      `POST /v1/attempts/${attempt.id}/execute`,
      `POST /v1/attempts/${attempt.id}/abandon`,
    ])
    await execute(attempt.id)
    expect(world.executes().map(({ id }) => id)).toContain(attempt.id)
    await isRefused(execute(attempt.id))
    expect(world.executes()).toHaveLength(2)
  })

  test('[ATT17] [R1-44] [R1-50] the policy "never" admits nothing', async () => {
    const { operationId } = await reach('failed')
    await isRefused(admit(operationId, 'never'))
  })

  test('[ATT18] what is under way is not made a failure by asking again after its sandbox failed', async () => {
    const operation = await world.execute(runId)
    const id = world.attemptId(operation)
    await world.pass(stuckMs)
    world.sql.run(`update session set sandbox_state = 'failed'`)
    world.restart()
    await isRefused(execute(id))
    expect((await world.operation(operation.id)).attempts[0]?.status).toBe('reserved')
  })

  test('[ATT10] a retry does not run what has changed since', async () => {
    const { id, operationId } = await reach('admitted')
    world.sql.run(`update operations set operation = replace(operation, 'a.txt', 'b.txt')`)
    await isRefused(execute(id))
    expect(world.executes().filter((command) => command.id === id)).toEqual([])
    expect((await world.operation(operationId)).attempts.at(-1)?.dispatched).toBe(false)
  })

  test('[ATT17] an ended run admits and executes nothing', async () => {
    const { id, operationId } = await reach('admitted')
    await world.finish(runId, 'failed')
    await isRefused(execute(id))
    await abandon(id)
    await isRefused(admit(operationId, 'after-abandoned'))
  })
})

describe('[ATT19] a sandbox that sleeps is woken by an operation', () => {
  test('and sleeps though a suspect waits for a person', async () => {
    world = await new RunWorld().begin({ idleTimeoutSeconds: 60 })
    runId = (await world.createRun()).id
    const operation = await world.execute(runId)
    await world.pass(100_000)
    expect((await world.actor.api.self.view(testCaller)).sandbox.state).toBe('ready')
    await world.pass(200_000)
    expect((await world.actor.api.self.view(testCaller)).sandbox.state).toBe('stopped')
    expect((await world.operation(operation.id)).attempts[0]?.suspectSince).not.toBeNull()
    await abandon(world.attemptId(operation))
    expect((await world.run(runId)).status).toBe('running')
  })

  test('which is then carried out once, by the new one', async () => {
    world = await new RunWorld().begin({ idleTimeoutSeconds: 60 })
    runId = (await world.createRun()).id
    await world.pass(120_000)
    const { sandbox } = await world.actor.api.self.view(testCaller)
    expect(['stopping', 'stopped']).toContain(sandbox.state)
    const operation = await world.execute(runId)
    expect(world.executes()).toEqual([])
    await world.meetNext()
    expect(world.executes().map(({ id }) => id)).toEqual([world.attemptId(operation)])
    await world.result(world.attemptId(operation))
    expect((await world.operation(operation.id)).attempts[0]?.status).toBe('succeeded')
  })
})

describe('[ATT20] [R1-39] twenty at once', () => {
  const twenty = <T>(work: () => Promise<T>) =>
    Promise.allSettled(Array.from({ length: 20 }, () => work()))
  const winners = (results: PromiseSettledResult<unknown>[]) =>
    results.filter(({ status }) => status === 'fulfilled').length

  test('resumes: one execution', async () => {
    const asked = await world.execute(runId, operations.ask)
    await world.resolve(asked.approvalId ?? '')
    expect(winners(await twenty(() => world.resume(asked.approvalId ?? '')))).toBe(1)
    expect(world.executes()).toHaveLength(1)
  })

  test('admissions: one reservation; executes of it: one execution', async () => {
    const operation = await world.execute(runId)
    await world.result(world.attemptId(operation), { status: 'failed' })
    expect(winners(await twenty(() => admit(operation.id, 'after-failure')))).toBe(1)
    const id = world.attemptId(await world.operation(operation.id))
    expect(winners(await twenty(() => execute(id)))).toBe(1)
    expect(world.executes()).toHaveLength(2)
    expect(world.rowsOf(`attempts where status = 'reserved'`)).toHaveLength(1)
  })

  test('resolutions: one', async () => {
    const asked = await world.execute(runId, operations.ask)
    expect(winners(await twenty(() => world.resolve(asked.approvalId ?? '')))).toBe(1)
  })
})

test('[ATT6] an operation is answered when nothing moves any more, or after the time', async () => {
  const operation = await world.execute(runId)
  const wait = (ms: number) => world.actor.api.operations.get(testCaller, operation.id, ms)
  const [inTime, tooShort] = [wait(30_000), wait(2000)]
  await world.pass(2000)
  expect((await tooShort).attempts[0]?.status).toBe('reserved')
  await world.result(world.attemptId(operation))
  expect((await inTime).attempts[0]?.status).toBe('succeeded')
  expect((await wait(30_000)).attempts[0]?.status).toBe('succeeded')
})
