import { beforeEach, describe, expect, test } from 'vitest'
import type { Attempt } from '../../../../src/contract/operation.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

// What becomes of an attempt is told to the sandbox, to the run and to libSQL, and of this attempt alone.

let world: RunWorld
let runId: string
beforeEach(async () => {
  world = await new RunWorld().begin()
  runId = (await world.createRun()).id
})
const { keyId } = testCaller
const abandon = (id: string) => world.actor.api.operations.abandon(testCaller, id, 'because')
const begin = async () => world.attemptId(await world.execute(runId))
const attempts = async () =>
  new Map((await world.record(runId)).attempts.map((attempt) => [attempt.id as string, attempt]))
const cancels = () => world.commands().filter(({ kind }) => kind === 'cancel')
const lastTold = async () => (await world.entries(runId, 'operation-execution')).at(-1)
/** As libSQL has it, without what only the session keeps. */
async function projected(id: string) {
  await world.settle()
  const rows = world.ledger.projected<Attempt & { suspect: number }>('attempt', (row) => row.id)
  return rows.find((row) => row.id === id)
}

describe('an attempt that nobody knows about', () => {
  test.each([
    ['lost track', 'lost track'],
    [null, 'The sandbox cannot say how it ended'],
  ])('[ATT14] says why (%s), and the one beside it stays as it is', async (error, reason) => {
    const [one, two] = [await begin(), await begin()]
    world.now += 5
    await world.result(one, { status: 'unknown', error })
    const all = await attempts()
    expect(all.get(one)).toMatchObject({ status: 'reserved', suspectSince: world.now, reason })
    expect(all.get(two)).toMatchObject({ status: 'reserved', suspectSince: null, reason: null })
    expect(await lastTold()).toMatchObject({ attemptId: one, status: 'suspect', reason })
    expect(await projected(one)).toMatchObject({ suspect: 1, suspectSince: world.now, reason })
    expect(await projected(two)).toMatchObject({ suspect: 0 })
  })

  test('[ATT14] its time is over: one that has its result is not doubted by a late alarm', async () => {
    const id = await begin()
    await world.result(id)
    world.sql.run(`insert into deadlines (name, at) values ('attempt:' || ?, 0)`, id)
    world.sql.run(`insert into deadlines (name, at) values ('attempt:att_gone', 0)`)
    await world.pass(60_000)
    expect((await attempts()).get(id)).toMatchObject({ status: 'succeeded', suspectSince: null })
    expect(Object.keys(world.deadlines()).filter((name) => name.startsWith('attempt'))).toEqual([])
  })
})

describe('an attempt that is abandoned', () => {
  test('[ATT15] is stopped in the sandbox, not sent again, and told; the one beside it goes on', async () => {
    const [one, two] = [await begin(), await begin()]
    await world.result(one, { status: 'unknown' })
    world.now += 5
    const attempt = await abandon(one)
    const end = { status: 'abandoned', actor: keyId, reason: 'because' }
    expect(attempt).toMatchObject({ ...end, suspectSince: null, finishedAt: world.now })
    expect((await attempts()).get(two)).toMatchObject({ status: 'reserved', finishedAt: null })
    expect(cancels()).toMatchObject([{ id: `cancel_${one}`, body: { attemptId: one } }])
    expect(await lastTold()).toMatchObject({ attemptId: one, ...end, executorInvoked: false })
    expect(await projected(one)).toMatchObject({ ...end, suspect: 0, finishedAt: world.now })
    await world.cut()
    await world.meet()
    expect(world.executes().map(({ id }) => id)).toEqual([two])
  })

  test('[ATT15] before it was sent to anybody, there is nothing to stop', async () => {
    const first = await world.execute(runId)
    await world.result(world.attemptId(first), { status: 'failed' })
    const { operations } = world.actor.api
    const { id } = await operations.admitRetry(testCaller, first.id, 'after-failure')
    await abandon(id)
    expect(cancels()).toEqual([])
  })
})

test('[ATT18] an attempt is executed once, and the refusal says how it stands', async () => {
  const id = await begin()
  const execute = (attempt: string) =>
    world.actor.api.operations.executeAttempt(testCaller, attempt)
  const refused = (state: string) => ({
    code: 'wrong_state',
    message: expect.stringContaining(state),
  })
  await expect(execute(id)).rejects.toMatchObject(refused('it is under way'))
  await world.result(id)
  await expect(execute(id)).rejects.toMatchObject(refused('it is succeeded'))
  await expect(abandon(id)).rejects.toMatchObject(refused('it is succeeded'))
  for (const act of [execute, abandon])
    await expect(act(id.replace(/.{8}$/, 'zzzzzzzz'))).rejects.toMatchObject({ code: 'not_found' })
})
