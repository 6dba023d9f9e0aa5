// The corners of lines, hunks and names that whole bundles rarely meet.

import { describe, expect, test } from 'vitest'
import { evaluateFixture } from '../../../src/core/evidence/dry-run/evaluate.ts'
import { hunksOf, withoutHunks } from '../../../src/core/evidence/texts/hunks.ts'
import { authoredFiles } from '../../../src/core/export/authorship.ts'
import {
  exactChangedLines,
  escapeExactName,
  exactLines,
  exactRef,
} from '../../../src/core/evidence/texts/exact.ts'
import {
  applyPatchHunks,
  type Hunk,
  parsePatch,
  reversePatchHunks,
} from '../../../src/core/evidence/texts/patch.ts'
import {
  edit,
  file,
  fixture,
  type FixtureInput,
  patch,
  write,
} from '../../support/proof-fixtures.ts'

const always = () => true

describe('[EVD21] a text of more lines than a call may have arguments', () => {
  const many = 'x\n'.repeat(300_000)

  test('is patched, and hunk by hunk taken back', () => {
    const hunks = [{ before: ['last'], after: ['end'], atEnd: false }]
    expect(applyPatchHunks(`${many}last\n`, hunks, always)).toBe(`${many}end\n`)
    const [before, after] = [`${many}last\n`, `${many}end\n`]
    const own = hunksOf('a.txt', before, after)
    expect(withoutHunks(after, own, new Set(own.map(({ id }) => id)))).toBe(before)
  })

  test('has its author', () => {
    const made = fixture({ parts: [write(many)], snapshotFiles: [file(null, many)] })
    const [event] = evaluateFixture(made, 'full').events
    const [written] = authoredFiles([event!], new Map([[event!.after!.sha256, many]]))
    expect([...written!.ranges.values()]).toEqual([[{ first: 1, last: 300_000 }]])
  })
})

describe('lines', () => {
  test.each([
    ['a\nb\nc\n', 'a\nB\nc\n', { first: 2, removed: 1, added: 1 }],
    ['a\nb\n', 'a\nb\nc\nd\n', { first: 3, removed: 0, added: 2 }],
    ['a\nb\nc\nd\n', 'a\nd\n', { first: 2, removed: 2, added: 0 }],
    ['a\na\n', 'a\na\na\n', { first: 3, removed: 0, added: 1 }],
    ['', 'a\n', { first: 1, removed: 0, added: 1 }],
    ['a\n', '', { first: 1, removed: 1, added: 0 }],
    ['a', 'a\n', { first: 1, removed: 1, added: 1 }],
    ['a\n', 'a\n', { first: 2, removed: 0, added: 0 }],
  ])('[EVD5] from %j to %j', (before, after, lines) => {
    expect(exactChangedLines(before, after)).toEqual(lines)
  })

  test('[EVD5] a text is its lines, and the empty one has none', () => {
    expect(exactLines('a\n\nb')).toEqual(['a\n', '\n', 'b'])
    expect(exactLines('')).toEqual([])
    expect(exactRef({ sha256: 'ab', sizeBytes: 2 }).blobRef).toBe('sha256:ab')
  })

  test('[EVD18] a name is shown without control characters, and not at any length', () => {
    expect(escapeExactName('a\u0000\n\u009fb')).toBe('a\\u0000\\u000a\\u009fb')
    expect(escapeExactName('x'.repeat(301))).toBe(`${'x'.repeat(300)}…`)
    expect(escapeExactName('\ud800').isWellFormed()).toBe(true)
  })
})

describe('hunks', () => {
  const hunk = (before: string, after: string, atEnd = false): Hunk => ({
    before: before === '' ? [] : before.split(' '),
    after: after === '' ? [] : after.split(' '),
    atEnd,
  })

  test.each<[string, string, Hunk[], string | null]>([
    ['one line', 'a\nb\nc\n', [hunk('b', 'B')], 'a\nB\nc\n'],
    [
      'two lines, of which each alone is there twice',
      'a\nb\na\nc\nb\n',
      [hunk('a c', 'X')],
      'a\nb\nX\nb\n',
    ],
    ['only its first line is there', 'a\nb\n', [hunk('a c', 'X')], null],
    ['only its last line is there', 'a\nb\n', [hunk('c b', 'X')], null],
    ['twice, overlapping', 'a\na\na\n', [hunk('a a', 'X')], null],
    ['in order', 'a\nb\nc\n', [hunk('a', 'A'), hunk('c', 'C')], 'A\nb\nC\n'],
    ['out of order', 'a\nb\nc\n', [hunk('c', 'C'), hunk('a', 'A')], null],
    ['one upon the other', 'a\nb\nc\n', [hunk('a b', 'X'), hunk('b c', 'Y')], null],
    ['right after each other', 'a\nb\n', [hunk('a', 'A'), hunk('b', 'B')], 'A\nB\n'],
    ['without any line before', 'a\n', [hunk('', 'X')], null],
    ['all lines removed', 'a\n', [hunk('a', '')], ''],
    ['no line feed at the end gets one', 'a\nb', [hunk('a', 'A')], 'A\nb\n'],
    ['an empty last line is lost, as OpenCode does it', 'a\n\n', [hunk('a', 'A')], 'A\n'],
    ['at the end, and it is', 'a\nb\n', [hunk('b', 'B', true)], 'a\nB\n'],
    ['at the end, and it is not', 'a\nb\n', [hunk('a', 'A', true)], null],
  ])('[EVD5] %s', (_, text, hunks, after) => {
    expect(applyPatchHunks(text, hunks, always)).toBe(after)
  })

  test('[EVD7] backwards they lead to one text, or to none', () => {
    expect(reversePatchHunks('a\nB\n', [hunk('b', 'B')], always)).toBe('a\nb\n')
    expect(reversePatchHunks('B\nB\n', [hunk('b', 'B')], always)).toBeNull()
    expect(reversePatchHunks('a\n', [hunk('b', '')], always)).toBeNull()
    expect(reversePatchHunks('b\nB\n', [hunk('b', 'B')], always)).toBeNull()
    expect(reversePatchHunks('a\nB', [hunk('b', 'B')], always)).toBeNull()
  })

  test.each([
    ['no begin', '*** Delete File: a\n*** End Patch'],
    ['no end', '*** Begin Patch\n*** Delete File: a'],
    ['nothing', '*** Begin Patch\n*** End Patch'],
    ['a line before the first file', '*** Begin Patch\nx\n*** Delete File: a\n*** End Patch'],
    ['a line after a deletion', '*** Begin Patch\n*** Delete File: a\n+x\n*** End Patch'],
    ['an update without hunks', '*** Begin Patch\n*** Update File: a\n*** End Patch'],
    ['a line before the first hunk', '*** Begin Patch\n*** Update File: a\n-x\n+y\n*** End Patch'],
    [
      'a line after the end of the file',
      '*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End of File\n-z\n*** End Patch',
    ],
  ])('[EVD6] not understood: %s', (_, text) => {
    expect(parsePatch(text)).toBeNull()
  })

  test('[EVD5] several files, and the end of one', () => {
    const text = [
      '*** Begin Patch',
      '*** Add File: a',
      '+',
      '*** Update File:b',
      '@@ f()',
      '-x',
      '+y',
      '*** End of File',
      '*** End Patch',
    ]
    expect(parsePatch(`\n${text.join('\n')}\n`)).toEqual([
      { type: 'add', path: 'a', content: '' },
      { type: 'update', path: 'b', hunks: [{ before: ['x'], after: ['y'], atEnd: true }] },
    ])
  })
})

describe('events without a proof', () => {
  const off = (over: Partial<FixtureInput>) =>
    evaluateFixture(fixture({ ...over, mode: 'off' }), 'full')

  test('[EVD6] say what the tool has said of the operation, and of which side nothing is known', () => {
    const eventOf = (part: FixtureInput['parts'][number]) => off({ parts: [part] }).events[0]
    expect(eventOf(write('x', { exists: false }))).toMatchObject({
      operation: 'create',
      beforeState: { exists: false },
      afterState: { exists: true, unavailableReason: 'opencode-write-final-content-unavailable' },
    })
    expect(eventOf(write('x'))).toMatchObject({
      operation: 'modify',
      beforeState: { exists: true, unavailableReason: 'opencode-write-baseline-not-captured' },
    })
    expect(eventOf(patch(['*** Delete File: a.ts']))).toMatchObject({
      operation: 'delete',
      afterState: { exists: false },
    })
    expect(eventOf(patch(['*** Add File: a.ts', '+x']))).toMatchObject({ operation: 'create' })
  })

  test('[EVD6] keep short strings of an edit, and no long ones', () => {
    const newString = 'x'.repeat(16 * 1024 + 1)
    expect(off({ parts: [edit({ newString })] }).events[0]).toMatchObject({
      oldString: 'value = 1',
      newString: null,
    })
  })

  test('[EVD18] tools that only read are not worth a remark, unknown ones and failures are', () => {
    const part = (tool: string, order: number) => ({
      partId: tool,
      messageId: 'message-1',
      order,
      tool,
    })
    const parts = [
      part('read', 1),
      part('grep', 2),
      part('bash', 3),
      edit({ order: 4, status: 'error' }),
    ]
    expect(off({ parts }).diagnostics).toEqual([
      'snapshot-upgrade/unmodelled-tool: bash',
      'snapshot-upgrade/tool-not-completed: part-1',
    ])
  })

  test('[EVD14] reading beside an edit hides nothing', () => {
    const parts = [edit(), { partId: 'p2', messageId: 'message-1', order: 2, tool: 'grep' }]
    expect(evaluateFixture(fixture({ parts }), 'full').upgraded).toBe(1)
    const kept = [edit({ replaceAll: false })]
    expect(evaluateFixture(fixture({ parts: kept }), 'full').upgraded).toBe(1)
  })

  test('[EVD6] a cut content that the trees prove is told', () => {
    const over = { parts: [write('cut', { truncated: true })], snapshotFiles: [file('a', 'b')] }
    expect(evaluateFixture(fixture(over), 'full').diagnostics).toEqual([
      'snapshot-upgrade/toolpart-truncated: part-1, src/app.ts',
    ])
  })
})
