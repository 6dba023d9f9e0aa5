// The two sides of a path in its window, checked as far as they can be: the right pair of trees, one entry, whole text
// within the limits, and the hashes that it claims. The limits hold here again, whatever the sandbox has kept to.

import {
  type DiagnosticCode,
  type EvidenceBundle,
  type EvidenceFailure,
  type EvidenceFile,
  type EvidenceSide,
  type EvidenceWindow,
  evidenceLimits as limits,
} from '../../contract/evidence.ts'
import { groupBy } from './group-by.ts'
import { digestOf, type Digest, isPlainText } from './texts/exact.ts'

export interface Text {
  text: string
  digest: Digest
}
/** Null: the file is not there. */
export interface Anchor {
  before: Text | null
  after: Text | null
}
export type AnchorMatch = { ok: true; anchor: Anchor } | { ok: false; reason: DiagnosticCode }
const no = (reason: DiagnosticCode) => ({ ok: false, reason }) as const

/** What the collector tells for information only; everything else that it names is a reason not to believe. */
const remarks: readonly DiagnosticCode[] = [
  'read-slow',
  'extra-snapshot-path',
  'path-outside-session',
  'warning-preserved',
]

export class Anchors {
  readonly #bundle: EvidenceBundle
  readonly #files: ReadonlyMap<string, EvidenceFile[]>
  readonly #overBudget: ReadonlyMap<EvidenceFile, DiagnosticCode>

  constructor(bundle: EvidenceBundle) {
    this.#bundle = bundle
    this.#files = groupBy(bundle.files, ({ windowId, path }) => fileKey(windowId, path))
    this.#overBudget = overBudget(bundle.files)
  }

  find(window: EvidenceWindow, path: string, partId: string): AnchorMatch {
    const failed = this.#failure(window, path, partId) ?? this.#readFault(window)
    if (failed) return no(failed)
    const files = this.#files.get(fileKey(window.id, path)) ?? []
    const [file] = files
    if (!file) return no('no-file-anchor')
    if (files.length > 1) return no('duplicate-anchor')
    if (file.from !== window.from || file.to !== window.to) return no('identity-mismatch')
    const over = this.#overBudget.get(file)
    if (over) return no(over)
    return shapeFault(window, path) ?? readSides(window, file)
  }

  #failure(window: EvidenceWindow, path: string, partId: string): DiagnosticCode | null {
    const concerns = (it: EvidenceFailure) =>
      it.partId !== null
        ? it.partId === partId && (it.path === null || it.path === path)
        : it.windowId === null
          ? it.path === null && it.code !== 'malformed-row'
          : it.windowId === window.id && (it.path === null || it.path === path)
    const failure = this.#bundle.failures.find((it) => !remarks.includes(it.code) && concerns(it))
    return failure?.code ?? null
  }

  /** A window is read once; texts without a read would be an eleventh one. */
  #readFault({ id }: EvidenceWindow): DiagnosticCode | null {
    const reads = this.#bundle.reads.filter(({ windowId }) => windowId === id)
    if (reads.some(({ timedOut, elapsedMs }) => timedOut || elapsedMs > limits.readMs))
      return 'read-timeout'
    const isRead = reads.length === 1 || !this.#bundle.files.some(({ windowId }) => windowId === id)
    return isRead ? null : 'read-limit'
  }
}

const fileKey = (windowId: string, path: string) => JSON.stringify([windowId, path])

/** In the order of the bundle, so that what comes too late is left out and not what came first. */
function overBudget(files: readonly EvidenceFile[]): Map<EvidenceFile, DiagnosticCode> {
  const over = new Map<EvidenceFile, DiagnosticCode>()
  const perWindow = new Map<string, number>()
  let total = 0
  for (const file of files) {
    const nth = (perWindow.get(file.windowId) ?? 0) + 1
    perWindow.set(file.windowId, nth)
    const sizes = [file.before, file.after].map(sizeOf)
    const bytes = sizes.reduce((a, b) => a + b, 0)
    if (nth > limits.filesPerRead) over.set(file, 'file-limit')
    else if (sizes.some((size) => size > limits.bytesPerFile)) over.set(file, 'too-large')
    else if (total + bytes > limits.bytesInTotal) over.set(file, 'total-budget')
    else total += bytes
  }
  return over
}

/** The claim is compared with the text where it is used; a text that is longer than it claims is not. */
const sizeOf = (side: EvidenceSide) =>
  side.state === 'text' ? Math.max(side.sizeBytes, side.text.length) : 0

/** A path that is a file in one tree and a folder in the other, or that differs from another only in case or form. */
function shapeFault({ changed }: EvidenceWindow, path: string): AnchorMatch | null {
  const key = foldedName(path)
  for (const other of changed) {
    if (other === path) continue
    if (other.startsWith(`${path}/`) || path.startsWith(`${other}/`)) return no('path-is-folder')
    if (foldedName(other) === key) return no('rename')
  }
  return null
}
const foldedName = (path: string) => path.normalize('NFC').toLowerCase()

function readSides({ from }: EvidenceWindow, { before, after }: EvidenceFile): AnchorMatch {
  const [first, last] = [readSide(before), readSide(after)]
  if (!first.ok) return first
  if (!last.ok) return last
  // Without a tree before, only a file that was not there can be told, and only if it was said so.
  if (from === null && first.side !== null) return no('incomplete-window')
  if (before.state === 'text' && after.state === 'text' && before.mode !== after.mode)
    return no('mode-change')
  if (first.side === null && last.side === null) return no('no-file-anchor')
  return { ok: true, anchor: { before: first.side, after: last.side } }
}

function readSide(side: EvidenceSide): { ok: true; side: Text | null } | ReturnType<typeof no> {
  if (side.state === 'text') return readText(side)
  return side.state === 'absent' ? { ok: true, side: null } : no(side.code)
}

function readText(side: EvidenceSide & { state: 'text' }) {
  if (!isPlainText(side.text)) return no('binary')
  const digest = digestOf(side.text)
  return digest.sha256 === side.sha256 && digest.sizeBytes === side.sizeBytes
    ? ({ ok: true, side: { text: side.text, digest } } as const)
    : no('content-hash-mismatch')
}
