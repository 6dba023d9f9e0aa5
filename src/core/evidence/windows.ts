// Which window a tool part ran in, and whether that window can speak for one change at all.

import type {
  DiagnosticCode,
  EvidenceBundle,
  EvidencePart,
  EvidenceWindow,
  NeighbourPart,
  SeenPart,
  SeenStep,
} from '../../contract/evidence.ts'
import { isMutatingTool, touchedEvidencePaths } from '../../contract/evidence-paths.ts'
import type { Place } from '../../contract/evidence-paths.ts'
import type { Candidate } from './candidate.ts'
import { groupBy } from './group-by.ts'

export type WindowMatch =
  | { ok: true; window: EvidenceWindow }
  | { ok: false; reason: DiagnosticCode }

const no = (reason: DiagnosticCode): WindowMatch => ({ ok: false, reason })

/** All windows of a bundle, by their messages. */
export class Windows {
  readonly #byMessage: ReadonlyMap<string, EvidenceWindow[]>
  readonly #byId: ReadonlyMap<string, EvidenceWindow[]>

  constructor(windows: readonly EvidenceWindow[]) {
    this.#byMessage = groupBy(windows, ({ messageId }) => messageId)
    this.#byId = groupBy(windows, ({ id }) => id)
  }

  of = (messageId: string): readonly EvidenceWindow[] => this.#byMessage.get(messageId) ?? []
  isTwice = (id: string): boolean => (this.#byId.get(id)?.length ?? 0) > 1
}

/** Exactly one window of the part's own message has it inside. */
export function matchWindow({ part }: Candidate, windows: Windows): WindowMatch {
  const around = windows.of(part.messageId).filter((window) => contains(window, part))
  const [window] = around
  if (!window) return no('no-window')
  if (around.length > 1 || windows.isTwice(window.id)) return no('ambiguous-window')
  if (window.finishOrder === null || window.to === null) return no('incomplete-window')
  return { ok: true, window }
}

/** The two trees of a step must be those that came over the link when it was done, if steps are told at all. */
export class ToldSteps {
  readonly #byMessage: ReadonlyMap<string, SeenStep[]>

  constructor(steps: readonly SeenStep[]) {
    this.#byMessage = groupBy(steps, ({ messageId }) => messageId)
  }

  agrees({ messageId, from, to }: EvidenceWindow): boolean {
    const isSame = (step: SeenStep) =>
      step.to === to && (step.from === from || step.from === 'unknown')
    return this.#byMessage.size === 0 || (this.#byMessage.get(messageId) ?? []).some(isSame)
  }

  isTold({ messageId }: EvidenceWindow): boolean {
    return this.#byMessage.has(messageId)
  }
}

const contains = (window: EvidenceWindow, { order }: EvidencePart) =>
  window.startOrder < order && order < (window.finishOrder ?? Infinity)

/** Tools of OpenCode that write no file of the workspace. Whatever is not listed may have written any. */
const readers = new Set([
  ...['read', 'glob', 'grep', 'list', 'lsp', 'skill', 'question', 'invalid'],
  ...['webfetch', 'websearch', 'codesearch', 'todowrite', 'todoread'],
])

export const isReader = (tool: string): boolean => readers.has(tool)

/**
 * Whether something else may have written the same file between the two trees: a shell or an unknown tool in the window,
 * a part that did not complete, or another session that worked at the same time. The trees cannot tell whose step it was.
 * What came over the link counts also if whoever works in the sandbox has taken it out of the records.
 */
export class Company {
  /** Messages in which a tool ran that may have written any file. */
  readonly #opaque = new Set<string>()
  /** What parts that did not complete may have written, by message. */
  readonly #unfinished = new Set<string>()
  readonly #byPath: ReadonlyMap<string, NeighbourPart[]>
  readonly #anywhere: NeighbourPart[]
  readonly #beside = new Map<string, boolean>()

  constructor({ parts, neighbours }: EvidenceBundle, place: Place, seenParts: readonly SeenPart[]) {
    const known = parts.map((part) => ({ ...part, paths: touchedEvidencePaths(place, part) }))
    for (const part of known) this.#noteInside(part)
    this.#noteMissing(seenParts, parts)
    for (const { tool, messageId } of neighbours)
      if (!readers.has(tool)) this.#opaque.add(messageId)
    // A sub-agent's own parts stand for what it did, so the `task` that waits for it does not count.
    const writers = [...known, ...neighbours].filter(
      ({ tool }) => tool !== 'task' && !readers.has(tool),
    )
    this.#anywhere = writers.filter(mayWriteAnything)
    const named = writers.flatMap((part) =>
      mayWriteAnything(part) ? [] : [...new Set(part.paths)].map((path) => ({ path, part })),
    )
    this.#byPath = new Map(
      [...groupBy(named, ({ path }) => path)].map(([path, all]) => [
        path,
        all.map(({ part }) => part),
      ]),
    )
  }

  /** A completed part of a known tool writes what it names; such a part is a link of the chain, not a cloud. */
  #noteInside(part: NeighbourPart & Pick<EvidencePart, 'status'>): void {
    const { tool, status, paths, messageId } = part
    if (readers.has(tool) || status === 'pending') return
    if (mayWriteAnything(part)) this.#opaque.add(messageId)
    else if (status !== 'completed')
      for (const path of paths) this.#unfinished.add(placeKey(messageId, path))
  }

  /** A tool that the link has told and that the records do not have, or call another, ran all the same. */
  #noteMissing(seenParts: readonly SeenPart[], parts: readonly EvidencePart[]): void {
    const tools = new Map(parts.map(({ id, tool }) => [id, tool]))
    for (const { id, tool, messageId } of seenParts)
      if (!readers.has(tool) && tools.get(id) !== tool) this.#opaque.add(messageId)
  }

  isClouded(candidate: Candidate): boolean {
    const { messageId } = candidate.part
    const path = candidate.path ?? ''
    return (
      this.#opaque.has(messageId) ||
      this.#unfinished.has(placeKey(messageId, path)) ||
      (this.#byPath.get(path) ?? []).some((part) => isElsewhere(part, candidate)) ||
      this.#isBeside(candidate)
    )
  }

  /** The same for all changes of one message. */
  #isBeside(candidate: Candidate): boolean {
    const key = placeKey(candidate.part.messageId, candidate.part.sessionId)
    const known = this.#beside.get(key)
    if (known !== undefined) return known
    const found = this.#anywhere.some((part) => isElsewhere(part, candidate))
    this.#beside.set(key, found)
    return found
  }
}

const placeKey = (messageId: string, name: string) => JSON.stringify([messageId, name])

const mayWriteAnything = ({ tool, paths }: NeighbourPart): boolean =>
  !isMutatingTool(tool) || paths.length === 0

/** Another session that worked at the same time. */
function isElsewhere(
  { sessionId, startedAt, endedAt }: NeighbourPart,
  { part, message }: Candidate,
): boolean {
  const from = message?.createdAt ?? 0
  const to = message?.completedAt ?? Infinity
  return sessionId !== part.sessionId && (startedAt ?? 0) <= to && (endedAt ?? Infinity) >= from
}
