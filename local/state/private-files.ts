// Files and folders that only their owner can read. A file is written whole or not at all. Whatever local/ keeps on the
// disk is kept with these functions.

import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'

/** Only the owner can enter. */
export function makePrivateDir(path: string): string {
  mkdirSync(path, { recursive: true, mode: 0o700 })
  chmodSync(path, 0o700)
  return path
}

/** Also what has folders that even their owner may not write to. */
export function removePrivateTree(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true })
  } catch {
    execFileSync('chmod', ['-R', 'u+rwX', '--', path])
    rmSync(path, { recursive: true, force: true })
  }
}

/** Whole or not at all, readable by the owner only. */
export function writePrivateFile(path: string, content: string): void {
  const draft = `${path}.${process.pid}.tmp`
  writeFileSync(draft, content, { mode: 0o600 })
  renameSync(draft, path)
}

/** What the file says, or what `make` gives on the first run. */
export function keepPrivateJson<T extends object>(path: string, make: () => T): T {
  if (existsSync(path)) return JSON.parse(readFileSync(path, 'utf8')) as T
  const value = make()
  writePrivateFile(path, `${JSON.stringify(value, null, 2)}\n`)
  return value
}

/** Whole, and only if there is none: throws EEXIST otherwise. */
export function linkPrivateFile(path: string, content: string): void {
  const draft = `${path}.${process.pid}.${randomBytes(4).toString('hex')}.tmp`
  writeFileSync(draft, content, { mode: 0o600 })
  try {
    linkSync(draft, path)
  } finally {
    rmSync(draft, { force: true })
  }
}
