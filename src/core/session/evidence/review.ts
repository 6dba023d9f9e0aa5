import type { ChangeEvent } from '../../../contract/change.ts'
import type { FileReview, ReviewedEvent, TextLink } from '../../../contract/change-ledger.ts'
import { groupBy } from '../../evidence/group-by.ts'
import { isReviewSafe } from '../../evidence/safety.ts'
import type { EventRow } from './events.ts'

// What a reviewer sees of the changes of one file: what they come to together, and whether they may be taken back as one.
// Whether what is on the disk now still is what they left is asked when it is done, and nowhere here.

/** By path, in the order of the first change. */
export function reviewFiles(
  runId: string,
  rows: readonly EventRow[],
  workspace: string | null,
): FileReview[] {
  return [...groupBy(rows, ({ path }) => path)].map(([path, own]) =>
    reviewFile(runId, path, own, workspace),
  )
}

function reviewFile(
  runId: string,
  path: string,
  rows: readonly EventRow[],
  workspace: string | null,
): FileReview {
  const events = rows.map((row) => reviewEvent(runId, row))
  const first = (events[0] as ReviewedEvent).event
  const last = (events.at(-1) as ReviewedEvent).event
  const reviewable = events.every((each) => each.reviewable)
  const reasons = [
    ...new Set([
      ...events.flatMap((each) => each.reasons),
      ...gaps(events),
      ...events.flatMap(({ event }) => elsewhere(event, workspace)),
    ]),
  ]
  return {
    ...{ path, reviewable, reasons, decision: null, events },
    operation: netOperation(first, last),
    rejectable: reviewable && reasons.length === 0,
    before: linkTo(runId, first.before),
    after: linkTo(runId, last.after),
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

/** Between two proven changes something else has changed the file: taking both back would take that back as well. */
function gaps(events: readonly ReviewedEvent[]): string[] {
  return events.slice(1).flatMap(({ event }, at) => {
    const before = events[at]?.event
    const isNext =
      before?.afterState.exists === event.beforeState.exists &&
      before?.afterState.sha256 === event.beforeState.sha256
    return isNext ? [] : ['Between two of its changes something else has changed it']
  })
}

/** Another agent may have worked in another folder, which has a file of the same name. */
function elsewhere(event: ChangeEvent, workspace: string | null): string[] {
  const isHere = event.sourceProvider === 'opencode' || event.workspaceRoot === workspace
  return isHere ? [] : ['It was made in another workspace']
}

function linkTo(runId: string, ref: ChangeEvent['before']): TextLink | null {
  if (ref === null) return null
  const { sha256, sizeBytes } = ref
  return { sha256, sizeBytes, url: `/v1/runs/${runId}/changes/texts/${sha256}` }
}
