// Whose change it is. Only what the control plane itself holds counts: the turn's prompts, the sessions that it heard of,
// and the tool parts that came over the link while the turn ran. What the sandbox claims must agree with that.

import { canonicalJson } from '../../contract/canonical.ts'
import { type DiagnosticCode, evidenceRecordText, type SeenPart } from '../../contract/evidence.ts'
import { hashText } from '../hash.ts'
import type { Candidate, ProofDelivery } from './candidate.ts'

/** By id. */
export type SeenParts = ReadonlyMap<string, readonly SeenPart[]>

/** Null: it is this delivery's, by everything that is known. */
export function attributionFault(
  candidate: Candidate,
  delivery: ProofDelivery,
  seenParts: SeenParts,
): DiagnosticCode | null {
  const { part, message, session } = candidate
  if (delivery.attribution !== 'strict-delivery') return 'strict-delivery-required'
  if (!message) return 'identity-missing'
  if (message.sessionId !== part.sessionId) return 'identity-mismatch'
  if (!session) return 'strict-delivery-required'
  if (message.agent === null) return 'identity-missing'
  if (message.agent !== session.member) return 'strict-delivery-required'
  if (session.userMessageIds !== null) {
    if (message.parentId === null) return 'identity-missing'
    if (!session.userMessageIds.includes(message.parentId)) return 'strict-delivery-required'
  }
  if (!isAsSeen(candidate, seenParts)) return 'evidence-mismatch'
  return isCompared(candidate, seenParts) ? null : 'toolpart-truncated'
}

function isAsSeen({ part }: Candidate, seenParts: SeenParts): boolean {
  const seen = seenParts.get(part.id) ?? []
  return seen.length === 1 && seen.every((it) => isSame(it, part))
}

function isSame(seen: SeenPart, part: Candidate['part']): boolean {
  return (
    seen.messageId === part.messageId &&
    seen.sessionId === part.sessionId &&
    seen.tool === part.tool &&
    seen.callId === part.callId &&
    seen.end === 'completed' &&
    (seen.inputHash === null || seen.inputHash === hashText(canonicalJson(part.input))) &&
    isAttributedRecord(seen, part)
  )
}

/** Input and metadata are what was heard when the tool was done, as far as they can be compared. */
export function isAttributedRecord({ recordHash }: SeenPart, part: Candidate['part']): boolean {
  const found = recordHashOf(part)
  return recordHash === null || found === null || recordHash === found
}

/** What is not whole here was hashed by the agent before it was cut. Null: nobody knows. */
const recordHashOf = (part: Candidate['part']): string | null =>
  part.input === null || part.inputTruncated
    ? (part.recordHash ?? null)
    : hashText(evidenceRecordText(part))

/** A name alone that could not be compared may be another one than the tool was given. */
const isCompared = ({ part }: Candidate, seenParts: SeenParts): boolean =>
  recordHashOf(part) !== null ||
  (seenParts.get(part.id) ?? []).every(({ recordHash }) => recordHash === null)

/** Whether it came over the link what the tool was told and what it said that it did. */
export const isWholeAttribution = ({ part }: Candidate, seenParts: SeenParts): boolean =>
  (seenParts.get(part.id) ?? []).some((seen) => seen.recordHash !== null)
