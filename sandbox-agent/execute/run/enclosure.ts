import { readdirSync, readFileSync } from 'node:fs'
import type { IsolationPlan } from '../../../src/contract/operation.ts'
import type { Owner } from '../../workspace/folder.ts'

/**
 * user: a user namespace of the sandbox's user, and in it all others. root: namespaces made by root, which then becomes
 * the sandbox's user. none: limits only.
 */
export type Enclosure = 'user' | 'root' | 'none'

interface Walls {
  network: boolean
  /** Folders that nothing inside can write, where there are walls. */
  readOnly?: readonly string[] | undefined
  limits: Pick<IsolationPlan['limits'], 'memoryBytes' | 'processes'>
}

interface CommandLine {
  file: string
  args: string[]
  /** As whom it is started. */
  owner: Owner | undefined
}

export const quoteForEnclosure = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

const namespaces = ['--mount', '--pid', '--fork', '--kill-child']
/** A loopback interface of its own, and a /proc that shows its own processes. Neither is a wall, so either may fail. */
const furnish = 'ip link set lo up 2>/dev/null; mount -t proc proc /proc 2>/dev/null'
/** This one is a wall. */
const hold = (folder: string) =>
  `mount --bind ${quoteForEnclosure(folder)} ${quoteForEnclosure(folder)} && mount -o remount,bind,ro ${quoteForEnclosure(folder)} || exit 126`
const enter = 'cd / && exec "$@"'
const withoutPrivileges = ['--inh-caps=-all', '--bounding-set=-all', '--no-new-privs']

/** What to start, so that `script` runs inside the walls. The script is the first process of its namespace. */
export function encloseRun(
  enclosure: Enclosure,
  owner: Owner | undefined,
  { network, limits, readOnly = [] }: Walls,
  script: string,
): CommandLine {
  const net = network ? [] : ['--net']
  const limited = [...limitedBy(enclosure, owner, limits), 'sh', '-c', script]
  const furnished = (privileges: string[]) => [
    ...['--', 'sh', '-c', [furnish, ...readOnly.map(hold), enter].join('; ')],
    ...['sh', 'setpriv', ...privileges, ...withoutPrivileges],
    ...limited,
  ]
  if (enclosure === 'user') {
    const args = ['--user', '--map-current-user', '--keep-caps', ...namespaces, ...net]
    return { file: 'unshare', args: [...args, ...furnished(['--ambient-caps=-all'])], owner }
  }
  if (enclosure === 'root') {
    const { uid, gid } = owner ?? { uid: 0, gid: 0 }
    // A change of user clears the signal that --kill-child has asked for: without it all inside would outlive unshare.
    const become = ['--pdeathsig=KILL', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups']
    return {
      file: 'unshare',
      args: [...namespaces, ...net, ...furnished(become)],
      owner: undefined,
    }
  }
  const [file = 'prlimit', ...args] = limited
  return { file, args, owner }
}

/** Of the walls themselves: unshare, and the script's own shell. */
export const wallTasks = 3

// Private writable memory, and not address space: runtimes reserve far more of that than they use.
function limitedBy(
  enclosure: Enclosure,
  owner: Owner | undefined,
  { memoryBytes, processes }: Walls['limits'],
): string[] {
  // The kernel counts per user, and in a user namespace from zero.
  const others = enclosure === 'user' ? wallTasks : wallTasks + countTasks(owner)
  return ['prlimit', `--data=${memoryBytes}`, `--nproc=${processes + others}`, '--core=0', '--']
}

function countTasks(owner: Owner | undefined): number {
  const uid = owner?.uid ?? process.getuid?.() ?? 0
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => readStatus(pid))
    .filter((status) => /^Uid:\t(\d+)/m.exec(status)?.[1] === String(uid))
    .reduce((sum, status) => sum + Number(/^Threads:\t(\d+)/m.exec(status)?.[1] ?? 0), 0)
}

function readStatus(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}
