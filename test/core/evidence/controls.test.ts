// The ten negative controls: cases that look like a proof and must stay as they were, each with its reason.

import { describe, expect, test } from 'vitest'
import type { ChangeEvent } from '../../../src/contract/change.ts'
import { evaluateFixture } from '../../../src/core/evidence/dry-run/evaluate.ts'
import { safetyFingerprint, isReviewSafe } from '../../../src/core/evidence/safety.ts'
import {
  edit,
  file,
  fixture,
  type FixtureInput,
  patch,
  windowWith,
  write,
} from '../../support/proof-fixtures.ts'

type Over = Partial<FixtureInput>
const evaluate = (over: Over, mode: 'off' | 'shadow' | 'full' = 'full') =>
  evaluateFixture(fixture({ ...over, mode }), 'full')
const proven = () => evaluate({}).events[0] as ChangeEvent

describe('negative controls', () => {
  test.each<[string, Over, string]>([
    [
      'same file path, same member, but different task id',
      { parts: [edit({ taskId: 'task-2' })] },
      'strict-delivery-required',
    ],
    [
      'same task id, same file path, but different member',
      { parts: [edit({ memberName: 'bob' })] },
      'strict-delivery-required',
    ],
    [
      'same task id, same file path, but different lane',
      { parts: [edit({ laneId: 'lane-2' })] },
      'strict-delivery-required',
    ],
    [
      'same task id, same file path, but a session that the delivery does not know',
      { parts: [edit({ sessionId: 'session-2' })] },
      'strict-delivery-required',
    ],
    [
      'same session and file path, but tool part outside the snapshot window',
      { windows: [windowWith({ startPartOrder: 5 })] },
      'no-window',
    ],
    [
      'snapshot before and after exist, but oldString occurs twice',
      { snapshotFiles: [file('value = 1 value = 1', 'value = 2 value = 1')] },
      'edit-ambiguous',
    ],
    [
      'snapshot after equals the content, but before is unavailable',
      { parts: [write('x')], snapshotFiles: [file(undefined, 'x')] },
      'no-file-anchor',
    ],
    [
      'snapshot path matches, but the operation is a rename',
      {
        parts: [
          patch(['*** Update File: src/old.ts', '*** Move to: src/app.ts', '@@', '-a', '+b']),
        ],
        snapshotFiles: [file('a', 'b')],
      },
      'rename',
    ],
    [
      'snapshot path matches, but only the mode changed',
      { parts: [write('x')], snapshotFiles: [file('x', 'x', { afterMode: '100755' })] },
      'mode-change',
    ],
    [
      'current disk matches the expected after, but snapshot before is missing',
      {
        snapshotFiles: [
          file(undefined, 'const value = 2\n', { currentContent: 'const value = 2\n' }),
        ],
      },
      'current-disk-not-proof',
    ],
  ])('[EVD9] %s', (_, over, reason) => {
    const { upgraded, diagnostics, events } = evaluate(over)
    expect(upgraded).toBe(0)
    expect(diagnostics.some((line) => line.startsWith(`snapshot-upgrade-skipped/${reason}`))).toBe(
      true,
    )
    expect(events).toEqual(evaluate(over, 'off').events)
  })

  test('[EVD9] shadow computes an upgrade, but what is imported has the fingerprint of off', () => {
    const shadow = evaluate({}, 'shadow')
    expect(shadow).toMatchObject({ upgraded: 0, wouldUpgrade: 1 })
    expect(shadow.decisions).toMatchObject([{ type: 'upgraded', applied: false }])
    expect(shadow.fingerprint).toBe(evaluate({}, 'off').fingerprint)
    expect(shadow.fingerprint).not.toBe(evaluate({}, 'full').fingerprint)
  })

  test('[EVD9] a metadata-only event and its upgrade have one source key and different events', () => {
    const [before, after] = [evaluate({}, 'off').events[0], proven()]
    expect(after.sourceImportKey).toBe(before?.sourceImportKey)
    expect(after.eventId).not.toBe(before?.eventId)
    expect(proven().eventId).toBe(after.eventId)
  })

  test('[EVD9] an unknown evidenceProof is unsafe, whatever texts it has', () => {
    expect(isReviewSafe(proven())).toBe(true)
    for (const evidenceProof of ['opencode-snapshot-v2', 'metadata-only-fallback', '', 'exact'])
      expect(isReviewSafe({ ...proven(), evidenceProof })).toBe(false)
  })
})

describe('review safety', () => {
  const unsafe: [string, Partial<ChangeEvent>][] = [
    ['a reason on the side before', { beforeState: { exists: true, unavailableReason: 'x' } }],
    ['a reason beside a hash', { afterState: { ...proven().afterState, unavailableReason: 'x' } }],
    ['a hash without its text', { before: null }],
    ['a text without its hash', { afterState: { exists: true } }],
    ['another hash', { beforeState: { ...proven().beforeState, sha256: 'a'.repeat(64) } }],
    ['another size', { beforeState: { ...proven().beforeState, sizeBytes: 1 } }],
    ['an operation that the sides do not show', { operation: 'create' }],
    ['a deletion with a text afterwards', { operation: 'delete' }],
    ['not known whether it was there', { operation: 'create', before: null, beforeState: {} }],
  ]
  test.each(unsafe)('[EVD10] unsafe: %s', (_, over) => {
    expect(isReviewSafe({ ...proven(), ...over })).toBe(false)
  })

  test('[EVD10] a fingerprint tells what a reviewer would notice, and holds no content', () => {
    const event = proven()
    const base = safetyFingerprint([event])
    expect(
      safetyFingerprint([{ ...event, oldString: 'x', eventId: 'evt_2', executionSeq: 7 }]),
    ).toBe(base)
    for (const over of [
      { warnings: ['x'] },
      { evidenceProof: 'x' },
      { relativePath: 'b' },
      { operation: 'delete' },
      { taskId: 'x' },
      { sourceImportKey: 'x' },
      { after: null },
    ] as Partial<ChangeEvent>[])
      expect(safetyFingerprint([{ ...event, ...over }])).not.toBe(base)
    const two = { ...event, relativePath: 'b' }
    expect(safetyFingerprint([two, event])).toBe(safetyFingerprint([event, two]))
  })
})

describe('modes', () => {
  test('[EVD11] another provider’s changes are the same in every mode', () => {
    const all = (['off', 'shadow', 'full'] as const).map((mode) =>
      evaluate({ provider: 'codex' }, mode),
    )
    expect(new Set(all.map(({ fingerprint }) => fingerprint)).size).toBe(1)
    for (const { events, decisions, upgraded } of all) {
      expect(upgraded).toBe(0)
      expect(events).toMatchObject([{ sourceProvider: 'codex' }])
      expect(decisions).toMatchObject([{ type: 'skipped', reason: 'not-opencode' }])
    }
  })

  test('[EVD11] a mode that is set lower wins', () => {
    expect(evaluateFixture(fixture({ mode: 'full' }), 'shadow').mode).toBe('shadow')
    expect(evaluateFixture(fixture({ mode: 'off' }), 'full').mode).toBe('off')
  })
})
