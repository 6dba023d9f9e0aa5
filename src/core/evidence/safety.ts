// Whether a stored change can be reviewed, and so be considered for a reject: its proof is one of those that count, and
// its two sides are known. Whether a reject may be carried out now is another question, and is asked of the disk.

import { canonicalJson } from '../../contract/canonical.ts'
import {
  acceptedProofs,
  type ChangeEvent,
  type ChangeOperation,
  type ContentState,
} from '../../contract/change.ts'
import { hashText } from '../hash.ts'

const isKnown = (state: ContentState) => (state.unavailableReason ?? '') === ''
const isAbsent = (state: ContentState) => state.exists === false && isKnown(state)

const isSafeCreate = ({ beforeState, before, after, afterState }: ChangeEvent): boolean =>
  isAbsent(beforeState) && before === null && after !== null && matches(after, afterState)

const isSafeModify = ({ before, beforeState, after, afterState }: ChangeEvent): boolean =>
  before !== null && matches(before, beforeState) && after !== null && matches(after, afterState)

const isSafeDelete = ({ before, beforeState, after, afterState }: ChangeEvent): boolean =>
  before !== null && matches(before, beforeState) && after === null && isAbsent(afterState)

const matches = (ref: { sha256: string; sizeBytes: number }, state: ContentState) =>
  isKnown(state) &&
  state.exists === true &&
  state.sha256 === ref.sha256 &&
  state.sizeBytes === ref.sizeBytes

const provenBy: Record<ChangeOperation, (event: ChangeEvent) => boolean> = {
  create: isSafeCreate,
  modify: isSafeModify,
  delete: isSafeDelete,
}

/** An unknown proof is unsafe, whatever it sounds like. */
export const isReviewSafe = (event: ChangeEvent): boolean =>
  (acceptedProofs as readonly string[]).includes(event.evidenceProof) &&
  provenBy[event.operation](event)

/** What a reader of the ledger would notice, without any content: equal fingerprints, equal reviews. */
export function safetyFingerprint(events: Iterable<ChangeEvent>): string {
  return hashText(canonicalJson(Array.from(events, noticed).sort()))
}

const noticed = (event: ChangeEvent): string =>
  canonicalJson({
    taskId: event.taskId,
    relativePath: event.relativePath,
    sourceImportKey: event.sourceImportKey,
    evidenceProof: event.evidenceProof,
    operation: event.operation,
    confidence: event.confidence,
    beforeSha256: event.before?.sha256,
    afterSha256: event.after?.sha256,
    warnings: event.warnings.length,
    rejectable: isReviewSafe(event),
  })
