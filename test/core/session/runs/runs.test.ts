import { beforeEach, describe, expect, test } from 'vitest'
import { hasEnded } from '../../../../src/core/session/runs/transitions.ts'
import { other, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

let world: RunWorld
beforeEach(async () => {
  world = await new RunWorld().begin({ gate: { ask: ['bash'], askTimeoutSeconds: 60 } })
})
const refused = (code: string) => ({ code })
const strange = { ...testCaller, organisationId: `org_${'9'.repeat(20)}` }

describe('turns', () => {
  test('[RUN1] a prompt without a run makes one with its text as intent, which ends with its last turn', async () => {
    const one = await world.prompt('first')
    const two = await world.prompt('second')
    expect(two.runId).toBe(one.runId)
    expect(await world.run(one.runId ?? '')).toMatchObject({ intent: 'first', status: 'running' })
    await world.endTurn(one)
    expect(await world.run(one.runId ?? '')).toMatchObject({ status: 'running' })
    await world.endTurn(two)
    expect(await world.run(one.runId ?? '')).toMatchObject({
      status: 'completed',
      outcome: 'completed',
      completedAt: world.now,
    })
    expect((await world.prompt('third')).runId).not.toBe(one.runId)
  })

  test.each([
    ['completed', 'completed'],
    ['failed', 'failed'],
    ['interrupted', 'failed'],
    ['aborted', 'cancelled'],
  ])('[RUN1] a turn that is %s ends its own run as %s', async (state, status) => {
    const turn = await world.prompt()
    await world.endTurn(turn, state, 'why')
    expect(await world.run(turn.runId ?? '')).toMatchObject({ status, reason: 'why' })
  })

  test("[RUN1] the session's open run takes prompts and stays open after its turns", async () => {
    const run = await world.createRun('long work')
    expect(run).toMatchObject({ status: 'created', intent: 'long work', adapter: 'opencode' })
    const turn = await world.prompt()
    expect(turn.runId).toBe(run.id)
    await world.endTurn(turn, 'failed')
    expect(await world.run(run.id)).toMatchObject({ status: 'running', outcome: null })
    expect(await world.kinds(run.id)).toEqual([
      'run.created',
      'run.started',
      'turn.started',
      'turn.ended',
    ])
  })

  test('[RUN1] a prompt names its run, which must be open and of this session', async () => {
    const one = await world.createRun('one')
    await world.createRun('two')
    expect((await world.prompt('x', { runId: one.id })).runId).toBe(one.id)
    await world.finish(one.id, 'cancelled')
    await expect(world.prompt('x', { runId: one.id })).rejects.toMatchObject(refused('wrong_state'))
    const unknown = one.id.replace(/.{8}$/, 'zzzzzzzz')
    await expect(world.prompt('x', { runId: unknown })).rejects.toMatchObject(refused('not_found'))
  })

  test('[RUN1] a steered prompt that names another run does not enter the running turn', async () => {
    const one = await world.createRun('one')
    const two = await world.createRun('two')
    const turn = await world.prompt('x', { runId: one.id })
    const more = await world.prompt('y', { runId: two.id, steer: true })
    expect([more.id === turn.id, more.runId, more.state]).toEqual([false, two.id, 'queued'])
    expect((await world.prompt('z', { runId: one.id, steer: true })).id).toBe(turn.id)
  })
})

describe('ends', () => {
  test('[RUN3] [R1-23] an ended run stays as it is', async () => {
    const { id } = await world.createRun()
    const ended = await world.finish(id, 'failed', 'because')
    expect(ended).toMatchObject({ status: 'failed', outcome: 'failed', reason: 'because' })
    const acts = [
      () => world.finish(id, 'failed'),
      () => world.finish(id, 'completed'),
      () => world.actor.api.runs.change(testCaller, id, { status: 'running', reason: '' }),
      () => world.actor.api.runs.addEvent(testCaller, id, { kind: 'memory.read', data: {} }),
      () => world.actor.api.runs.addCheckpoint(testCaller, id, { label: 'l', state: 1 }),
      () => world.actor.api.runs.resume(testCaller, id, null),
      () => world.execute(id),
    ]
    for (const act of acts) await expect(act()).rejects.toMatchObject(refused('wrong_state'))
    expect(await world.run(id)).toEqual(ended)
  })

  test('[RUN3] [R1-24] the outcome is the status, and another one is refused', async () => {
    const { id } = await world.createRun()
    const finish = { status: 'completed', outcome: 'failed', reason: '' } as const
    await expect(world.actor.api.runs.finish(testCaller, id, finish)).rejects.toMatchObject({
      code: 'unprocessable',
      details: [{ path: 'outcome' }],
    })
    const right = { ...finish, outcome: 'completed' } as const
    expect(await world.actor.api.runs.finish(testCaller, id, right)).toMatchObject({
      outcome: 'completed',
    })
  })

  test('[RUN9] a run with a turn that runs or waits is not completed', async () => {
    const one = await world.createRun('one')
    const two = await world.createRun('two')
    const turn = await world.prompt('x', { runId: one.id })
    await world.prompt('y', { runId: two.id })
    for (const { id } of [one, two])
      await expect(world.finish(id)).rejects.toMatchObject(refused('wrong_state'))
    await world.endTurn(turn)
    expect(await world.finish(one.id)).toMatchObject({ status: 'completed' })
  })

  test('[RUN9] cancelling denies what is parked, then aborts the turn, and ends what is pending', async () => {
    const turn = await world.prompt()
    const runId = turn.runId ?? ''
    const ask = await world.ask()
    const operation = await world.execute(runId, {
      category: 'shell',
      operation: 'run',
      command: 'x',
    })
    await world.actor.api.runs.finish(other, runId, { status: 'cancelled', reason: 'stop it' })
    expect(await world.run(runId)).toMatchObject({
      status: 'cancelled',
      reason: 'stop it',
      waitsFor: [],
    })
    expect(world.answerTo(ask)).toBe('deny')
    const order = world.sent.map((sent) => (sent.t === 'command' ? sent.kind : sent.t))
    expect(order.indexOf('answer')).toBeLessThan(order.indexOf('abort'))
    expect(await world.approval(operation.approvalId ?? '')).toMatchObject({
      state: 'cancelled',
      resolution: { actor: other.keyId, owner: other.owner },
    })
    await world.endTurn(turn, 'aborted')
    expect(await world.run(runId)).toMatchObject({ status: 'cancelled', reason: 'stop it' })
  })

  test('[RUN9] the queued turns of a run end with it, and those of others stay', async () => {
    const one = await world.createRun('one')
    const two = await world.createRun('two')
    const running = await world.prompt('x', { runId: one.id })
    const [mine, theirs] = [
      await world.prompt('y', { runId: one.id }),
      await world.prompt('z', { runId: two.id }),
    ]
    await world.finish(one.id, 'failed')
    expect((await world.actor.api.turns.get(testCaller, mine.id)).state).toBe('aborted')
    expect((await world.actor.api.turns.get(testCaller, theirs.id)).state).toBe('queued')
    await world.endTurn(running, 'aborted')
    expect((await world.actor.api.turns.get(testCaller, theirs.id)).state).toBe('running')
    expect((await world.run(two.id)).status).toBe('running')
  })

  test('[RUN9] a run whose only turn still waits in the queue can be ended as anything', async () => {
    const early = new RunWorld()
    await early.create({ sandbox: 'local' })
    const turn = await early.prompt()
    expect(await early.finish(turn.runId ?? '', 'failed')).toMatchObject({ status: 'failed' })
    await early.pass(0)
    await early.meet()
    expect(early.commands()).toEqual([])
    expect((await early.actor.api.turns.get(testCaller, turn.id)).state).toBe('aborted')
  })

  test('[RUN9] a run that ends with its last turn leaves no approval behind', async () => {
    const turn = await world.prompt()
    const { approvalId } = await world.execute(turn.runId ?? '', {
      category: 'shell',
      operation: 'run',
      command: 'x',
    })
    await world.endTurn(turn)
    expect(await world.run(turn.runId ?? '')).toMatchObject({ status: 'completed', waitsFor: [] })
    expect(await world.approval(approvalId ?? '')).toMatchObject({ state: 'cancelled' })
    expect(world.deadlines()).not.toHaveProperty('approval')
  })

  test("[RUN9] a closed session's runs are cancelled, those of its turn as well", async () => {
    const explicit = await world.createRun()
    await world.prompt('x', { runId: explicit.id })
    const second = await new RunWorld().begin()
    const turn = await second.prompt()
    await world.actor.api.self.close(testCaller, 'enough')
    await second.actor.api.self.close(testCaller, 'enough')
    const reason = 'The session was closed'
    expect(await world.run(explicit.id)).toMatchObject({ status: 'cancelled', reason })
    expect(await second.run(turn.runId ?? '')).toMatchObject({ status: 'cancelled', reason })
  })
})

describe('doors', () => {
  test('[RUN12] a run of another organisation is not there', async () => {
    const { id } = await world.createRun()
    const acts = [
      () => world.actor.api.runs.get(strange, id),
      () => world.actor.api.runs.list(strange, { limit: 5, after: null }),
      () => world.actor.api.runs.events(strange, id, { limit: 5, after: null }),
      () => world.actor.api.runs.create(strange, { intent: 'x' }, null),
      () => world.actor.api.runs.change(strange, id, { status: 'running', reason: '' }),
      () => world.actor.api.runs.finish(strange, id, { status: 'failed', reason: '' }),
      () => world.actor.api.runs.addEvent(strange, id, { kind: 'memory.read', data: {} }),
      () => world.actor.api.runs.addCheckpoint(strange, id, { label: 'l', state: 1 }),
      () => world.actor.api.runs.resume(strange, id, null),
      () => world.actor.api.runs.verify(strange, id),
    ]
    for (const act of acts) await expect(act()).rejects.toMatchObject(refused('not_found'))
    expect(await world.kinds(id)).toEqual(['run.created'])
  })

  test('[RUN13] the same key gives the same run, also after its end and the close; another body is refused', async () => {
    const first = await world.createRun('x', 'k')
    expect((await world.createRun('x', 'k')).id).toBe(first.id)
    await expect(world.createRun('y', 'k')).rejects.toMatchObject(refused('key_conflict'))
    await world.finish(first.id)
    expect(await world.createRun('x', 'k')).toMatchObject({ id: first.id, status: 'completed' })
    world.restart()
    await world.actor.api.self.close(testCaller, 'x')
    expect((await world.createRun('x', 'k')).id).toBe(first.id)
    await expect(world.createRun('x', 'k2')).rejects.toMatchObject(refused('session_closed'))
    expect(
      (await world.actor.api.runs.list(testCaller, { limit: 9, after: null })).items,
    ).toHaveLength(1)
  })

  test('[RUN1] runs are listed newest first, in pages', async () => {
    const ids: string[] = []
    for (let n = 0; n < 5; n++) ids.unshift((await world.createRun(`${n}`)).id)
    const pages: string[][] = []
    for (let after: number | null = null; ;) {
      const { items, next } = await world.actor.api.runs.list(testCaller, { limit: 2, after })
      pages.push(items.map(({ id }) => id))
      if (next === null) break
      after = next
    }
    expect(pages).toEqual([ids.slice(0, 2), ids.slice(2, 4), ids.slice(4)])
  })
})

test('[RUN2] [R1-25] callers plan and start a run; what has begun is not planned any more', async () => {
  const { id } = await world.createRun()
  const change = (status: 'planned' | 'running', phase?: string) =>
    world.actor.api.runs.change(testCaller, id, {
      status,
      reason: 'r',
      ...(phase === undefined ? {} : { phase }),
    })
  expect(await change('planned')).toMatchObject({ status: 'planned', reason: 'r' })
  expect(await change('running', 'build')).toMatchObject({ status: 'running', phase: 'build' })
  await expect(change('planned', 'other')).rejects.toMatchObject(refused('wrong_state'))
  expect(await change('running', 'test')).toMatchObject({ phase: 'test' })
  await change('running', 'test')
  expect(await world.entries(id, 'phase.started')).toEqual([{ phase: 'build' }, { phase: 'test' }])
  expect(await world.entries(id, 'phase.stopped')).toEqual([{ phase: 'build' }])
  await world.settle()
  const [projected] = world.ledger.projected<{ id: string; phase: string }>('run', (run) => run.id)
  expect(projected?.phase).toBe('test')
})

test('[RUN3] whatever a run is doing, it can be ended by the API', async () => {
  const ways: ((id: string) => Promise<unknown>)[] = [
    async () => {},
    (id) => world.actor.api.runs.change(testCaller, id, { status: 'planned', reason: '' }),
    (id) => world.prompt('x', { runId: id }),
    (id) => world.execute(id, { category: 'shell', operation: 'run', command: 'x' }),
  ]
  for (const way of ways) {
    const { id } = await world.createRun()
    await way(id)
    expect(hasEnded((await world.run(id)).status)).toBe(false)
    expect(await world.finish(id, 'cancelled')).toMatchObject({ status: 'cancelled' })
    expect((await world.verify(id)).ok).toBe(true)
  }
})

test('[RUN15] a run whose turn runs can be ended in any other way, and the refusal says so', async () => {
  const world = await new RunWorld().begin()
  const { id } = await world.createRun()
  await world.prompt('go', { runId: id })
  const next = ['failed', 'blocked', 'cancelled']
  await expect(world.finish(id)).rejects.toMatchObject({
    code: 'wrong_state',
    message: expect.stringContaining(`is running; it may become ${next.join(', ')}`),
    details: next.map((status) => ({ path: 'status', message: `Allowed next: ${status}` })),
  })
})
