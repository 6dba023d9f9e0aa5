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
import { exactDigest, type Digest, isPlainText } from './texts/exact.ts'

export interface Text {
  text: string
  digest: Digest
  executable?: true
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
  readonly #reads: ReadonlyMap<string, EvidenceBundle['reads']>
  readonly #failures: ReadonlyMap<string, Failure[]>
  readonly #files: ReadonlyMap<string, EvidenceFile[]>
  readonly #filled: ReadonlySet<string>
  readonly #overBudget: ReadonlyMap<EvidenceFile, DiagnosticCode>
  readonly #changed = new Map<EvidenceWindow, Changed>()

  constructor(bundle: EvidenceBundle) {
    const told = bundle.failures.map((it, at) => ({ ...it, at }))
    this.#failures = groupBy(
      told.filter(({ code }) => !remarks.includes(code)),
      failureKey,
    )
    this.#reads = groupBy(bundle.reads, ({ windowId }) => windowId)
    this.#filled = new Set(bundle.files.map(({ windowId }) => windowId))
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
    return shapeFault(this.#changedIn(window), path) ?? readSides(window, file)
  }

  #changedIn(window: EvidenceWindow): Changed {
    const known = this.#changed.get(window)
    if (known) return known
    const { changed: paths } = window
    const made = { paths, byFolded: groupBy(paths, foldedName) }
    this.#changed.set(window, made)
    return made
  }

  /** The first that is about the part, the window or everything, or about this path in one of them. */
  #failure({ id: windowId }: EvidenceWindow, path: string, partId: string): DiagnosticCode | null {
    const places = [
      { partId, windowId: null, path: null },
      { partId, windowId: null, path },
      { partId: null, windowId, path: null },
      { partId: null, windowId, path },
      { partId: null, windowId: null, path: null },
    ]
    const found = places.flatMap((place) => this.#failures.get(failureKey(place))?.[0] ?? [])
    return found.sort((a, b) => a.at - b.at)[0]?.code ?? null
  }

  /** A window is read once; texts without a read would be an eleventh one. */
  #readFault({ id }: EvidenceWindow): DiagnosticCode | null {
    const reads = this.#reads.get(id) ?? []
    if (reads.some(({ timedOut, elapsedMs }) => timedOut || elapsedMs > limits.readMs))
      return 'read-timeout'
    return reads.length === 1 || !this.#filled.has(id) ? null : 'read-limit'
  }
}

type Failure = EvidenceFailure & { at: number }

/** One that is about a part is about it in every window; a row that cannot be read and has no name is about nothing. */
const failureKey = ({
  code,
  partId,
  windowId,
  path,
}: Omit<EvidenceFailure, 'code'> & { code?: DiagnosticCode }): string => {
  if (partId !== null) return JSON.stringify(['part', partId, path])
  if (windowId !== null) return JSON.stringify(['window', windowId, path])
  return path === null && code !== 'malformed-row' ? 'all' : 'nothing'
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
function shapeFault(changed: Changed, path: string): AnchorMatch | null {
  const isBelow = (name: string, folder: string) =>
    name.startsWith(folder) && name[folder.length] === '/'
  if (changed.paths.some((other) => isBelow(other, path) || isBelow(path, other)))
    return no('path-is-folder')
  const alike = changed.byFolded.get(foldedName(path)) ?? []
  return alike.some((other) => other !== path) ? no('rename') : null
}

interface Changed {
  paths: readonly string[]
  byFolded: ReadonlyMap<string, string[]>
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
  const digest = exactDigest(side.text)
  return digest.sha256 === side.sha256 && digest.sizeBytes === side.sizeBytes
    ? ({ ok: true, side: { text: side.text, digest, ...modeOf(side) } } as const)
    : no('content-hash-mismatch')
}

const modeOf = ({ mode }: EvidenceSide & { state: 'text' }): Pick<Text, 'executable'> =>
  mode === '100755' ? { executable: true } : {}
