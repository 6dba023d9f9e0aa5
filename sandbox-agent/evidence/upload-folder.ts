import type { CollectedFile } from '../../src/contract/artifact.ts'
import type { CommandBody } from '../../src/contract/link.ts'
import { Folder } from '../workspace/folder.ts'
import { uploadFile, type UploadOptions } from '../link/upload.ts'

/** Uploads the regular files of a folder of the workspace, in order of their paths. */
export async function uploadFolder(
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
