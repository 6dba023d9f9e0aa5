import { expect, test } from 'vitest'
import { proposalDiff } from '../../../../src/core/registry/skills/proposal-diff.ts'

const said = (content: string) => ({
  ...{ description: 'd', compatibility: '' },
  source: { kind: 'inline' as const, content },
})
const diff = (before: string, after: string) => proposalDiff(said(before), said(after))

test.each([
  ['a\nb\nc', 'a\nx\nc', '@@ line 2 @@\n-b\n+x', [1, 1]],
  ['a', 'a\nb', '@@ line 2 @@\n+b', [1, 0]],
  ['a\nb', 'b', '@@ line 1 @@\n-a', [0, 1]],
  ['a\na', 'a\na\na', '@@ line 3 @@\n+a', [1, 0]],
  ['a\na\na', 'a', '@@ line 2 @@\n-a\n-a', [0, 2]],
  ['a', 'b', '@@ line 1 @@\n-a\n+b', [1, 1]],
])('[SKILL11] %j to %j', (before, after, lines, [added, removed]) => {
  expect(diff(before, after)).toEqual({
    ...{ changed: ['source'], added, removed, lines, truncated: false },
  })
})

test('[SKILL11] the same texts have no difference, another kind of source is shown by its place', () => {
  expect(diff('a', 'a')).toMatchObject({ changed: [], lines: '', added: 0, removed: 0 })
  const path = { ...said('a'), source: { kind: 'path' as const, path: 'docs/a.md' } }
  const url = { ...said('a'), source: { kind: 'url' as const, url: 'https://example.com' } }
  expect(proposalDiff(path, url).lines).toBe(
    '@@ line 1 @@\n-path: docs/a.md\n+url: https://example.com',
  )
})

test('[SKILL11] what is too long to be shown is cut, and says so', () => {
  const head = '@@ line 1 @@\n-a\n+'
  const fits = diff('a', 'x'.repeat(8000 - head.length))
  expect([fits.lines.length, fits.truncated]).toEqual([8000, false])
  const long = diff('a', `${'x'.repeat(7999 - head.length)}😀`)
  expect([long.lines.length, long.truncated, long.lines.isWellFormed()]).toEqual([8000, true, true])
})
