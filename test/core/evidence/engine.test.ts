// The engine over whole bundles: what the fixture form cannot say.

import { describe, expect, test } from 'vitest'
import {
  type EvidenceBundle,
  type EvidenceFile,
  evidenceLimits,
  type ProofMode,
} from '../../../src/contract/evidence.ts'
import { evaluateFixture } from '../../../src/core/evidence/dry-run/evaluate.ts'
import { candidateEventId } from '../../../src/core/evidence/candidate.ts'
import { fixtureBundle, fixtureDelivery } from '../../../src/core/evidence/dry-run/fixture.ts'
import { proveChanges } from '../../../src/core/evidence/prove.ts'
import { exactDigest } from '../../../src/core/evidence/texts/exact.ts'
import { upgradeHolds } from '../../../src/core/evidence/upgrade.ts'
import { isResolvedByProof } from '../../../src/core/evidence/warnings.ts'
import {
  edit,
  editWarning,
  file,
  fixture,
  patch,
  windowWith,
  write,
} from '../../support/proof-fixtures.ts'

type Change = (bundle: EvidenceBundle) => Partial<EvidenceBundle>
function prove(change: Change = () => ({}), over = {}, mode: ProofMode = 'full') {
  const made = fixture(over)
  const bundle = fixtureBundle(made)
  return proveChanges({
    bundle: { ...bundle, ...change(bundle) },
    delivery: fixtureDelivery(made),
    mode,
  })
}
const reasonsOf = (...args: Parameters<typeof prove>) =>
  prove(...args).decisions.map((it) => (it.type === 'skipped' ? it.reason : it.proof))

const text = (value: string): EvidenceFile['before'] => ({
  state: 'text',
  text: value,
  ...exactDigest(value),
  mode: '100644',
})

describe('off', () => {
  test('[CHG18] a history that is not whole makes nothing exact, in any mode', () => {
    const made = fixture({
      parts: [write('new\n', { exists: false })],
      capability: { formatted: [] },
      snapshotFiles: [file(null, 'new\n')],
    })
    const whole = fixtureBundle(made)
    const left = { code: 'part-limit' as const, windowId: null, path: null, partId: null }
    for (const mode of ['off', 'shadow', 'full'] as const) {
      const proofs = [whole, { ...whole, failures: [left] }].map(
        (bundle) =>
          proveChanges({ bundle, delivery: fixtureDelivery(made), mode }).changes[0]?.event
            .evidenceProof,
      )
      expect([mode, ...proofs]).toEqual([mode, 'toolpart-chain', 'metadata-only-fallback'])
    }
  })

  test('[EVD11] looks at no window, no file and no read', () => {
    const made = fixture()
    const bundle = new Proxy(fixtureBundle(made), {
      get(target, name) {
        if (['windows', 'files', 'reads'].includes(String(name)))
          throw new Error(`Off has read ${String(name)}`)
        return Reflect.get(target, name) as unknown
      },
    })
    const { statistics, decisions } = proveChanges({
      bundle,
      delivery: fixtureDelivery(made),
      mode: 'off',
    })
    expect(statistics).toMatchObject({
      mode: 'off',
      attemptedChanges: 0,
      snapshotReadCount: 0,
      skippedByReason: { 'feature-flag-off': 1 },
      metadataOnlyFallbackCount: 1,
    })
    expect(decisions).toMatchObject([{ type: 'skipped', reason: 'feature-flag-off' }])
  })

  test('[EVD11] and shadow import the same, field by field', () => {
    expect(prove(undefined, {}, 'shadow').changes).toEqual(prove(undefined, {}, 'off').changes)
  })
})

describe('limits', () => {
  const sized = (bytes: number) => 'a'.repeat(bytes)

  test('[EVD12] a file over 1 MiB stays as it was, by its bytes and not by its characters', () => {
    const large = 'é'.repeat(evidenceLimits.bytesPerFile / 2)
    const files = (content: string) => ({
      parts: [write(content)],
      snapshotFiles: [file(null, content)],
    })
    expect(reasonsOf(undefined, files(large))).toEqual(['opencode-snapshot'])
    expect(reasonsOf(undefined, files(`${large}é`))).toEqual(['too-large'])
  })

  test('[EVD12] what passes 4 MiB in total stays as it was, and the others are proven', () => {
    const names = ['a', 'b', 'c', 'd', 'e'].map((name) => `${name}.ts`)
    const result = prove(undefined, {
      parts: names.map((name, order) =>
        write(sized(1_000_000), { filePath: name, partId: name, order: order + 1 }),
      ),
      snapshotFiles: names.map((relativePath) => file(null, sized(1_000_000), { relativePath })),
    })
    expect(result.statistics).toMatchObject({
      upgradedChanges: 4,
      skippedByTotalBudget: 1,
      skippedByReason: { 'total-budget': 1 },
      bytesMaterialized: 4_000_000,
    })
    expect(result.changes.at(-1)?.event.evidenceProof).toBe('metadata-only-fallback')
  })

  test('[EVD12] of a window the first 100 files count', () => {
    const numbers = Array.from({ length: 101 }, (_, at) => at + 1)
    const result = prove(undefined, {
      windows: [windowWith({ finishPartOrder: 1000 })],
      parts: numbers.map((order) =>
        write('x', { filePath: `f${order}`, partId: `p${order}`, order }),
      ),
      snapshotFiles: numbers.map((order) => file(null, 'x', { relativePath: `f${order}` })),
    })
    expect(result.statistics).toMatchObject({
      upgradedChanges: 100,
      skippedByReason: { 'file-limit': 1 },
    })
  })

  test('[EVD12] texts without a read of their own are not used', () => {
    expect(reasonsOf(() => ({ reads: [] }))).toEqual(['read-limit'])
    expect(reasonsOf(({ reads }) => ({ reads: [...reads, ...reads] }))).toEqual(['read-limit'])
  })

  test('[EVD12] a slow read is told, and is believed', () => {
    const slow = prove(({ reads }) => ({
      reads: reads.map((read) => ({ ...read, elapsedMs: 501 })),
    }))
    expect(slow.diagnostics.map(({ code }) => code)).toEqual(['read-slow'])
    expect(slow.statistics).toMatchObject({ upgradedChanges: 1, snapshotReadElapsedMs: 501 })
  })
})

describe('what a bundle claims', () => {
  const changeFile =
    (over: Partial<EvidenceFile>): Change =>
    (bundle) => ({ files: bundle.files.map((each) => ({ ...each, ...over })) })

  test.each<[string, Change, string]>([
    [
      'a text that has not its hash',
      changeFile({ before: { ...text('x'), ...exactDigest('y') } }),
      'content-hash-mismatch',
    ],
    [
      'a size in characters',
      changeFile({ before: { ...text('é'), sizeBytes: 1 } as EvidenceFile['before'] }),
      'content-hash-mismatch',
    ],
    ['a control byte', changeFile({ before: text('a\u0000b') }), 'binary'],
    ['half a surrogate pair', changeFile({ after: text('\ud800') }), 'binary'],
    ['another pair of trees', changeFile({ from: 'f'.repeat(40) }), 'identity-mismatch'],
    [
      'neither before nor after',
      changeFile({ before: { state: 'absent' }, after: { state: 'absent' } }),
      'no-file-anchor',
    ],
    ['no message', () => ({ messages: [] }), 'identity-missing'],
    [
      'a message twice',
      ({ messages }) => ({ messages: [...messages, ...messages] }),
      'identity-missing',
    ],
    [
      'a message of another session',
      ({ messages }) => ({ messages: messages.map((it) => ({ ...it, sessionId: 'x' })) }),
      'identity-mismatch',
    ],
    [
      'a message that answers nothing',
      ({ messages }) => ({ messages: messages.map((it) => ({ ...it, parentId: null })) }),
      'identity-missing',
    ],
    [
      'a message of nobody',
      ({ messages }) => ({ messages: messages.map((it) => ({ ...it, agent: null })) }),
      'identity-missing',
    ],
    [
      'an input that is not what came over the link',
      ({ parts }) => ({ parts: parts.map((it) => ({ ...it, input: { ...it.input, more: 1 } })) }),
      'evidence-mismatch',
    ],
    [
      'another call',
      ({ parts }) => ({ parts: parts.map((it) => ({ ...it, callId: 'x' })) }),
      'evidence-mismatch',
    ],
    [
      'a failure of the window',
      () => ({
        failures: [{ code: 'object-foreign', windowId: 'window-1', path: null, partId: null }],
      }),
      'object-foreign',
    ],
    [
      'a failure of the path',
      () => ({
        failures: [
          { code: 'not-captured', windowId: 'window-1', path: 'src/app.ts', partId: null },
        ],
      }),
      'not-captured',
    ],
    [
      'a failure of the session',
      () => ({
        failures: [{ code: 'object-unreadable', windowId: null, path: null, partId: null }],
      }),
      'object-unreadable',
    ],
    [
      'a failure of the part',
      () => ({
        failures: [{ code: 'malformed-row', windowId: null, path: null, partId: 'part-1' }],
      }),
      'malformed-row',
    ],
  ])('[EVD13] %s is not believed', (_, change, reason) => {
    expect(reasonsOf(change)).toEqual([reason])
  })

  test.each<[string, EvidenceBundle['failures'][number]]>([
    ['of another window', { code: 'object-missing', windowId: 'w', path: null, partId: null }],
    ['of another path', { code: 'object-missing', windowId: 'window-1', path: 'b', partId: null }],
    ['of another part', { code: 'malformed-row', windowId: null, path: null, partId: 'p' }],
    [
      'of a row that nothing else needs',
      { code: 'malformed-row', windowId: null, path: null, partId: null },
    ],
    [
      'that is only a remark',
      { code: 'read-slow', windowId: 'window-1', path: null, partId: null },
    ],
  ])('[EVD13] a failure %s harms nothing else', (_, failure) => {
    expect(reasonsOf(() => ({ failures: [failure] }))).toEqual(['opencode-snapshot'])
  })

  test('[EVD13] a part that the link told as failed or not at all is shown with a warning, in every mode', () => {
    const made = fixture()
    const delivery = fixtureDelivery(made)
    for (const end of ['failed', null] as const)
      for (const mode of ['off', 'full'] as const) {
        const seenParts = delivery.seenParts.map((part) => ({ ...part, end }))
        const result = proveChanges({
          bundle: fixtureBundle(made),
          delivery: { ...delivery, seenParts },
          mode,
        })
        expect(result.changes[0]?.event.warnings).toEqual([
          editWarning,
          expect.stringContaining('came over the link'),
        ])
      }
  })

  test.each(['messageId', 'sessionId', 'tool', 'callId', 'inputHash', 'recordHash', 'id'] as const)(
    '[EVD13] a part whose %s is another than the link told is not proven',
    (field) => {
      const made = fixture()
      const delivery = fixtureDelivery(made)
      const other = field.endsWith('Hash') ? '0'.repeat(64) : 'other'
      const seenParts = delivery.seenParts.map((part) => ({ ...part, [field]: other }))
      const { decisions } = proveChanges({
        ...{ bundle: fixtureBundle(made), mode: 'full' },
        delivery: { ...delivery, seenParts },
      })
      expect(decisions).toMatchObject([{ type: 'skipped', reason: 'evidence-mismatch' }])
    },
  )

  test('[EVD13] a step whose trees are others than the link told is not proven, and one that was not heard whole is', () => {
    const made = fixture()
    const bundle = fixtureBundle(made)
    const [window] = bundle.windows
    const { messageId, from, to } = window!
    const reasons = (
      ...seenSteps: { messageId: string; from: string | null; to: string | null }[]
    ) =>
      proveChanges({
        ...{ bundle, mode: 'full' },
        delivery: { ...fixtureDelivery(made), seenSteps },
      }).decisions.map((it) => (it.type === 'skipped' ? it.reason : it.proof))
    const other = '0'.repeat(40)
    expect(reasons({ messageId, from, to })).toEqual(['opencode-snapshot'])
    expect(reasons({ messageId, from: 'unknown', to })).toEqual(['opencode-snapshot'])
    expect(reasons({ messageId, from, to: other }, { messageId, from, to })).toEqual([
      'opencode-snapshot',
    ])
    for (const step of [
      { messageId, from: other, to },
      { messageId, from, to: other },
      { messageId, from: null, to },
      { messageId: 'another', from, to },
    ])
      expect(reasons(step)).toEqual(['evidence-mismatch'])
  })

  test('[EVD18] a change outside of the session’s folder is proven, and told to be there', () => {
    const { decisions, diagnostics } = prove(({ capability }) => ({
      capability: {
        ...capability,
        session: { ...capability.session!, worktree: '/workspace/', directory: '/workspace/docs/' },
      },
    }))
    expect(decisions).toMatchObject([{ type: 'upgraded' }])
    expect(diagnostics).toMatchObject([{ code: 'path-outside-session', path: 'src/app.ts' }])
    const inside = prove(({ capability }) => ({
      capability: {
        ...capability,
        session: { ...capability.session!, worktree: '/workspace/', directory: '/workspace/src/' },
      },
    }))
    expect(inside.diagnostics).toEqual([])
  })

  test('[EVD6] a content that is no text, and a name that cannot be said', () => {
    expect(
      reasonsOf(({ parts }) => ({
        parts: parts.map((part) => ({
          ...part,
          tool: 'write',
          input: { filePath: 'src/app.ts', content: 7 },
        })),
      })),
    ).toEqual(['evidence-mismatch'])
    const { changes } = prove(({ parts }) => ({
      parts: parts.map((part) => ({ ...part, input: { ...part.input, filePath: '../a\nb' } })),
    }))
    expect(changes[0]?.event.relativePath).toBe(String.raw`../a\u000ab`)
    expect(changes[0]?.event.eventId).toMatch(/^evt_[0-9a-f]{40}$/)
  })

  test('[EVD13] of several failures that concern a change the first one is its reason', () => {
    const at = { windowId: null, path: null, partId: null }
    const reasons = (...failures: EvidenceBundle['failures']) => reasonsOf(() => ({ failures }))
    const window = { ...at, windowId: 'window-1' }
    expect(
      reasons(
        { ...at, code: 'read-slow' },
        { ...window, path: 'src/app.ts', code: 'binary' },
        { ...window, code: 'object-missing' },
      ),
    ).toEqual(['binary'])
    expect(
      reasons({ ...at, partId: 'part-1', code: 'malformed-row' }, { ...window, code: 'binary' }),
    ).toEqual(['malformed-row'])
    expect(reasons({ ...at, code: 'history-unreadable' })).toEqual(['history-unreadable'])
    for (const failure of [
      { ...at, code: 'malformed-row' as const },
      { ...at, path: 'src/app.ts', code: 'binary' as const },
      { ...at, partId: 'part-1', path: 'other', code: 'binary' as const },
      { ...window, path: 'other', code: 'binary' as const },
      { ...at, windowId: 'window-2', code: 'binary' as const },
    ])
      expect(reasons(failure)).toEqual(['opencode-snapshot'])
  })

  test('[EVD13] an input that was shortened on the link is compared by its names alone, if its hash was not told', () => {
    const made = fixture()
    const delivery = fixtureDelivery(made)
    const unknown = { inputHash: null, recordHash: null }
    const seenParts = delivery.seenParts.map((part) => ({ ...part, ...unknown }))
    const input = { bundle: fixtureBundle(made), mode: 'full' } as const
    expect(
      proveChanges({ ...input, delivery: { ...delivery, seenParts } }).statistics.upgradedChanges,
    ).toBe(1)
    const twice = [...seenParts, ...seenParts]
    expect(
      proveChanges({ ...input, delivery: { ...delivery, seenParts: twice } }).statistics
        .upgradedChanges,
    ).toBe(0)
  })

  test('[EVD13] a path that changed and no part names makes a remark and no event', () => {
    const { changes, diagnostics } = prove(({ windows }) => ({
      windows: windows.map((it) => ({ ...it, changed: ['src/app.ts', 'b\u0007.ts'] })),
    }))
    expect(changes.map(({ event }) => event.relativePath)).toEqual(['src/app.ts'])
    expect(diagnostics).toEqual([
      { code: 'extra-snapshot-path', partId: null, path: 'b\\u0007.ts', windowId: 'window-1' },
    ])
  })
})

describe('others at work', () => {
  const neighbour = {
    id: 'n1',
    messageId: 'message-9',
    sessionId: 'session-9',
    tool: 'write',
    paths: ['src/app.ts'],
    startedAt: 5,
    endedAt: 6,
  }
  const beside =
    (over: Partial<typeof neighbour>): Change =>
    ({ messages }) => ({
      neighbours: [{ ...neighbour, ...over }],
      messages: messages.map((it) => ({ ...it, createdAt: 0, completedAt: 10 })),
    })

  test.each<[string, Partial<typeof neighbour>, boolean]>([
    ['writes the same file meanwhile', {}, true],
    ['runs a shell meanwhile', { tool: 'bash', paths: [] }, true],
    ['writes what nobody can name', { paths: [] }, true],
    ['writes another file', { paths: ['b.ts'] }, false],
    ['only reads', { tool: 'read', paths: [] }, false],
    ['waits for its sub-agent', { tool: 'task', paths: [] }, false],
    ['wrote it before', { startedAt: -2, endedAt: -1 }, false],
    ['writes it later', { startedAt: 11, endedAt: 12 }, false],
    [
      'runs a shell in the same message',
      { tool: 'bash', messageId: 'message-1', sessionId: 'session-1' },
      true,
    ],
    ['wrote it in an earlier message of this session', { sessionId: 'session-1' }, false],
  ])('[EVD14] another part %s', (_, over, isClouded) => {
    expect(reasonsOf(beside(over))).toEqual([
      isClouded ? 'opaque-tool-in-window' : 'opencode-snapshot',
    ])
  })

  test('[EVD14] a sub-agent’s change is its own, once', () => {
    const made = fixture()
    const bundle = fixtureBundle(made)
    const child = { ...bundle.messages[0], agent: 'explore', parentId: 'x', sessionId: 'child' }
    const delivery = fixtureDelivery(made)
    const result = proveChanges({
      bundle: {
        ...bundle,
        messages: [child as EvidenceBundle['messages'][number]],
        parts: bundle.parts.map((part) => ({ ...part, sessionId: 'child' })),
      },
      delivery: {
        ...delivery,
        sessions: [...delivery.sessions, { id: 'child', member: 'explore', userMessageIds: null }],
        seenParts: delivery.seenParts.map((part) => ({ ...part, sessionId: 'child' })),
      },
      mode: 'full',
    })
    expect(result.changes.map(({ event }) => [event.memberName, event.evidenceProof])).toEqual([
      ['explore', 'opencode-snapshot'],
    ])
  })
})

describe('a store that has stopped', () => {
  const stuck = windowWith({ toSnapshot: 'snapshot-1' })
  const next = windowWith({ windowId: 'window-2', startPartOrder: 10, finishPartOrder: 19 })
  const later = write('C', { partId: 'part-2', order: 11, filePath: 'b.ts' })
  const other = file('A', 'C', { relativePath: 'b.ts', windowId: 'window-2' })

  test('[EVD15] an edit between equal trees says so', () => {
    const files = [file('value = 1', 'value = 1')]
    expect(reasonsOf(undefined, { windows: [stuck], snapshotFiles: files })).toEqual([
      'snapshot-frozen',
    ])
    expect(reasonsOf(undefined, { windows: [stuck], snapshotFiles: [] })).toEqual([
      'snapshot-frozen',
    ])
  })

  test('[EVD15] what begins from the stopped tree is not believed either', () => {
    const over = { windows: [stuck, next], parts: [edit(), later], snapshotFiles: [other] }
    expect(reasonsOf(undefined, over)).toEqual(['snapshot-frozen', 'snapshot-frozen'])
    const moved = [stuck, { ...next, fromSnapshot: 'snapshot-3' }]
    expect(reasonsOf(undefined, { ...over, windows: moved })).toEqual([
      'snapshot-frozen',
      'opencode-snapshot',
    ])
  })

  test('[EVD15] a write that changes nothing between equal trees is no stop', () => {
    const over = {
      windows: [stuck, next],
      parts: [write('same'), later],
      snapshotFiles: [file('same', 'same', { windowId: 'window-1' }), other],
    }
    expect(reasonsOf(undefined, over)).toEqual(['unchanged', 'opencode-snapshot'])
  })
})

describe('after the proof', () => {
  const upgraded = () => prove().changes[0]
  const original = () => prove(undefined, {}, 'off').changes[0]

  test('[EVD16] only these fields of an event may differ from the original', () => {
    const [a, b] = [original()?.event, upgraded()?.event]
    if (!a || !b) throw new Error('No event')
    const differs = Object.keys(a).filter(
      (key) =>
        JSON.stringify(a[key as keyof typeof a]) !== JSON.stringify(b[key as keyof typeof b]),
    )
    expect(differs.sort()).toEqual([
      ...['after', 'afterState', 'before', 'beforeState', 'confidence', 'eventId', 'evidenceProof'],
      ...['linesAdded', 'linesRemoved', 'shapeFingerprint', 'snapshotId', 'snapshotSource'],
      'warnings',
    ])
    expect(b).toMatchObject({ shapeFingerprint: expect.stringMatching(/^[0-9a-f]{64}$/) as string })
  })

  test('[EVD16] an upgrade that is about something else than its original does not hold', () => {
    const [a, b] = [original(), upgraded()]
    if (!a || !b) throw new Error('No change')
    expect(upgradeHolds(a, b)).toBe(true)
    for (const over of [
      ...['sourceImportKey', 'taskId', 'sessionId', 'memberName', 'sourcePartId'],
      ...['sourceMessageId', 'relativePath', 'evidenceProof'],
    ])
      expect([over, upgradeHolds(a, { ...b, event: { ...b.event, [over]: 'x' } })]).toEqual([
        over,
        false,
      ])
    expect(upgradeHolds(a, { ...b, beforeContent: null })).toBe(false)
    expect(upgradeHolds(a, { ...b, afterContent: null })).toBe(false)
  })

  test('[EVD17] five known warnings go, and nothing that sounds like them', () => {
    for (const warning of [
      editWarning,
      'OpenCode write overwrote an existing file before the bridge had a known baseline; reject is manual-only.',
      'OpenCode apply_patch was captured without full before/after text; review is manual-only.',
      'OpenCode toolpart content was unavailable or too large; review is manual-only.',
      'src/app.ts: full review depends on snapshot evidence.',
    ])
      expect([warning, isResolvedByProof(warning)]).toEqual([warning, true])
    for (const warning of [
      'Task boundary is estimated; review is manual-only.',
      `${editWarning} `,
      'manual-only',
      'OpenCode path is outside the workspace or cannot be named; review is manual-only.',
      'Attribution is compatible only.',
    ])
      expect([warning, isResolvedByProof(warning)]).toEqual([warning, false])
  })

  test('[EVD18] statistics count, and neither they nor diagnostics nor decisions hold content', () => {
    const canary = 'canary-7f3a'
    const result = prove(undefined, {
      parts: [
        edit({ oldString: canary, newString: `${canary}2` }),
        write(canary, { partId: 'p2', order: 2, filePath: 'b.ts' }),
      ],
      snapshotFiles: [file(canary, `${canary}2`), file(canary, 'other', { relativePath: 'b.ts' })],
    })
    expect(result.statistics).toEqual({
      mode: 'full',
      attemptedChanges: 2,
      upgradedChanges: 1,
      wouldUpgradeChanges: 1,
      skippedChanges: 1,
      skippedByReason: { 'toolpart-after-mismatch': 1 },
      snapshotReadCount: 1,
      snapshotReadTimeouts: 0,
      snapshotReadElapsedMs: 0,
      touchedPathCount: 2,
      exactToolpartChainCount: 0,
      metadataOnlyFallbackCount: 1,
      bytesRead: 39,
      bytesMaterialized: 23,
      skippedByByteLimit: 0,
      skippedByTotalBudget: 0,
    })
    const { statistics, diagnostics, decisions } = result
    expect(JSON.stringify({ statistics, diagnostics, decisions })).not.toContain('canary')
  })
})

describe('what an event tells', () => {
  const eventsOf = (over: object, change?: Change) =>
    prove(change, over).changes.map(({ event }) => event)

  test('[EVD5] the lines of a file that was made or deleted are all added, or all removed', () => {
    const made = eventsOf({
      parts: [write('one\ntwo\n')],
      snapshotFiles: [file(null, 'one\ntwo\n')],
    })
    expect(made).toMatchObject([{ operation: 'create', linesAdded: 2, linesRemoved: 0 }])
    const gone = eventsOf({
      parts: [patch(['*** Delete File: src/app.ts'])],
      snapshotFiles: [file('one\ntwo\n', null)],
    })
    expect(gone).toMatchObject([{ operation: 'delete', linesAdded: 0, linesRemoved: 2 }])
  })

  test('[EVD8] what is exact without a snapshot names none, and has the id of its evidence', () => {
    const made = {
      ...{ parts: [write('new\n', { exists: false })], capability: { formatted: [] } },
      snapshotFiles: [file(null, 'new\n')],
    }
    const [exact] = eventsOf(made)
    expect(exact).toMatchObject({
      ...{ evidenceProof: 'toolpart-chain', snapshotId: null, snapshotSource: null },
      shapeFingerprint: null,
    })
    const [proven] = eventsOf({ ...made, capability: {} })
    expect(proven).toMatchObject({ evidenceProof: 'opencode-snapshot', snapshotSource: 'opencode' })
    expect(proven?.snapshotId).toMatch(/^[0-9a-f]{40}\.\.[0-9a-f]{40}$/)
    expect(proven?.eventId).not.toBe(exact?.eventId)
    const id = (evidence: (string | null)[]) =>
      candidateEventId(exact?.sourceImportKey ?? '', ...evidence)
    const { sha256 } = exactDigest('new\n')
    expect(exact?.eventId).toBe(id(['toolpart-chain', null, sha256, null]))
  })

  test('[EVD5] snippets of an edit up to 16 KiB, and longer ones only as texts', () => {
    for (const [length, isTold] of [
      [16 * 1024, true],
      [16 * 1024 + 1, false],
    ] as const) {
      const oldString = 'x'.repeat(length)
      const parts = [edit({ oldString, newString: 'y' })]
      const [event] = eventsOf({ parts, snapshotFiles: [file(`${oldString}\n`, 'y\n')] })
      expect([event?.oldString, event?.newString]).toEqual([isTold ? oldString : null, 'y'])
      expect(event?.evidenceProof).toBe('opencode-snapshot')
    }
  })

  test('[EVD6] a file below what another path was, or above it, is no file and folder at once', () => {
    for (const other of ['src', 'src/app.ts/below', 'src/app.tsx', 'srcs'])
      expect([
        other,
        ...reasonsOf(({ windows }) => ({
          windows: windows.map((window) => ({ ...window, changed: ['src/app.ts', other] })),
        })),
      ]).toEqual([
        other,
        other === 'src' || other.endsWith('below') ? 'path-is-folder' : 'opencode-snapshot',
      ])
  })

  test('[EVD6] a write whose content is no text is malformed', () => {
    const content = { ...edit(), tool: 'write' }
    expect(
      reasonsOf(
        ({ parts }) => ({
          parts: parts.map((part) => ({ ...part, input: { filePath: 'src/app.ts', content: 7 } })),
        }),
        { parts: [{ ...content, seen: false }] },
      ),
    ).toEqual(['evidence-mismatch'])
    const made = fixture({ parts: [write('const value = 2\n')] })
    const bundle = fixtureBundle(made)
    const delivery = fixtureDelivery(made)
    const [part] = bundle.parts
    const { decisions } = proveChanges({
      bundle: { ...bundle, parts: [{ ...part!, input: { ...part!.input, content: 7 } }] },
      delivery: {
        ...delivery,
        seenParts: delivery.seenParts.map((seen) => ({
          ...{ ...seen, inputHash: null, recordHash: null },
        })),
      },
      mode: 'full',
    })
    expect(decisions).toMatchObject([{ type: 'skipped', reason: 'malformed-row' }])
  })
})

describe('[EVD20] what a fixture expects', () => {
  test('is as expected only if every number and every diagnostic is', () => {
    const right = { upgraded: 1, metadataOnly: 0, diagnostics: [] }
    const said = (expected: object) =>
      evaluateFixture(fixture({ expected: { ...right, ...expected } }), 'full').asExpected
    expect(said({})).toBe(true)
    expect(said({ upgraded: 2 })).toBe(false)
    expect(said({ metadataOnly: 1 })).toBe(false)
    expect(said({ diagnostics: ['snapshot-upgrade/none'] })).toBe(false)
    expect(evaluateFixture(fixture(), 'full').asExpected).toBeNull()
  })

  test('a patch may name its files from the workspace, and a window without files is not read', () => {
    const lines = ['*** Update File: src/app.ts', '@@', '-const value = 1', '+const value = 2']
    const { events } = evaluateFixture(fixture({ parts: [patch(lines)] }), 'full')
    expect(events.map(({ relativePath }) => relativePath)).toEqual(['src/app.ts'])
    const empty = windowWith({ windowId: 'window-2', messageId: 'message-2' })
    const [window] = fixture().windows
    const both = fixture({
      windows: [window!, empty],
      snapshotFiles: fixture().snapshotFiles.map((each) => ({ ...each, windowId: 'window-1' })),
    })
    expect(fixtureBundle(both).reads.map(({ windowId }) => windowId)).toEqual(['window-1'])
  })
})
