import { type Diagnostic, type ProofDecision } from '../../../contract/change.ts'
import {
  type DiagnosticCode,
  lowerEvidenceMode,
  type ProofMode,
} from '../../../contract/evidence.ts'
import type { ProofEvaluation, SnapshotProofFixture } from '../../../contract/proof-fixture.ts'
import { type ProofResult, proveChanges } from '../prove.ts'
import { safetyFingerprint } from '../safety.ts'
import { escapeExactName } from '../texts/exact.ts'
import { fixtureBundle, fixtureDelivery } from './fixture.ts'

/** What the rules say of a fixture. Nothing is stored and nothing is read but the fixture. */
export function evaluateFixture(fixture: SnapshotProofFixture, set: ProofMode): ProofEvaluation {
  const mode = lowerEvidenceMode(set, fixture.mode)
  const result = proveChanges({
    bundle: fixtureBundle(fixture),
    delivery: fixtureDelivery(fixture),
    mode,
  })
  const told = fixture.provider === 'opencode' ? result : untouched(fixture, mode)
  const { changes, decisions, statistics } = told
  const events = changes.map(({ event }) => event)
  const evaluation = {
    name: fixture.name,
    mode,
    upgraded: statistics.upgradedChanges,
    wouldUpgrade: statistics.wouldUpgradeChanges,
    metadataOnly: statistics.metadataOnlyFallbackCount,
    decisions,
    diagnostics: [...told.diagnostics.map((each) => line(each, decisions)), ...ofDisk(fixture)],
    statistics,
    events,
    fingerprint: safetyFingerprint(events),
  }
  return { ...evaluation, asExpected: isAsExpected(fixture, evaluation) }
}

/** Another provider's changes are what off makes of them, in every mode, with their own provider. */
function untouched(fixture: SnapshotProofFixture, mode: ProofMode): ProofResult {
  const bundle = fixtureBundle(fixture)
  const off = proveChanges({ bundle, delivery: fixtureDelivery(fixture), mode: 'off' })
  const { provider: sourceProvider } = fixture
  const decisions = off.decisions.map((it) => ({ ...it, type: 'skipped', reason }) as const)
  return {
    changes: off.changes.map((change) => ({
      ...change,
      event: { ...change.event, sourceProvider, sourceRuntime: sourceProvider },
    })),
    decisions,
    diagnostics: off.diagnostics.map((it) =>
      it.code === 'feature-flag-off' ? { ...it, code: reason } : it,
    ),
    statistics: {
      ...off.statistics,
      mode,
      skippedByReason: decisions.length === 0 ? {} : { [reason]: decisions.length },
    },
  }
}
const reason = 'not-opencode' satisfies DiagnosticCode

/** As the ledger's tools print them: why a change was skipped, or what else is to be said. */
function line({ code, partId, path }: Diagnostic, decisions: readonly ProofDecision[]): string {
  const isReason = decisions.some(
    (it) => it.type === 'skipped' && it.reason === code && it.partId === partId,
  )
  const of = [partId, path].filter((it) => it !== null).map((it) => escapeExactName(it))
  return `snapshot-upgrade${isReason ? '-skipped' : ''}/${code}: ${of.join(', ')}`
}

const ofDisk = ({ snapshotFiles }: SnapshotProofFixture): string[] =>
  snapshotFiles
    .filter(({ currentContent }) => currentContent !== undefined)
    .map(
      ({ relativePath }) =>
        `snapshot-upgrade-skipped/current-disk-not-proof: ${escapeExactName(relativePath)}`,
    )

function isAsExpected(
  { expected }: SnapshotProofFixture,
  { upgraded, metadataOnly, diagnostics }: Omit<ProofEvaluation, 'asExpected'>,
): boolean | null {
  if (!expected) return null
  return (
    expected.upgraded === upgraded &&
    expected.metadataOnly === metadataOnly &&
    expected.diagnostics.every((each) => diagnostics.some((it) => it.startsWith(each)))
  )
}
