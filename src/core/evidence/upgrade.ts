// The last step: a verified transition becomes the event that says so. Nothing else makes a proven event, and what does
// not hold afterwards leaves the original as it was.

import type {
  ChangeEvent,
  ChangeOperation,
  Confidence,
  ContentState,
  Proof,
  ProvenChange,
} from '../../contract/change.ts'
import type { Text } from './anchors.ts'
import { type Candidate, candidateEventId } from './candidate.ts'
import { isReviewSafe } from './safety.ts'
import { absentState, exactChangedLines, exactRef, exactState } from './texts/exact.ts'
import { isResolvedByProof } from './warnings.ts'

export interface Proven {
  operation: ChangeOperation
  before: Text | null
  after: Text | null
  proof: Exclude<Proof, 'metadata-only-fallback'>
  /** Null: no snapshot was needed. */
  snapshot: { id: string; shape: string } | null
}

export function upgradeProof({ change, key }: Candidate, proven: Proven): ProvenChange {
  const { before, after, snapshot } = proven
  const lines = exactChangedLines(before?.text ?? '', after?.text ?? '')
  const event: ChangeEvent = {
    ...change.event,
    eventId: candidateEventId(
      key,
      proven.proof,
      hashOf(before),
      hashOf(after),
      snapshot?.id ?? null,
    ),
    operation: proven.operation,
    confidence: confidenceOf(proven),
    before: before && exactRef(before.digest),
    after: after && exactRef(after.digest),
    beforeState: stateOf(before),
    afterState: stateOf(after),
    linesAdded: lines.added,
    linesRemoved: lines.removed,
    evidenceProof: proven.proof,
    snapshotId: snapshot?.id ?? null,
    snapshotSource: snapshot ? 'opencode' : null,
    shapeFingerprint: snapshot?.shape ?? null,
    warnings: change.event.warnings.filter((warning) => !isResolvedByProof(warning)),
  }
  return { event, beforeContent: before?.text ?? null, afterContent: after?.text ?? null }
}

/** The mode is told, so that a file that was deleted can come back with it. */
const stateOf = (side: Text | null): ContentState =>
  side ? { ...exactState(side.digest), ...(side.executable && { executable: true }) } : absentState
const hashOf = (side: Text | null) => side?.digest.sha256 ?? null
const confidenceOf = ({ proof }: Proven): Confidence =>
  proof === 'toolpart-chain' ? 'exact' : 'high'

const kept = [
  ...['sourceImportKey', 'taskId', 'taskRef', 'sessionId', 'memberName', 'toolUseId'],
  ...['sourceSessionId', 'sourcePartId', 'sourceMessageId', 'relativePath', 'filePath'],
] as (keyof ChangeEvent)[]

/** A mistake in this folder must not become a proof. */
export function upgradeHolds(original: ProvenChange, upgraded: ProvenChange): boolean {
  const { event, beforeContent, afterContent } = upgraded
  return (
    kept.every((field) => event[field] === original.event[field]) &&
    isReviewSafe(event) &&
    (event.before === null) === (beforeContent === null) &&
    (event.after === null) === (afterContent === null)
  )
}
