import { chmodSync, chownSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { recordFile, type SandboxRecord, saveSandboxRecord } from './record.ts'
import { removePrivateTree } from '../state/private-files.ts'

/**
 * With a user of its own: the sandbox's folder is passable for that user alone, OpenCode's settings are readable but
 * not writable for it, and the agent's folder is closed.
 */
export function makeSandboxFolders(
  folder: string,
  uid: number | undefined,
  record: SandboxRecord,
): void {
  mkdirSync(folder, { mode: 0o700 })
  saveSandboxRecord(folder, record)
  const make = (name: string, mode: number) => {
    mkdirSync(join(folder, name), { mode })
    chmodSync(join(folder, name), mode)
  }
  make('agent', 0o700)
  make('config', 0o755)
  make('home', 0o700)
  make('tmp', 0o700)
  const gitconfig = join(folder, 'home', '.gitconfig')
  writeFileSync(gitconfig, '[user]\n  name = Gantry agent\n  email = agent@gantry.local\n')
  if (uid === undefined) return
  for (const path of [join(folder, 'home'), join(folder, 'tmp'), gitconfig])
    chownSync(path, uid, uid)
  chownSync(folder, process.getuid?.() ?? 0, uid)
  chmodSync(folder, 0o710)
}

/** Nobody but the host's user passes through it any more. */
export function closeSandboxFolder(folder: string): void {
  if (process.getuid?.() === 0) chownSync(folder, 0, 0)
  chmodSync(folder, 0o700)
}

/** The record stays, so that the sandbox is not made again. */
export function emptySandboxFolder(folder: string): void {
  closeSandboxFolder(folder)
  for (const name of readdirSync(folder))
    if (name !== recordFile) removePrivateTree(join(folder, name))
}
