import { describe, expect, test } from 'vitest'
import { Operation } from '../../../src/contract/operation.ts'
import { PermissionRequest } from '../../../src/contract/permission.ts'
import { evaluatePermission } from '../../../src/core/policy/evaluate.ts'
import { requestOfOperation } from '../../../src/core/policy/permission-request.ts'
import { operationDefault, sandboxDefault } from '../../../src/core/policy/builtin-policy.ts'
import { decideTool, place, policyOf, root, toolRequest } from './requests.ts'

describe('tools', () => {
  const rows: [string, unknown, Partial<PermissionRequest>][] = [
    [
      'read',
      { filePath: 'src/a.ts' },
      { category: 'read', operation: 'read-file', paths: [`${root}/src/a.ts`] },
    ],
    ['read', { filePath: `${root}/a/../b` }, { category: 'read', paths: [`${root}/b`] }],
    ['read', { filePath: '../x' }, { category: 'read', paths: ['/home/user/x'] }],
    ['read', { filePath: '~/x' }, { category: 'read', paths: ['/home/user/x'] }],
    ['read', { filePath: '.env' }, { category: 'secrets', paths: [`${root}/.env`] }],
    ['read', { filePath: '/tmp/.session_env.json' }, { category: 'read' }],
    ['lsp', { filePath: 'a.ts', line: 1 }, { category: 'read', paths: [`${root}/a.ts`] }],
    [
      'write',
      { filePath: 'a', content: 'x' },
      { category: 'edit', operation: 'write-file', paths: [`${root}/a`] },
    ],
    [
      'multiedit',
      { filePath: 'a', edits: [] },
      { category: 'edit', operation: 'write-file', paths: [`${root}/a`] },
    ],
    [
      'edit',
      { filePath: 'a', oldString: 'x', newString: 'y' },
      { category: 'edit', paths: [`${root}/a`] },
    ],
    [
      'glob',
      { pattern: '*.ts' },
      {
        ...{ category: 'read', operation: 'list-folder' },
        paths: [root, `${root}/**/*.ts`],
      },
    ],
    [
      'glob',
      { pattern: './x/*.{ts,tsx}', path: 'src' },
      {
        category: 'read',
        paths: [
          `${root}/src`,
          `${root}/src/x/*.{ts,tsx}`,
          `${root}/src/x/*.ts`,
          `${root}/src/x/*.tsx`,
        ],
      },
    ],
    ['glob', { pattern: '/etc/**' }, { category: 'read', paths: [root, '/etc/**', `${root}/**`] }],
    [
      'glob',
      { pattern: '../**', path: 'src' },
      { category: 'read', paths: [`${root}/src`, `${root}/**`, `${root}/src/**`] },
    ],
    [
      'grep',
      { pattern: '/etc/.*', path: 'src' },
      { category: 'read', operation: 'search', paths: [`${root}/src`, `${root}/src/**`] },
    ],
    ['grep', { pattern: 'KEY', include: '.env' }, { category: 'secrets' }],
    ['list', { path: '/etc' }, { category: 'read', paths: ['/etc', '/etc/**'] }],
    [
      'bash',
      { command: 'ls', description: 'x' },
      { category: 'shell', operation: 'run', command: 'ls', paths: [], cwd: root },
    ],
    ['bash', { command: 'ls', workdir: 'src' }, { category: 'shell', cwd: `${root}/src` }],
    [
      'webfetch',
      { url: 'https://A.example.com/x' },
      { category: 'network', operation: 'fetch', hosts: ['a.example.com'] },
    ],
    ['websearch', { query: 'x' }, { category: 'network', operation: 'search', hosts: [] }],
    ['task', { subagent_type: 'x' }, { category: 'provider-tool', operation: 'bookkeeping' }],
    ['todowrite', { todos: [] }, { category: 'provider-tool', operation: 'bookkeeping' }],
    [
      'verify',
      { folder: '/etc' },
      { category: 'provider-tool', operation: 'contract-tool', paths: [] },
    ],
    ['linear_create_issue', { title: 'x' }, { category: 'provider-tool', operation: 'tool' }],
    ['constructor', {}, { category: 'provider-tool', operation: 'tool' }],
  ]
  test.each(rows)('[POL15] %s %j', (tool, input, expected) => {
    const asked = toolRequest(tool, input)
    expect(asked).toMatchObject({ ...expected, tool, risks: [] })
    expect(PermissionRequest.parse(asked)).toEqual(asked)
  })

  test.each([
    ['without a space', '*** Update File:/etc/x'],
    ['a move without a space', '*** Update File: src/a\n*** Move to:../../x'],
    ['a carriage return in the name', '*** Add File: a\r/../../../x'],
    ['a line separator in the name', '*** Add File: a\u2028/../../../x'],
  ])('[POL15] apply_patch reads headings as OpenCode does: %s', (_, heading) => {
    const patchText = `*** Begin Patch\n*** Add File: src/ok\n+x\n${heading}\n*** End Patch`
    expect(decideTool('apply_patch', { patchText })).toMatchObject({
      decision: 'deny',
      rule: 'boundary',
    })
  })

  test('[POL15] a heading without a name makes all of it unclear', () => {
    const patchText = '*** Begin Patch\n*** Add File: a\n+x\n*** Delete File:\n*** End Patch'
    expect(decideTool('apply_patch', { patchText }).decision).toBe('ask')
    const outside = patchText.replace('File: a', 'File: /etc/a')
    expect(decideTool('apply_patch', { patchText: outside }).decision).toBe('deny')
  })

  test('[POL15] apply_patch is about every file that it names', () => {
    const patchText = [
      '*** Begin Patch',
      '*** Update File: a.txt',
      '*** Move to: sub/b.txt',
      '@@',
      '-*** Add File: not-this',
      '+x',
      '*** Add File: /etc/new',
      '+*** Delete File: nor-this',
      '*** Delete File: c.txt',
      '*** End Patch',
    ].join('\n')
    const asked = toolRequest('apply_patch', { patchText })
    expect(asked.paths).toEqual([`${root}/a.txt`, `${root}/sub/b.txt`, '/etc/new', `${root}/c.txt`])
    expect(evaluatePermission(asked, sandboxDefault).rule).toBe('boundary')
  })

  const malformed: [string, unknown][] = [
    ...['read', 'write', 'edit', 'lsp'].flatMap((tool): [string, unknown][] => [
      [tool, {}],
      [tool, null],
      [tool, 'x'],
      [tool, []],
      [tool, { filePath: 5 }],
      [tool, { filePath: '' }],
    ]),
    ...['glob', 'grep', 'list'].map((tool): [string, unknown] => [tool, { path: 5 }]),
    ['bash', {}],
    ['bash', { command: 5 }],
    ['bash', { command: '' }],
    ['bash', undefined],
    ['bash', { command: 'ls', workdir: null }],
    ['apply_patch', {}],
    ['apply_patch', { patchText: 'nothing' }],
    ['apply_patch', { patchText: '*** Add File: ' }],
    ['webfetch', {}],
    ['webfetch', { url: 'https://a@b.com' }],
    ['webfetch', { url: 'https://b.com\\@a.com' }],
    ['webfetch', { url: '' }],
    ['webfetch', { url: 'https://еxample.com' }],
  ]
  test.each(malformed)('[POL16] %s %j is ambiguous', (tool, input) => {
    expect(toolRequest(tool, input).risks).toEqual(['ambiguous'])
    expect(decideTool(tool, input).decision).toBe('ask')
  })

  test('[POL16] invisible characters in a path are ambiguous', () => {
    for (const filePath of ['src/a\u202e.ts', 'a\u00a0b', 'a\u0007'])
      expect(decideTool('write', { filePath, content: '' })).toMatchObject({
        decision: 'ask',
        reason: expect.stringContaining('ambiguous'),
      })
  })

  const answers: [string, unknown, string][] = [
    ['read', { filePath: '/etc/passwd' }, 'deny'],
    ['read', { filePath: '.env.production' }, 'deny'],
    ['grep', { pattern: 'x', include: '.env*' }, 'deny'],
    ['glob', { pattern: '/etc/*' }, 'deny'],
    ['write', { filePath: '../x', content: '' }, 'deny'],
    ['webfetch', { url: 'https://example.com' }, 'ask'],
    ['websearch', { query: 'x' }, 'ask'],
    ['question', { questions: [] }, 'ask'],
    ['linear_create_issue', {}, 'ask'],
    ['automation.complete', {}, 'allow'],
  ]
  test.each(answers)('[POL18] sandbox-default: %s %j is %s', (tool, input, decision) => {
    expect(decideTool(tool, input).decision).toBe(decision)
  })
})

describe('operations of the API', () => {
  const of = (change: object) =>
    requestOfOperation(
      Operation.parse({ category: 'read', operation: 'read-file', ...change }),
      place,
    )
  const rows: [object, Partial<PermissionRequest>][] = [
    [{ targetPath: 'a' }, { category: 'read', paths: [`${root}/a`] }],
    [{ targetPath: '.env' }, { category: 'secrets' }],
    [{ operation: 'list-folder' }, { category: 'read', paths: [root] }],
    [
      { category: 'edit', operation: 'write-file', targetPath: '/x', content: '' },
      { category: 'edit', paths: ['/x'] },
    ],
    [
      { category: 'edit', operation: 'delete-file', targetPath: 'a' },
      { category: 'edit', paths: [`${root}/a`] },
    ],
    [
      { category: 'git', operation: 'git', args: ['commit', '-m', "it's"] },
      { category: 'git', command: String.raw`'git' 'commit' '-m' 'it'\''s'` },
    ],
    [
      { category: 'shell', operation: 'run', command: 'ls' },
      { category: 'shell', command: 'ls' },
    ],
    [
      { category: 'shell', operation: 'run', command: 'ls', network: true },
      { category: 'network', command: 'ls' },
    ],
    [
      { category: 'network', operation: 'fetch', url: 'https://a.com/x' },
      { category: 'network', hosts: ['a.com'] },
    ],
    [
      { category: 'provider-tool', operation: 'other', tool: 'x' },
      { category: 'provider-tool', tool: 'x' },
    ],
    [
      { category: 'memory', operation: 'other' },
      { category: 'memory', paths: [] },
    ],
    [{ category: 'secrets', operation: 'read-file', targetPath: 'a' }, { category: 'secrets' }],
  ]
  test.each(rows)('[POL17] %j', (change, expected) => {
    expect(of(change)).toMatchObject({ tool: null, risks: [], ...expected })
  })

  const asked = (patch: string) => of({ category: 'edit', operation: 'apply-patch', patch })
  const hunk = (from: string, to: string) => `--- ${from}\n+++ ${to}\n@@ -1 +1 @@\n-a\n+b\n`

  test('[POL17] a diff is about every file that it names', () => {
    const patch = `diff --git a/x b/x\n${hunk('a/x', 'b/x')}--- /dev/null\n+++ b/new\t2020\nrename from old\nrename to ../out\n`
    expect(asked(patch)).toMatchObject({
      paths: ['x', 'new', 'old'].map((name) => `${root}/${name}`).concat('/home/user/out'),
      risks: [],
    })
  })

  const binary =
    'new file mode 100644\nindex 0000000..f76dd238ade08917e6712764a16a22005a50573d\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\nliteral 0\nHcmV?d00001\n\n'
  test.each([
    ['a binary file', `diff --git a/infra/x b/infra/x\n${binary}`],
    ['a mode', 'diff --git a/infra/x b/infra/x\nold mode 100644\nnew mode 100755\n'],
    ['an empty file', 'diff --git a/infra/x b/infra/x\nnew file mode 100644\n'],
    ['an empty file that goes', 'diff --git a/infra/x b/infra/x\ndeleted file mode 100644\n'],
    ['what is renamed', 'diff --git a/y b/infra/x\nrename from y\nrename to infra/x\n'],
    ['an old word for it', 'diff --git a/y b/infra/x\nrename old y\nrename new infra/x\n'],
    ['what is copied', 'diff --git a/y b/infra/x\ncopy from y\ncopy to infra/x\n'],
    ['two names in one line', 'diff --git a/y b/infra/x\n'],
    ['lines of a hunk', hunk('a/infra/x', 'b/infra/x')],
    ['escapes', 'diff --git "a/infra/\\303\\274" "b/infra/\\303\\274"\nold mode 100644\n'],
    ['quotes', hunk('"a/infra/\\"\\\\"', '"b/infra/\\"\\\\"')],
    ['one name in quotes', 'diff --git a/y "b/infra/\\t"\nrename from y\nrename to "infra/\\t"\n'],
    ['blanks', 'diff --git a/infra/x b/x b/infra/x b/x\nold mode 100644\n'],
    ['returns', hunk('a/infra/x\r', 'b/infra/x\r')],
    [
      'a long hunk before',
      `--- a/s\n+++ b/s\n@@ -1,2 +1 @@ f\n--- a/x\n c\n${hunk('a/infra/x', 'b/infra/x')}`,
    ],
    ['a hunk that belongs to nothing', `x\n@@ -1,9 +1,9 @@\n${hunk('a/infra/x', 'b/infra/x')}`],
    ['two slashes', hunk('a/infra//x', 'b/infra//x')],
  ])('[POL17] a diff shows the files of %s to a rule', (_, text) => {
    const { paths, risks } = asked(`${hunk('a/src/a.ts', 'b/src/a.ts')}${text}`)
    expect([paths.some((path) => path.startsWith(`${root}/infra/`)), risks]).toEqual([true, []])
    expect(paths).toContain(`${root}/src/a.ts`)
    const rules = [
      { match: { category: 'edit' }, decision: 'allow' },
      { match: { path: 'infra/**' }, decision: 'deny' },
    ]
    const judged = evaluatePermission(asked(`${hunk('a/s', 'b/s')}${text}`), policyOf(rules))
    expect(judged.decision).toBe('deny')
  })

  test('[POL17] what a hunk removes is no heading', () => {
    const { paths, risks } = asked('--- a/x.sql\n+++ b/x.sql\n@@ -1,2 +1 @@\n--- a comment\n a\n')
    expect([paths, risks]).toEqual([[`${root}/x.sql`], []])
  })

  test.each([
    'nothing',
    hunk('zz/infra/x', 'zz/infra/x'),
    hunk('x', 'x'),
    hunk('"a/\\303"', 'b/x'),
    hunk('"a/\\z"', 'b/x'),
    hunk('"a/x', 'b/x'),
    hunk('a/x 2020-01-01', 'b/x'),
    hunk('a/x\ry', 'b/x'),
    hunk('a/', 'b/x'),
    'diff --git i/x w/x\nold mode 100644\n',
    'diff --git a/x b/y b/z\nold mode 100644\n',
    'diff --git a/x\nold mode 100644\n',
    'rename from \n',
    '--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\nnothing\n',
  ])('[POL17] a file of a diff that cannot be told makes it unclear: %j', (text) => {
    expect(asked(text).risks).toEqual(['ambiguous'])
    const rules = [{ match: { category: 'edit' }, decision: 'allow' }]
    const judged = evaluatePermission(asked(hunk('a/s', 'b/s') + text), policyOf(rules))
    expect(judged.decision).toBe(text === 'nothing' ? 'allow' : 'ask')
  })

  test('[POL17] a caller that calls a run a read is not believed', () => {
    const asked = of({ category: 'read', operation: 'run', command: 'ls' })
    expect(asked).toMatchObject({ category: 'shell', risks: ['ambiguous'] })
    expect(evaluatePermission(asked, operationDefault).decision).toBe('ask')
    const denied = of({ category: 'memory', operation: 'write-file', targetPath: 'x' })
    expect(denied).toMatchObject({ category: 'edit', risks: ['ambiguous'] })
  })

  test('[POL16] without what it needs an operation is ambiguous', () => {
    for (const change of [
      {},
      { category: 'edit', operation: 'write-file' },
      { category: 'shell', operation: 'run' },
      { category: 'git', operation: 'git' },
      { category: 'network', operation: 'fetch' },
    ])
      expect(of(change).risks).toEqual(['ambiguous'])
  })

  test('[POL17] an environment that decides what runs is ambiguous', () => {
    const run = (environment: object) =>
      of({ category: 'shell', operation: 'run', command: 'ls', environment }).risks
    expect(run({ CI: '1' })).toEqual([])
    expect(run({ LD_PRELOAD: 'x' })).toEqual(['ambiguous'])
    expect(run({ BASH_ENV: 'x' })).toEqual(['ambiguous'])
    for (const environment of [
      { PATH: './bin' },
      { NODE_OPTIONS: '--require ./x' },
      { https_proxy: 'x' },
    ])
      expect(run(environment)).toEqual(['ambiguous'])
    expect(run({ PAGER: 'cat', NODE_OPTIONS: '--max-old-space-size=64' })).toEqual([])
  })

  test('[POL17] [POL18] operations fall to the defaults of their categories', () => {
    const answer = (change: object) => evaluatePermission(of(change), operationDefault).decision
    expect(answer({ targetPath: 'a' })).toBe('allow')
    expect(answer({ targetPath: '/etc/x' })).toBe('deny')
    expect(answer({ targetPath: 'a', risks: ['external'] })).toBe('ask')
    expect(answer({ category: 'git', operation: 'git', args: ['status'] })).toBe('ask')
    expect(answer({ category: 'git', operation: 'git', args: ['-C', '/etc', 'status'] })).toBe(
      'deny',
    )
    expect(answer({ category: 'shell', operation: 'run', command: 'printenv' })).toBe('deny')
  })
})
