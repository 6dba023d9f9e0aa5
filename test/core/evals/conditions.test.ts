import { describe, expect, test } from 'vitest'
import { Target } from '../../../src/contract/eval-target.ts'
import type { PromotionKind } from '../../../src/contract/promotion.ts'
import {
  conditionSettings,
  differencesOfConditions,
  sessionMemorySetting,
  sessionModelSetting,
} from '../../../src/core/evals/compare/conditions.ts'

type Settings = Record<string, unknown>
const revision = (kind: PromotionKind, name: string, sha256 = 'a') => ({ kind, name, sha256 })
type Revision = ReturnType<typeof revision>

const of = (settings: Settings = {}, ...revisions: Revision[]) => ({ settings, revisions })
const reviewer = { kind: 'agent', name: 'reviewer' } as const

describe('what is compared', () => {
  test('[PROM8] every setting of a target but its name, its pace, its logs and the name of its judge', () => {
    const target = Target.parse({
      ...{ name: 'oc', provider: 'opencode', model: 'm', workers: 8, judgeTarget: 'j' },
      ...{ streamLogs: false, logDir: 'x', secrets: ['A'], systemPrompt: 'p' },
    })
    expect(conditionSettings(target)).toEqual({
      ...{ provider: 'opencode', model: 'm', systemPrompt: 'p', secrets: ['A'] },
      ...{ timeoutSeconds: 600, maxRetries: 0, permissions: 'reject' },
    })
  })

  const told = (name: string, values = '') => [`"${name}" is not as in the baseline${values}`]
  test.each<[string, Settings, Settings, string[]]>([
    ['equal', { model: 'a' }, { model: 'a' }, []],
    ['another', { model: 'a' }, { model: 'b' }, told('model', ' ("b" instead of "a")')],
    ['only here', {}, { sandbox: 'e2b' }, told('sandbox', ' ("e2b" instead of none)')],
    ['only there', { agent: 'x' }, {}, told('agent', ' (none instead of "x")')],
    ['keys in another order', { judge: { a: 1, b: 2 } }, { judge: { b: 2, a: 1 } }, []],
    ['what may be long or secret', { command: 'a' }, { command: 'b' }, told('command')],
    [
      'the model of sessions',
      { [sessionModelSetting]: 'a' },
      { [sessionModelSetting]: 'b' },
      told('model of its sessions', ' ("b" instead of "a")'),
    ],
    ['a model that was not told', {}, { [sessionModelSetting]: 'b' }, []],
    ['a model that is not told', { [sessionModelSetting]: 'b' }, {}, []],
    [
      'memory',
      { [sessionMemorySetting]: 'a' },
      { [sessionMemorySetting]: 'b' },
      told('memory of its sessions'),
    ],
    ['memory that was not told', {}, { [sessionMemorySetting]: 'b' }, []],
  ])('[PROM8] %s', (_, before, after, expected) => {
    const found = differencesOfConditions(of(before), of(after), null)
    expect(found).toEqual({ differences: expected, brought: [] })
  })
})

describe('what the promoted revision may change', () => {
  test.each<[string, PromotionKind, Settings, Settings]>([
    ['the agent that it is', 'agent', {}, { agent: 'n' }],
    ['the profile that it is', 'profile', {}, { profile: 'n' }],
    ['the ability that it is', 'ability', {}, { ability: 'n' }],
    ['the skill that it is', 'skill', {}, { skills: ['n'] }],
    ['the skill beside another', 'skill', { skills: ['a'] }, { skills: ['a', 'n'] }],
    ['the skill in a version', 'skill', { skills: ['n'] }, { skills: ['project:n@3'] }],
    [
      'the model of an agent',
      'agent',
      { [sessionModelSetting]: 'a' },
      { [sessionModelSetting]: 'b' },
    ],
    [
      'the model of a profile',
      'profile',
      { [sessionModelSetting]: 'a' },
      { [sessionModelSetting]: 'b' },
    ],
  ])('[PROM8] %s', (_, kind, before, after) => {
    const named = { kind, name: 'n' }
    expect(differencesOfConditions(of(before), of(after), named).differences).toEqual([])
    const other = { kind, name: 'other' }
    const isModel = sessionModelSetting in after
    expect(differencesOfConditions(of(before), of(after), other).differences).toHaveLength(
      isModel ? 0 : 1,
    )
  })

  test.each<[string, PromotionKind, Settings, Settings]>([
    ['an agent instead of another one', 'agent', { agent: 'x' }, { agent: 'n' }],
    [
      'the model by a skill',
      'skill',
      { [sessionModelSetting]: 'a' },
      { [sessionModelSetting]: 'b' },
    ],
    ['the model setting by an agent', 'agent', { model: 'a' }, { model: 'b' }],
    ['another skill beside it', 'skill', {}, { skills: ['n', 'm'] }],
    ['a policy without a name', 'policy', {}, { policy: 'text' }],
  ])('[PROM8] but not %s', (_, kind, before, after) => {
    const named = { kind, name: 'n' }
    expect(differencesOfConditions(of(before), of(after), named).differences).toHaveLength(1)
  })

  test('[PROM8] a policy is named by its text', () => {
    const house = { kind: 'policy', name: 'house' } as const
    const own = of({ policy: 'new' }, revision('policy', 'house', 'b'))
    const old = of({ policy: 'old' }, revision('policy', 'house', 'a'))
    const other = of({ policy: 'other' }, revision('policy', 'open', 'c'))
    expect(differencesOfConditions(of(), own, house)).toEqual({ differences: [], brought: [] })
    expect(differencesOfConditions(old, own, house)).toEqual({ differences: [], brought: [] })
    expect(differencesOfConditions(other, own, house).differences).toHaveLength(1)
    expect(differencesOfConditions(old, own, reviewer).differences).toHaveLength(1)
  })
})

describe('what sessions began with', () => {
  const own = revision('agent', 'reviewer', 'b')
  test('[PROM8] the promoted revision is passed over, another one must be the same', () => {
    const before = of({}, revision('agent', 'reviewer', 'a'), revision('skill', 's', 'a'))
    expect(
      differencesOfConditions(before, of({}, own, revision('skill', 's', 'a')), reviewer),
    ).toEqual({
      ...{ differences: [], brought: [] },
    })
    for (const changed of [
      [revision('skill', 's', 'b')],
      [revision('skill', 's', 'a'), revision('skill', 's', 'b')],
    ])
      expect(
        differencesOfConditions(before, of({}, own, ...changed), reviewer).differences,
      ).toEqual(['The skill "s" is another revision than in the baseline'])
    expect(
      differencesOfConditions(before, of({}, own, revision('skill', 's', 'a')), null).differences,
    ).toEqual(['The agent "reviewer" is another revision than in the baseline'])
  })

  test('[PROM8] what came along is told, and what is missing too unless an agent names it no more', () => {
    const skill = revision('skill', 's')
    expect(differencesOfConditions(of(), of({}, own, skill), reviewer)).toEqual({
      ...{ differences: [], brought: [skill] },
    })
    expect(differencesOfConditions(of({}, skill), of({}, own), reviewer).differences).toEqual([])
    expect(
      differencesOfConditions(of({}, skill), of(), { kind: 'skill', name: 'other' }).differences,
    ).toEqual(['It had no skill "s", and the baseline had it'])
  })
})
