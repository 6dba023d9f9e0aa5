import { createReadStream, type Dirent, readdirSync, readlinkSync } from 'node:fs'
import { basename, relative } from 'node:path'
import type { Readable } from 'node:stream'
import { createInflate } from 'node:zlib'
import { createSecretFinder, type SecretSearch } from '../../src/core/redaction/finder.ts'
import type { KnownSecret } from '../../src/core/redaction/redaction.ts'
import { searchPacks } from './git-packs.ts'
import type { GitLine } from './pack-walls.ts'
import { walkForScrub } from './scrub.ts'

interface Hit {
  /** The secret's. */
  name: string
  /** As a person in the sandbox would call it. */
  file: string
}

const chunkBytes = 1024 * 1024
const looseObject = /\/objects\/[0-9a-f]{2}\/([0-9a-f]{38}|[0-9a-f]{62})$/

/** The first secret value in a name, a link, a file or a git object below the folder. */
export async function searchSecret(
  folder: string,
  secrets: readonly KnownSecret[],
  scratch: string,
  signal: AbortSignal,
  git: GitLine,
  shown: (path: string) => string = (path) => shownPath(relative(folder, path)),
): Promise<Hit | null> {
  const begin = createSecretFinder(secrets)
  for (const { path, stat } of walkForScrub(folder)) {
    signal.throwIfAborted()
    const file = shown(path)
    const named = begin().push(Buffer.from(basename(path)))
    if (named !== null) return { name: named, file }
    if (stat.isSymbolicLink()) {
      const name = begin().push(Buffer.from(readlinkSync(path)))
      if (name !== null) return { name, file }
    } else if (stat.isDirectory()) {
      const hit = isPackFolder(path) ? await searchPacks(path, scratch, begin, signal, git) : null
      if (hit !== null) return { name: hit.name, file: `${file} (git object ${hit.object})` }
    } else if (!isSearchedPack(path)) {
      const name = await searchFile(path, begin, signal)
      if (name !== null) return { name, file }
    }
  }
  return null
}

/** The workspace's own paths are relative to it, the home's begin with `~`. */
const shownPath = (path: string) =>
  path.startsWith('workspace/')
    ? path.slice('workspace/'.length)
    : path.replace(/^home(?=\/|$)/, '~')

const isSearchedPack = (path: string) => /\/objects\/pack\/[^/]+\.pack$/.test(path)

function isPackFolder(path: string): boolean {
  if (!path.endsWith('/objects/pack')) return false
  return readdirSync(path, { withFileTypes: true }).some(isPack)
}

const isPack = (entry: Dirent) => entry.isFile() && entry.name.endsWith('.pack')

async function searchFile(
  path: string,
  begin: () => SecretSearch,
  signal: AbortSignal,
): Promise<string | null> {
  const read = () => createReadStream(path, { highWaterMark: chunkBytes, signal })
  // As it is in any case: what only has the name of a git object may be anything.
  const name = await searchStream(read(), begin(), signal)
  if (name !== null || !looseObject.test(path)) return name
  const bytes = read()
  const inflated = bytes.pipe(createInflate())
  bytes.once('error', (error) => inflated.destroy(error))
  try {
    return await searchStream(inflated, begin(), signal)
  } catch {
    signal.throwIfAborted()
    return null // a broken object: what could be read of it was searched
  }
}

async function searchStream(
  stream: Readable,
  search: SecretSearch,
  signal: AbortSignal,
): Promise<string | null> {
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    signal.throwIfAborted()
    const name = search.push(chunk)
    if (name !== null) return name
  }
  return null
}
