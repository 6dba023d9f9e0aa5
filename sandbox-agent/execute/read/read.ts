import { createHash } from 'node:crypto'
import { closeSync, constants, type Dirent, opendirSync, openSync, readSync } from 'node:fs'
import type { CollectedFile } from '../../../src/contract/artifact.ts'
import { type Boundary, type Inside, openInside } from './open-inside.ts'
import type { Outcome } from '../run/outcome.ts'
import { isTextToShow, showBytes } from '../run/show.ts'

/** As large as an artifact may be. */
export const maxFileBytes = 8 * 1024 * 1024
const maxEntries = 10_000

export type Upload = (path: string, content: Buffer, contentType?: string) => Promise<CollectedFile>

/** Text is shown; anything else is uploaded whole and named. */
export async function readFile(
  boundary: Boundary,
  target: string,
  maxBytes: number,
  upload: Upload,
): Promise<Outcome> {
  const { content, whole } = openInside(boundary, target, (inside) => readContent(inside, target))
  const enforced: Outcome['enforced'] = ['real-path', 'output']
  if (isTextToShow(content)) {
    const { text, cut } = showBytes(content, maxBytes)
    return { output: text, truncated: cut || !whole, enforced }
  }
  if (!whole)
    throw new Error(`Cannot read "${target}": it is binary and larger than ${maxFileBytes} bytes`)
  return { output: describeBinary(content), files: [await upload(target, content)], enforced }
}

function readContent({ stat, path }: Inside, target: string): { content: Buffer; whole: boolean } {
  if (stat.isDirectory()) throw new Error(`Cannot read "${target}": it is a folder`)
  if (!stat.isFile()) throw new Error(`Cannot read "${target}": it is not a regular file`)
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const content = readBounded(fd, maxFileBytes + 1)
    return { content: content.subarray(0, maxFileBytes), whole: content.length <= maxFileBytes }
  } finally {
    closeSync(fd)
  }
}

// It may grow while it is read.
function readBounded(fd: number, maxBytes: number): Buffer {
  const chunks: Buffer[] = []
  for (let left = maxBytes; left > 0;) {
    const chunk = Buffer.allocUnsafe(Math.min(left, 256 * 1024))
    const bytes = readSync(fd, chunk)
    if (bytes === 0) break
    chunks.push(chunk.subarray(0, bytes))
    left -= bytes
  }
  return Buffer.concat(chunks)
}

/** What is shown instead of bytes that are not text. */
export const describeBinary = (content: Buffer) =>
  `Binary: ${content.length} bytes, sha256 ${createHash('sha256').update(content).digest('hex')}`

/** One name in a line, in order; a folder ends in "/", a symlink in "@". */
export function readFolderNames(boundary: Boundary, target: string, maxBytes: number): Outcome {
  const { names, more } = openInside(boundary, target, (inside) => readNames(inside, target))
  const { text, cut } = showBytes(Buffer.from(names.join('\n')), maxBytes)
  return { output: text, truncated: more || cut, enforced: ['real-path', 'output'] }
}

function readNames({ stat, path }: Inside, target: string): { names: string[]; more: boolean } {
  if (!stat.isDirectory()) throw new Error(`Cannot list "${target}": it is not a folder`)
  const folder = opendirSync(path)
  try {
    const entries: Dirent[] = []
    let entry = folder.readSync()
    for (; entry && entries.length < maxEntries; entry = folder.readSync()) entries.push(entry)
    const names = entries.map(
      (each) =>
        `${showName(each.name)}${each.isDirectory() ? '/' : each.isSymbolicLink() ? '@' : ''}`,
    )
    return { names: names.sort(), more: entry !== null }
  } finally {
    folder.closeSync()
  }
}

// A name with a line feed in it must not look like two.
const showName = (name: string) => (/\p{Cc}/u.test(name) ? JSON.stringify(name) : name)
