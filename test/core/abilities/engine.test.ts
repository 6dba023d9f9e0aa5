import { describe, expect, test } from 'vitest'
import type { OnFailure } from '../../../src/contract/ability.ts'
import type { StepState } from '../../../src/contract/execution.ts'
import { type Ability, parseAbilityDefinition } from '../../../src/core/abilities/definition.ts'
import {
  engineAfterFailure,
  type ExecutionCause,
  type ExecutionState,
  type Failure,
  hasStepEnded,
  nextEngineAct,
  nextExecutionState,
  nextStepState,
  type StepCause,
  type StepStand,
} from '../../../src/core/abilities/engine.ts'
import { orderStepGraph } from '../../../src/core/abilities/graph.ts'
import { random as randomBy, seedsOf } from '../../support/random.ts'

const abilityOf = (yaml: string): Ability => {
  const parsed = parseAbilityDefinition(yaml, null)
  if ('errors' in parsed) throw new Error(JSON.stringify(parsed.errors))
  return parsed.ability
}

/** As rows have them: hooks before, steps in their order, hooks after. */
const standsOf = ({ steps, hooks }: Ability, states: Record<string, StepState> = {}) =>
  [
    ...hooks.before.map((_, at) => ({ id: `hooks.before.${at}`, part: 'before', type: 'script' })),
    ...(orderStepGraph(steps) ?? []).map(({ id, type }) => ({ id, part: 'step', type })),
    ...hooks.after.map((_, at) => ({ id: `hooks.after.${at}`, part: 'after', type: 'script' })),
  ].map(
    (one) =>
      ({
        ...one,
        ...{ state: states[one.id] ?? 'pending', stops: false, output: null, error: null },
      }) as StepStand,
  )

describe('[ABL30] every state of a step and every cause', () => {
  const states: StepState[] = ['pending', 'running', 'asking', 'completed', 'failed', 'skipped']
  const causes: StepCause[] = [
    ...(['start', 'skip', 'complete', 'retry', 'ask', 'continue', 'stop', 'end'] as const),
    ...(['answer.retry', 'answer.continue', 'answer.skip', 'answer.stop'] as const),
  ]
  const table: Record<string, StepState> = {
    ...{ 'pending start': 'running', 'pending skip': 'skipped' },
    ...{ 'running complete': 'completed', 'running retry': 'pending', 'running ask': 'asking' },
    ...{ 'running continue': 'failed', 'running stop': 'failed', 'running end': 'failed' },
    ...{ 'asking complete': 'completed', 'asking answer.retry': 'pending', 'asking end': 'failed' },
    ...{ 'asking answer.continue': 'failed', 'asking answer.skip': 'skipped' },
    'asking answer.stop': 'failed',
  }
  const pairs = states.flatMap((state) => causes.map((cause) => [state, cause] as const))
  test.each(pairs)('%s, %s', (state, cause) => {
    expect(nextStepState(state, cause)).toBe(table[`${state} ${cause}`] ?? null)
  })
})

describe('[ABL30] every state of an execution and every cause', () => {
  const states: ExecutionState[] = ['planned', 'running', 'completed', 'failed', 'cancelled']
  const causes: ExecutionCause[] = ['approve', 'complete', 'fail', 'cancel']
  const table: Record<string, ExecutionState> = {
    ...{ 'planned approve': 'running', 'planned fail': 'failed', 'planned cancel': 'cancelled' },
    ...{ 'running complete': 'completed', 'running fail': 'failed' },
    'running cancel': 'cancelled',
  }
  const pairs = states.flatMap((state) => causes.map((cause) => [state, cause] as const))
  test.each(pairs)('%s, %s', (state, cause) => {
    expect(nextExecutionState(state, cause)).toBe(table[`${state} ${cause}`] ?? null)
  })
})

describe('[ABL25][ABL26] what becomes of a step that has failed', () => {
  const rows: [Failure, OnFailure, number, string][] = [
    ...(['failed', 'timeout'] as const).flatMap(
      (failure): [Failure, OnFailure, number, string][] => [
        [failure, 'stop', 1, 'stop'],
        [failure, 'continue', 1, 'continue'],
        [failure, 'ask', 1, 'ask'],
        [failure, 'retry', 1, 'retry'],
        [failure, 'retry', 2, 'retry'],
        [failure, 'retry', 3, 'stop'],
      ],
    ),
    ['refused', 'stop', 1, 'stop'],
    ['refused', 'continue', 1, 'continue'],
    ['refused', 'ask', 1, 'ask'],
    ['refused', 'retry', 1, 'stop'],
    ['unknown', 'stop', 1, 'ask'],
    ['unknown', 'continue', 1, 'continue'],
    ['unknown', 'ask', 1, 'ask'],
    ['unknown', 'retry', 1, 'ask'],
    ['silent', 'stop', 1, 'ask'],
    ['silent', 'continue', 1, 'ask'],
    ['silent', 'ask', 1, 'ask'],
    ['silent', 'retry', 1, 'ask'],
  ]
  test.each(rows)('%s with %s at try %i: %s', (failure, onFailure, tries, expected) => {
    expect(engineAfterFailure(failure, { onFailure, maxRetries: 2, tries })).toBe(expected)
  })

  test('a step that is to be tried again is so at least once', () => {
    const retry = { onFailure: 'retry', maxRetries: 0 } as const
    expect(engineAfterFailure('failed', { ...retry, tries: 1 })).toBe('retry')
    expect(engineAfterFailure('failed', { ...retry, tries: 2 })).toBe('stop')
  })
})

describe('what comes next', () => {
  const three = abilityOf(
    '{ name: a, description: d, steps: [{ id: c, run: x, needs: [b] }, { id: b, run: x, needs: [a] }, { id: a, run: x }] }',
  )
  test('[ABL16] one after the other, in the order of their needs', () => {
    expect(nextEngineAct(three, standsOf(three), {})).toEqual({ do: 'start', id: 'a' })
    expect(nextEngineAct(three, standsOf(three, { a: 'running' }), {})).toBeNull()
    expect(nextEngineAct(three, standsOf(three, { a: 'asking' }), {})).toBeNull()
    for (const state of ['completed', 'failed', 'skipped'] as const)
      expect(nextEngineAct(three, standsOf(three, { a: state }), {})).toEqual({
        do: 'start',
        id: 'b',
      })
  })

  test('[ABL31] with parallel: scripts and approvals begin together, what uses the conversation one at a time', () => {
    const many = abilityOf(
      '{ name: a, description: d, settings: { parallel: true }, steps: [{ id: g1, agent: x, prompt: p }, { id: g2, agent: x, prompt: p }, { id: w, workflow: x }, { id: s, run: x }, { id: q, type: approval, prompt: p }, { id: after, run: x, needs: [s] }] }',
    )
    const states: Record<string, StepState> = {}
    const begun: string[] = []
    for (let act = nextEngineAct(many, standsOf(many), {}); act?.do === 'start';) {
      begun.push(act.id)
      states[act.id] = 'running'
      act = nextEngineAct(many, standsOf(many, states), {})
    }
    expect(begun).toEqual(['g1', 's', 'q'])
    const later = { ...states, g1: 'completed', s: 'failed' } as const
    expect(nextEngineAct(many, standsOf(many, later), {})).toEqual({ do: 'start', id: 'g2' })
    expect(nextEngineAct(many, standsOf(many, { ...later, g2: 'running' }), {})).toEqual({
      ...{ do: 'start', id: 'after' },
    })
  })

  test('[ABL31] at most eight at once', () => {
    const steps = Array.from({ length: 12 }, (_, at) => `{ id: s${at}, run: x }`).join(', ')
    const many = abilityOf(
      `{ name: a, description: d, settings: { parallel: true }, steps: [${steps}] }`,
    )
    const running = Object.fromEntries(
      Array.from({ length: 8 }, (_, at) => [`s${at}`, 'running']),
    ) as Record<string, StepState>
    expect(nextEngineAct(many, standsOf(many, running), {})).toBeNull()
    expect(nextEngineAct(many, standsOf(many, { ...running, s0: 'completed' }), {})).toEqual({
      ...{ do: 'start', id: 's8' },
    })
  })
})

/** Plays an ability with outcomes that are drawn, and looks at every moment at what must hold. */
function play(seed: number): string[] {
  const random = randomBy(seed)
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T
  const count = 1 + Math.floor(random() * 8)
  const types = ['run: x', 'agent: x, prompt: p', 'type: approval, prompt: p', 'workflow: x']
  const steps = Array.from({ length: count }, (_, at) => {
    const needs = Array.from({ length: at }, (__, one) => `s${one}`).filter(() => random() < 0.3)
    const when = random() < 0.2 ? ', when: inputs.yes' : ''
    const policy = pick(['stop', 'continue', 'retry', 'ask'] as const)
    return `{ id: s${at}, ${pick(types)}, needs: [${needs.join(', ')}], on_failure: ${policy}${when} }`
  })
  const ability = abilityOf(
    `{ name: a, description: d, inputs: { yes: { type: boolean } }, settings: { parallel: ${random() < 0.5} }, hooks: { before: [x], after: [x] }, steps: [${steps.join(', ')}] }`,
  )
  const stands = standsOf(ability)
  const tries = new Map<string, number>()
  const told: string[] = []
  let state: ExecutionState = 'running'
  for (let round = 0; round < 500 && state === 'running'; round += 1) {
    if (random() < 0.01) {
      state = nextExecutionState(state, 'cancel') ?? state
      told.push('end cancelled')
      break
    }
    const act = nextEngineAct(ability, stands, { yes: random() < 0.5 })
    if (act?.do === 'end') {
      expect(stands.every(({ state: one, stops }) => !stops || one === 'failed')).toBe(true)
      if (act.status === 'completed')
        expect(stands.filter(({ state: one }) => !hasStepEnded(one))).toEqual([])
      state = nextExecutionState(state, act.status === 'completed' ? 'complete' : 'fail') ?? state
      told.push(`end ${act.status}`)
      break
    }
    if (act !== null) {
      const stand = stands.find(({ id }) => id === act.id)!
      const needs = ability.steps.find(({ id }) => id === act.id)?.needs ?? []
      // Nothing begins before all that it needs has ended, and nothing that has begun begins again.
      expect(stand.state).toBe('pending')
      for (const need of needs)
        expect(hasStepEnded(stands.find(({ id }) => id === need)!.state)).toBe(true)
      stand.state = nextStepState(stand.state, act.do)!
      if (act.do === 'start') tries.set(act.id, (tries.get(act.id) ?? 0) + 1)
      told.push(`${act.do} ${act.id}`)
      continue
    }
    const moving = stands.filter(({ state: one }) => one === 'running' || one === 'asking')
    // It stands only for something that will come.
    expect(moving.length).toBeGreaterThan(0)
    const stand = pick(moving)
    const onFailure = ability.steps.find(({ id }) => id === stand.id)?.on_failure ?? 'continue'
    const cause: StepCause =
      stand.state === 'asking'
        ? pick(['answer.retry', 'answer.continue', 'answer.skip', 'answer.stop'] as const)
        : random() < 0.6
          ? 'complete'
          : engineAfterFailure(pick(['failed', 'timeout', 'refused', 'unknown'] as const), {
              ...{ onFailure, maxRetries: 1, tries: tries.get(stand.id) ?? 1 },
            })
    stand.state = nextStepState(stand.state, cause)!
    stand.stops ||= cause === 'stop' || cause === 'answer.stop'
    told.push(`${cause} ${stand.id}`)
  }
  // Whatever comes late changes nothing any more.
  expect(state).not.toBe('running')
  for (const cause of ['approve', 'complete', 'fail', 'cancel'] as const)
    expect(nextExecutionState(state, cause)).toBeNull()
  return told
}

test('[ABL30] random sequences: no step before its needs, none twice, a cancel is final, exactly one end', () => {
  for (const seed of seedsOf(300, 5000)) {
    const ends = play(seed).filter((one) => one.startsWith('end'))
    expect([seed, ends.length]).toEqual([seed, 1])
  }
})
