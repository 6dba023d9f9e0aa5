import { describe, expect, test } from 'vitest'
import { attemptsOn, type Item } from '../support/eval-attempts-kit.ts'
import { type HostSession, useHost } from '../support/host.ts'

const host = useHost()
const { begin, attempts, sessionOf, finish, result } = attemptsOn(host)

const view = (id: string) => host().ok('GET', `/v1/evals/runs/${id}`)
const budgetOf = async (session: HostSession) => host().ok('GET', `${session.at}/budget`)
const target = { model: 'claude-opus-4.6', workers: 2 }

describe('the time of a run', () => {
  test('[EVR8] when it is over, what works is aborted, nothing more begins, and what has a result keeps it', async () => {
    const run = await begin({ cases: [{}, {}, {}], target, run: { budget: { seconds: 60 } } })
    await finish(await sessionOf(run.id, 0))
    const working = await sessionOf(run.id, 1)
    expect(await view(run.id)).toMatchObject({ status: 'running', done: 1 })
    await host().live(60_000)
    const over = "The run's time is over"
    expect(await view(run.id)).toMatchObject({
      status: 'stopped',
      reason: over,
      done: 3,
      errors: 2,
    })
    const errors = (await attempts(run.id)).map((attempt: Item) => attempt['result']['error'])
    expect(errors).toEqual([undefined, over, over])
    expect((await working.view()).status).toBe('closed')
    expect(working.agent.commands('abort')).not.toEqual([])
  })

  test('[EVR8] a run that ends in time is not stopped by it', async () => {
    const run = await begin({ run: { budget: { seconds: 60 } } })
    await finish(await sessionOf(run.id))
    await host().live(120_000)
    expect(await view(run.id)).toMatchObject({ status: 'completed', reason: null, errors: 0 })
  })
})

describe('the money of a run', () => {
  test('[EVR8] is shared among those that may run at once; what one has left over goes to the next', async () => {
    const run = await begin({ cases: [{}, {}, {}, {}], target, run: { budget: { moneyUsd: 1 } } })
    const [first, second] = [await sessionOf(run.id, 0), await sessionOf(run.id, 1)]
    for (const session of [first, second])
      expect((await budgetOf(session)).limits).toMatchObject({ moneyUsd: 0.5 })
    first.agent.usedTokens(first.turnId, { input: 40_000 })
    await finish(first)
    const spent = (await view(run.id)).costUsd
    expect(spent).toBeGreaterThan(0.1)
    expect(spent).toBeLessThan(0.5)
    // The second may still use its half, so the third gets what the first has not used of its own.
    const third = await sessionOf(run.id, 2)
    expect((await budgetOf(third)).limits.moneyUsd).toBeCloseTo(0.5 - spent, 6)
    await finish(second)
    const fourth = await sessionOf(run.id, 3)
    expect((await budgetOf(fourth)).limits.moneyUsd).toBeCloseTo(0.5, 6)
    await finish(third)
    await finish(fourth)
    expect(await view(run.id)).toMatchObject({ status: 'completed', done: 4, errors: 0 })
  })

  test('[EVR8] one that has used up its share does not end those that still have theirs', async () => {
    const run = await begin({ cases: [{}, {}, {}], target, run: { budget: { moneyUsd: 0.4 } } })
    const [first, second] = [await sessionOf(run.id, 0), await sessionOf(run.id, 1)]
    first.agent.usedTokens(first.turnId, { input: 40_000 })
    await finish(first)
    expect(await view(run.id)).toMatchObject({
      status: 'running',
      done: 1,
      pending: 1,
      costUsd: 0.2,
    })
    await finish(second)
    expect(await result(run.id, 1)).toMatchObject({ score: 1 })
    const third = await sessionOf(run.id, 2)
    expect((await budgetOf(third)).limits.moneyUsd).toBeCloseTo(0.2, 6)
    await finish(third)
    expect(await view(run.id)).toMatchObject({ status: 'completed', errors: 0 })
  })

  test('[EVR8] an attempt that has used all of it leaves nothing to the next', async () => {
    const run = await begin({
      cases: [{}, {}],
      target: { ...target, workers: 1 },
      run: { budget: { moneyUsd: 0.1 }, workers: 1 },
    })
    const first = await sessionOf(run.id)
    expect((await budgetOf(first)).limits).toMatchObject({ moneyUsd: 0.1 })
    first.agent.usedTokens(first.turnId, { input: 400_000 })
    await finish(first)
    expect(await view(run.id)).toMatchObject({ status: 'stopped', done: 2 })
    expect(await result(run.id, 1)).toMatchObject({ error: "The run's budget is spent" })
    expect((await attempts(run.id))[1]).toMatchObject({ sessionId: null })
  })
})
