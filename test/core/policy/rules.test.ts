import { describe, expect, test } from 'vitest'
import type { PermissionRequest } from '../../../src/contract/permission.ts'
import { evaluatePermission } from '../../../src/core/policy/evaluate.ts'
import { decideCommand, policyOf, request, root, toolRequest } from './requests.ts'

const decide = (asked: PermissionRequest, rules: unknown[]) =>
  evaluatePermission(asked, policyOf(rules))

describe('which rule decides', () => {
  test('[POL6] the last rule that matches decides, and is named', () => {
    const rules = [
      { match: { category: 'shell' }, decision: 'deny' },
      { id: 'second', match: { category: 'shell' }, decision: 'allow', reason: 'Because' },
      { match: { category: 'git' }, decision: 'deny' },
    ]
    expect(decide(request(), rules)).toEqual({
      decision: 'allow',
      reason: 'Because',
      rule: 'team@3#second',
      policy: { name: 'team', version: 3 },
      enclosure: 'none',
    })
    expect(decide(request(), rules.toReversed())).toMatchObject({
      decision: 'deny',
      rule: 'team@3#2',
    })
  })

  test('[POL6] the version in the name is that of the policy that was asked', () => {
    const policy = policyOf([{ match: {}, decision: 'deny' }])
    for (const version of [4, 5, 4])
      expect(evaluatePermission(request(), { ...policy, version }).rule).toBe(`team@${version}#0`)
  })

  test('[POL6] what no rule matches falls to the default', () => {
    const rules = [{ match: { category: 'git' }, decision: 'allow' }]
    expect(decide(request(), rules)).toMatchObject({ decision: 'ask', rule: 'default:shell' })
  })

  test('[POL6] an empty match matches everything that is not closed', () => {
    const rules = [{ match: {}, decision: 'allow' }]
    expect(decide(request(), rules).decision).toBe('allow')
    expect(decide(request({ category: 'secrets' }), rules).decision).toBe('deny')
    expect(decide(request({ category: 'read', paths: ['/etc/x'] }), rules).decision).toBe('deny')
  })

  const one = { tool: 'bash', agent: 'build', subagent: 'helper', mode: 'setup' }
  test.each(Object.entries(one))('[POL6] a rule can be about the %s', (field, value) => {
    const asked = request({ ...one, category: 'memory' })
    const rule = (match: string | string[]) => [{ match: { [field]: match }, decision: 'deny' }]
    expect(decide(asked, rule(value)).decision).toBe('deny')
    expect(decide(asked, rule(['x', value])).decision).toBe('deny')
    expect(decide(asked, rule('other')).decision).toBe('ask')
    expect(decide({ ...asked, [field]: field === 'mode' ? '' : null }, rule(value)).decision).toBe(
      'ask',
    )
  })

  test('[POL6] all fields of a rule must match', () => {
    const rules = [{ match: { tool: 'bash', mode: 'setup' }, decision: 'deny' }]
    expect(decide(request({ tool: 'bash', mode: 'setup' }), rules).decision).toBe('deny')
    expect(decide(request({ tool: 'bash', mode: 'coding' }), rules).decision).toBe('ask')
  })
})

describe('risks', () => {
  const allow = (risks?: string[]) => [
    { match: { category: 'shell', ...(risks ? { risks } : {}) }, decision: 'allow' },
  ]

  test('[POL2] an allow covers only the risks that it lists', () => {
    const asked = request({ risks: ['destructive', 'external'] })
    expect(decide(asked, allow()).decision).toBe('ask')
    expect(decide(asked, allow(['destructive'])).decision).toBe('ask')
    expect(decide(asked, allow(['destructive', 'external'])).decision).toBe('allow')
    expect(decide(request(), allow(['destructive'])).rule).toBe('default:shell')
  })

  test('[POL2] a command that is allowed by name still asks for its risk', () => {
    const named = { command: 'rm -rf dist' }
    const rules = (match: object) => policyOf([{ match, decision: 'allow' }])
    expect(decideCommand('rm -rf dist', rules(named)).decision).toBe('ask')
    const covered = rules({ ...named, risks: 'destructive' })
    expect(decideCommand('rm -rf dist', covered).decision).toBe('allow')
    expect(decideCommand('rm -rf src', covered).decision).toBe('ask')
  })

  test('[POL2] a rule can deny a risk', () => {
    const rules = [
      { match: { category: 'shell' }, decision: 'allow' },
      { match: { risks: ['privileged', 'destructive'] }, decision: 'deny' },
    ]
    expect(decideCommand('sudo ls', policyOf(rules)).decision).toBe('deny')
    expect(decideCommand('ls', policyOf(rules)).decision).toBe('allow')
  })
})

describe('closed categories', () => {
  const outside = request({ category: 'read', tool: 'read', paths: ['/data/set/a.csv'] })

  test('[POL3] a rule opens the boundary only by category and path', () => {
    const path = '/data/**'
    const category = 'external-directory'
    const tried: [object, string][] = [
      [{}, 'deny'],
      [{ path }, 'deny'],
      [{ category }, 'deny'],
      [{ category: 'read', path }, 'deny'],
      [{ category, path: '**' }, 'deny'],
      [{ category, path: '/other/**' }, 'deny'],
      [{ category, path, tool: 'write' }, 'deny'],
      [{ category, path }, 'allow'],
      [{ category: ['read', category], path: ['x', path] }, 'allow'],
    ]
    for (const [match, expected] of tried)
      expect([match, decide(outside, [{ match, decision: 'allow' }]).decision]).toEqual([
        match,
        expected,
      ])
    expect(decide(outside, [{ match: { category, path }, decision: 'ask' }]).decision).toBe('ask')
  })

  test('[POL3] beyond the boundary the act itself is decided as well', () => {
    const rules = [
      { match: { category: 'external-directory', path: '/data/**' }, decision: 'allow' },
    ]
    expect(decide({ ...outside, category: 'edit' }, rules)).toMatchObject({
      decision: 'ask',
      rule: 'default:edit',
    })
    expect(decide({ ...outside, paths: ['/data/a', '/etc/x'] }, rules).rule).toBe('boundary')
    expect(
      decideCommand(
        'cat /data/a',
        policyOf([...rules, { match: { category: 'shell' }, decision: 'allow' }]),
      ).decision,
    ).toBe('allow')
  })

  test('[POL4] a rule opens secrets only by name', () => {
    const asked = toolRequest('read', { filePath: '.env' })
    expect(decide(asked, [{ match: { category: 'read' }, decision: 'allow' }]).decision).toBe(
      'deny',
    )
    expect(decide(asked, [{ match: { path: '.env' }, decision: 'ask' }]).decision).toBe('deny')
    const only = (path: string) => [{ match: { category: 'secrets', path }, decision: 'allow' }]
    expect(decide(asked, only('.env')).decision).toBe('allow')
    expect(decide(asked, only('.env.local')).decision).toBe('deny')
    expect(decide(asked, [{ match: { category: 'secrets' }, decision: 'allow' }]).decision).toBe(
      'allow',
    )
    expect(decide(asked, [{ match: { category: 'secrets' }, decision: 'ask' }]).decision).toBe(
      'ask',
    )
  })

  test('[POL3] [POL4] any rule may close what another has opened', () => {
    const rules = [
      { match: { category: ['secrets', 'external-directory'], path: '/**' }, decision: 'allow' },
      { match: { tool: 'read' }, decision: 'deny' },
    ]
    expect(decide(outside, rules).rule).toBe('team@3#1')
  })
})

describe('patterns', () => {
  const matches = (field: string, pattern: string, asked: PermissionRequest) =>
    decide(asked, [{ match: { [field]: pattern }, decision: 'deny' }]).decision === 'deny'
  const path = (pattern: string, name: string) =>
    matches(
      'path',
      pattern,
      request({
        category: 'memory',
        paths: [name.startsWith('/') ? name : `${root}/${name}`],
        sessionPaths: ['/'],
      }),
    )

  test.each([
    ['src/*.ts', 'src/a.ts', true],
    ['src/*.ts', 'src/a/b.ts', false],
    ['src/**', 'src/a/b.ts', true],
    ['src/**', 'src', true],
    ['src/**', 'srcs/a', false],
    ['src/', 'src/a/b', true],
    ['./src/*', 'src/a', true],
    ['**/*.test.ts', 'a.test.ts', true],
    ['**/*.test.ts', 'a/b/c.test.ts', true],
    ['**/node_modules/**', 'a/node_modules/b/c', true],
    ['a/**/b/**/c', 'a/x/b/y/z/c', true],
    ['a/**/b/**/c', 'a/b/c', true],
    ['a/**/b/**/c', 'a/c/b', false],
    ['*', 'a', true],
    ['*', 'a/b', false],
    ['**', 'a/b', true],
    ['.*', '.gitignore', true],
    ['*', '.gitignore', true],
    ['[id].ts', '[id].ts', true],
    ['[id].ts', 'i.ts', false],
    ['{a,b}', 'a', false],
    ['a?c', 'abc', true],
    ['a?c', 'ac', false],
    ['/etc/*', '/etc/passwd', true],
    ['/etc/*', '/etc/ssl/x', false],
    ['/**', '/etc/ssl/x', true],
    ['~/.cache/**', '/home/user/.cache/x', true],
    ['~/**', '/home/other/x', false],
    ['**', '/etc/x', false],
    ['SRC/*', 'src/a', false],
  ])('[POL7] the path pattern %s and %s: %s', (pattern, name, expected) => {
    expect(path(pattern, name)).toBe(expected)
  })

  test.each([
    ['npm test', 'npm test', true],
    ['npm *', 'npm test', true],
    ['npm *', 'npm', true],
    ['npm *', 'npmx', false],
    ['npm*', 'npmx', true],
    ['* --force', 'git push --force', true],
    ['git push*', 'git  push   "origin" main', true],
    ['git push*', 'git -C . -c user.name=x push', true],
    ['rm *', '/bin/rm x', true],
    ['rm *', String.raw`\rm 'x'`, true],
    ['rm *', './rm x', false],
    ['npm test', 'CI=1 npm test > out.txt 2>&1', true],
    ['npm test', 'timeout 5 npm test', true],
    ['npm test', 'ls && npm test', true],
    ['npm ????', 'npm test', true],
    ['npm ????', 'npm tests', false],
    ['npm*m', 'npm', false],
    ['*a*b*c*', 'xxaxxbxxcxx', true],
    ['*a*b*c*', 'xxaxxcxxbxx', false],
    ['.*', 'npm test', false],
    ['NPM *', 'npm test', false],
  ])('[POL7] the command pattern %s and %s: %s', (pattern, command, expected) => {
    const decided = decideCommand(
      command,
      policyOf([{ match: { command: pattern }, decision: 'deny' }]),
    )
    expect(decided.decision === 'deny').toBe(expected)
  })

  test.each([
    ['example.com', 'example.com', true],
    ['*.example.com', 'api.example.com', true],
    ['*.example.com', 'a.b.example.com', true],
    ['*.example.com', 'example.com', false],
    ['*.example.com', 'badexample.com', false],
    ['*.EXAMPLE.com', 'api.example.com', true],
    ['*', '(unknown)', true],
    ['10.0.?.1', '10.0.7.1', true],
  ])('[POL7] the host pattern %s and %s: %s', (pattern, host, expected) => {
    expect(matches('host', pattern, request({ category: 'network', hosts: [host] }))).toBe(expected)
  })

  test('[POL7] an allow for one host or path does not reach the others', () => {
    const host = [{ match: { category: 'network', host: 'a.com' }, decision: 'allow' }]
    const network = (hosts: string[]) =>
      decide(request({ category: 'network', hosts }), host).decision
    expect(network(['a.com'])).toBe('allow')
    expect(network(['a.com', 'b.com'])).toBe('ask')
    expect(network([])).toBe('ask')
    const folder = [{ match: { category: 'edit', path: 'docs/**' }, decision: 'allow' }]
    const edit = (...names: string[]) =>
      decide(request({ category: 'edit', paths: names.map((name) => `${root}/${name}`) }), folder)
        .decision
    expect(edit('docs/a')).toBe('allow')
    expect(edit('docs/a', 'src/a')).toBe('ask')
    expect(edit()).toBe('ask')
  })

  test('[POL7] more paths and hosts than can be paired ask, and what is denied stays denied', () => {
    const many = (n: number, make: (index: number) => string) =>
      Array.from({ length: n }, (_, index) => make(index))
    const asked = request({
      category: 'network',
      paths: many(200, (index) => `${root}/${index}`),
      hosts: many(200, (index) => `h${index}.com`),
    })
    const allow = { match: { category: 'network', path: '**', host: '*' }, decision: 'allow' }
    expect(decide(asked, [allow]).decision).toBe('ask')
    for (const match of [{ path: '199' }, { host: 'h199.com' }])
      expect(decide(asked, [allow, { match, decision: 'deny' }]).decision).toBe('deny')
    const most = { paths: asked.paths.slice(0, 40), hosts: asked.hosts.slice(0, 25) }
    expect(decide({ ...asked, ...most }, [allow]).decision).toBe('allow')
  })

  test('[POL7] a pattern takes time in proportion to the text', () => {
    const rules = [
      {
        match: { command: `${'*a'.repeat(200)}b`, path: `${'**/a*/'.repeat(60)}x` },
        decision: 'deny',
      },
    ]
    const asked = request({
      paths: [`${root}/${'a/'.repeat(500)}a`],
      command: `echo ${'a'.repeat(30_000)}`,
    })
    expect(decide(asked, rules).decision).toBe('ask')
  })
})
