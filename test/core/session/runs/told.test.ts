import { beforeEach, describe, expect, test } from 'vitest'
import { nameTimelines } from '../../../../src/core/session/runs/timeline.ts'
import { operations, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

let world: RunWorld
let runId: string
beforeEach(async () => {
  world = await new RunWorld().begin()
  runId = (await world.createRun()).id
})
const changes = async () =>
  (await world.timeline(runId))
    .filter(({ kind }) => /^run\.(started|changed|stopped)$/.test(kind))
    .map(({ kind, data }) => [kind, data])

test('[RUN2] each change of a run is an entry with both statuses, its cause, and its outcome if it is an end', async () => {
  await world.actor.api.runs.change(testCaller, runId, { status: 'running', reason: 'go' })
  const { approvalId } = await world.execute(runId, operations.ask)
  await world.resolve(approvalId ?? '', 'rejected')
  await world.finish(runId, 'failed', 'broken')
  const title = 'shell: run: npm test'
  expect(await changes()).toEqual([
    [
      'run.started',
      { from: 'created', status: 'running', cause: 'start', outcome: null, reason: 'go' },
    ],
    [
      'run.changed',
      {
        ...{ from: 'running', status: 'needs-human', cause: 'wait', outcome: null },
        reason: `Approval needed: ${title}`,
      },
    ],
    [
      'run.changed',
      {
        ...{ from: 'needs-human', status: 'running', cause: 'answer', outcome: null },
        reason: `${title} was rejected`,
      },
    ],
    [
      'run.stopped',
      { from: 'running', status: 'failed', cause: 'fail', outcome: 'failed', reason: 'broken' },
    ],
  ])
})

test('[RUN3] who finishes a run without a word is named by owner, or by key', async () => {
  await world.finish(runId)
  expect((await world.run(runId)).reason).toBe('Finished by tester')
  const { id } = await world.createRun()
  const end = { status: 'completed', reason: '' } as const
  await world.actor.api.runs.finish({ ...testCaller, owner: '' }, id, end)
  expect((await world.run(id)).reason).toBe(`Finished by ${testCaller.keyId}`)
})

test('[RUN1] a prompt that names no run goes to the newest open one', async () => {
  const newer = await world.createRun('newer')
  expect((await world.prompt()).runId).toBe(newer.id)
})

test('[RUN5] a run that is not there cannot be verified', async () => {
  await expect(world.verify(runId.replace(/.{8}$/, 'zzzzzzzz'))).rejects.toMatchObject({
    code: 'not_found',
  })
})

describe('[RUN8] a run that waits for several things', () => {
  test('shows a reason that still holds, tells each change once, and goes on after the last', async () => {
    const ask = async (command: string) =>
      (await world.execute(runId, { ...operations.ask, command })).approvalId ?? ''
    const ids = [await ask('npm a'), await ask('npm b'), await ask('npm c')] as const
    const told = async () =>
      (await world.events('run.changed')).map(({ status, reason }) => [status, reason])
    const before = (await told()).length
    // The reason that is shown is that of the first: it does not change.
    await world.resolve(ids[1], 'rejected')
    const run = await world.run(runId)
    expect(run.status).toBe('needs-human')
    expect((await told()).slice(before)).toEqual([])
    await world.resolve(ids[0], 'rejected')
    await world.resolve(ids[2], 'rejected')
    expect((await told()).slice(before)).toEqual([
      ['needs-human', 'Approval needed: shell: run: npm c'],
      ['running', 'shell: run: npm c was rejected'],
    ])
    expect(await world.events('run.changed')).toContainEqual({
      ...{ runId, status: 'needs-human', reason: 'Approval needed: shell: run: npm c' },
    })
  })

  test('does not begin again because of something that it never waited for, or after its end', async () => {
    const { approvalId } = await world.execute(runId, operations.ask)
    const allowed = await world.execute(runId)
    // An attempt that nobody doubted ends: the run goes on waiting for the person.
    await world.result(world.attemptId(allowed))
    expect((await world.run(runId)).status).toBe('needs-human')
    await world.finish(runId, 'cancelled')
    expect(await world.run(runId)).toMatchObject({ status: 'cancelled', waitsFor: [] })
    expect((await world.approval(approvalId ?? '')).state).toBe('cancelled')
    expect((await changes()).at(-1)?.[0]).toBe('run.stopped')
  })
})

test('[OUT11] a timeline that is told anew comes whole and in its order', async () => {
  await world.execute(runId)
  await world.settle()
  const told = () =>
    [...world.ledger.rows.values()]
      .filter(({ kind }) => kind === 'run_event')
      .map(({ payload }) => JSON.parse(payload) as { runId: string; seq: number; hash: string })
  const first = told()
  expect(first.length).toBeGreaterThan(2)
  nameTimelines(world.sql, world.now)
  await world.pass(6000)
  const again = told().slice(first.length)
  expect(again.map(({ seq, hash }) => [seq, hash])).toEqual(
    first.map(({ seq, hash }) => [seq, hash]),
  )
  expect(new Set(again.map((entry) => entry.runId))).toEqual(new Set([runId]))
})

test('[OUT1] [RUN5] an entry is kept once and sent as it is kept, as are rows that earlier releases have left unsent', async () => {
  await world.execute(runId)
  await world.settle()
  const told = () => [...world.ledger.rows.values()].filter(({ kind }) => kind === 'run_event')
  const newest = told().at(-1)?.payload ?? ''
  const entry = JSON.parse(newest) as { seq: number; data: string; signature: string }
  const [kept] = world.rowsOf<{ data: string }>(`run_events where seq = ${entry.seq}`)
  expect(entry.data).toBe(kept?.data)
  expect(world.rowsOf<{ payload: string }>(`outbox where kind = 'run_event'`).at(-1)?.payload).toBe(
    JSON.stringify([runId, entry.seq]),
  )
  const { signature, ...unsigned } = entry
  world.sql.run(
    `insert into outbox (kind, payload, created_at) values ('run_event', ?, ?)`,
    JSON.stringify(unsigned),
    world.now,
  )
  await world.pass(6000)
  expect(told().at(-1)?.payload).toBe(newest)
  expect(signature).toMatch(/^v1\./)
})
