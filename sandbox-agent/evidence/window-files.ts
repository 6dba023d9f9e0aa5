// The files of one step, before and after it: one read of the snapshot store, of at most a hundred paths, a mebibyte for
// each text, four for all of a collect, and three seconds. A side that is no whole text is said to be unavailable, with
// its reason; only a path that was looked for in a tree and is not in it is absent.

import { isUtf8 } from 'node:buffer'
import { createHash } from 'node:crypto'
import {
  type EvidenceBundle,
  type EvidenceFailure,
  type EvidenceFile,
  type EvidenceSide,
  evidenceLimits,
} from '../../src/contract/evidence.ts'
import { historyFailure } from './history-rows.ts'
import type { StoreObjects } from './snapshot-objects.ts'
import { type Entry, type FoundStores, StoreReading } from './snapshot-store.ts'

/** How many bytes of texts this collect may still hold. */
export class TextBudget {
  left: number = evidenceLimits.bytesInTotal
}

interface Step {
  id: string
  from: string
  to: string
  paths: string[]
}

interface WindowRead {
  files: EvidenceFile[]
  failures: EvidenceFailure[]
  changed: string[]
  statistics: EvidenceBundle['reads'][number]
}

const maxChanged = 1000

export async function readWindowFiles(
  objects: StoreObjects,
  stores: Extract<FoundStores, { state: 'found' }>,
  step: Step,
  budget: TextBudget,
): Promise<WindowRead> {
  const startedAt = performance.now()
  const reading = new StoreReading(objects, evidenceLimits.readMs)
  const before = budget.left
  const read = await readFiles(reading, stores, step, budget)
  const elapsedMs = Math.round(performance.now() - startedAt)
  const windowId = step.id
  const { timedOut } = reading
  if (timedOut) read.failures.push(historyFailure('read-timeout', { windowId }))
  if (elapsedMs > evidenceLimits.slowReadMs)
    read.failures.push(historyFailure('read-slow', { windowId }))
  const statistics = { windowId, elapsedMs, timedOut, bytes: before - budget.left }
  return { ...read, statistics }
}

async function readFiles(
  reading: StoreReading,
  stores: Extract<FoundStores, { state: 'found' }>,
  step: Step,
  budget: TextBudget,
): Promise<Omit<WindowRead, 'statistics'>> {
  const { id: windowId, from, to } = step
  const nothing = (code: EvidenceFailure['code']) => ({
    ...{ files: [], changed: [] },
    failures: reading.timedOut ? [] : [historyFailure(code, { windowId })],
  })
  const trees = [...new Set([from, to])]
  const store = await reading.storeWith(stores.own, trees)
  if (store === null) {
    const isElsewhere = (await reading.storeWith(stores.foreign, trees)) !== null
    return nothing(isElsewhere ? 'object-foreign' : 'object-missing')
  }
  const paths = step.paths.slice(0, evidenceLimits.filesPerRead)
  const beyond = step.paths.slice(evidenceLimits.filesPerRead)
  const before = await reading.entries(store, from, paths)
  const after = before && (await reading.entries(store, to, paths))
  if (!before || !after) return nothing('object-missing')
  const changed = await reading.changed(store, from, to, maxChanged)
  const sides = new Sides(reading, store, budget)
  const files = await sides.read(paths.map((path) => [path, before.get(path), after.get(path)]))
  if (files === null) return nothing('object-unreadable')
  return {
    files: files.map(([path, was, is]) => ({ windowId, from, to, path, before: was, after: is })),
    changed: changed ?? [],
    failures: beyond.map((path) => historyFailure('file-limit', { windowId, path })),
  }
}

type Found = [path: string, before: Entry | undefined, after: Entry | undefined]
type Sided = [path: string, before: EvidenceSide, after: EvidenceSide]

/** Both sides of each file: what fits is fetched by one program, then each is looked at. */
class Sides {
  readonly #reading: StoreReading
  readonly #store: string
  readonly #budget: TextBudget

  constructor(reading: StoreReading, store: string, budget: TextBudget) {
    this.#reading = reading
    this.#store = store
    this.#budget = budget
  }

  /** Null: nothing could be fetched. */
  async read(found: readonly Found[]): Promise<Sided[] | null> {
    const planned = found.map(([path, ...sides]) => ({ path, sides: this.#plan(sides) }))
    const wanted = planned.flatMap(({ sides }) =>
      sides.flatMap((side) => ('hash' in side ? [side.hash] : [])),
    )
    const contents = await this.#reading.contents(this.#store, [...new Set(wanted)])
    if (!contents) return null
    const sideOf = (planned: EvidenceSide | Entry): EvidenceSide =>
      'state' in planned ? planned : textSide(planned, contents.get(planned.hash))
    return planned.map(({ path, sides: [before, after] }) => [path, sideOf(before), sideOf(after)])
  }

  /** Both sides fit, or neither is read: one alone proves nothing. */
  #plan(
    sides: [Entry | undefined, Entry | undefined],
  ): [EvidenceSide | Entry, EvidenceSide | Entry] {
    const [before, after] = sides.map(withoutText) as [EvidenceSide | Entry, EvidenceSide | Entry]
    const bytes = sizeOf(before) + sizeOf(after)
    if (bytes > this.#budget.left) return [overBudget(before), overBudget(after)]
    this.#budget.left -= bytes
    return [before, after]
  }
}

const sizeOf = (side: EvidenceSide | Entry) => ('hash' in side ? (side.size ?? 0) : 0)
const overBudget = (side: EvidenceSide | Entry): EvidenceSide =>
  'hash' in side ? unavailable('total-budget') : side

const unavailable = (code: EvidenceFailure['code']): EvidenceSide => ({
  state: 'unavailable',
  code,
})

/** What is no readable file is said at once; an entry is one that is to be read. */
function withoutText(entry: Entry | undefined): EvidenceSide | Entry {
  if (!entry) return { state: 'absent' }
  const { type, mode, size } = entry
  if (type === 'tree') return unavailable('path-is-folder')
  if (type === 'commit') return unavailable('submodule')
  if (!isRegular(mode)) return unavailable('not-a-file')
  if (size === null) return unavailable('object-missing')
  return size > evidenceLimits.bytesPerFile ? unavailable('too-large') : entry
}

const regularModes = ['100644', '100755'] as const
const isRegular = (mode: string): mode is (typeof regularModes)[number] =>
  regularModes.some((each) => each === mode)

function textSide(
  entry: Entry,
  content: Buffer | EvidenceFailure['code'] | undefined,
): EvidenceSide {
  if (content === undefined) return unavailable('object-missing')
  if (typeof content === 'string') return unavailable(content)
  if (isBinary(content)) return unavailable('binary')
  if (!isUtf8(content)) return unavailable('invalid-utf8')
  const sha256 = createHash('sha256').update(content).digest('hex')
  const mode = entry.mode as (typeof regularModes)[number]
  return { state: 'text', text: content.toString('utf8'), sha256, sizeBytes: content.length, mode }
}

/** Control bytes but tab, line feed, vertical tab, form feed and carriage return. */
const isBinary = (content: Buffer): boolean =>
  content.some((byte) => byte < 9 || (byte > 13 && byte < 32))
