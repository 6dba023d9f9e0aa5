// The shell script that builds the inside of an enclosure: it runs as the first process of the new namespaces, with the
// rights to mount, makes a root of its own, gives up every right and starts the command. It says `entered` right before
// the command; whatever fails earlier ends it with the reason on its standard error, and the command is never run.

import { existsSync, lstatSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Owner } from '../workspace/folder.ts'
import type { Mask } from './masks.ts'
import { type Bind, isInsidePlace, type Places } from './places.ts'

export const enteredLine = 'gantry: entered'

export const systemPath = '/usr/sbin:/usr/bin:/sbin:/bin'

interface ScriptInput {
  places: Places
  hidden: readonly string[]
  /** An empty folder of the agent: the new root is mounted there. */
  mountPoint: string
  /** Files of the agent's for the inside, by their place there. */
  files: Record<string, string>
  /** Whom to become; undefined: it stays who it is, in a user namespace of its own. */
  owner: Owner | undefined
  /** Options of prlimit. */
  limits: readonly string[]
  /** Lines by which it gets into a control group of its own. */
  enterGroup: readonly string[]
  /** Run before the walls stand, in the new network; empty: nothing is. */
  before: readonly string[]
  workspace: string
  /** Covered by nothing, in what is shown. */
  masks: readonly Mask[]
  command: readonly string[]
}

const devices = ['null', 'zero', 'full', 'random', 'urandom', 'tty']

export function setupScript(input: ScriptInput): string {
  const { places, mountPoint, owner } = input
  const binds = [
    ...places.binds,
    ...Object.entries(input.files).map(([target, source]) => ({ source, target, writable: false })),
  ]
  const islands = findIslands(binds, input.hidden)
  const steps = [
    ...islands.map((target) => ({ target, bind: undefined })),
    ...binds.map((bind) => ({ target: bind.target, bind })),
  ].sort((a, b) => depth(a.target) - depth(b.target) || (a.bind ? 1 : 0) - (b.bind ? 1 : 0))
  const hasBefore = input.before.length > 0
  const inside = (path: string) => quoteForScript(`${mountPoint}${path}`)
  const drop = ['setpriv', ...scriptDropRights(owner)].join(' ')
  return [
    // The command keeps its own; this script does not look there for what it runs with all rights.
    `set -eu; umask 022; path=$PATH; PATH=${systemPath}`,
    // First: what is to be limited begins here.
    ...input.enterGroup,
    'ip link set lo up',
    // Beside the mounts, which take as long.
    ...(hasBefore ? [`${input.before.map(quoteForScript).join(' ')} </dev/null & before=$!`] : []),
    `mount -t tmpfs -o mode=755,size=16m tmpfs ${quoteForScript(mountPoint)}`,
    `cd ${quoteForScript(mountPoint)}`,
    `mkdir -p proc dev tmp run var home etc usr sys .outside`,
    `ln -s /run var/run; ln -s /tmp var/tmp`,
    ...places.links.map(({ path, to }) => `ln -s ${quoteForScript(to)} ${inside(path)}`),
    ...steps.flatMap(({ target, bind }) =>
      bind ? bindLines(bind, inside(target)) : islandLines(inside(target)),
    ),
    ...input.masks.flatMap((mask) => maskLines(mask, inside(mask.path))),
    'mount -t proc -o nosuid,nodev,noexec proc proc',
    ...deviceLines,
    // Read-only last: until then places are made in it.
    ...islands.map((target) => `mount -o remount,bind,ro,nosuid,nodev ${inside(target)}`),
    ...(hasBefore ? ['wait "$before"'] : []),
    'exec 3>&-; unset NODE_CHANNEL_FD NODE_CHANNEL_SERIALIZATION_MODE',
    'pivot_root . .outside; cd /; umount -l /.outside; rmdir /.outside; mount -o remount,bind,ro /',
    `cd ${quoteForScript(input.workspace)}`,
    `prlimit --pid $$ ${input.limits.join(' ')}`,
    `exec ${drop} -- env "PATH=$path" /bin/sh -c ${quoteForScript(first)} sh ${input.command.map(quoteForScript).join(' ')}`,
  ].join('\n')
}

/** Options of setpriv: whoever it was, it can do nothing any more that an ordinary user cannot. */
export function scriptDropRights(owner: Owner | undefined): string[] {
  const become = owner
    ? [`--reuid=${owner.uid}`, `--regid=${owner.gid}`, '--clear-groups']
    : ['--ambient-caps=-all']
  return [...become, '--inh-caps=-all', '--bounding-set=-all', '--no-new-privs', '--pdeathsig=KILL']
}

/**
 * The first process inside stays a shell: it ends when the command does, and takes the exit codes of orphans, which
 * OpenCode would leave as zombies. Bash must be able to enter a user namespace, or it could read OpenCode's secrets.
 */
const first = `unshare --user --map-current-user true || exit 1
echo '${enteredLine}'
exec 5<&0
"$@" <&5 5<&- &
exec 5<&-
wait $!`

const deviceLines = [
  'mount -t tmpfs -o mode=755,size=64k,nosuid,noexec tmpfs dev; mkdir dev/pts dev/shm',
  `for name in ${devices.join(' ')}; do : >dev/$name; mount --bind /dev/$name dev/$name; done`,
  'mount -t devpts -o newinstance,ptmxmode=0666,mode=620,nosuid,noexec devpts dev/pts',
  'mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs dev/shm',
  'ln -s pts/ptmx dev/ptmx; ln -s /proc/self/fd dev/fd; ln -s fd/0 dev/stdin; ln -s fd/1 dev/stdout; ln -s fd/2 dev/stderr',
  'mount -o remount,bind,ro,nosuid,noexec dev',
]

function bindLines({ source, writable }: Bind, target: string): string[] {
  const isFolder = lstatSync(source, { throwIfNoEntry: false })?.isFile() !== true
  const make = isFolder
    ? `mkdir -p ${target}`
    : `mkdir -p ${quoteParent(target)}; [ -e ${target} ] || : >${target}`
  const mount = `mount --rbind ${quoteForScript(source)} ${target}`
  // A mount that is "noexec" outside must stay so, or the kernel refuses.
  const options = `remount,bind,nosuid,nodev${writable ? '' : ',ro'}`
  const remount = `mount -o ${options} ${target} 2>/dev/null || mount -o ${options},noexec ${target}`
  return [`[ -e ${target} ] || { ${make}; }`, mount, remount]
}

/** What has gone meanwhile needs none. */
const maskLines = ({ isFolder }: Mask, target: string): string[] =>
  isFolder
    ? [`[ ! -d ${target} ] || mount -t tmpfs -o ro,mode=555,size=4k,nosuid,nodev tmpfs ${target}`]
    : [`[ ! -f ${target} ] || mount --bind /dev/null ${target}`]

const islandLines = (target: string) => [
  `mkdir -p ${target}; mount -t tmpfs -o mode=755,size=4m,nosuid,nodev tmpfs ${target}`,
]

/**
 * Folders that become small file systems of their own. In /tmp, because who may write there could rename what leads to
 * the gate's files: a mount point cannot be renamed. And what must not be seen, if it lies in a folder that is shown.
 */
function findIslands(binds: readonly Bind[], hidden: readonly string[]): string[] {
  const temporary = binds.some(({ target, source }) => target === '/tmp' && source !== '/tmp')
    ? binds.filter(({ target }) => target.startsWith('/tmp/')).map(({ target }) => firstIn(target))
    : []
  const masked = hidden
    .filter(existsSync)
    .flatMap((path) =>
      binds
        .filter(({ source }) => path !== source && isInsidePlace(path, source))
        .map(({ source, target }) => target + path.slice(source.length)),
    )
  return [...new Set([...temporary, ...masked])]
}

const firstIn = (path: string) => path.split('/').slice(0, 3).join('/')
const depth = (path: string) => path.split('/').length

const quoteParent = (quoted: string) => quoteForScript(dirname(quoted.slice(1, -1)))

/** One word for sh. */
const quoteForScript = (word: string): string => `'${word.replaceAll("'", String.raw`'\''`)}'`
