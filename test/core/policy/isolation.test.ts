import { describe, expect, test } from 'vitest'
import { Enforcement, IsolationPlan, type Strategy } from '../../../src/contract/operation.ts'
import { mustAsk, planIsolation } from '../../../src/core/policy/isolation.ts'
import { request, root } from './requests.ts'

const enforceable = Enforcement.options
const plan = (change: Parameters<typeof request>[0], options: object = {}) =>
  planIsolation(request(change), { enforceable, ...options })

const rows: [string, Parameters<typeof request>[0], Strategy][] = [
  ['a read inside', { category: 'read', paths: [`${root}/a`] }, 'workspace'],
  ['a secret inside', { category: 'secrets', paths: [`${root}/.env`] }, 'workspace'],
  ['an edit', { category: 'edit', paths: [`${root}/a`] }, 'git-worktree'],
  ['git', { category: 'git', command: 'git commit -m x' }, 'git-worktree'],
  [
    'destructive work',
    { category: 'shell', command: 'make', risks: ['destructive'] },
    'git-worktree',
  ],
  [
    'destructive work, found in the command',
    { category: 'shell', command: 'rm -rf build' },
    'git-worktree',
  ],
  ['shell', { category: 'shell', command: 'npm test' }, 'process-sandbox'],
  ['network', { category: 'network', hosts: ['a.com'] }, 'process-sandbox'],
  ['a provider tool', { category: 'provider-tool', tool: 'x' }, 'process-sandbox'],
  ['memory', { category: 'memory' }, 'process-sandbox'],
  [
    'privileged work',
    { category: 'edit', paths: [`${root}/a`], risks: ['privileged'] },
    'process-sandbox',
  ],
  [
    'privileged work, found in the command',
    { category: 'shell', command: 'sudo rm -rf x' },
    'process-sandbox',
  ],
  ['an external path', { category: 'read', paths: ['/etc/x'] }, 'denied'],
  ['an external path of an edit', { category: 'edit', paths: [`${root}/a`, '/etc/x'] }, 'denied'],
  ['an external path in a command', { category: 'shell', command: 'cat /etc/x' }, 'denied'],
  ['an external directory', { category: 'external-directory' }, 'denied'],
]

describe('isolation plans', () => {
  test.each(rows)('[POL23] %s: %j is planned as %s', (_, change, strategy) => {
    const planned = plan(change)
    expect(planned.strategy).toBe(strategy)
    expect(IsolationPlan.parse(planned)).toEqual(planned)
    expect(planned.conditions.length).toBeGreaterThan(0)
    expect(planned.limitations.length).toBeGreaterThan(0)
    expect(planned.pathConstraints.includes(root)).toBe(strategy !== 'denied')
  })

  test('[POL23] a denied request has a denied plan, with the reason', () => {
    const decision = { decision: 'deny' as const, reason: 'No' }
    expect(plan({ category: 'read' }, { decision })).toMatchObject({
      strategy: 'denied',
      conditions: ['Not executed: No'],
      enforce: [],
    })
  })

  test('[POL23] an approval that is needed is a condition', () => {
    const decision = { decision: 'ask' as const, reason: 'Why' }
    expect(plan({ command: 'ls' }, { decision }).conditions).toContain('An approval: Why')
  })

  test('[POL23] files are opened by their real path', () => {
    expect(plan({ category: 'read', paths: [`${root}/a`] }).realPathFirst).toBe(true)
    expect(plan({ category: 'edit', paths: [`${root}/a`] }).realPathFirst).toBe(true)
    expect(plan({ command: 'ls' }).realPathFirst).toBe(false)
  })

  test('[POL23] the network is closed unless the request is for it', () => {
    expect(plan({ command: 'ls' })).toMatchObject({
      network: false,
      enforce: expect.arrayContaining(['network']),
    })
    for (const open of [
      plan({ command: 'ls' }, { network: true }),
      plan({ command: 'curl a.com' }),
      plan({ category: 'git', command: 'git fetch' }),
      plan({ category: 'git', command: 'git remote update' }),
      plan({ category: 'network', hosts: ['a.com'] }),
    ]) {
      expect(open.network).toBe(true)
      expect(open.enforce).not.toContain('network')
    }
    expect(plan({ command: 'curl file:///etc/x' }, { network: true }).network).toBe(false)
  })

  test('[POL23] limits come from the operation', () => {
    expect(plan({ command: 'ls' }, { timeoutMs: 1234 }).limits.timeoutMs).toBe(1234)
    expect(plan({ command: 'ls' }).enforce).toEqual([
      'network',
      'memory',
      'processes',
      'time',
      'output',
    ])
  })

  test.each(Enforcement.options)(
    '[POL24] without %s an operation that needs it asks',
    (missing) => {
      const without = enforceable.filter((each) => each !== missing)
      for (const [, change] of rows) {
        const planned = plan(change, { enforceable: without })
        const needs = planned.strategy !== 'denied' && planned.enforce.includes(missing)
        expect(planned.notEnforced).toEqual(needs ? [missing] : [])
        expect(mustAsk(planned)).toBe(needs)
        if (needs) expect(planned.limitations.join()).toContain(missing)
        expect(mustAsk(plan(change))).toBe(false)
      }
    },
  )

  test('[POL23] planning changes nothing', () => {
    const asked = request({ command: 'rm -rf x', paths: [`${root}/a`] })
    const before = structuredClone(asked)
    expect(planIsolation(asked, { enforceable })).toEqual(planIsolation(asked, { enforceable }))
    expect(asked).toEqual(before)
  })
})
