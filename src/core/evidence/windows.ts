// Which window a tool part ran in, and whether that window can speak for one change at all.

import type {
  DiagnosticCode,
  EvidenceBundle,
  EvidencePart,
  EvidenceWindow,
  NeighbourPart,
} from '../../contract/evidence.ts'
import { isMutatingTool, touchedPaths } from '../../contract/evidence-paths.ts'
import type { Place } from '../../contract/evidence-paths.ts'
import type { Candidate } from './candidate.ts'

export type WindowMatch =
  | { ok: true; window: EvidenceWindow }
  | { ok: false; reason: DiagnosticCode }

const no = (reason: DiagnosticCode): WindowMatch => ({ ok: false, reason })

/** Exactly one window of the part's own message has it inside. */
export function matchWindow({ part }: Candidate, windows: readonly EvidenceWindow[]): WindowMatch {
  const around = windows.filter((window) => contains(window, part))
  const [window] = around
  if (!window) return no('no-window')
  if (around.length > 1 || windows.filter(({ id }) => id === window.id).length > 1)
    return no('ambiguous-window')
  if (window.finishOrder === null || window.to === null) return no('incomplete-window')
  return { ok: true, window }
}

const contains = (window: EvidenceWindow, { messageId, order }: EvidencePart) =>
  window.messageId === messageId &&
  window.startOrder < order &&
  order < (window.finishOrder ?? Infinity)

/** Tools of OpenCode that write no file of the workspace. Whatever is not listed may have written any. */
const readers = new Set([
  ...['read', 'glob', 'grep', 'list', 'lsp', 'skill', 'question', 'invalid'],
  ...['webfetch', 'websearch', 'codesearch', 'todowrite', 'todoread'],
])

export const isReader = (tool: string): boolean => readers.has(tool)

/**
 * Whether something else may have written the same file between the two trees: a shell or an unknown tool in the window,
 * a part that did not complete, or another session that worked at the same time. The trees cannot tell whose step it was.
 */
export class Company {
  readonly #parts: (NeighbourPart & Pick<EvidencePart, 'status'>)[]
  readonly #neighbours: readonly NeighbourPart[]

  constructor({ parts, neighbours }: EvidenceBundle, place: Place) {
    this.#parts = parts.map((part) => ({ ...part, paths: touchedPaths(place, part) }))
    this.#neighbours = neighbours
  }

  isClouded(candidate: Candidate): boolean {
    const { messageId } = candidate.part
    const isInside = (part: NeighbourPart) => part.messageId === messageId
    return (
      this.#parts.some((part) => isInside(part) && mayWrite(part, candidate)) ||
      this.#neighbours.some((part) => isInside(part) && !readers.has(part.tool)) ||
      [...this.#parts, ...this.#neighbours].some(
        (part) => isElsewhere(part, candidate) && isMeanwhile(part, candidate),
      )
    )
  }
}

/** A completed part of a known tool writes what it names; such a part is a link of the chain, not a cloud. */
function mayWrite(
  { tool, status, paths }: NeighbourPart & Pick<EvidencePart, 'status'>,
  { path }: Candidate,
): boolean {
  if (readers.has(tool) || status === 'pending') return false
  if (!isMutatingTool(tool) || paths.length === 0) return true
  return status !== 'completed' && paths.includes(path ?? '')
}

/** A sub-agent's own parts stand for what it did, so the `task` that waits for it does not count. */
function isElsewhere(
  { sessionId, tool, paths }: NeighbourPart,
  { part, path }: Candidate,
): boolean {
  if (sessionId === part.sessionId || tool === 'task' || readers.has(tool)) return false
  return !isMutatingTool(tool) || paths.length === 0 || paths.includes(path ?? '')
}

function isMeanwhile({ startedAt, endedAt }: NeighbourPart, { message }: Candidate): boolean {
  const from = message?.createdAt ?? 0
  const to = message?.completedAt ?? Infinity
  return (startedAt ?? 0) <= to && (endedAt ?? Infinity) >= from
}
