import type { ProofDecision, ProofStatistics, ProvenChange } from '../../contract/change.ts'
import type { DiagnosticCode, EvidenceBundle, ProofMode } from '../../contract/evidence.ts'

interface Counted {
  mode: ProofMode
  bundle: EvidenceBundle
  decisions: readonly ProofDecision[]
  changes: readonly ProvenChange[]
}

/** Counts, times and codes: nothing of any content. */
export function proofStatistics({ mode, bundle, decisions, changes }: Counted): ProofStatistics {
  const proven = decisions.filter(({ type }) => type === 'upgraded')
  const skipped = decisions.flatMap((it) => (it.type === 'skipped' ? [it.reason] : []))
  const failed = skipped.filter((reason) => reason !== 'already-exact')
  const count = (code: DiagnosticCode) => skipped.filter((reason) => reason === code).length
  const applied = new Set(
    decisions.flatMap((it) => (it.type === 'upgraded' && it.applied ? [it.sourceImportKey] : [])),
  )
  return {
    mode,
    attemptedChanges: mode === 'off' ? 0 : proven.length + failed.length,
    upgradedChanges: applied.size,
    wouldUpgradeChanges: proven.length,
    skippedChanges: failed.length,
    skippedByReason: countEach(failed),
    ...reading(mode, bundle),
    touchedPathCount: mode === 'off' ? 0 : pathsOf(decisions),
    exactToolpartChainCount: count('already-exact'),
    metadataOnlyFallbackCount: changes.filter(
      ({ event }) => event.evidenceProof === 'metadata-only-fallback',
    ).length,
    bytesMaterialized: materialized(changes.filter(({ event }) => applied.has(keyOf(event)))),
    skippedByByteLimit: count('too-large'),
    skippedByTotalBudget: count('total-budget'),
  }
}

/** Off has read nothing, so it looks at nothing that was read. */
function reading(mode: ProofMode, bundle: EvidenceBundle) {
  const reads = mode === 'off' ? [] : bundle.reads
  const sum = (of: (read: (typeof reads)[number]) => number) =>
    reads.reduce((total, read) => total + of(read), 0)
  return {
    snapshotReadCount: reads.length,
    snapshotReadTimeouts: sum(({ timedOut }) => (timedOut ? 1 : 0)),
    snapshotReadElapsedMs: sum(({ elapsedMs }) => elapsedMs),
    bytesRead: sum(({ bytes }) => bytes),
  }
}

function countEach(reasons: readonly DiagnosticCode[]): Partial<Record<DiagnosticCode, number>> {
  const counts: Partial<Record<DiagnosticCode, number>> = {}
  for (const reason of reasons) counts[reason] = (counts[reason] ?? 0) + 1
  return counts
}

const keyOf = ({ sourceImportKey }: ProvenChange['event']) => sourceImportKey ?? ''
const pathsOf = (decisions: readonly ProofDecision[]) =>
  new Set(
    decisions
      .filter((it) => !(it.type === 'skipped' && it.reason === 'already-exact'))
      .map(({ windowId, path }) => JSON.stringify([windowId, path])),
  ).size

const materialized = (changes: readonly ProvenChange[]) =>
  changes.reduce(
    (total, { event }) => total + (event.before?.sizeBytes ?? 0) + (event.after?.sizeBytes ?? 0),
    0,
  )
