// OpenCode's snapshots: git folders without commits, one for each project and worktree, whose trees are named by the
// steps of a turn. They are read by git plumbing inside the walls; nothing of their own settings is run, nothing is
// fetched, and no file of the workspace is looked at. Whoever collects evidence asks for the trees and the files of one
// step at a time.

import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { DiagnosticCode } from '../../src/contract/evidence.ts'
import { Folder } from '../workspace/folder.ts'
import type { Run } from '../enclosure/reader.ts'

export interface StorePlace {
  run: Run
  environment: Record<string, string>
  /** OpenCode's own folder of data. */
  dataDir: string
}

export interface Identity {
  projectId: string
  worktree: string
}

export type FoundStores =
  | { state: 'found'; fingerprint: string; own: string[]; foreign: string[] }
  | { state: 'missing' | 'unsupported' | 'misplaced'; fingerprint: null }

const folderOf = (worktree: string) => createHash('sha1').update(worktree).digest('hex')

/**
 * Of this worktree, the session's own project first: the id of a project changes with its remote and its first commit,
 * and the place of its snapshots with it. A symlink on the way is no place of OpenCode's.
 */
export function findSnapshotStores(
  dataDir: string,
  { projectId, worktree }: Identity,
): FoundStores {
  if (!/^[\w.-]{1,100}$/.test(projectId) || projectId.startsWith('.'))
    return { state: 'unsupported', fingerprint: null }
  const own = folderOf(worktree)
  const places = listPlaces(dataDir)
  const isOwn = (place: string) => place.endsWith(`/${own}`)
  const first = `${projectId}/${own}`
  const found = [
    ...places.filter((place) => place === first),
    ...places.filter((place) => isOwn(place) && place !== first),
  ]
  const state = stateOf(dataDir, [projectId, own])
  if (found.length === 0 || state === 'misplaced' || state === 'unsupported')
    return { state: state === 'found' ? 'missing' : state, fingerprint: null }
  const path = (place: string) => join(dataDir, 'snapshot', place)
  return {
    state: 'found',
    fingerprint: fingerprintOf(path(found[0] as string)),
    own: found.map(path),
    foreign: places.filter((place) => !isOwn(place)).map(path),
  }
}

const maxPlaces = 100

/** Project and worktree, as far as they are folders. */
function listPlaces(dataDir: string): string[] {
  return below(dataDir, ['snapshot'])
    .flatMap((project) =>
      below(dataDir, ['snapshot', project]).map((worktree) => `${project}/${worktree}`),
    )
    .slice(0, maxPlaces)
}

function below(dataDir: string, names: string[]): string[] {
  return (
    within(dataDir, names, (folder) =>
      folder
        .entries()
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => name)
        .sort(),
    ) ?? []
  )
}

function stateOf(
  dataDir: string,
  names: string[],
): 'found' | 'missing' | 'unsupported' | 'misplaced' {
  const whole = ['snapshot', ...names]
  for (let depth = 1; depth <= whole.length; depth += 1) {
    const stat = within(dataDir, whole.slice(0, depth - 1), (folder) =>
      folder.stat(whole[depth - 1] as string),
    )
    if (stat === undefined) return 'missing'
    if (!stat.isDirectory()) return 'misplaced'
  }
  const isStore = within(
    dataDir,
    whole,
    (folder) =>
      folder.stat('HEAD')?.isFile() === true && folder.stat('objects')?.isDirectory() === true,
  )
  return isStore === true ? 'found' : 'unsupported'
}

/** undefined: one of the names is no folder. */
function within<T>(dataDir: string, names: string[], look: (folder: Folder) => T): T | undefined {
  let top: Folder
  try {
    top = Folder.open(dataDir)
  } catch {
    return undefined
  }
  const folder = top.descend(names)
  top.close()
  try {
    return folder && look(folder)
  } finally {
    folder?.close()
  }
}

/** What a reader must know of its form; not where it is, nor what is in it. */
function fingerprintOf(path: string): string {
  const text = within(path, [], (folder) => folder.read('config', { maxBytes: 64 * 1024 }))
  const config = Buffer.isBuffer(text) ? text.toString('utf8') : ''
  const version = /^\s*repositoryformatversion\s*=\s*(\d+)/im.exec(config)?.[1] ?? '?'
  const format = /^\s*objectformat\s*=\s*(\w+)/im.exec(config)?.[1] ?? 'sha1'
  const shares = within(path, ['objects', 'info'], (folder) => folder.stat('alternates'))
  return `git-trees:${version}:${format}:${shares ? 'alternates' : 'alone'}`
}

const settings = [
  'core.quotePath=false',
  'core.fsmonitor=false',
  'core.hooksPath=/dev/null',
].flatMap((setting) => ['-c', setting])
/** Nothing is fetched or replaced, and a name is a name. */
const environment = {
  GIT_NO_LAZY_FETCH: '1',
  GIT_NO_REPLACE_OBJECTS: '1',
  GIT_LITERAL_PATHSPECS: '1',
  GIT_OPTIONAL_LOCKS: '0',
}

export interface Entry {
  mode: string
  type: string
  hash: string
  size: number | null
}

/** One after the other until the time is up; from then on nothing is read. */
export class StoreReading {
  readonly #place: StorePlace
  readonly #endsAt: number
  timedOut = false

  constructor(place: StorePlace, timeoutMs: number) {
    this.#place = place
    this.#endsAt = performance.now() + timeoutMs
  }

  /** The first of these stores that has all of these trees. */
  async storeWith(stores: readonly string[], trees: readonly string[]): Promise<string | null> {
    for (const store of stores) {
      const said = await this.#git(store, ['cat-file', '--batch-check'], 10_000, trees)
      const lines = said?.toString('utf8').trim().split('\n') ?? []
      if (lines.length === trees.length && lines.every((line) => / tree \d+$/.test(line)))
        return store
    }
    return null
  }

  /** By path, of those that are in the tree; null: the tree cannot be read. */
  async entries(
    store: string,
    tree: string,
    paths: readonly string[],
  ): Promise<Map<string, Entry> | null> {
    const args = ['ls-tree', '-z', '-l', '--full-tree', tree, '--', ...paths]
    const said = await this.#git(store, args, 16 * 1024 * 1024)
    return said && parseEntries(said)
  }

  /** Paths that differ between two trees, at most so many. Null: they cannot be compared. */
  async changed(store: string, from: string, to: string, most: number): Promise<string[] | null> {
    const args = ['diff-tree', '-r', '-z', '--name-only', '--no-renames', from, to]
    const said = await this.#git(store, args, 16 * 1024 * 1024)
    if (!said) return null
    const names = said.toString('utf8').split('\0').slice(0, -1)
    return names.filter((name) => name.length <= 4096 && name !== '').slice(0, most)
  }

  /** Contents by hash. One that is missing or is not what its hash says has a code. */
  async contents(
    store: string,
    hashes: readonly string[],
    bytes: number,
  ): Promise<Map<string, Buffer | DiagnosticCode> | null> {
    if (hashes.length === 0) return new Map()
    const most = bytes + hashes.length * 200
    const said = await this.#git(store, ['cat-file', '--batch'], most, hashes)
    return said && parseContents(said, hashes)
  }

  async #git(
    store: string,
    args: readonly string[],
    maxBytes: number,
    lines: readonly string[] = [],
  ): Promise<Buffer | null> {
    const timeoutMs = Math.floor(this.#endsAt - performance.now())
    if (timeoutMs <= 0) this.timedOut = true
    if (this.timedOut) return null
    const ran = await this.#place
      .run('git', [`--git-dir=${store}`, ...settings, ...args], {
        environment: { ...this.#place.environment, ...environment },
        input: lines.map((line) => `${line}\n`).join(''),
        maxBytes,
        timeoutMs,
      })
      .catch(() => null)
    if (ran?.code === 0) return ran.output
    if (performance.now() >= this.#endsAt) this.timedOut = true
    return null
  }
}

/** "mode type hash size\tpath", each ended by NUL. */
function parseEntries(output: Buffer): Map<string, Entry> {
  const found = new Map<string, Entry>()
  for (const record of output.toString('utf8').split('\0').slice(0, -1)) {
    const tab = record.indexOf('\t')
    const [mode = '', type = '', hash = '', size = ''] = record.slice(0, tab).split(/ +/)
    found.set(record.slice(tab + 1), {
      ...{ mode, type, hash },
      size: /^\d+$/.test(size) ? Number(size) : null,
    })
  }
  return found
}

/** "hash type size\n", the bytes, a line feed; or "hash missing\n". Bytes that their hash does not name are not used. */
function parseContents(
  output: Buffer,
  hashes: readonly string[],
): Map<string, Buffer | DiagnosticCode> {
  const found = new Map<string, Buffer | DiagnosticCode>()
  let at = 0
  for (const hash of hashes) {
    const end = output.indexOf(10, at)
    if (end === -1) break
    const [, type, size] = output.toString('utf8', at, end).split(' ')
    at = end + 1
    if (type === 'missing' || size === undefined) {
      found.set(hash, 'object-missing')
      continue
    }
    const content = output.subarray(at, at + Number(size))
    at += Number(size) + 1
    found.set(hash, blobHash(content) === hash ? content : 'object-unreadable')
  }
  return found
}

const blobHash = (content: Buffer): string =>
  createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex')
