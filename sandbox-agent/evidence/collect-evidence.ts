// One collect: what OpenCode's database and snapshots show of a turn, as one bundle. It decides nothing. At most ten steps
// are read, each once and within its time; a step is read only if a tool of it has changed files whose two sides its own
// input does not tell. What cannot be had is named by a code, and nothing is tried again. The agent runs it for the
// command `evidence` and posts what it returns.

import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import {
  bundleVersion,
  type EvidenceBundle,
  type EvidenceWindow,
  evidenceLimits,
  maxBundleMessages,
  maxBundleParts,
} from '../../src/contract/evidence.ts'
import { type Place, unresolvedEvidencePaths } from '../../src/contract/evidence-paths.ts'
import type { CommandBody } from '../../src/contract/link.ts'
import { isFrozen } from './frozen.ts'
import { maxPartRows, readHistory, readHistoryPartNames, type Rows } from './history.ts'
import {
  historyFailure,
  firstHistoryPage,
  neighbourOf,
  historyNeighbours,
  type Page,
  historySchema,
  tellHistoryRows,
  completeHistoryRows,
  wholeHistoryMessages,
} from './history-rows.ts'
import { StoreObjects } from './snapshot-objects.ts'
import { findSnapshotStores, type FoundStores, type StorePlace } from './snapshot-store.ts'
import { readWindowFiles, TextBudget } from './window-files.ts'

export interface CollectSite extends Omit<StorePlace, 'dataDir'> {
  home: string
  workspace: string
  /** Endings of files that OpenCode formats after writing; null: not known. */
  formatted: () => Promise<string[] | null>
}

export interface Collected {
  bundle: EvidenceBundle
  /** The last message of this bundle; null: there is nothing after it. */
  next: string | null
}

/** Also those that change no file: what their tools ran beside is to be known. */
const maxMessages = 200

export async function collectEvidence(
  site: CollectSite,
  body: CommandBody<'evidence'>,
): Promise<Collected> {
  const place = { ...site, dataDir: join(site.home, '.local', 'share', 'opencode') }
  const history = await readHistory(place, { ...body, maxMessages })
  const bundle = emptyBundle(history.writeAheadFile)
  const stop = (code: Parameters<typeof historyFailure>[0]): Collected => {
    bundle.failures.push(historyFailure(code))
    return { bundle, next: null }
  }
  if (!history.ok) return stop('history-unreadable')
  const { rows } = history
  bundle.capability.schema = historySchema(rows.schema ?? [])
  if (!bundle.capability.schema.supported) return stop('sqlite-schema-unsupported')
  const own = sessionOf(rows)
  if (!own || !rows.messages || !rows.parts) return stop('session-identity-missing')
  bundle.capability.session = own
  const isRunning = body.until !== undefined
  const whole = wholeHistoryMessages(rows.messages, rows.parts, maxPartRows)
  const told = tellHistoryRows(whole.messages, whole.parts)
  const page = firstHistoryPage(isRunning ? completeHistoryRows(told) : told, limitsOf(body))
  addPage(bundle, own, page, rows)
  if (whole.cut === 'inside' || bundle.parts.length > maxBundleParts) await cutPage(place, bundle)
  bundle.capability.formatted = await site.formatted()
  bundle.capability.frozen = isFrozen(place.dataDir, bundle.messages[0]?.createdAt ?? 0)
  if (isWorkspace(site.workspace, own)) {
    if (body.maxWindows > 0) await readWindows(place, bundle, own)
  } else bundle.failures.push(historyFailure('workspace-mismatch'))
  const last = bundle.messages.at(-1)?.id ?? null
  if (isRunning) return { bundle, next: last }
  const isFull =
    page.next === null && (whole.cut !== 'none' || rows.messages.length === maxMessages)
  return { bundle, next: isFull ? last : page.next }
}

const limitsOf = ({ maxWindows }: CommandBody<'evidence'>) => ({
  windows: maxWindows === 0 ? Infinity : Math.min(maxWindows, evidenceLimits.readsPerCollect),
  parts: maxBundleParts,
})

const emptyBundle = (
  writeAheadFile: EvidenceBundle['capability']['writeAheadFile'],
): EvidenceBundle => ({
  version: bundleVersion,
  capability: {
    schema: { supported: false, fingerprint: 'unknown' },
    writeAheadFile,
    session: null,
    store: { state: 'missing', fingerprint: null },
    frozen: false,
    formatted: null,
  },
  ...{ messages: [], parts: [], neighbours: [], windows: [], files: [], failures: [], reads: [] },
})

type Identity = NonNullable<EvidenceBundle['capability']['session']>

/** The one session that has the turn's prompts, with its project. */
function sessionOf({ session }: Rows): Identity | null {
  if (session?.length !== 1) return null
  const { id, projectId, directory, worktree, vcs } = session[0] ?? {}
  const isName = (value: unknown): value is string => typeof value === 'string' && value !== ''
  if (!isName(id) || !isName(projectId) || !isName(directory) || !isName(worktree)) return null
  return { id, projectId, directory, worktree, vcs: isName(vcs) ? vcs : null }
}

function addPage(bundle: EvidenceBundle, own: Identity, page: Page, rows: Rows): void {
  const { messages, parts, windows, failures } = page.told
  Object.assign(bundle, { messages, parts, windows })
  bundle.failures.push(...failures)
  const beside = [
    ...historyNeighbours(own, rows.neighbours ?? []),
    ...page.leftOut.map(neighbourOf(own)),
  ]
  bundle.neighbours = beside.slice(0, maxBundleParts)
  // What ran beside is not known whole, so nobody knows what else may have written a file.
  if (beside.length > maxBundleParts) bundle.failures.push(historyFailure('part-limit'))
}

/** One message alone has more than a bundle holds: what is left out is named, and nothing of it can be proven. */
async function cutPage(place: StorePlace, bundle: EvidenceBundle): Promise<void> {
  const [message] = bundle.messages
  bundle.parts = bundle.parts.slice(0, maxBundleParts)
  bundle.windows = bundle.windows.slice(0, maxBundleMessages)
  bundle.failures.push(historyFailure('part-limit'))
  const known = new Set(bundle.parts.map(({ id }) => id))
  const names = message ? await readHistoryPartNames(place, message.id) : []
  for (const partId of names)
    if (!known.has(partId)) bundle.failures.push(historyFailure('part-limit', { partId }))
}

/** By its name, or by where it really is: a temporary folder may be reached by a symlink. */
function isWorkspace(workspace: string, { worktree }: Identity): boolean {
  return worktree === workspace || worktree === realpathSync(workspace)
}

async function readWindows(
  place: StorePlace,
  bundle: EvidenceBundle,
  own: Identity,
): Promise<void> {
  const stores = findSnapshotStores(place.dataDir, own)
  bundle.capability.store = { state: stores.state, fingerprint: stores.fingerprint }
  const budget = new TextBudget()
  const objects = new StoreObjects(place)
  for (const window of bundle.windows) {
    const paths = pathsOf(bundle, own, window)
    if (paths.length > 0) await readOne({ objects, bundle, stores, budget, window, paths })
  }
  objects.close()
}

/** Nothing is read for a window in which nothing is unresolved. */
function pathsOf(
  { parts, capability }: EvidenceBundle,
  own: Place,
  window: EvidenceWindow,
): string[] {
  const { messageId, startOrder, finishOrder } = window
  return unresolvedEvidencePaths(
    own,
    parts.filter(
      (part) =>
        part.messageId === messageId &&
        part.order > startOrder &&
        (finishOrder === null || part.order < finishOrder),
    ),
    capability.formatted,
  )
}

interface Reading {
  objects: StoreObjects
  bundle: EvidenceBundle
  stores: FoundStores
  budget: TextBudget
  window: EvidenceWindow
  paths: string[]
}

async function readOne({ objects, bundle, stores, budget, window, paths }: Reading): Promise<void> {
  const windowId = window.id
  if (window.from === null || window.to === null)
    return void bundle.failures.push(historyFailure('incomplete-window', { windowId }))
  if (stores.state !== 'found')
    return void bundle.failures.push(historyFailure(`snapshot-store-${stores.state}`, { windowId }))
  if (bundle.reads.length >= evidenceLimits.readsPerCollect)
    return void bundle.failures.push(historyFailure('read-limit', { windowId }))
  const { from, to } = window
  const read = await readWindowFiles(objects, stores, { ...window, from, to, paths }, budget)
  window.changed = read.changed
  bundle.files.push(...read.files)
  bundle.failures.push(...read.failures)
  bundle.reads.push(read.statistics)
}
