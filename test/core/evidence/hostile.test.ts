// Bundles that fit every limit and are made to cost: deciding on them stays quick, and keeping them stays small.

import { describe, expect, test } from 'vitest'
import { EvidenceBundle, type EvidencePart } from '../../../src/contract/evidence.ts'
import { evaluateFixture } from '../../../src/core/evidence/dry-run/evaluate.ts'
import { fixtureBundle, fixtureDelivery } from '../../../src/core/evidence/dry-run/fixture.ts'
import { proveChanges } from '../../../src/core/evidence/prove.ts'
import { applyPatchHunks, parsePatch } from '../../../src/core/evidence/texts/patch.ts'
import { edit, file, fixture, patch, write } from '../../support/proof-fixtures.ts'

const repeat = <T>(count: number, make: (nth: number) => T): T[] =>
  Array.from({ length: count }, (_, nth) => make(nth))

/** By processor time: others on the same machine, and other files in this process, do not count. */
function secondsOf(work: () => void): number {
  const before = process.threadCpuUsage()
  work()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1e6
}

const base = fixtureBundle(fixture())
const delivery = fixtureDelivery(fixture())
const [part] = base.parts as [EvidencePart]

describe('[EVD21] a bundle at every limit is decided on in seconds', () => {
  const patched = (names: string[]): EvidencePart => ({
    ...part,
    tool: 'apply_patch',
    input: {
      patchText: [
        '*** Begin Patch',
        ...names.map((it) => `*** Delete File: ${it}`),
        '*** End Patch',
      ].join('\n'),
    },
    metadata: {
      ...part.metadata,
      files: names.slice(0, 1000).map((filePath) => ({ filePath, type: 'delete' })),
    },
  })
  const bundles: Record<string, Partial<EvidenceBundle>> = {
    'ten thousand changes of few patches': {
      parts: repeat(10, (nth) => ({
        ...patched(repeat(1000, (at) => `f${nth}-${at}`)),
        ...{ id: `part-${nth}`, order: nth + 1 },
      })),
    },
    'parts, windows and failures of one message': {
      parts: repeat(2000, (nth) => ({ ...part, id: `p${nth}`, order: nth + 1 })),
      windows: repeat(2000, (nth) => ({
        ...base.windows[0]!,
        ...{ id: `w${nth}`, startOrder: nth, finishOrder: nth + 2 },
        changed: repeat(200, (at) => `c${at}`),
      })),
      failures: repeat(10_000, (nth) => ({
        ...{ code: 'binary' as const, windowId: `w${nth % 2000}`, path: `x${nth}`, partId: null },
      })),
    },
    'other sessions that ran beside it': {
      parts: repeat(2000, (nth) => ({ ...part, id: `p${nth}`, order: nth + 1 })),
      neighbours: repeat(2000, (nth) => ({
        ...{ id: `n${nth}`, messageId: `m${nth}`, sessionId: `s${nth}`, tool: 'edit' },
        ...{ paths: repeat(100, (at) => `q${at}`), startedAt: 0, endedAt: null },
      })),
    },
  }
  test.each(Object.entries(bundles))('%s', (_, change) => {
    const bundle = EvidenceBundle.parse({ ...base, ...change })
    expect(secondsOf(() => proveChanges({ bundle, delivery, mode: 'full' }))).toBeLessThan(5)
  })

  test('a patch whose lines are nearly everywhere', () => {
    const lines = repeat(20_000, () => 'a')
    const hunk = ['@@', ...repeat(5000, () => ' a'), '-b', '+c']
    const patch = ['*** Begin Patch', '*** Update File: a', ...hunk, '*** End Patch'].join('\n')
    const [act] = parsePatch(patch) ?? []
    if (act?.type !== 'update') throw new Error('It is an update')
    expect(
      secondsOf(() => expect(applyPatchHunks(lines.join('\n'), act.hunks, () => true)).toBeNull()),
    ).toBeLessThan(2)
  })

  test('patches with many places in many lines, as long as all of them are not too much', () => {
    const lines = repeat(3500, (nth) => `${nth}\n`)
    const changed = lines.map((line) => `${line.trim()}b\n`)
    const hunks = repeat(3500, (nth) => ['@@', `-${nth}`, `+${nth}b`]).flat()
    const names = ['first.ts', 'second.ts']
    const parts = names.map((name, nth) =>
      patch([`*** Update File: ${name}`, ...hunks], { partId: name, order: nth + 1 }),
    )
    const snapshotFiles = names.map((relativePath) =>
      file(lines.join(''), changed.join(''), { relativePath }),
    )
    const { decisions } = evaluateFixture(fixture({ parts, snapshotFiles }), 'full')
    expect(decisions.map((it) => (it.type === 'skipped' ? it.reason : it.proof))).toEqual([
      'opencode-snapshot',
      'patch-ambiguous',
    ])
  })

  test('an edit whose text is nearly everywhere', () => {
    const text = 'a'.repeat(1_000_000)
    const oldString = `${'a'.repeat(200_000)}b${'a'.repeat(200_000)}`
    const made = fixture({
      parts: [edit({ oldString, newString: 'c' })],
      snapshotFiles: [file(text, `${text}c`)],
    })
    const bundle = fixtureBundle(made)
    expect(
      secondsOf(() => proveChanges({ bundle, delivery: fixtureDelivery(made), mode: 'full' })),
    ).toBeLessThan(2)
  })
})

describe('[EVD21] many small edits of a large file', () => {
  const large = 'x'.repeat(600_000)
  /** Each edit turns one mark into the next, so that each step leads back to one text. */
  const chain = (count: number) => {
    const at = (nth: number) => `${large}<${nth}>`
    const steps = repeat(count, (nth) =>
      edit({
        ...{ partId: `part-${nth}`, order: nth + 1 },
        ...{ oldString: `<${nth}>`, newString: `<${nth + 1}>` },
      }),
    )
    const window = { ...fixture().windows[0]!, finishPartOrder: count + 1 }
    return { steps, at, window }
  }

  test('are proven as long as the texts between them are not too much', () => {
    for (const [count, isProven] of [
      [7, true],
      [8, false],
    ] as const) {
      const { steps, at, window } = chain(count)
      const made = fixture({
        ...{ parts: steps, windows: [window], snapshotFiles: [file(at(0), at(count))] },
      })
      const { decisions, changes } = proveChanges({
        ...{ bundle: fixtureBundle(made), delivery: fixtureDelivery(made), mode: 'full' },
      })
      expect(
        new Set(decisions.map((it) => (it.type === 'upgraded' ? it.proof : it.reason))),
      ).toEqual(new Set([isProven ? 'inverse-edit-chain' : 'total-budget']))
      expect(changes.every(({ afterContent }) => (afterContent !== null) === isProven)).toBe(true)
    }
  })

  test('after the write that made the file are exact that far, in every mode', () => {
    const { steps, at, window } = chain(9)
    const made = fixture({
      parts: [
        write(at(0), { partId: 'first', order: 0, exists: false }),
        ...steps.map((it, nth) => ({ ...it, order: nth + 1 })),
      ],
      windows: [{ ...window, startPartOrder: 0 }],
      snapshotFiles: [],
    })
    const bundle = fixtureBundle(made)
    bundle.capability.formatted = []
    for (const mode of ['off', 'shadow', 'full'] as const) {
      const { changes } = proveChanges({ bundle, delivery: fixtureDelivery(made), mode })
      const exact = changes.filter(({ event }) => event.evidenceProof === 'toolpart-chain')
      expect(exact).toHaveLength(1 + 6)
    }
  })
})
