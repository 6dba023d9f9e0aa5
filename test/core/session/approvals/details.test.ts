import { describe, expect, test } from 'vitest'
import type { PermissionRequest } from '../../../../src/contract/permission.ts'
import { approvalDetails, approvalTitle } from '../../../../src/core/session/approvals/details.ts'
import { other, person, policyOf, RunWorld } from '../../../support/run-world.ts'

const request = (change: Partial<PermissionRequest> = {}) =>
  ({
    ...{ category: 'edit', operation: 'edit', tool: 'edit', agent: 'build', subagent: 'explore' },
    ...{ command: null, cwd: '/w', workspaceRoot: '/w', paths: [], hosts: [], risks: [] },
    ...change,
  }) as unknown as PermissionRequest
const details = (operation: unknown, change: Partial<PermissionRequest> = {}) =>
  approvalDetails(operation, request(change))

describe('[APR11] what a person sees', () => {
  test('is read off the request, with the folder if it is not the workspace', () => {
    expect(details({ tool: 'edit', input: {} })).toEqual({
      ...{ category: 'edit', tool: 'edit', agent: 'build', subagent: 'explore' },
      // An edit that names no path.
      risks: ['ambiguous'],
      ...{ command: null, cwd: null, paths: [], hosts: [], patch: null, arguments: null },
      truncated: false,
    })
    const shown = details(
      { tool: 'bash', input: { command: 'rm -rf a' } },
      { command: 'rm -rf a', cwd: '/w/b', paths: ['/w/a'], hosts: ['x.test'] },
    )
    expect(shown).toMatchObject({
      ...{ command: 'rm -rf a', cwd: '/w/b', paths: ['/w/a'], hosts: ['x.test'], arguments: null },
      truncated: false,
    })
  })

  test.each<[string, unknown, string | null]>([
    ['a patch', { patch: 'p' }, 'p'],
    ['a patch of a tool', { input: { patchText: 'q' } }, 'q'],
    ['a patch that is no text', { patch: 1 }, null],
    ['content', { content: 'a\nb' }, '+a\n+b'],
    ['content that is no text', { content: ['a'] }, null],
    ['an edit', { input: { oldString: 'a', newString: 'b\nc' } }, '-a\n+b\n+c'],
    ['an insertion', { oldString: '', newString: 'b' }, '+b'],
    ['a deletion', { oldString: 'a', newString: '' }, '-a'],
    ['half an edit', { oldString: 'a' }, null],
    ['the other half', { newString: 'a' }, null],
    [
      'several edits',
      { edits: [{ oldString: 'a', newString: 'b' }, null, { oldString: 'c', newString: 'd' }] },
      '-a\n+b\n-c\n+d',
    ],
    ['no edits', { edits: [] }, null],
    ['a list', ['patch'], null],
    ['nothing', null, null],
    ['a text', 'patch', null],
  ])('%s as a change', (_, operation, patch) => {
    expect(details(operation).patch).toBe(patch)
  })

  test('arguments are what is not shown elsewhere, and an input that has no names is one', () => {
    const rest = (operation: unknown) => details(operation).arguments
    expect(rest({ input: { url: 'u', n: null, u: undefined, filePath: 'f' } })).toBe('{"url":"u"}')
    expect(rest({ input: ['a'] })).toBe('{"input":["a"]}')
    expect(rest({ input: 'a' })).toBe('{"input":"a"}')
    expect(rest({ category: 'git', operation: 'log', args: ['-1'] })).toBe('{"args":["-1"]}')
    expect(rest({ command: 'ls', content: 'x' })).toBeNull()
  })

  test('what is long is cut, never through a character, and said', () => {
    const long = (length: number) => details({}, { command: 'x'.repeat(length) })
    expect([long(4000).truncated, long(4000).command?.length]).toEqual([false, 4000])
    expect([long(4001).truncated, long(4001).command]).toEqual([true, `${'x'.repeat(3999)}…`])
    const fox = details({}, { command: `${'x'.repeat(3998)}🦊x` })
    expect(fox.command).toBe(`${'x'.repeat(3998)}…`)
    const paths = (count: number) => details({}, { paths: Array.from({ length: count }, String) })
    expect([paths(20).truncated, paths(20).paths.length]).toEqual([false, 20])
    expect([paths(21).truncated, paths(21).paths.length]).toEqual([true, 20])
    expect(details({}, { paths: ['y'.repeat(501)] }).paths).toEqual([`${'y'.repeat(499)}…`])
    // One that was cut is not forgotten for the next, which fits.
    expect(details({}, { command: 'x'.repeat(4001), paths: ['a'] }).truncated).toBe(true)
  })

  test('a title has the command, else the path, else the host', () => {
    const title = (change: Partial<PermissionRequest>) => approvalTitle('t', request(change))
    expect([
      title({ command: 'a  b\n c', paths: ['/p'], hosts: ['h'] }),
      title({ paths: ['/p'], hosts: ['h'] }),
      title({ hosts: ['h'] }),
      title({}),
    ]).toEqual(['t: a b c', 't: /p', 't: h', 't'])
    expect(title({ command: 'x'.repeat(157) })).toHaveLength(160)
    expect(title({ command: 'x'.repeat(158) })).toBe(`t: ${'x'.repeat(156)}…`)
  })

  test('a long intent is cut, too', async () => {
    const rule = { match: { tool: 'bash' }, decision: 'ask' }
    const world = await new RunWorld().begin({}, policyOf({ rules: [rule] }))
    const intentOf = async (intent: string) => {
      const { id } = await world.createRun(intent)
      const turn = await world.prompt('go', { runId: id })
      const approval = await world.approval(world.approvalId(await world.ask('bash')))
      await world.endTurn(turn)
      return approval.intent
    }
    expect(await intentOf('i'.repeat(300))).toBe('i'.repeat(300))
    expect(await intentOf('i'.repeat(301))).toBe(`${'i'.repeat(299)}…`)
    expect(await intentOf(`${'i'.repeat(298)}🦊${'i'.repeat(9)}`)).toBe(`${'i'.repeat(298)}…`)
  })
})

describe('[APR4] an escalation', () => {
  test('is of its own approval, once, and told to webhooks', async () => {
    const approval = { group: 'g', escalate: { afterSeconds: 20, group: 'h' }, timeoutSeconds: 600 }
    const rules = [
      { match: { tool: 'bash' }, decision: 'ask', approval },
      { match: { tool: 'read' }, decision: 'ask' },
    ]
    const groups = { g: [other.keyId], h: [person('c').keyId] }
    const world = await new RunWorld().begin({}, policyOf({ rules, groups }))
    const { runId } = await world.prompt()
    const [first, plain] = [await world.ask('bash'), await world.ask('read')]
    world.now += 10_000
    const second = await world.ask('bash')
    await world.pass(10_000)
    const told = async () =>
      (await world.events('approval.requested')).slice(3).map(({ approvalId }) => approvalId)
    expect(await told()).toEqual([world.approvalId(first)])
    expect(world.rowsOf<{ event: string }>('deliveries')).toHaveLength(4)
    await world.pass(10_000)
    expect(await told()).toEqual([first, second].map(world.approvalId))
    expect((await world.events('approval.requested')).at(-1)).toEqual({
      ...{ approvalId: world.approvalId(second), runId, title: 'bash: ls' },
      deadlineAt: (await world.approval(world.approvalId(second))).deadlineAt,
    })
    await world.pass(60_000)
    expect(await told()).toHaveLength(2)
    expect((await world.approval(world.approvalId(plain))).state).toBe('pending')
  })
})

describe('[APR6] a vote that cannot be', () => {
  test('says which field is wrong, and why', async () => {
    const ask = { match: { tool: 'bash' }, decision: 'ask' }
    const both = { match: { tool: 'read' }, decision: 'ask', approval: { quorum: 2 } }
    const world = await new RunWorld().begin({}, policyOf({ rules: [ask, both] }))
    await world.prompt()
    const [one, two] = [await world.ask('bash'), await world.ask('read')].map(world.approvalId)
    const remember = { scope: 'run', expiresInSeconds: 60 } as const
    const field = { code: 'unprocessable', details: [{ path: 'remember', message: 'Not here' }] }
    await expect(world.resolve(two ?? '', 'approved', other, { remember })).rejects.toMatchObject({
      ...{ ...field, message: expect.stringContaining('several people') },
    })
    await expect(world.resolve(one ?? '', 'rejected', other, { remember })).rejects.toMatchObject({
      ...{ ...field, message: expect.stringContaining('only an approval') },
    })
    const { operationHash } = await world.approval(one ?? '')
    await expect(
      world.resolve(one ?? '', 'approved', other, { operationHash: 'other' }),
    ).rejects.toMatchObject({
      details: [{ path: 'operationHash', message: `Expected ${operationHash}` }],
    })
    await expect(world.resolve(`apr_${'z'.repeat(38)}`)).rejects.toMatchObject({
      code: 'not_found',
    })
    await world.resolve(one ?? '', 'approved', other, { remember })
    expect((await world.approval(one ?? '')).remembered).toEqual({
      ...{ scope: 'run', expiresAt: world.now + 60_000 },
    })
  })
})
