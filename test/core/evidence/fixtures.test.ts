import { describe, expect, test } from 'vitest'
import type { ProofMode } from '../../../src/contract/evidence.ts'
import { evaluateFixture } from '../../../src/core/evidence/dry-run/evaluate.ts'
import { baseFixture, fixture } from '../../support/proof-fixtures.ts'
import { type Over, positives } from '../../support/proof-table.ts'

const evaluate = (over: Over, mode: ProofMode = 'single-change') =>
  evaluateFixture(fixture({ ...over, mode }), 'full')

describe.each(positives)('$name', ({ over, operation, proof, texts, twins }) => {
  test('[EVD5] is proven, with both sides, and its warning is gone', () => {
    for (const mode of ['single-change', 'full'] as const) {
      const { events, decisions, upgraded, metadataOnly } = evaluate(over, mode)
      expect(decisions).toMatchObject([{ type: 'upgraded', applied: true }])
      expect([upgraded, metadataOnly]).toEqual([1, 0])
      expect(events).toMatchObject([
        {
          operation,
          confidence: 'high',
          evidenceProof: proof ?? 'opencode-snapshot',
          warnings: [],
        },
      ])
      const [event] = events
      expect(event?.beforeState.exists).toBe(texts[0] !== null)
      expect(event?.afterState.exists).toBe(texts[1] !== null)
      expect(event?.before?.sizeBytes ?? null).toBe(sizeOf(texts[0]))
      expect(event?.after?.sizeBytes ?? null).toBe(sizeOf(texts[1]))
    }
  })

  test.each(twins)('[EVD6] its twin stays as it was ($rule): $name', ({ over: twin, reason }) => {
    const merged = { ...over, ...twin }
    const { events, decisions, diagnostics } = evaluate(merged, 'full')
    const first = decisions.find(({ partId }) => partId === 'part-1')
    expect(first).toMatchObject({ type: 'skipped', reason })
    expect(events).toEqual(evaluate(merged, 'off').events)
    for (const event of events) {
      expect(event).toMatchObject({ confidence: 'medium', evidenceProof: 'metadata-only-fallback' })
      expect([event.before, event.after]).toEqual([null, null])
      expect(event.warnings.length).toBeGreaterThan(0)
    }
    expect(diagnostics).toContainEqual(
      expect.stringContaining(`snapshot-upgrade-skipped/${reason}: part-1`),
    )
  })
})

const sizeOf = (text: string | null) => (text === null ? null : Buffer.byteLength(text))

test('[EVD6] every positive fixture has a twin, and each twin names its rule', () => {
  expect(positives.filter(({ twins }) => twins.length === 0)).toEqual([])
  const rules = positives.flatMap(({ twins }) => twins.map(({ rule }) => rule))
  expect(rules.filter((rule) => !/^R3-\d\d/.test(rule))).toEqual([])
})

test('[EVD5] the base fixture is the seed’s own', () => {
  expect(evaluateFixture(fixture(baseFixture), 'full').events[0]).toMatchObject({
    source: 'opencode_toolpart_edit',
    relativePath: 'src/app.ts',
    filePath: '/workspace/src/app.ts',
    sourceImportKey: 'opencode\u0000session-1\u0000part-1\u0000src/app.ts',
    snapshotSource: 'opencode',
  })
})
