import { describe, expect, it } from 'vitest'
import { agentRefusesAbility } from '../../../src/core/abilities/agents.ts'
import {
  matchesTriggerPattern,
  triggerPatternBudget,
} from '../../../src/core/abilities/patterns.ts'

const triggers = (keywords: string[], patterns: string[] = []) => ({
  triggers: { keywords, patterns },
})

describe('triggers', () => {
  it.each<[string, ReturnType<typeof triggers>, string, boolean]>([
    ['a keyword', triggers(['deploy']), 'please deploy it', true],
    ['in any case', triggers(['Ship It']), 'SHIP IT now', true],
    ['as a part of a word', triggers(['deploy']), 'redeployed', true],
    ['not another word', triggers(['deploy']), 'employ', false],
    ['a pattern', triggers([], ['deploy.*to.*prod']), 'deploy v2 to production', true],
    ['a pattern in any case', triggers([], ['^deploy']), 'DEPLOY', true],
    ['not another text', triggers([], ['^deploy']), 'please deploy', false],
    ['a pattern that cannot be read matches nothing', triggers([], ['(']), '(', false],
    ['none', triggers([], []), '', false],
    ['what comes late in a long text', triggers(['deploy']), `${' '.repeat(20_000)}deploy`, false],
  ])('[ABX3] %s', (_, ability, text, expected) => {
    expect(matchesTriggerPattern(ability, text)).toBe(expected)
  })

  it('[ABX3] an ability without triggers is never proposed', () => {
    expect(matchesTriggerPattern({}, 'deploy')).toBe(false)
  })

  it('[ABX3] a pattern made for backtracking takes no time', () => {
    const before = process.threadCpuUsage()
    expect(matchesTriggerPattern(triggers([], ['(a+)+$']), `${'a'.repeat(16_000)}b`)).toBe(false)
    expect(process.threadCpuUsage(before).user / 1000).toBeLessThan(2000)
  })
})

it('[ABX3] what the patterns of all abilities cost one message is bounded', () => {
  const heavy = triggers([], ['(a|b|c){1000}'])
  const plain = triggers([], ['a$'])
  const long = 'a'.repeat(16_000)
  expect(matchesTriggerPattern(heavy, 'a'.repeat(2000))).toBe(true)
  expect(matchesTriggerPattern(heavy, long)).toBe(false)
  const budget = triggerPatternBudget()
  const tried = Array.from({ length: 50 }, () =>
    matchesTriggerPattern(heavy, 'a'.repeat(2000), budget),
  )
  expect(tried.filter(Boolean).length).toBeLessThan(3)
  expect(matchesTriggerPattern(plain, long, budget)).toBe(true)
})

describe('who may run an ability', () => {
  const runner = (agent: string | null, abilities: string[] | null = null) => ({ agent, abilities })
  const named = { name: 'deploy' }
  it.each([
    ['anybody', named, runner(null), true],
    ['an agent without a list', named, runner('ada'), true],
    ['an agent that has it', named, runner('ada', ['deploy']), true],
    ['not an agent with others', named, runner('ada', ['test']), false],
    ['not an agent with none', named, runner('ada', []), false],
    ['the one that it is for', { ...named, exclusive_agent: 'ada' }, runner('ada'), true],
    ['not another one', { ...named, exclusive_agent: 'ada' }, runner('bob', ['deploy']), false],
    ['not OpenCode as it is', { ...named, exclusive_agent: 'ada' }, runner(null), false],
    ['a compatible one', { ...named, compatible_agents: ['ada', 'default'] }, runner('ada'), true],
    ['as default', { ...named, compatible_agents: ['ada', 'default'] }, runner(null), true],
    ['not an incompatible one', { ...named, compatible_agents: ['ada'] }, runner('bob'), false],
    [
      'exclusive first',
      { ...named, exclusive_agent: 'ada', compatible_agents: ['bob'] },
      runner('bob'),
      false,
    ],
    ['compatible before lists', { ...named, compatible_agents: ['ada'] }, runner('ada', []), true],
  ])('[ABX4] %s', (_, ability, who, may) => {
    const refusal = agentRefusesAbility(ability, who)
    expect(refusal === null).toBe(may)
    if (refusal !== null) expect(refusal).toContain('"deploy"')
  })
})
