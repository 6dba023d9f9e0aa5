import { execFile } from 'node:child_process'
import { accessSync, chownSync, constants, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { EnclosureMode } from '../../src/contract/enclosure.ts'
import type { ProviderCheck } from '../../src/core/ports.ts'
import type { Uids } from '../users/uids.ts'
import { findWalls, wallsCheck } from '../users/walls.ts'

const run = promisify(execFile)
const minFreeBytes = 1024 ** 3
const timeoutMs = 10_000

interface Checked {
  root: string
  stateDir: string
  node: string
  agentFile: string
  opencode: string
  path: readonly string[]
  uids?: Uids | undefined
  enclosure: EnclosureMode
}

/** One result each, and what to do about it. Nothing is started that stays. */
export function checkHost(host: Checked): Promise<ProviderCheck[]> {
  const reinstall = 'Run "npm install" in the checkout, and start the stack again'
  return Promise.all([
    check('agent', reinstall, async () => {
      accessSync(host.agentFile, constants.R_OK)
      return `"${host.agentFile}" is there`
    }),
    check('node', reinstall, async () => version(host.node)),
    check('opencode', reinstall, async () => openCodeVersion(host)),
    check('git', 'Install git', async () => version('git')),
    check('folders', 'Free some space, or choose another folder', async () => {
      for (const path of [host.root, host.stateDir]) accessSync(path, constants.W_OK)
      const { bavail, bsize } = statfsSync(host.root)
      if (bavail * bsize < minFreeBytes)
        throw new Error(`Only ${Math.round((bavail * bsize) / 1024 ** 2)} MB are free`)
      return `"${host.root}" has ${Math.round((bavail * bsize) / 1024 ** 3)} GB free`
    }),
    check('users', 'Start the stack as root, or run only what you trust', async () => {
      if (host.uids === undefined)
        throw new Error('Sandboxes run as the same user as the host, and can read what it can')
      return `Each sandbox has a user of its own, from ${host.uids[0]} to ${host.uids[1]}`
    }),
    findWalls(host, host.enclosure).then(wallsCheck),
  ])
}

async function check(
  name: string,
  hint: string,
  look: () => Promise<string>,
): Promise<ProviderCheck> {
  try {
    return { name, ok: true, message: await look(), hint: null }
  } catch (error) {
    return { name, ok: false, message: (error as Error).message.split('\n')[0] ?? '', hint }
  }
}

async function version(command: string): Promise<string> {
  const env = { PATH: process.env['PATH'] ?? '/usr/bin:/bin' }
  const { stdout } = await run(command, ['--version'], { env, timeout: timeoutMs })
  return `"${command}" is ${stdout.trim()}`
}

/**
 * As the last user of the range, so that whatever a sandbox cannot reach is seen. It wants a home that it can write.
 */
async function openCodeVersion({ root, opencode, uids }: Checked): Promise<string> {
  const home = mkdtempSync(join(root, 'check-'))
  try {
    const user = uids === undefined ? {} : { uid: uids[1], gid: uids[1] }
    if (uids !== undefined) chownSync(home, uids[1], uids[1])
    const env = { PATH: '/usr/bin:/bin', HOME: home, OPENCODE_DISABLE_AUTOUPDATE: '1' }
    const options = { ...user, env, cwd: home, timeout: timeoutMs }
    const { stdout } = await run(opencode, ['--version'], options)
    return `"${opencode}" is ${stdout.trim()}`
  } finally {
    rmSync(home, { recursive: true, force: true })
  }
}
