// Several changes of one file in one window: told backwards, all of them or none.

import { describe, expect, test } from 'vitest'
import type { DiagnosticCode } from '../../../src/contract/evidence.ts'
import { evaluateFixture } from '../../../src/core/evidence/dry-run/evaluate.ts'
import {
  edit,
  file,
  fixture,
  type FixtureInput,
  patch,
  type PartInput,
  windowWith,
  write,
} from '../../support/proof-fixtures.ts'

type Over = Partial<FixtureInput>
const evaluate = (over: Over, mode: 'single-change' | 'full' | 'shadow' | 'off' = 'full') =>
  evaluateFixture(fixture({ ...over, mode }), 'full')

const first = edit({ oldString: 'one', newString: 'two' })
const second = edit({ partId: 'part-2', order: 2, oldString: 'two', newString: 'three' })
const chain: Over = { parts: [first, second], snapshotFiles: [file('one\n', 'three\n')] }
const at = (order: number, part: PartInput): PartInput => ({
  ...part,
  order,
  partId: `part-${order}`,
})
const update = (before: string, after: string) =>
  patch(['*** Update File: src/app.ts', '@@', `-${before}`, `+${after}`])

const positives: [name: string, over: Over, proofs: string[]][] = [
  ['two edits', chain, ['inverse-edit-chain', 'inverse-edit-chain']],
  [
    'a new file, then an edit',
    { parts: [write('two\n'), second], snapshotFiles: [file(null, 'three\n')] },
    ['opencode-snapshot', 'inverse-edit-chain'],
  ],
  [
    'an overwritten file, then an edit',
    { parts: [write('two\n', { exists: true }), second], snapshotFiles: [file('x', 'three\n')] },
    ['opencode-snapshot', 'inverse-edit-chain'],
  ],
  [
    'an edit, then a patch',
    { parts: [first, at(2, update('two', 'three'))], snapshotFiles: [file('one\n', 'three\n')] },
    ['inverse-edit-chain', 'inverse-apply-patch-chain'],
  ],
  [
    'an added file, then an edit',
    {
      parts: [patch(['*** Add File: src/app.ts', '+two']), second],
      snapshotFiles: [file(null, 'three\n')],
    },
    ['opencode-snapshot', 'inverse-edit-chain'],
  ],
  [
    'a file that OpenCode is known not to format, made and edited, then edited beyond what parts tell',
    {
      capability: { formatted: [] },
      parts: [write('two\n', { exists: false }), second],
      snapshotFiles: [file(null, 'three\n')],
    },
    ['toolpart-chain', 'toolpart-chain'],
  ],
]

const negatives: [rule: string, name: string, over: Over, reason: DiagnosticCode][] = [
  [
    'R3-46',
    'one step has two places backwards',
    { snapshotFiles: [file('one\ntwo-three\n', 'three\ntwo-three\n')] },
    'path-chain-ambiguous',
  ],
  [
    'R3-46',
    'the first text is not reached',
    { snapshotFiles: [file('one!\n', 'three\n')] },
    'path-chain-boundary-mismatch',
  ],
  [
    'R3-46',
    'the first text is absent',
    { snapshotFiles: [file(null, 'three\n')] },
    'path-chain-boundary-mismatch',
  ],
  [
    'R3-46',
    'nothing is left afterwards',
    { snapshotFiles: [file('one\n', null)] },
    'no-after-anchor',
  ],
  [
    'R3-39',
    'a deletion cannot be told backwards',
    {
      parts: [first, edit({ partId: 'part-2', order: 2, oldString: 'two', newString: '' })],
      snapshotFiles: [file('one\n', '\n')],
    },
    'path-chain-ambiguous',
  ],
  [
    'R3-47',
    'a write after an edit',
    { parts: [first, at(2, write('three\n'))] },
    'path-chain-ambiguous',
  ],
  [
    'R3-47',
    'a write whose content was cut',
    { parts: [write('two\n', { truncated: true }), second] },
    'path-chain-ambiguous',
  ],
  [
    'R3-47',
    'a write of another text',
    { parts: [write('TWO\n'), second], snapshotFiles: [file(null, 'three\n')] },
    'path-chain-ambiguous',
  ],
  [
    'R3-47',
    'a write that says that no file was there',
    { parts: [write('two\n', { exists: false }), second] },
    'path-chain-ambiguous',
  ],
  [
    'R3-41',
    'an added file that was there',
    { parts: [patch(['*** Add File: src/app.ts', '+two']), second] },
    'path-chain-ambiguous',
  ],
  ['R3-49', 'equal places', { parts: [first, { ...second, order: 1 }] }, 'unstable-order'],
  [
    'R3-49',
    'the times say otherwise',
    {
      parts: [
        { ...first, endedAt: 2 },
        { ...second, endedAt: 1 },
      ],
    },
    'unstable-order',
  ],
  [
    'R3-45',
    'one key twice',
    { parts: [first, { ...second, partId: 'part-1' }] },
    'duplicate-import-key',
  ],
  [
    'R3-38',
    'a step that replaces all',
    { parts: [first, { ...second, replaceAll: true }] },
    'edit-replace-all',
  ],
  [
    'R3-45',
    'a step that was never seen on the link',
    { parts: [first, { ...second, seen: false }] },
    'path-chain-ambiguous',
  ],
]

describe('chains', () => {
  test.each(positives)('[EVD7] %s: every step is proven', (_, over, proofs) => {
    const { events, upgraded } = evaluate(over)
    expect(events.map(({ evidenceProof }) => evidenceProof)).toEqual(proofs)
    const exact = proofs.filter((proof) => proof === 'toolpart-chain').length
    expect(upgraded).toBe(proofs.length - exact)
    const [a, b] = events
    expect(a?.after?.sha256).toBe(b?.before?.sha256)
    expect(events.flatMap(({ warnings }) => warnings)).toEqual([])
  })

  test.each(negatives)('[EVD7] not one step is proven (%s): %s', (_, __, over, reason) => {
    const merged = { ...chain, ...over }
    const { events, decisions } = evaluate(merged)
    expect(decisions).toContainEqual(expect.objectContaining({ type: 'skipped', reason }))
    expect(decisions.filter(({ type }) => type === 'upgraded')).toEqual([])
    expect(events).toEqual(evaluate(merged, 'off').events)
  })

  test('[EVD7] three edits have the texts between them', () => {
    const third = edit({ partId: 'part-3', order: 3, oldString: 'three', newString: 'four' })
    const files = [file('one\n', 'four\n')]
    const { events } = evaluate({ parts: [third, first, second], snapshotFiles: files })
    expect(events.map(({ sourcePartId }) => sourcePartId)).toEqual(['part-1', 'part-2', 'part-3'])
    expect(events[0]?.after?.sha256).toBe(events[1]?.before?.sha256)
    expect(events[1]?.after?.sha256).toBe(events[2]?.before?.sha256)
    expect(events[2]?.linesAdded).toBe(1)
  })

  test('[EVD7] single-change leaves a chain alone, and full does not', () => {
    const { decisions, events } = evaluate(chain, 'single-change')
    expect(decisions.map((it) => it.type === 'skipped' && it.reason)).toEqual([
      'multi-change-group',
      'multi-change-group',
    ])
    expect(events).toEqual(evaluate(chain, 'off').events)
    expect(evaluate(chain, 'shadow')).toMatchObject({ upgraded: 0, wouldUpgrade: 2 })
  })

  test('[EVD7] the same path in another window is another chain', () => {
    const windows = [
      windowWith({ finishPartOrder: 2 }),
      windowWith({
        windowId: 'window-2',
        startPartOrder: 2,
        fromSnapshot: 'snapshot-2',
        toSnapshot: 'snapshot-3',
      }),
    ]
    const files = [
      file('one\n', 'two\n', { windowId: 'window-1' }),
      file('two\n', 'three\n', { windowId: 'window-2' }),
    ]
    const parts = [first, { ...second, order: 3 }]
    expect(evaluate({ parts, windows, snapshotFiles: files }, 'single-change').upgraded).toBe(2)
  })

  test('[EVD7] another file of the same window has its own fate', () => {
    const parts = [first, { ...second, filePath: 'src/b.ts' }]
    const files = [file('one', 'two'), file('x', 'y', { relativePath: 'src/b.ts' })]
    expect(evaluate({ parts, snapshotFiles: files })).toMatchObject({
      upgraded: 1,
      metadataOnly: 1,
    })
  })
})

describe('tool parts alone', () => {
  const made = write('two\n', { exists: false })
  const plain = { formatted: [] }
  const exact = (over: Over) =>
    evaluate({ capability: plain, snapshotFiles: [], ...over }, 'off').events.filter(
      ({ confidence }) => confidence === 'exact',
    ).length

  test('[EVD8] a new file with its whole content is exact in every mode, without a snapshot', () => {
    for (const mode of ['off', 'shadow', 'single-change', 'full'] as const) {
      const { events, statistics } = evaluate(
        { capability: plain, parts: [made], snapshotFiles: [] },
        mode,
      )
      expect(events).toMatchObject([
        { evidenceProof: 'toolpart-chain', confidence: 'exact', operation: 'create', warnings: [] },
      ])
      expect(statistics).toMatchObject({ exactToolpartChainCount: 1, skippedChanges: 0 })
    }
  })

  test('[EVD8] what is done to it right after is exact too, as far as each step has one result', () => {
    expect(exact({ parts: [made, second] })).toBe(2)
    expect(exact({ parts: [made, at(2, update('two', 'three'))] })).toBe(2)
    expect(exact({ parts: [made, at(2, write('x', { exists: true })), at(3, second)] })).toBe(2)
    expect(exact({ parts: [made, { ...second, oldString: 'five' }] })).toBe(1)
    expect(exact({ parts: [second, at(3, made)] })).toBe(0)
  })

  test.each<[string, Over]>([
    ['formatters are not known', { capability: {}, parts: [made] }],
    ['the ending is formatted', { capability: { formatted: ['.ts'] }, parts: [made] }],
    ['the tool saw a file', { parts: [write('two\n', { exists: true })] }],
    ['the content was cut', { parts: [{ ...made, truncated: true }] }],
    ['a shell ran beside it', { parts: [made, { ...at(2, made), tool: 'bash' }] }],
    ['it was never seen on the link', { parts: [{ ...made, seen: false }] }],
    [
      'the history cannot be read',
      { capability: { formatted: [], historyReadable: false }, parts: [made] },
    ],
    ['the delivery is not strict', { attributionMode: 'compatible', parts: [made] }],
    ['it is binary', { parts: [{ ...made, content: 'a\u0001' }] }],
    ['it is too large', { parts: [{ ...made, content: 'é'.repeat(600_000) }] }],
  ])('[EVD8] not exact: %s', (_, over) => {
    expect(exact(over)).toBe(0)
  })
})
