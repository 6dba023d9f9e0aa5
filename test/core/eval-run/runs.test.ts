import { describe, expect, test } from 'vitest'
import { evalCaller, evalCase, EvalWorld } from '../../support/eval-world.ts'

const oc = { name: 'oc', provider: 'opencode' }
const replay = { name: 'r', provider: 'replay', responses: { a: 'hello', b: 'hello' } }

async function ended(): Promise<EvalWorld> {
  const world = new EvalWorld()
  await world.create([evalCase('a'), evalCase('b')], [replay])
  await world.live(1000)
  return world
}

describe('a run that has ended', () => {
  test('[EVR3] tells nobody else anything', async () => {
    const { runs, erasing } = (await ended()).actor.api
    const stranger = { ...evalCaller, organisationId: `org_${'2'.repeat(20)}` }
    const page = { limit: 10, after: null }
    for (const ask of [
      () => runs.view(stranger),
      () => runs.attempts(stranger, page),
      () => runs.planned(stranger),
      () => runs.conditions(stranger, 'r'),
      () => runs.events(stranger, 0, 10, 0),
      () => runs.cancel(stranger, 'x'),
      () => erasing.erase(stranger),
    ])
      await expect((async () => ask())()).rejects.toMatchObject({ code: 'not_found' })
  })

  test('[EVR7] stays as it ended: it can be cancelled no more', async () => {
    const world = await ended()
    const before = await world.view()
    await world.actor.api.runs.cancel(evalCaller, 'Too late')
    await world.live(1000)
    expect(await world.view()).toEqual(before)
    expect(before).toMatchObject({ status: 'completed', reason: null })
    expect((await world.events('run.ended')).length).toBe(1)
  })

  test('[EVR1] says when each attempt ended; behind the last one nothing comes', async () => {
    const world = await ended()
    for (const { startedAt, endedAt } of await world.attempts())
      expect([typeof startedAt, typeof endedAt]).toEqual(['number', 'number'])
    const { runs } = world.actor.api
    const after = (n: number) => runs.attempts(evalCaller, { limit: 1, after: n })
    expect(await after(2)).toEqual({ items: [], next: null })
    expect((await after(0)).next).toBe(1)
    expect((await after(1)).next).toBe(null)
  })

  test('[EVR5] has what was asked for without any wait', async () => {
    const { runs } = (await ended()).actor.api
    expect((await runs.events(evalCaller, 0, 1, 60_000)).length).toBe(1)
  })
})

describe('an attempt', () => {
  test('[EVR5] that has begun is told at once to whoever waits', async () => {
    const world = new EvalWorld()
    await world.create([evalCase('a')], [oc])
    const first = world.actor.api.runs.events(evalCaller, 0, 10, 60_000)
    expect((await first).map(({ kind }) => kind)).toEqual(['run.started'])
  })

  test('[EVR12] whose session cannot be closed now is closed later, as are those after it', async () => {
    const world = new EvalWorld()
    await world.create([evalCase('a'), evalCase('b')], [{ ...oc, workers: 2 }])
    await world.live(100)
    let refusals = 2
    for (const session of world.sessions) {
      const { self } = session.api
      const close = self.close.bind(self)
      Object.assign(self, {
        close: async (...given: Parameters<typeof close>) => {
          if (world.sessions[1] === session && refusals-- > 0) throw new Error('Not now')
          return close(...given)
        },
      })
      session.answer('hello')
    }
    await world.live(120_000)
    expect(world.sessions.map(({ closed }) => closed.length)).toEqual([1, 1])
  })

  test.each(['failed', 'lost'])(
    '[EVR18] whose sandbox is %s before its turn begins says so',
    async (state) => {
      const world = new EvalWorld()
      await world.create([evalCase('a')], [oc])
      await world.live(100)
      world.sessions[0]!.sandbox = { state, reason: 'no room', provider: 'local' }
      await world.live(30_000)
      expect((await world.results())[0]).toMatchObject({
        error: expect.stringContaining('OpenCode could not be started: no room'),
      })
    },
  )

  test('[EVR29] whose judge is not among the targets says so', async () => {
    const world = new EvalWorld()
    const judged = { type: 'llm_judge', name: 'judged', target: 'nobody' }
    await world.create([evalCase('a', { execution: { evaluators: [judged] } })], [replay])
    await world.live(10_000)
    expect((await world.results())[0]).toMatchObject({
      misses: ['Evaluator "judged" failed: The judge "nobody" is no http target'],
    })
  })
})

test('[PROM8] what one target was run with is not another one’s', async () => {
  const world = new EvalWorld()
  const judge = (target: string) => ({
    execution: { target, evaluators: [{ type: 'llm_judge', target: `judge-${target}` }] },
  })
  const http = { provider: 'http', model: 'claude-opus-4.6' }
  await world.create(
    [evalCase('a', judge('r')), evalCase('b', judge('s'))],
    [
      replay,
      { ...replay, name: 's' },
      { ...http, name: 'judge-r' },
      { ...http, name: 'judge-s', temperature: 1 },
    ],
    { runTargets: ['r', 's'] },
  )
  const { runs } = world.actor.api
  const settings = async (name: string) => (await runs.conditions(evalCaller, name))!.settings
  const [r, s] = [await settings('r'), await settings('s')]
  expect([Object.keys(r).filter((key) => key.startsWith('judge'))]).toEqual([['judge "judge-r"']])
  expect([Object.keys(s).filter((key) => key.startsWith('judge'))]).toEqual([['judge "judge-s"']])
  expect(r['cases']).not.toBe(s['cases'])
})
