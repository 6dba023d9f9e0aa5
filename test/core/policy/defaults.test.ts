import { describe, expect, test } from 'vitest'
import {
  Category,
  Decision,
  type PermissionOverrides,
  type PermissionRequest,
  Risk,
} from '../../../src/contract/permission.ts'
import { evaluatePermission } from '../../../src/core/policy/evaluate.ts'
import { operationDefault } from '../../../src/core/policy/builtin-policy.ts'
import { policyOf, request, root } from './requests.ts'

// Written out, so that the test does not repeat the table of the code.
const expected: Record<Category, Decision> = {
  read: 'allow',
  edit: 'ask',
  shell: 'ask',
  git: 'ask',
  network: 'ask',
  memory: 'ask',
  'provider-tool': 'ask',
  secrets: 'deny',
  'external-directory': 'deny',
}
const plain = (category: Category): PermissionRequest =>
  request({
    category,
    ...(['read', 'edit'].includes(category) ? { paths: [`${root}/src/a.ts`] } : {}),
  })
const decide = (
  asked: PermissionRequest,
  agent?: PermissionOverrides,
  subagent?: PermissionOverrides,
) => evaluatePermission(asked, operationDefault, { overrides: { agent, subagent } })

describe('defaults', () => {
  test.each(Category.options)('[POL1] %s has its default, with a rule and a reason', (category) => {
    const decided = decide(plain(category))
    expect(decided.decision).toBe(expected[category])
    expect(decided.rule).toBe(
      category === 'external-directory' ? 'boundary' : `default:${category}`,
    )
    expect(decided.reason).not.toBe('')
    expect(decided.policy).toEqual({ name: 'operation-default', version: 1 })
  })

  test.each(Risk.options)('[POL2] a read with the risk "%s" asks', (risk) => {
    const decided = decide({ ...plain('read'), risks: [risk] })
    expect(decided.decision).toBe('ask')
    expect(decided.reason).toContain(risk)
  })

  test.each(['secrets', 'external-directory'] as const)(
    '[POL2] %s stays denied with a risk',
    (category) => {
      for (const risk of Risk.options)
        expect(decide({ ...plain(category), risks: [risk] }).decision).toBe('deny')
    },
  )
})

describe('the boundary', () => {
  const outside = [
    '/etc/passwd',
    '/home/user',
    '/home/user/workshop/x',
    '/',
    '/tmp',
    '/home/user/.local/share/opencode',
  ]
  test.each(outside)('[POL3] %s is outside', (path) => {
    const decided = decide(request({ category: 'read', paths: [path] }))
    expect(decided).toMatchObject({ decision: 'deny', rule: 'boundary' })
    expect(decided.reason).toContain(path)
  })

  const inside = [
    root,
    `${root}/a`,
    `${root}/..a/b`,
    '/tmp/.session_env.json',
    '/tmp/.session_env.json/x',
  ]
  test.each(inside)('[POL3] %s is inside', (path) => {
    expect(decide(request({ category: 'read', paths: [path] })).decision).toBe('allow')
  })

  test("[POL4] the session's own files are no secrets, whatever they are called", () => {
    const asked = request({ category: 'read', paths: ['/run/s/.env'], sessionPaths: ['/run/s'] })
    expect(decide(asked).decision).toBe('allow')
    expect(decide({ ...asked, paths: [`${root}/.env`] }).rule).toBe('default:secrets')
  })

  test('[POL3] one path outside is enough', () => {
    const paths = [`${root}/a`, '/etc/x', `${root}/b`]
    expect(decide(request({ category: 'read', paths })).rule).toBe('boundary')
  })

  test.each(Decision.options)('[POL3] no override of "%s" moves the boundary', (word) => {
    const all = Object.fromEntries(Category.options.map((category) => [category, word]))
    for (const category of Category.options) {
      const asked = request({ category, paths: ['/etc/x'] })
      expect(decide(asked, all, all).decision).toBe('deny')
      const policy = policyOf([], {
        overrides: { agents: { build: all }, subagents: { sub: all } },
      })
      expect(evaluatePermission({ ...asked, subagent: 'sub' }, policy).decision).toBe('deny')
    }
  })
})

describe('overrides', () => {
  const answer = (category: Category, word: Decision): Decision => {
    if (category === 'external-directory') return 'deny'
    if (category === 'secrets') return word === 'deny' ? 'deny' : 'ask'
    return word
  }
  const rows = Category.options.flatMap((category) =>
    Decision.options.map((word) => ({ category, word, result: answer(category, word) })),
  )

  test.each(rows)(
    '[POL5] $category overridden with $word is $result',
    ({ category, word, result }) => {
      const decided = decide(plain(category), { [category]: word })
      expect(decided.decision).toBe(result)
      if (decided.decision !== expected[category]) expect(decided.rule).toBe('override:build')
    },
  )

  test.each(rows)(
    '[POL5] the same in the document: $category, $word',
    ({ category, word, result }) => {
      const policy = policyOf([], { overrides: { agents: { build: { [category]: word } } } })
      expect(evaluatePermission(plain(category), policy).decision).toBe(result)
      expect(evaluatePermission({ ...plain(category), agent: 'other' }, policy).decision).toBe(
        expected[category],
      )
    },
  )

  test.each(Risk.options)('[POL2] an override does not allow what is %s', (risk) => {
    for (const category of Category.options) {
      const decided = decide({ ...plain(category), risks: [risk] }, { [category]: 'allow' })
      expect(decided.decision).not.toBe('allow')
    }
  })

  test('[POL5] an override does not undo a rule that asks or denies', () => {
    for (const decision of ['ask', 'deny'] as const) {
      const policy = policyOf([{ match: { category: ['shell', 'secrets'] }, decision }])
      for (const category of ['shell', 'secrets'] as const) {
        const overrides = { agent: { [category]: 'allow' as const } }
        expect(evaluatePermission(plain(category), policy, { overrides }).decision).toBe(decision)
      }
    }
  })

  test('[POL5] an override tightens a rule that allows', () => {
    const policy = policyOf([{ match: { category: 'shell' }, decision: 'allow' }])
    for (const word of ['ask', 'deny'] as const) {
      const decided = evaluatePermission(plain('shell'), policy, {
        overrides: { agent: { shell: word } },
      })
      expect(decided).toMatchObject({ decision: word, rule: 'override:build' })
    }
  })

  const strictness = { allow: 0, ask: 1, deny: 2 }
  const pairs = Decision.options.flatMap((agent) =>
    Decision.options.map((subagent) => ({ agent, subagent })),
  )
  test.each(pairs)(
    '[POL5] agent $agent, subagent $subagent: the stricter',
    ({ agent, subagent }) => {
      for (const category of Category.options) {
        const asked = { ...plain(category), subagent: 'helper' }
        const parent = decide(asked, { [category]: agent }).decision
        const child = decide(asked, { [category]: agent }, { [category]: subagent })
        expect(strictness[child.decision]).toBe(Math.max(strictness[parent], strictness[subagent]))
        if (child.decision !== parent) expect(child.rule).toBe('override:helper')
      }
    },
  )

  test('[POL5] names in overrides are only names', () => {
    const policy = policyOf([], { overrides: { agents: { constructor: {} } } })
    for (const agent of ['constructor', '__proto__', 'toString', 'hasOwnProperty'])
      expect(
        evaluatePermission({ ...plain('shell'), agent, subagent: agent }, policy).decision,
      ).toBe('ask')
  })
})
