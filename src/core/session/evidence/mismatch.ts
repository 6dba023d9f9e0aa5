import { canonicalJson } from '../../../contract/canonical.ts'
import type { EvidenceMismatch } from '../../../contract/change-ledger.ts'
import type {
  DeliveryRecord,
  EvidenceBundle,
  EvidencePart,
  EvidenceWindow,
  SeenPart,
} from '../../../contract/evidence.ts'
import { isAttributedRecord } from '../../evidence/attribution.ts'
import { ToldSteps } from '../../evidence/windows.ts'
import { hashText } from '../../hash.ts'

/**
 * Tool parts that the sandbox's database has and that never came over the link, that read otherwise there, or that it has
 * no more. Whoever works in the sandbox can write its database; it cannot write what the session has heard. `covered`:
 * messages of the turn that the bundle is about.
 */
export function mismatchesOf(
  bundle: EvidenceBundle,
  { seenParts, seenSteps }: Pick<DeliveryRecord, 'seenParts' | 'seenSteps'>,
): EvidenceMismatch[] {
  const steps = new ToldSteps(seenSteps)
  const seen = new Map(seenParts.map((part) => [part.id, part]))
  const messages = new Set(bundle.messages.map(({ id }) => id))
  const here = new Set(bundle.parts.map(({ id }) => id))
  const unreadable = new Set(bundle.failures.map(({ partId }) => partId))
  const gone = seenParts.filter(
    ({ id, messageId }) => messages.has(messageId) && !here.has(id) && !unreadable.has(id),
  )
  return [
    ...bundle.parts.flatMap((part) => mismatchOf(part, seen.get(part.id))),
    ...gone.map(({ id, tool }) => ({ partId: id, tool, what: 'gone' as const })),
    ...bundle.windows.flatMap((window) => stepMismatch(window, steps)),
  ]
}

/** A step that was not done when it was read says nothing. */
function stepMismatch(window: EvidenceWindow, steps: ToldSteps): EvidenceMismatch[] {
  if (window.finishOrder === null || steps.agrees(window)) return []
  const what = steps.isTold(window) ? ('differs' as const) : ('never-seen' as const)
  return [{ partId: window.id, tool: 'step', what }]
}

function mismatchOf(part: EvidencePart, seen: SeenPart | undefined): EvidenceMismatch[] {
  const { id: partId, tool, status } = part
  if (seen === undefined)
    return status === 'pending' ? [] : [{ partId, tool, what: 'never-seen' as const }]
  return isSame(part, seen) ? [] : [{ partId, tool, what: 'differs' as const }]
}

const ends: Record<EvidencePart['status'], SeenPart['end'] | undefined> = {
  completed: 'completed',
  error: 'failed',
  pending: undefined,
  running: undefined,
}

/** What had not ended when it was read says nothing of its end, and an input that was cut nothing of the input. */
function isSame(part: EvidencePart, seen: SeenPart): boolean {
  const end = ends[part.status]
  // What was short enough for the link is not too long to be read.
  const isGrown = part.recordHash === null && part.status === 'completed'
  const isInput =
    seen.inputHash === null ||
    (!isGrown && (part.input === null || part.inputTruncated)) ||
    seen.inputHash === hashText(canonicalJson(part.input))
  return (
    seen.messageId === part.messageId &&
    seen.sessionId === part.sessionId &&
    seen.tool === part.tool &&
    seen.callId === part.callId &&
    (end === undefined || seen.end === null || seen.end === end) &&
    isInput &&
    (part.status !== 'completed' || isAttributedRecord(seen, part))
  )
}
