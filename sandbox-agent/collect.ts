import { createHash } from 'node:crypto'
import { extname } from 'node:path'
import { type CollectedFile, UploadAnswer } from '../src/contract/artifact.ts'
import type { CommandBody } from '../src/contract/link.ts'
import { Folder } from './folder.ts'
import { messageOf, sleep } from './log.ts'

export interface UploadOptions {
  url: string
  token: () => string
  maxTries?: number
  firstBackoffMs?: number
}

/** Uploads the regular files of a folder of the workspace, in order of their paths. */
export async function collect(
  workspace: string,
  body: CommandBody<'collect'>,
  upload: UploadOptions,
): Promise<CollectedFile[]> {
  const files: CollectedFile[] = []
  let totalBytes = 0
  for (const { path, content } of readFiles(workspace, body)) {
    totalBytes += content.length
    if (totalBytes > body.maxTotalBytes)
      throw limit(body, `more than ${body.maxTotalBytes} bytes in all`)
    files.push(await uploadFile(upload, path, content))
  }
  return files
}

export async function uploadFile(
  upload: UploadOptions,
  path: string,
  content: Buffer,
  contentType = contentTypes[extname(path).toLowerCase()] ?? 'application/octet-stream',
): Promise<CollectedFile> {
  const sha256 = createHash('sha256').update(content).digest('hex')
  await uploadOnce(upload, path, content, contentType, sha256)
  return { path, size: content.length, sha256, contentType }
}

const limit = (body: CommandBody<'collect'>, what: string) =>
  new Error(`Cannot collect "${body.folder}": ${what}`)

function* readFiles(
  workspace: string,
  body: CommandBody<'collect'>,
): Generator<{ path: string; content: Buffer }> {
  const names = body.folder.split('/').filter((name) => name !== '' && name !== '.')
  if (body.folder.startsWith('/') || names.includes('..'))
    throw limit(body, 'it is outside the workspace')
  const top = Folder.open(workspace)
  const within = top.realPath()
  const folder = top.descend(names)
  const there = folder !== undefined || existsBelow(top, names)
  top.close()
  if (!folder) {
    if (there) throw limit(body, 'it is not a folder, or a symlink leads out of the workspace')
    return
  }
  try {
    const paths = listPaths(folder, [], { left: body.maxFiles * 20 })
    if (paths.length > body.maxFiles) throw limit(body, `more than ${body.maxFiles} files`)
    for (const path of paths.sort((a, b) => (a.join('/') < b.join('/') ? -1 : 1))) {
      const parent = folder.descend(path.slice(0, -1))
      const content = parent?.read(path.at(-1) as string, { maxBytes: body.maxFileBytes, within })
      parent?.close()
      if (content === 'too large')
        throw limit(body, `"${path.join('/')}" is larger than ${body.maxFileBytes} bytes`)
      if (content) yield { path: path.join('/'), content }
    }
  } finally {
    folder.close()
  }
}

function existsBelow(top: Folder, names: string[]): boolean {
  for (let depth = 1; depth <= names.length; depth += 1) {
    const parent = top.descend(names.slice(0, depth - 1))
    const stat = parent?.stat(names[depth - 1] as string)
    parent?.close()
    if (!stat) return false
    if (!stat.isDirectory()) return true
  }
  return true
}

/** Symlinks, pipes, sockets and devices are no evidence: only what is a file here counts. */
function listPaths(folder: Folder, prefix: string[], budget: { left: number }): string[][] {
  const found: string[][] = []
  for (const entry of folder.entries()) {
    budget.left -= 1
    if (budget.left < 0) throw new Error(`Cannot collect "${prefix.join('/')}": too many entries`)
    const path = [...prefix, entry.name]
    if (entry.isFile()) found.push(path)
    const inner = entry.isDirectory() ? folder.enter(entry.name) : undefined
    if (!inner) continue
    try {
      found.push(...listPaths(inner, path, budget))
    } finally {
      inner.close()
    }
  }
  return found
}

/** The store is addressed by content, so sending the same bytes twice is harmless. */
async function uploadOnce(
  options: UploadOptions,
  path: string,
  content: Buffer,
  contentType: string,
  sha256: string,
): Promise<void> {
  const { maxTries = 5, firstBackoffMs = 500 } = options
  let reason = ''
  for (let tries = 0; tries < maxTries; tries += 1) {
    if (tries > 0) await sleep(firstBackoffMs * 2 ** (tries - 1))
    try {
      const response = await fetch(options.url, {
        method: 'PUT',
        headers: { 'content-type': contentType, authorization: `Bearer ${options.token()}` },
        body: new Uint8Array(content),
        redirect: 'error',
        signal: AbortSignal.timeout(60_000),
      })
      const text = await response.text()
      if (response.ok) return checkAnswer(text, sha256)
      reason = `${response.status} ${text.slice(0, 200)}`
      if (response.status < 500 && response.status !== 429) break
    } catch (error) {
      reason = messageOf(error)
    }
  }
  throw new Error(`Cannot upload "${path}": ${reason}`)
}

function checkAnswer(text: string, sha256: string): void {
  const answer = UploadAnswer.parse(JSON.parse(text))
  if (answer.sha256 !== sha256)
    throw new Error('Cannot upload: the control plane received other bytes')
}

const contentTypes: Record<string, string> = {
  '.png': 'image/png',
  '.jpg': 'image/jpeg',
  '.jpeg': 'image/jpeg',
  '.gif': 'image/gif',
  '.webp': 'image/webp',
  '.svg': 'image/svg+xml',
  '.pdf': 'application/pdf',
  '.json': 'application/json',
  '.xml': 'application/xml',
  '.html': 'text/html',
  '.csv': 'text/csv',
  '.md': 'text/markdown',
  '.txt': 'text/plain',
  '.log': 'text/plain',
  '.mp4': 'video/mp4',
  '.webm': 'video/webm',
  '.zip': 'application/zip',
}
