// OpenCode's snapshots: git folders without commits, one for each project and worktree, whose trees are named by the
// steps of a turn. They are read by git plumbing inside the walls; nothing of their own settings is run, nothing is
// fetched, and no file of the workspace is looked at. Whoever collects evidence asks for the trees and the files of one
// step at a time.

import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { DiagnosticCode } from '../../src/contract/evidence.ts'
import { Folder } from '../workspace/folder.ts'
import type { ObjectAnswer, StoreObjects, StoreProgram } from './snapshot-objects.ts'

export interface StorePlace extends StoreProgram {
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

export interface Entry {
  mode: string
  type: 'blob' | 'tree' | 'commit'
  hash: string
  /** Null: it is no blob, or the store does not have it. */
  size: number | null
}

type Tree = Map<string, Omit<Entry, 'size'>>
/** Two versions of one folder; null: there is none on that side. */
interface Pair {
  prefix: string
  from: string | null
  to: string | null
}

const maxPathBytes = 4096

/** One question after the other until the time is up; from then on nothing is read. */
export class StoreReading {
  readonly #objects: StoreObjects
  readonly #endsAt: number
  timedOut = false

  constructor(objects: StoreObjects, timeoutMs: number) {
    this.#objects = objects
    this.#endsAt = performance.now() + timeoutMs
  }

  /** The first of these stores that has all of these trees. */
  async storeWith(stores: readonly string[], trees: readonly string[]): Promise<string | null> {
    for (const store of stores) {
      const said = await this.#ask('sizes', store, trees)
      if (said?.every((each) => typeof each === 'object' && each.type === 'tree')) return store
      this.#objects.leave(store)
    }
    return null
  }

  /** By path, of those that are in the tree; null: the tree, or one below it, cannot be read. */
  async entries(
    store: string,
    tree: string,
    paths: readonly string[],
  ): Promise<Map<string, Entry> | null> {
    const found = new Map<string, Omit<Entry, 'size'>>()
    let level = paths.map((path) => ({ path, names: bytesOf(path).split('/'), tree }))
    while (level.length > 0) {
      const trees = await this.#trees(
        store,
        level.map((each) => each.tree),
      )
      if (!trees) return null
      level = level.flatMap(({ path, names: [name = '', ...names], tree: within }) => {
        const entry = trees.get(within)?.get(name)
        if (entry && names.length === 0) found.set(path, entry)
        return entry?.type === 'tree' && names.length > 0 ? [{ path, names, tree: entry.hash }] : []
      })
    }
    return this.#sized(store, found)
  }

  async #sized(
    store: string,
    found: Map<string, Omit<Entry, 'size'>>,
  ): Promise<Map<string, Entry> | null> {
    const hashes = unique([...found.values()].filter(isBlob).map(({ hash }) => hash))
    const said = await this.#ask('sizes', store, hashes)
    if (!said) return null
    const sizes = new Map(
      said.map((each, at) => [hashes[at], typeof each === 'object' ? each.size : null]),
    )
    return new Map(
      [...found].map(([path, entry]) => [path, { ...entry, size: sizes.get(entry.hash) ?? null }]),
    )
  }

  /** Paths that differ between two trees, at most so many. Null: they cannot be compared. */
  async changed(store: string, from: string, to: string, most: number): Promise<string[] | null> {
    let names: string[] = []
    let level: Pair[] = from === to ? [] : [{ prefix: '', from, to }]
    while (level.length > 0 && names.length < most) {
      const hashes = level.flatMap((pair) => [pair.from, pair.to]).filter((hash) => hash !== null)
      const trees = await this.#trees(store, hashes)
      if (!trees) return null
      const below = level.map((pair) => differences(pair, trees))
      names = names.concat(below.flatMap((each) => each.names))
      // Each folder that differs has a file that does: more of them are not needed.
      level = below.flatMap((each) => each.folders).slice(0, most)
    }
    return names
      .map((name) => Buffer.from(name, 'latin1').toString('utf8'))
      .filter((name) => name.length <= maxPathBytes)
      .sort()
      .slice(0, most)
  }

  /** Contents by hash. One that is missing or is not what its hash says has a code. */
  async contents(
    store: string,
    hashes: readonly string[],
  ): Promise<Map<string, Buffer | DiagnosticCode> | null> {
    const said = await this.#ask('contents', store, hashes)
    return said && new Map(said.map((each, at) => [hashes[at] as string, contentOf(each)]))
  }

  /** All of these, or null. What is not there may not be taken for an empty folder. */
  async #trees(store: string, hashes: readonly string[]): Promise<Map<string, Tree> | null> {
    const asked = unique(hashes)
    const said = await this.#ask('contents', store, asked)
    if (!said) return null
    const trees = new Map<string, Tree>()
    for (const [at, each] of said.entries()) {
      const hash = asked[at] as string
      const tree = typeof each === 'object' && each.type === 'tree' && parseTree(each.content, hash)
      if (!tree) return null
      trees.set(hash, tree)
    }
    return trees
  }

  async #ask(
    what: 'sizes' | 'contents',
    store: string,
    hashes: readonly string[],
  ): Promise<ObjectAnswer[] | null> {
    const timeoutMs = Math.floor(this.#endsAt - performance.now())
    if (timeoutMs <= 0) this.timedOut = true
    if (this.timedOut) return null
    const said = await this.#objects[what](store, hashes, timeoutMs)
    if (said === null && performance.now() >= this.#endsAt - 1) this.timedOut = true
    return said
  }
}

const unique = (hashes: readonly string[]): string[] => [...new Set(hashes)]
const isBlob = ({ type }: { type: string }) => type === 'blob'
/** Names in trees are bytes. Two that differ in bytes alone are two names. */
const bytesOf = (name: string): string => Buffer.from(name, 'utf8').toString('latin1')

const contentOf = (answer: ObjectAnswer): Buffer | DiagnosticCode => {
  if (answer === 'missing') return 'object-missing'
  if (answer === 'unreadable' || answer.type !== 'blob' || answer.content === null)
    return 'object-unreadable'
  return answer.content
}

/** "mode name\0" and the hash in bytes, for each entry. Null: it is cut off, or has a name twice. */
function parseTree(content: Buffer | null, own: string): Tree | null {
  const hashBytes = own.length / 2
  const tree: Tree = new Map()
  let at = 0
  while (content && at < content.length) {
    const [blank, end] = [content.indexOf(32, at), content.indexOf(0, at)]
    const next = end + 1 + hashBytes
    if (blank === -1 || end < blank || next > content.length) return null
    const name = content.toString('latin1', blank + 1, end)
    if (tree.has(name)) return null
    const mode = content.toString('latin1', at, blank).padStart(6, '0')
    tree.set(name, { mode, type: typeOf(mode), hash: content.toString('hex', end + 1, next) })
    at = next
  }
  return content && tree
}

const typeOf = (mode: string): Entry['type'] =>
  mode === '040000' ? 'tree' : mode === '160000' ? 'commit' : 'blob'

/** What differs right here, and the folders to look into for more. */
function differences(
  { prefix, from, to }: Pair,
  trees: Map<string, Tree>,
): { names: string[]; folders: Pair[] } {
  const sides = [from, to].map((hash) => (hash === null ? undefined : trees.get(hash)))
  const [was, is] = sides
  const names: string[] = []
  const folders: Pair[] = []
  for (const name of new Set(sides.flatMap((tree) => [...(tree?.keys() ?? [])]))) {
    const [before, after] = [was?.get(name), is?.get(name)]
    if (before?.hash === after?.hash && before?.mode === after?.mode) continue
    const path = prefix + name
    const folder = (entry: typeof before) => (entry?.type === 'tree' ? entry.hash : null)
    const pair = { prefix: `${path}/`, from: folder(before), to: folder(after) }
    if ([before, after].some((entry) => entry && entry.type !== 'tree')) names.push(path)
    if ((pair.from ?? pair.to) !== null && path.length <= maxPathBytes) folders.push(pair)
  }
  return { names, folders }
}
