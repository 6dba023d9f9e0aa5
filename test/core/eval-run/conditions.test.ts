import { expect, test } from 'vitest'
import { evalCaller, evalCase, EvalWorld } from '../../support/eval-world.ts'

const oc = { name: 'oc', provider: 'opencode', workers: 4 }
const judge = (name: string, more: object = {}) => ({
  ...{ name, provider: 'http', model: 'm' },
  ...more,
})

/** What a run says of its target after all its sessions have begun. */
async function conditions(
  cases: object[],
  targets: object[],
  { prepare = () => {}, asked = {} }: { prepare?: (world: EvalWorld) => void; asked?: object } = {},
) {
  const world = new EvalWorld()
  prepare(world)
  await world.create(cases, targets, { runTargets: ['oc'], ...asked })
  await world.live(100)
  return (await world.actor.api.runs.conditions(evalCaller, 'oc'))!
}

const judged = (...evaluators: object[]) => [evalCase('a', { execution: { evaluators } })]
const settings = async (...asked: Parameters<typeof conditions>) =>
  (await conditions(...asked)).settings

test('[PROM8] its target, the model and the memory of its sessions, and its revisions, each once', async () => {
  const agent = { kind: 'agent', name: 'x', sha256: 'a' } as const
  const skill = { kind: 'skill', name: 's', sha256: 'b' } as const
  const found = await conditions([evalCase('a'), evalCase('b')], [{ ...oc, model: 'm' }], {
    prepare: (world) => {
      world.tried = [skill, agent]
      world.memories = ['m1']
    },
  })
  expect(found).toEqual({
    settings: {
      ...{ provider: 'opencode', model: 'm', permissions: 'reject', secrets: [] },
      ...{ timeoutSeconds: 600, maxRetries: 0, 'model of its sessions': 'claude' },
      cases: expect.stringMatching(/^[0-9a-f]{64}$/),
      'memory of its sessions': expect.stringMatching(/^[0-9a-f]{64}$/),
    },
    revisions: [agent, skill],
  })
})

test('[PROM8] every model and memory that a session had is told', async () => {
  let made = 0
  const mixed = await settings([evalCase('a'), evalCase('b'), evalCase('c')], [oc], {
    prepare: (world) => {
      world.whenMade = () => {
        made += 1
        world.model = made === 2 ? 'a' : 'b'
        world.memories = made === 2 ? ['x'] : []
      }
    },
  })
  expect(mixed['model of its sessions']).toBe('a, b')
  const memory = 'memory of its sessions'
  const none = (await settings([evalCase('a')], [oc]))[memory]
  const some = { prepare: (world: EvalWorld) => void (world.memories = ['x']) }
  expect(
    new Set([mixed[memory], none, (await settings([evalCase('a')], [oc], some))[memory]]).size,
  ).toBe(3)
})

test('[PROM8] a part of the cases and more repetitions are other cases; their order is none', async () => {
  const cases = [evalCase('a'), evalCase('b')]
  const of = async (given: object[], asked: object = {}) =>
    (await settings(given, [oc], { asked })).cases
  const all = await of(cases)
  expect(await of(cases.toReversed())).toBe(all)
  expect(
    new Set([all, await of(cases, { cases: ['a'] }), await of(cases, { repetitions: 2 })]).size,
  ).toBe(3)
})

test('[PROM8] its judge, and those that evaluators name, also in a composite', async () => {
  const target = { ...oc, judge_target: 'one' }
  const cases = judged(
    { type: 'llm_judge' },
    { type: 'composite', evaluators: [{ type: 'rubric', rubrics: ['r'], target: 'two' }] },
    { name: 'n', type: 'llm_judge', target: 'three' },
    { name: 'c', type: 'contains', value: 'x' },
  )
  const targets = [
    target,
    judge('one'),
    judge('two', { system_prompt: 's' }),
    judge('three'),
    judge('four'),
  ]
  const found = await settings(cases, targets)
  const shared = { provider: 'http', model: 'm', timeoutSeconds: 600, maxRetries: 0 }
  expect(found).toMatchObject({
    ...{ judge: shared, 'judge "two"': { ...shared, systemPrompt: 's' }, 'judge "three"': shared },
  })
  expect(Object.keys(found).filter((key) => key.startsWith('judge'))).toHaveLength(3)
  expect(await settings(judged({ type: 'contains', value: 'x' }), [oc])).not.toHaveProperty('judge')
})

test('[PROM8] without a session nothing is told of one; a target that there is not has none', async () => {
  const world = new EvalWorld()
  await world.create([evalCase('a')], [{ name: 'r', provider: 'replay', responses: { a: 'x' } }])
  await world.live(100)
  const { runs } = world.actor.api
  expect((await runs.conditions(evalCaller, 'r'))?.settings).not.toHaveProperty(
    'model of its sessions',
  )
  expect(await runs.conditions(evalCaller, 'x')).toBeNull()
  const other = { ...evalCaller, organisationId: 'org_2' }
  await expect(runs.conditions(other, 'r')).rejects.toMatchObject({ code: 'not_found' })
})
