import type { ChangeEvent } from '../../../contract/change.ts'
import type { FileReview, ReviewedEvent, TextLink } from '../../../contract/change-ledger.ts'
import { isReviewSafe } from '../../evidence/safety.ts'
import type { EventRow } from './events.ts'

// What a reviewer sees of the changes of one file: what they come to together, and whether they may be taken back as one.
// Whether what is on the disk now still is what they left is asked when it is done, and nowhere here.

interface Reviewed {
  runId: string
  path: string
  /** Of the sandbox; null: it is not known yet. */
  workspace: string | null
  /** How long its events may be together; the newest one is shown in any case. */
  room: number
}

/** A reviewer needs no more of them. */
const maxReasons = 50
const gapReason = 'Between two of its changes something else has changed it'
const elsewhereReason = 'It was made in another workspace'

/** `rows`: its changes, oldest first, one at least. */
export function reviewFile(
  { runId, path, workspace, room }: Reviewed,
  rows: Iterable<EventRow>,
): FileReview {
  const newest = new Newest(room)
  const own = new Set<string>()
  let first: ReviewedEvent | undefined
  let last: ReviewedEvent | undefined
  let hasGap = false
  let isElsewhere = false
  for (const row of rows) {
    const event = reviewEvent(runId, row)
    for (const reason of event.reasons) own.add(reason)
    hasGap ||= last !== undefined && !isNext(last, event)
    isElsewhere ||= wasElsewhere(event, workspace)
    newest.add(event)
    first ??= event
    last = event
  }
  if (!first || !last) throw new Error(`No change of "${path}" is known`)
  const reasons = [
    ...own,
    ...(hasGap ? [gapReason] : []),
    ...(isElsewhere ? [elsewhereReason] : []),
  ]
  return {
    ...{ path, reviewable: own.size === 0, rejectable: reasons.length === 0, decision: null },
    reasons: reasons.slice(0, maxReasons),
    operation: netOperation(first.event, last.event),
    before: first.before,
    after: last.after,
    events: newest.events,
    earlierEvents: newest.leftOut,
  }
}

/**
 * The newest events of a file, as many as fit into an answer; the count of those that were left out is told beside them.
 * Each file of a page has one.
 */
class Newest {
  readonly events: ReviewedEvent[] = []
  leftOut = 0
  readonly #lengths: number[] = []
  #room: number

  constructor(room: number) {
    this.#room = room
  }

  add(event: ReviewedEvent): void {
    const length = JSON.stringify(event).length
    this.events.push(event)
    this.#lengths.push(length)
    this.#room -= length
    while (this.#room < 0 && this.events.length > 1) {
      this.events.shift()
      this.#room += this.#lengths.shift() ?? 0
      this.leftOut += 1
    }
  }
}

/** By whether it was there before the first of them, and is after the last. */
function netOperation(first: ChangeEvent, last: ChangeEvent): FileReview['operation'] {
  const was = first.beforeState.exists ?? first.operation !== 'create'
  const is = last.afterState.exists ?? last.operation !== 'delete'
  if (!was) return is ? 'create' : 'none'
  return is ? 'modify' : 'delete'
}

function reviewEvent(runId: string, row: EventRow): ReviewedEvent {
  const event = JSON.parse(row.event) as ChangeEvent
  const reasons = reasonsOf(event)
  return {
    ...{ event, reasons, reviewable: reasons.length === 0 },
    hash: row.hash,
    turnId: row.turn_id as ReviewedEvent['turnId'],
    before: linkTo(runId, event.before),
    after: linkTo(runId, event.after),
    recordedAt: row.created_at,
  }
}

function reasonsOf(event: ChangeEvent): string[] {
  if (event.relation !== null) return [`A ${event.relation.type} is taken back by hand`]
  if (isReviewSafe(event)) return []
  const sides = [
    ['before', event.beforeState.unavailableReason],
    ['after', event.afterState.unavailableReason],
  ].flatMap(([side, reason]) => (reason ? [`The text ${side} it is not proven: ${reason}`] : []))
  return sides.length > 0 ? sides : [`Its proof "${event.evidenceProof}" is not one that counts`]
}

/** Between two proven changes something else may have changed the file: taking both back would take that back as well. */
const isNext = ({ event: { afterState } }: ReviewedEvent, { event }: ReviewedEvent): boolean =>
  afterState.exists === event.beforeState.exists && afterState.sha256 === event.beforeState.sha256

/** Another agent may have worked in another folder, which has a file of the same name. */
const wasElsewhere = ({ event }: ReviewedEvent, workspace: string | null): boolean =>
  event.sourceProvider !== 'opencode' && event.workspaceRoot !== workspace

function linkTo(runId: string, ref: ChangeEvent['before']): TextLink | null {
  if (ref === null) return null
  const { sha256, sizeBytes } = ref
  return { sha256, sizeBytes, url: `/v1/runs/${runId}/changes/texts/${sha256}` }
}
