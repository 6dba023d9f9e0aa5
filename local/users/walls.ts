import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { probeEnclosure } from '../../sandbox-agent/enclosure/probe.ts'
import type { EnclosureMode, EnclosureReport } from '../../src/contract/enclosure.ts'
import type { ProviderCheck } from '../../src/core/ports.ts'
import type { Uids } from './uids.ts'

interface Place {
  /** Where sandboxes live. */
  root: string
  opencode: string
  path: readonly string[]
  uids?: Uids | undefined
}

/** What holds the sandboxes of this machine, tried as the last user of the range. */
export async function findWalls(place: Place, mode: EnclosureMode): Promise<EnclosureReport> {
  const folder = mkdtempSync(join(place.root, 'walls-'))
  try {
    const uid = place.uids?.[1]
    const owner = uid === undefined ? undefined : { uid, gid: uid }
    const path = [...place.path, ...(process.env['PATH'] ?? '/usr/bin:/bin').split(':')]
    return await probeEnclosure({ folder, owner, mode, opencode: place.opencode, path })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** What holds, and the one command that mends it. */
export function wallsCheck({ level, how, why }: EnclosureReport): ProviderCheck {
  const ok = level === 'full'
  const message = `${level}: ${how}${why === null ? '' : ` (${why})`}`
  return { name: 'enclosure', ok, message, hint: ok ? null : hintFor(why ?? '') }
}

const switches = {
  '/proc/sys/kernel/unprivileged_userns_clone': 'kernel.unprivileged_userns_clone=1',
  '/proc/sys/kernel/apparmor_restrict_unprivileged_userns':
    'kernel.apparmor_restrict_unprivileged_userns=0',
}

function hintFor(why: string): string {
  if (process.platform !== 'linux')
    return 'Run the sandbox host on Linux, or use another provider for what is not trusted'
  if (why.includes('switched off')) return 'Unset GANTRY_ENCLOSURE'
  if (/ENOENT|not found/.test(why))
    return 'Install util-linux, iproute2 and bash, such as by "apt-get install util-linux iproute2 bash"'
  const settings = Object.entries(switches).flatMap(([file, setting]) =>
    existsSync(file) ? [setting] : [],
  )
  return settings.length > 0
    ? `Allow user namespaces: "sudo sysctl -w ${settings.join(' ')}"`
    : 'Start the sandbox host as root, or where user namespaces are allowed'
}
