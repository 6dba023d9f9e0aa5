import { describe, expect, test } from 'vitest'
import { GateRules } from '../../../src/contract/session.ts'
import { ruleApprovalTerms } from '../../../src/core/policy/rules.ts'
import { evaluatePermission, withGateRules } from '../../../src/core/policy/evaluate.ts'
import { type Recorded, replayDecisions } from '../../../src/core/policy/replay.ts'
import { sandboxDefault } from '../../../src/core/policy/builtin-policy.ts'
import { policyOf, toolRequest } from './requests.ts'

const asked: [string, unknown][] = [
  ['read', { filePath: 'a' }],
  ['read', { filePath: '/etc/x' }],
  ['write', { filePath: 'docs/a', content: '' }],
  ['write', { filePath: 'src/a', content: '' }],
  ['bash', { command: 'npm test' }],
  ['bash', { command: 'rm -rf x && npm test' }],
  ['bash', { command: 'printenv' }],
  ['webfetch', { url: 'https://a.com' }],
  ['verify', {}],
]
const gate = GateRules.parse({ deny: ['write'], ask: ['read'] })

const history = (policy = sandboxDefault, change: Partial<Recorded> = {}): Recorded[] =>
  asked.map(([tool, input], seq) => {
    const request = toolRequest(tool, input)
    const used = change.gate ? withGateRules(policy, change.gate) : policy
    const decision = evaluatePermission(request, used, { overrides: change.overrides })
    return { runId: 'run_1', seq, request, decision, ...change }
  })

describe('replay', () => {
  test('[POL25] a policy over its own history: no difference', () => {
    const strict = policyOf([{ match: { category: 'shell' }, decision: 'deny' }])
    for (const policy of [sandboxDefault, strict]) {
      for (const change of [
        {},
        { gate },
        {
          overrides: {
            agent: { network: 'allow' as const, edit: 'deny' as const },
            subagent: null,
          },
        },
      ]) {
        const recorded = JSON.parse(JSON.stringify(history(policy, change))) as Recorded[]
        expect(replayDecisions(recorded, policy)).toEqual({
          total: asked.length,
          same: asked.length,
          changed: {},
          rows: [],
        })
      }
    }
  })

  test('[POL25] one rule more changes exactly the rows that it is about', () => {
    const rule = {
      id: 'no-docs',
      match: { category: 'edit' as const, path: 'docs/**' },
      decision: 'deny' as const,
    }
    const replay = replayDecisions(history(), {
      ...sandboxDefault,
      rules: [...sandboxDefault.rules, rule],
    })
    expect(replay).toMatchObject({ total: 9, same: 8, changed: { 'allow->deny': 1 } })
    expect(replay.rows).toHaveLength(1)
    expect(replay.rows[0]).toMatchObject({
      runId: 'run_1',
      seq: 2,
      before: { decision: 'allow' },
      after: { decision: 'deny', rule: 'sandbox-default@2#no-docs' },
    })
  })

  test('[POL25] changes are counted by kind', () => {
    const replay = replayDecisions(history(), policyOf([]))
    expect(replay.changed).toEqual({ 'allow->ask': 4 })
    expect(replay.same + replay.rows.length).toBe(replay.total)
  })

  test('[POL25] what a remembered approval allowed was an ask of the policy', () => {
    const recorded = history().map((row) =>
      row.decision.decision === 'ask'
        ? { ...row, decision: { ...row.decision, decision: 'allow' as const, rule: 'grant:apr_1' } }
        : row,
    )
    expect(replayDecisions(recorded, sandboxDefault).rows).toEqual([])
  })
})

describe("the session's gate lists", () => {
  const decide = (tool: string, input: unknown, policy = sandboxDefault) =>
    evaluatePermission(toolRequest(tool, input), withGateRules(policy, gate))

  test('[POL22] they tighten', () => {
    expect(decide('write', { filePath: 'a' })).toMatchObject({
      decision: 'deny',
      rule: 'gate:deny',
    })
    expect(decide('read', { filePath: 'a' })).toMatchObject({ decision: 'ask', rule: 'gate:ask' })
    expect(decide('edit', { filePath: 'a' }).decision).toBe('allow')
  })

  test('[POL22] they never loosen', () => {
    expect(decide('read', { filePath: '/etc/x' })).toMatchObject({
      decision: 'deny',
      rule: 'boundary',
    })
    const closed = policyOf([{ match: {}, decision: 'deny' }])
    expect(decide('read', { filePath: 'a' }, closed)).toMatchObject({
      decision: 'deny',
      rule: 'team@3#0',
    })
  })

  test("[POL22] the contract's spelling of a tool counts too", () => {
    const dotted = withGateRules(sandboxDefault, GateRules.parse({ deny: ['automation.complete'] }))
    expect(evaluatePermission(toolRequest('automation_complete', {}), dotted).decision).toBe('deny')
  })

  test('[POL22] no override undoes them', () => {
    const overrides = { agent: { read: 'allow' as const, edit: 'allow' as const } }
    const policy = withGateRules(sandboxDefault, gate)
    expect(
      evaluatePermission(toolRequest('read', { filePath: 'a' }), policy, { overrides }).decision,
    ).toBe('ask')
  })
})

describe('approval terms', () => {
  const keys = (n: number) => Array.from({ length: n }, (_, i) => `key_${'0'.repeat(19)}${i}`)
  const groups = { team: keys(3), leads: keys(2) }
  const policy = policyOf(
    [
      {
        match: { command: 'npm publish*' },
        decision: 'ask',
        id: 'publish',
        approval: {
          quorum: 2,
          group: 'team',
          timeoutSeconds: 60,
          escalate: { afterSeconds: 30, group: 'leads' },
        },
      },
      { match: { command: 'git push*' }, decision: 'ask' },
    ],
    { groups, approvals: { timeoutSeconds: 900, group: 'leads' } },
  )

  test('[POL21] the terms of the rule, then of the policy', () => {
    expect(ruleApprovalTerms(policy, 'team@3#publish')).toEqual({
      timeoutSeconds: 60,
      group: groups.team,
      quorum: 2,
      escalate: { afterSeconds: 30, group: groups.leads },
    })
    for (const rule of ['team@3#1', 'default:shell', 'team@2#publish', 'boundary'])
      expect(ruleApprovalTerms(policy, rule)).toEqual({
        timeoutSeconds: 900,
        group: groups.leads,
        quorum: 1,
        escalate: null,
      })
    expect(ruleApprovalTerms(sandboxDefault, 'default:network')).toEqual({
      timeoutSeconds: 600,
      group: null,
      quorum: 1,
      escalate: null,
    })
  })

  test("[POL21] what the gate's list asks has the gate's deadline", () => {
    const gated = withGateRules(policy, GateRules.parse({ ask: ['read'], askTimeoutSeconds: 5 }))
    expect(ruleApprovalTerms(gated, 'gate:ask').timeoutSeconds).toBe(5)
  })

  test('[POL21] of several rules that ask, the one that wants the most people counts', () => {
    for (const command of ['git push && npm publish', 'npm publish && git push']) {
      const { decision, rule } = evaluatePermission(toolRequest('bash', { command }), policy)
      expect({ decision, rule }).toEqual({ decision: 'ask', rule: 'team@3#publish' })
    }
  })
})
