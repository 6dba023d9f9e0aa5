import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import type { KnownSecret } from '../../src/core/redaction/redaction.ts'
import type { GitLine } from './pack-walls.ts'
import { Refusal } from './refusal.ts'
import { searchSecret } from './secret-search.ts'
import { scrubHome, scrubFolders } from './scrub.ts'

// Makes a copy of a remote sandbox, in which this runs, fit for a snapshot. The order, which holds secrets, is the
// standard input; the answer is one line on standard output.

interface ScrubOrder {
  home: string
  workspace: string
  /** Emptied. */
  folders: string[]
  uid: number
  /** The agent's program: of the processes of root it goes, too. */
  agent: string
  secrets: KnownSecret[]
  generatedFiles: string[]
  searchMs: number
}

const order = JSON.parse(await text(process.stdin)) as ScrubOrder
const answer = await scrub(order).catch((error: unknown) => {
  if ((error as Error).name === 'TimeoutError') return { late: true }
  if (error instanceof Refusal) return { code: error.code, message: error.message }
  return { code: 'internal', message: (error as Error).message }
})
process.stdout.write(`${JSON.stringify(answer)}\n`)

async function scrub({ home, workspace, folders, uid, secrets, ...rest }: ScrubOrder) {
  killClones(uid, rest.agent)
  for (const folder of folders) empty(folder)
  scrubHome(home)
  const bytes = scrubFolders(workspace, [home, workspace], {
    uid,
    generatedFiles: rest.generatedFiles,
  })
  const scratch = '/run/gantry-scrub'
  mkdirSync(scratch, { recursive: true, mode: 0o755 })
  const signal = AbortSignal.timeout(rest.searchMs)
  for (const folder of [workspace, home]) {
    const shown = (path: string) => path.replace(`${workspace}/`, '').replace(`${home}/`, '~/')
    const hit = await searchSecret(folder, secrets, scratch, signal, asUser(uid), shown)
    if (hit !== null) return { hit }
  }
  rmSync(scratch, { recursive: true, force: true })
  // The machine is started anew on this disk, without what is only in memory.
  execFileSync('sync')
  return { bytes }
}

/** Git over packs of the sandbox's: as its user, without network. */
function asUser(uid: number): GitLine {
  return async (args) => ({
    file: 'unshare',
    args: [
      ...['--net', '--ipc', '--', 'setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups'],
      ...['--inh-caps=-all', '--bounding-set=-all', '--no-new-privs', 'git', ...args],
    ],
    owner: undefined,
  })
}

/** The copy came with its memory: a second agent with the same token. Until two looks find nothing. */
function killClones(uid: number, agent: string): void {
  for (let emptyLooks = 0, looks = 0; emptyLooks < 2 && looks < 100; looks += 1) {
    const pids = readdirSync('/proc').filter((name) => isClone(name, uid, agent))
    emptyLooks = pids.length === 0 ? emptyLooks + 1 : 0
    for (const pid of pids) {
      try {
        process.kill(Number(pid), 'SIGKILL')
      } catch {
        // gone already
      }
    }
  }
}

function isClone(pid: string, uid: number, agent: string): boolean {
  if (!/^\d+$/.test(pid) || Number(pid) === process.pid || Number(pid) === 1) return false
  try {
    if (isZombie(pid)) return false
    if (statSync(`/proc/${pid}`).uid === uid) return true
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(agent)
  } catch {
    return false
  }
}

function isZombie(pid: string): boolean {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  return stat.slice(stat.lastIndexOf(')') + 2).startsWith('Z')
}

function empty(folder: string): void {
  try {
    // If it is a link, its target would be emptied.
    if (readlinkSync(folder) !== '') return
  } catch {
    // no link
  }
  try {
    for (const name of readdirSync(folder))
      rmSync(`${folder}/${name}`, { recursive: true, force: true })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
