import fs, { rmdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { Folder } from '../../../sandbox-agent/workspace/folder.ts'
import { temporaryFolder } from '../support.ts'
import { isRoot, needing } from '../../support/needs.ts'

// Only root can give a folder away.
needing(isRoot && process.platform === 'linux', 'root on Linux')(
  'a folder that is swapped for a symlink before it is given away gives nothing else away',
  () => {
    const root = temporaryFolder()
    const victim = join(root, 'victim')
    writeFileSync(victim, 'secret')
    const real = fs.mkdirSync
    onTestFinished(() => {
      fs.mkdirSync = real
      syncBuiltinESMExports()
    })
    fs.mkdirSync = ((path: string) => {
      real(path)
      rmdirSync(path)
      symlinkSync(victim, path)
    }) as typeof real
    syncBuiltinESMExports()
    const folder = Folder.open(root)
    expect(() => folder.make('new', { uid: 12_345, gid: 12_345 })).toThrow()
    folder.close()
    expect(statSync(victim).uid).toBe(0)
  },
)
