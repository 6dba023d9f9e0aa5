import { describe, expect, test } from 'vitest'
import { maxPolicyBytes, maxPolicyRules } from '../../../src/contract/policy.ts'
import { parsePolicyDocument } from '../../../src/core/policy/document.ts'
import { evaluatePermission } from '../../../src/core/policy/evaluate.ts'
import {
  operationDefault,
  sandboxDefault,
  strict,
} from '../../../src/core/policy/builtin-policy.ts'
import { toolRequest } from './requests.ts'

const key = (n: number) => `key_${'0'.repeat(19)}${n}`
const text = `# Who may do what
name: team-rules
description: For the payments team
approvals:
  timeoutSeconds: 900
  group: leads
groups:
  leads: [${key(1)}, ${key(2)}]
overrides:
  agents:
    build: { network: allow, secrets: ask }
  subagents:
    explore: { edit: deny }
rules:
  - match: { category: [read, edit, shell, git] }
    decision: allow
  - id: no-migrations
    match:
      category: edit
      path: migrations/**
    decision: ask
    reason: Migrations are looked at by two people
    approval: { quorum: 2, escalate: { afterSeconds: 300, group: leads } }
  - match: { command: ["git push*", "npm publish *"] }
    decision: deny
`

const parse = (source: string, format?: 'yaml' | 'json') => parsePolicyDocument(source, format)
const errorsOf = (source: string, format?: 'yaml' | 'json') => {
  const parsed = parse(source, format)
  if (!('errors' in parsed)) throw new Error('It was accepted')
  return parsed.errors
}
const policyOf = (source: string, format?: 'yaml' | 'json') => {
  const parsed = parse(source, format)
  if ('errors' in parsed) throw new Error(JSON.stringify(parsed.errors))
  return parsed.policy
}

describe('documents', () => {
  test('[POL19] YAML and JSON mean the same', () => {
    const policy = policyOf(text)
    expect(policy.rules).toHaveLength(3)
    const json = JSON.stringify(policy, null, 2)
    expect(policyOf(json, 'json')).toEqual(policy)
    expect(policyOf(json)).toEqual(policy)
    const decided = evaluatePermission(toolRequest('write', { filePath: 'migrations/1.sql' }), {
      ...policy,
      version: 7,
    })
    expect(decided).toEqual({
      decision: 'ask',
      reason: 'Migrations are looked at by two people',
      rule: 'team-rules@7#no-migrations',
      policy: { name: 'team-rules', version: 7 },
      enclosure: 'none',
    })
  })

  test('[POL19] the least document', () => {
    expect(policyOf('name: x')).toEqual({
      name: 'x',
      approvals: { timeoutSeconds: 600 },
      groups: {},
      overrides: { agents: {}, subagents: {} },
      rules: [],
    })
  })

  test('[POL18] the built-in policies are documents like any other', () => {
    for (const [builtin, expected] of [
      [sandboxDefault, 2],
      [strict, 1],
      [operationDefault, 1],
    ] as const) {
      const { version, ...document } = builtin
      expect(version).toBe(expected)
      const { name, ...rest } = document
      expect(policyOf(JSON.stringify({ name: 'copy', ...rest }))).toEqual({ ...rest, name: 'copy' })
      expect(errorsOf(JSON.stringify(document))).toMatchObject([
        { path: 'name', message: `"${name}" is built in` },
      ])
    }
  })

  // The wrong line, and where its error is expected.
  const wrong: [string, string, string, number, string, RegExp][] = [
    [
      'an unknown field',
      'description: For',
      'descripton: For',
      3,
      'descripton',
      /^Unknown field; known are .*(description|decision|host)/,
    ],
    [
      'an unknown field of a rule',
      '    reason: M',
      '    because: M',
      22,
      'rules.1.because',
      /^Unknown field; known are .*(description|decision|host)/,
    ],
    [
      'an unknown field of a match',
      'path: migrations',
      'paths: migrations',
      20,
      'rules.1.match.paths',
      /^Unknown field; known are .*(description|decision|host)/,
    ],
    [
      'an unknown category',
      'category: edit',
      'category: edits',
      19,
      'rules.1.match.category',
      /one of read, edit/,
    ],
    [
      'an unknown category in a list',
      'edit, shell, git',
      'edit, bash, git',
      15,
      'rules.0.match.category',
      /one of read, edit/,
    ],
    ['an unknown decision', 'decision: ask', 'decision: maybe', 21, 'rules.1.decision', /allow/],
    ['a missing decision', '    decision: ask\n', '', 17, 'rules.1.decision', /./],
    ['a missing name', 'name: team-rules', 'description: x', 2, '', /./],
    ['a wrong name', 'name: team-rules', 'name: Team Rules', 2, 'name', /lower-case/],
    [
      'a version',
      'description: For',
      'version: 3 # For',
      3,
      'version',
      /^Unknown field; known are .*(description|decision|host)/,
    ],
    [
      'an unknown group',
      'group: leads\ngroups',
      'group: lead\ngroups',
      6,
      'approvals.group',
      /no group "lead"/,
    ],
    [
      'an unknown group to escalate to',
      '300, group: leads',
      '300, group: boss',
      23,
      'rules.1.approval.escalate.group',
      /no group "boss"/,
    ],
    [
      'a quorum that nobody can reach',
      'quorum: 2',
      'quorum: 3',
      23,
      'rules.1.approval.quorum',
      /only 2 entries/,
    ],
    ['a quorum of none', 'quorum: 2', 'quorum: 0', 23, 'rules.1.approval.quorum', /./],
    [
      'an escalation after the deadline',
      'afterSeconds: 300',
      'afterSeconds: 900',
      23,
      'rules.1.approval.escalate',
      /after the deadline/,
    ],
    [
      'a deadline that is too long',
      'timeoutSeconds: 900',
      'timeoutSeconds: 90000',
      5,
      'approvals.timeoutSeconds',
      /86400/,
    ],
    ['a key id that is none', key(2), 'key_x', 8, 'groups.leads.1', /key_/],
    [
      'an unknown category of an override',
      'network: allow,',
      'networks: allow,',
      11,
      'overrides.agents.build.networks',
      /./,
    ],
    ['a path that climbs', 'path: migrations/**', 'path: ../x', 20, 'rules.1.match.path', /\.\./],
    [
      'an id twice',
      '  - match: { command',
      '  - id: no-migrations\n    match: { command',
      24,
      'rules.2.id',
      /already a rule/,
    ],
    ['an id that is a number', 'id: no-migrations', 'id: 7', 17, 'rules.1.id', /./],
    [
      'rules that are no list',
      'rules:\n  - match: { category: [read',
      'rules: {}\nx:\n  - match: { category: [read',
      14,
      'rules',
      /./,
    ],
  ]
  test.each(wrong)(
    '[POL19] [POL20] %s is an error with its line',
    (_, from, to, line, path, message) => {
      expect(text).toContain(from)
      const errors = errorsOf(text.replace(from, to))
      const found = errors.find((error) => path === '' || error.path === path)
      expect(found).toMatchObject({ message: expect.stringMatching(message) })
      if (path !== '') expect(found).toMatchObject({ line })
      expect(errors.every((error) => error.line >= 1 && error.column >= 1)).toBe(true)
    },
  )

  const broken: [string, string, number][] = [
    ['a key twice', 'name: a\nname: b\n', 2],
    [
      'a key twice inside',
      'name: a\nrules:\n  - match: {}\n    decision: allow\n    decision: deny\n',
      5,
    ],
    ['a bracket that does not close', 'name: a\nrules: [\n', 3],
    ['a tab', 'name: a\nrules:\n\t- x\n', 3],
    ['an anchor', 'name: a\ngroups: &x {}\n', 2],
    [
      'an alias',
      'name: a\nrules:\n  - match: &m {}\n    decision: deny\n  - match: *m\n    decision: deny\n',
      3,
    ],
    ['a tag', 'name: a\nrules: !!python/object []\n', 2],
    ['two documents', 'name: a\n---\nname: b\n', 2],
  ]
  test.each(broken)('[POL19] %s is refused, with its line', (_, source, line) => {
    expect(errorsOf(source)[0]?.line).toBe(line)
  })

  test('[POL19] what is no document is refused', () => {
    for (const source of ['', 'x', '[]', 'null', '3', '- a', '"name"'])
      expect(errorsOf(source)[0]?.line).toBe(1)
  })

  test('[POL19] JSON is strict if it is called so', () => {
    expect(errorsOf('{"name": "a",}', 'json')).toHaveLength(1)
    expect(errorsOf('name: a', 'json')).toHaveLength(1)
    expect(errorsOf('{\n  "name": "a",\n  "name": "b"\n}', 'json')[0]?.line).toBe(3)
    expect(errorsOf('{\n  "name": "a",\n  "rulez": []\n}', 'json')).toMatchObject([
      { line: 3, column: 3, path: 'rulez' },
    ])
  })

  test('[POL19] size, number of rules and depth are limited', () => {
    const rules = (n: number) =>
      `name: a\nrules:\n${'  - { match: {}, decision: ask }\n'.repeat(n)}`
    expect(policyOf(rules(maxPolicyRules)).rules).toHaveLength(maxPolicyRules)
    expect(errorsOf(rules(maxPolicyRules + 1))[0]).toMatchObject({ path: 'rules' })
    expect(errorsOf(`name: a\n#${'x'.repeat(maxPolicyBytes)}`)[0]?.message).toMatch(/256 KiB/)
    expect(errorsOf(`name: a\n#${'ü'.repeat(maxPolicyBytes / 2)}`)[0]?.message).toMatch(/256 KiB/)
    expect(errorsOf(`name: a\nrules: ${'['.repeat(20_000)}`).length).toBeGreaterThan(0)
  })

  test('[POL19] names that objects have anyway are no way in', () => {
    for (const name of ['__proto__', 'constructor', 'prototype']) {
      expect(errorsOf(`name: a\n${name}: {}\n`)[0]).toMatchObject({ line: 2 })
      expect(errorsOf(`name: a\napprovals:\n  group: ${name}\n`)[0]).toMatchObject({ line: 3 })
    }
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })

  test('[POL19] no text makes it throw', () => {
    const pieces = text.split(/(?<=[\s:[\]{},])/)
    for (let seed = 1; seed < 100; seed += 1) {
      const at = (seed * 7919) % pieces.length
      const cut = [...pieces.slice(0, at), ...pieces.slice((at + (seed % 5)) % pieces.length)].join(
        '',
      )
      const parsed = parse(cut, seed % 2 ? 'yaml' : 'json')
      if ('errors' in parsed) expect(parsed.errors.length).toBeGreaterThan(0)
    }
  })
})
