import { describe, expect, test } from 'vitest'
import { AgentResolve } from '../../../../src/contract/agent-resolve.ts'
import { type Candidate, resolveAgents } from '../../../../src/core/registry/agents/resolve.ts'
import { random as randomOf, seedsOf } from '../../../support/random.ts'

type Definition = NonNullable<Candidate['definition']>
const definition: Definition = {
  ...{ description: '', capabilities: [], workflows: [], skills: [], parent: null, adapters: [] },
}

let made = 0
function agent(
  name: string,
  own: Partial<Definition> = {},
  more: Partial<Candidate> = {},
): Candidate {
  made += 1
  return {
    ...{ id: `agt_${String(made).padStart(20, '0')}` as Candidate['id'], name, project: 'default' },
    ...{ scope: 'project', mode: 'agent', revision: 1, definition: { ...definition, ...own } },
    ...more,
  }
}

const ask = (input: object = {}) => AgentResolve.parse(input)
const ranked = (candidates: Candidate[], input: object = {}) =>
  resolveAgents(candidates, ask(input)).candidates.map(
    ({ agent: { name }, score }) => `${name} ${score}`,
  )
const skipped = (candidates: Candidate[], input: object = {}) =>
  resolveAgents(candidates, ask(input)).skipped.map(
    ({ agent: { name }, reasons }) => `${name} ${reasons.map(({ signal }) => signal).join('+')}`,
  )

describe('[AGT7] the score', () => {
  test.each<[string, Partial<Definition>, object, number | 'skipped']>([
    ['one capability of two', { capabilities: ['a', 'b'] }, { capabilities: ['a', 'c'] }, 10],
    ['both', { capabilities: ['a', 'b'] }, { capabilities: ['a', 'b'] }, 20],
    ['none of those asked for', { capabilities: ['a'] }, { capabilities: ['c'] }, 'skipped'],
    ['no capability at all', {}, { capabilities: ['c'] }, 'skipped'],
    ['a skill', { skills: [{ name: 's', version: null }] }, { skills: ['s', 't'] }, 4],
    ['a skill that it lacks', {}, { skills: ['s'] }, 0],
    ['its provider', { adapters: ['claude', 'opencode'] }, { adapter: 'opencode' }, 5],
    ['every provider', {}, { adapter: 'opencode' }, 0],
    ['another provider', { adapters: ['claude'] }, { adapter: 'opencode' }, 'skipped'],
    ['no provider asked for', { adapters: ['claude'] }, {}, 0],
    ['nothing asked for', { capabilities: ['a'], workflows: ['sdd'] }, {}, 0],
    ['the mode', {}, { mode: 'agent' }, 1],
  ])('%s', (_, own, input, expected) => {
    const { candidates } = resolveAgents([agent('x', own)], ask(input))
    expect(candidates[0]?.score ?? 'skipped').toBe(expected)
  })

  test.each<[string[], object, number | 'skipped']>([
    [['sdd:apply'], { workflow: 'sdd', phase: 'apply' }, 8],
    [['apply'], { workflow: 'sdd', phase: 'apply' }, 6],
    [['sdd'], { workflow: 'sdd', phase: 'apply' }, 4],
    [['sdd', 'sdd:apply', 'apply'], { workflow: 'sdd', phase: 'apply' }, 8],
    [['sdd:apply'], { workflow: 'sdd:apply' }, 8],
    [['apply'], { workflow: 'sdd:apply' }, 6],
    [['sdd'], { workflow: 'sdd:apply' }, 4],
    [['sdd:apply'], { workflow: 'sdd' }, 3],
    [['sdd:apply'], { phase: 'apply' }, 5],
    [['sdd:apply'], { workflow: 'apply' }, 5],
    [['apply'], { workflow: 'apply' }, 4],
    [['sdd:apply'], { workflow: 'sdd', phase: 'apply-progress' }, 8],
    [['sdd:apply-progress'], { workflow: 'sdd', phase: 'apply' }, 8],
    [['sdd:verify'], { workflow: 'sdd', phase: 'apply' }, 'skipped'],
    [['other:apply'], { workflow: 'sdd', phase: 'apply' }, 'skipped'],
    [['sdd'], { phase: 'apply' }, 'skipped'],
    [['release'], { workflow: 'sdd' }, 'skipped'],
    [[], { workflow: 'sdd', phase: 'apply' }, 0],
  ])('[AGT8] workflows %j, asked for %j: %s', (workflows, input, expected) => {
    const { candidates } = resolveAgents([agent('x', { workflows })], ask(input))
    expect(candidates[0]?.score ?? 'skipped').toBe(expected)
  })

  test('words of the task count by where they are found, once each, and up to a bound', () => {
    const own = {
      ...{ description: 'Implements payments and payments again', capabilities: ['typescript'] },
      skills: [{ name: 'stripe-api', version: null }],
    }
    const one = [agent('payment-builder', own)]
    const score = (task: string) => resolveAgents(one, ask({ task })).candidates[0]?.score
    expect(score('Payments, PAYMENTS')).toBe(1)
    expect(score('the builder')).toBe(3)
    expect(score('TypeScript stripe')).toBe(4)
    expect(score('to do it in an hour')).toBe(0)
    expect(score('payment builder typescript stripe api payments implements again')).toBe(15)
    expect(resolveAgents(one, ask({ task: 'stripe builder' })).candidates[0]?.reasons).toEqual([
      { signal: 'text', points: 5, message: 'The task says builder, stripe' },
    ])
  })

  test('short words count where somebody has chosen them, and not in prose', () => {
    const own = { description: 'Works with the API of css', workflows: ['sdd'] }
    const score = (task: string) =>
      resolveAgents([agent('go', own)], ask({ task })).candidates[0]?.score
    expect([score('sdd'), score('the css with API'), score('works'), score('go')]).toEqual([
      ...[2, 0, 1, 0],
    ])
  })

  test('words of every language count', () => {
    const one = [agent('x', { description: 'Prüft Verträge und перевод' })]
    expect(ranked(one, { task: 'VERTRÄGE перевод' })).toEqual(['x 2'])
  })

  test('every point has a reason', () => {
    const own = {
      ...{ capabilities: ['code'], workflows: ['sdd'], adapters: ['opencode'], parent: 'boss' },
      skills: [{ name: 'lint', version: null }],
    }
    const asked = {
      ...{ capabilities: ['code'], workflow: 'sdd', adapter: 'opencode', skills: ['lint'] },
      ...{ mode: 'subagent', parent: 'boss', task: 'lint it' },
    }
    const { candidates } = resolveAgents([agent('x', own, { mode: 'subagent' })], ask(asked))
    expect(candidates[0]?.reasons.map(({ signal, points }) => `${signal} ${points}`)).toEqual([
      ...['capability 10', 'workflow 4', 'adapter 5', 'skill 4', 'text 2', 'mode 1', 'parent 5'],
    ])
    expect(candidates[0]?.score).toBe(31)
  })

  test('only subagents of the parent that is asked for are preferred', () => {
    const of = (name: string, parent: string) => agent(name, { parent }, { mode: 'subagent' })
    expect(ranked([of('a', 'other'), of('b', 'boss')], { parent: 'boss' })).toEqual(['b 5', 'a 0'])
  })
})

test('[AGT9] who does not fit is skipped with every reason that holds', () => {
  const all = [
    agent('fits', { capabilities: ['code'] }),
    agent('elsewhere', {}, { project: 'other', definition: null }),
    agent('own', { capabilities: ['code'] }, { scope: 'personal' }),
    agent('sub', { capabilities: ['code'], parent: 'fits' }, { mode: 'subagent' }),
    agent('claude', { capabilities: ['code'], adapters: ['claude'] }),
    agent('verify', { capabilities: ['code'], workflows: ['sdd:verify'] }),
    agent('idle', { capabilities: ['talk'], adapters: ['claude'] }),
  ]
  const asked = {
    ...{
      capabilities: ['code'],
      adapter: 'opencode',
      workflow: 'sdd',
      phase: 'apply',
      mode: 'agent',
    },
  }
  expect(ranked(all, asked)).toEqual(['fits 11'])
  expect(skipped(all, asked)).toEqual([
    ...['claude adapter', 'elsewhere project', 'idle adapter+capability', 'own scope'],
    ...['verify workflow', 'sub mode'],
  ])
})

test('[AGT10] ties: more points, then agents, then the name, then the id', () => {
  const sub = { mode: 'subagent' as const }
  const all = [
    agent('b', { parent: 'x' }, sub),
    agent('a', { parent: 'x' }, sub),
    agent('z', {}),
    agent('B-upper'.toLowerCase(), {}),
    agent('y', { capabilities: ['code'] }, sub),
    agent('z', {}, { id: `agt_${'0'.repeat(20)}` as Candidate['id'] }),
  ]
  const order = resolveAgents(all, ask({ task: 'code' })).candidates
  expect(order.map(({ agent: { name } }) => name)).toEqual(['y', 'b-upper', 'z', 'z', 'a', 'b'])
  expect(order[2]?.agent.id).toBe(`agt_${'0'.repeat(20)}`)
})

describe('[AGT11] random registries', () => {
  const words = ['sdd', 'apply', 'code', 'review', 'plan', 'test']
  const forms = [...words, 'sdd:apply', 'sdd:plan', 'code:test']

  test.each(seedsOf(20, 500))('seed %i: total, and the same in any order', (seed) => {
    const random = randomOf(seed)
    const some = <T>(list: readonly T[]): T[] => list.filter(() => random() < 0.3)
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T
    const all = Array.from({ length: 1 + Math.floor(random() * 30) }, () =>
      agent(
        `${pick(words)}-${pick(words)}`,
        {
          ...{
            capabilities: some(words),
            workflows: some(forms),
            adapters: some(['opencode', 'claude']),
          },
          ...{
            skills: some(words).map((name) => ({ name, version: null })),
            parent: pick([null, 'plan']),
          },
          description: some(words).join(' '),
        },
        {
          ...{
            mode: pick(['agent', 'subagent'] as const),
            scope: pick(['project', 'personal'] as const),
          },
          project: pick(['default', 'default', 'other']),
        },
      ),
    )
    const asked = ask({
      ...{ capabilities: some(words), skills: some(words), task: some(words).join(' ') },
      ...(random() < 0.5 && { workflow: pick(forms) }),
      ...(random() < 0.3 && { phase: pick(words) }),
      ...(random() < 0.5 && { adapter: 'opencode' }),
      ...(random() < 0.3 && { mode: pick(['agent', 'subagent']) }),
    })
    const answer = resolveAgents(all, asked)
    const seen = [...answer.candidates, ...answer.skipped].map(({ agent: { id } }) => id)
    expect(seen.toSorted()).toEqual(all.map(({ id }) => id).toSorted())
    expect(answer.skipped.every(({ reasons }) => reasons.length > 0)).toBe(true)
    for (const { score, reasons } of answer.candidates)
      expect(score).toBe(reasons.reduce((sum, { points }) => sum + points, 0))
    const shuffled = all
      .map((one) => ({ one, at: random() }))
      .toSorted((a, b) => a.at - b.at)
      .map(({ one }) => one)
    expect(resolveAgents(shuffled, asked)).toEqual(answer)
  })
})
