import { globWithoutBrackets } from '../../matching/text-globs.ts'
import { type Arg, isKnown } from '../words/arg.ts'
import { ambiguous, destructive, external, type Finding, privileged } from '../words/finding.ts'
import { steers } from '../words/environment.ts'
import { hasFlag, optionSet, parseOptions } from '../words/options.ts'
import { runningFindings } from './running-options.ts'

const set = (names: string): ReadonlySet<string> => new Set(names.split(' '))

const needsRoot = set(
  'sudo su doas pkexec run0 runuser mount umount chroot setcap unshare nsenter modprobe insmod rmmod docker docker-compose podman nerdctl buildah ctr crictl lxc systemctl service initctl launchctl iptables ip6tables nft ufw firewall-cmd sysctl useradd usermod userdel adduser deluser groupadd passwd chpasswd visudo vipw reboot shutdown halt poweroff init kexec losetup cryptsetup swapon swapoff apt apt-get dpkg dnf yum apk pacman zypper snap setenforce capsh setpriv newgrp machinectl systemd-run crontab at batch loginctl pivot_root switch_root mknod chattr auditctl bpftool',
)
/** Programs that are known for what they may do. */
export const isRisky = (program: string): boolean =>
  needsRoot.has(program) || wipes.has(program) || /^mkfs(?:\.|$)/.test(program)
const wipes = set(
  'dd shred truncate wipefs blkdiscard fdisk sfdisk cfdisk parted sgdisk mkswap dropdb killall killall5 pkill srm',
)
/** Builtins that evaluate an array index, and with it a substitution inside single quotes. */
const evaluators = set('test [ printf read unset declare typeset local export let wait getopts')
const publishes: Record<string, ReadonlySet<string>> = {
  npm: set(
    'publish unpublish deprecate owner access dist-tag adduser login logout token star unstar org team hook profile',
  ),
  dotnet: set('push'),
  nuget: set('push'),
  buf: set('push'),
  cypress: set('--record'),
  nx: set('connect login'),
  turbo: set('link'),
  pnpm: set('publish'),
  yarn: set('publish npm'),
  bun: set('publish'),
  cargo: set('publish yank login owner'),
  gem: set('push yank'),
  twine: set('upload'),
  poetry: set('publish'),
  uv: set('publish'),
  mvn: set('deploy'),
  pod: set('push'),
  terraform: set('apply destroy import'),
  tofu: set('apply destroy import'),
  pulumi: set('up destroy'),
  vercel: set('deploy --prod'),
}
const blockDevices = /^\/dev\/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mapper|md|dm-|loop|mem|kmem|port)/
export const isBlockDevice = (path: string): boolean => blockDevices.test(path)

/** Risks that follow from the command's name and arguments. fed: it gets more arguments that nobody sees. */
export function riskFindings(program: string, args: readonly Arg[], fed: boolean): Finding[] {
  const findings: Finding[] = []
  if (needsRoot.has(program)) findings.push(privileged(`"${program}" changes the system`))
  if (wipes.has(program) || /^mkfs(?:\.|$)/.test(program))
    findings.push(destructive(`"${program}" destroys`))
  if (evaluators.has(program) && args.some(({ value }) => /\$\(|`/.test(value)))
    findings.push(ambiguous('A substitution is hidden in an array index'))
  if (args.some(({ value }) => isBlockDevice(value.replace(/^\w+=/, ''))))
    findings.push(destructive('It names a device'))
  findings.push(...runningFindings(program, args), ...(special(program)?.(args, fed) ?? []))
  const publishing = Object.hasOwn(publishes, program) ? publishes[program] : undefined
  if (publishing && args.some(({ value }) => publishing.has(value)))
    findings.push(external('It publishes or changes something outside'))
  return findings
}

type Check = (args: readonly Arg[], fed: boolean) => Finding[]
const special = (program: string): Check | undefined =>
  Object.hasOwn(checks, program) ? checks[program] : undefined

const recursive: Check = (args) =>
  hasFlag(parseOptions(args), 'R', '--recursive') ? [destructive('Changes whole folders')] : []
const feeding: Check = (_, fed) => (fed ? [destructive('Nobody sees what it is given')] : [])

/** Of a database's tool: the word by which data goes. */
function resets(word: RegExp): Check {
  return (args) => (args.some(({ value }) => word.test(value)) ? [destructive('Drops data')] : [])
}
function moved(args: readonly Arg[]): Finding[] {
  return args.some(({ value }) => value.startsWith('-sdel'))
    ? [destructive('Removes what is packed')]
    : []
}
/** Modules that take code as an argument, and a framework's script that drops data. */
function pythonModule(args: readonly Arg[]): Finding[] {
  const words = args.map(({ value }) => value)
  const module = words.find((word, at) => /^-[a-zA-Z]*m/.test(word) || words[at - 1] === '-m')
  const drops =
    words.some((word) => /(?:^|\/)manage\.py$/.test(word)) &&
    (words.some((word) => /^(?:flush|reset_db|sqlflush)$/.test(word)) ||
      (words.includes('migrate') && words.includes('zero')))
  const shell =
    words.some((word) => /(?:^|\/)manage\.py$/.test(word)) &&
    words.some((word) => /^(?:shell|shell_plus|dbshell|runscript)$/.test(word))
  return [
    ...(module !== undefined && words.some((word) => /^(?:-[a-zA-Z]*m)?(?:timeit|pdb)$/.test(word))
      ? [ambiguous('A module of Python runs its arguments')]
      : []),
    ...(drops ? [destructive('Drops data')] : []),
    ...(shell ? [ambiguous('A shell of the project runs what it is given')] : []),
    ...(words.includes('venv') ? cleared(args) : []),
  ]
}
/** `manage.py` by itself. */
function managed(args: readonly Arg[]): Finding[] {
  const words = args.map(({ value }) => value)
  const drops =
    words.some((word) => /^(?:flush|reset_db|sqlflush|--clear)$/.test(word)) ||
    (words.includes('migrate') && words.includes('zero'))
  return drops ? [destructive('Drops data')] : []
}

/** A variable that decides what is run, with a value that nobody sees. */
function setsUnseen(args: readonly Arg[]): Finding[] {
  const names = args.flatMap(({ value }) => /^(?:-v)?([A-Za-z_]\w*)/.exec(value)?.[1] ?? [])
  return names.some((name) => steers(name)) ? [ambiguous('It sets what other programs run')] : []
}
function cleared(args: readonly Arg[]): Finding[] {
  return args.some(({ value }) => value === '--clear') ? [destructive('Empties a folder')] : []
}

const railsLosing =
  /^VERSION=0$|^db:(?:drop|reset|purge|truncate_all|rollback|setup|schema:load|structure:load|seed:replant|migrate:(?:reset|down|redo))/

/** What is not on this machine is somewhere for others to see. */
function hosted(args: readonly Arg[]): Finding[] {
  const words = args.map(({ value }) => value)
  const first = words.find((word) => !word.startsWith('-')) ?? ''
  const isLocal =
    /^(?:|dev|types|init|build|check|whoami|docs)$/.test(first) || words.includes('--local')
  const isRemote = words.some((word) => /^(?:--remote|-r)(?:=|$)/.test(word))
  return isLocal && !isRemote ? [] : [external('It changes or reads something outside')]
}

const storeReads =
  /^(?:get|mget|strlen|exists|ttl|pttl|type|keys|scan|hget|hmget|hgetall|hkeys|hvals|hlen|hexists|hscan|lrange|llen|lindex|smembers|scard|sismember|sscan|zrange|zrevrange|zscore|zcard|zcount|zscan|xlen|xrange|xinfo|ping|echo|info|dbsize|time|lastsave|randomkey)$/i

/** Of Redis: whatever does not only read may drop data, load code or send everything elsewhere. */
function storeFindings(args: readonly Arg[]): Finding[] {
  const options = optionSet('h p n a u s i r D d user pass')
  const { operands, flags } = parseOptions(args, options, true)
  const word = operands[0]?.value ?? ''
  if (/^flush(?:all|db)$/i.test(word)) return [destructive('Drops data')]
  const others = [...flags].filter(
    (flag) =>
      !/^(?:--)?(?:raw|no-raw|csv|json|scan|pattern|stat|bigkeys|memkeys|latency|no-auth-warning|version|help|h|p|n|a|u|s|i|r|d|D|user|pass)$/.test(
        flag,
      ),
  )
  const reads = word === '' ? flags.has('--scan') || flags.has('--version') : storeReads.test(word)
  return reads && others.length === 0 ? [] : [ambiguous('It does more than read the store')]
}

const setsUserId = /^[-+=]?0?[2-7][0-7]{3}$|^[ugoa,]{0,8}[+=][rwxX]{0,4}s/

const artisanLosing =
  /^(?:migrate:(?:fresh|reset|refresh|rollback)|db:wipe|queue:(?:flush|clear)|model:prune|doctrine:(?:database|schema):drop|orm:schema-tool:drop)$/

const plainOpenssl = /^(?:rand (?:-hex |-base64 )?\d{1,6}|version(?: -[av])?)$/

const checks: Record<string, Check> = {
  symfony: resets(artisanLosing),
  console: resets(artisanLosing),
  dotnet: (args) =>
    args[0]?.value === 'ef' && args.some(({ value }) => value === 'drop')
      ? [destructive('Drops data')]
      : [],
  playwright: (args) =>
    args.some(({ value }) => /^(?:install-deps|--with-deps)$/.test(value))
      ? [privileged('It installs programs of the system')]
      : [],
  openssl: (args) =>
    plainOpenssl.test(args.map(({ value }) => value).join(' '))
      ? []
      : [ambiguous('It does more than print random numbers')],
  gem: (args) =>
    /^(?:un|uninstall|cleanup)$/.test(args[0]?.value ?? '')
      ? [destructive('Removes programs of the machine')]
      : [],
  rm: removal,
  install: (args) =>
    args.some(({ value }) => setsUserId.test(value.replace(/^(?:-m|--mode=)/, '')))
      ? [privileged('Sets a set-user-id bit')]
      : [],
  ...Object.fromEntries(
    ['read', 'mapfile', 'readarray', 'getopts', 'printf', 'let', 'unset'].map((name) => [
      name,
      setsUnseen,
    ]),
  ),
  flask: resets(/^downgrade$/),
  celery: resets(/^purge$/),
  'django-admin': managed,
  unlink: (args, fed) => [...feeding(args, fed), ...unknownTarget(args)],
  rmdir: feeding,
  mv: (args, fed) => [
    ...feeding(args, fed),
    ...(args.some(({ value }) => value.startsWith('/dev/'))
      ? [destructive('Replaces a device')]
      : []),
  ],
  hostname: (args) =>
    args.some(({ value }) => !value.startsWith('-')) ? [privileged('Names the machine')] : [],
  virtualenv: cleared,
  mix: resets(/^ecto\.(?:drop|reset|rollback)/),
  artisan: resets(artisanLosing),
  php: (args, fed) => [
    ...resets(artisanLosing)(args, fed),
    ...(args.some(({ value }) => value === 'tinker') ? [ambiguous('A shell of the project')] : []),
  ],
  chmod: (args, fed) => [
    ...(args.some(({ value, text }) => value === '0' && text !== '0')
      ? [ambiguous('The mode is known only when it runs')]
      : []),
    ...recursive(args, fed),
    ...feeding(args, fed),
    ...(args.some(({ value }) => setsUserId.test(value))
      ? [privileged('Sets a set-user-id bit')]
      : []),
  ],
  chown: (args, fed) => [...recursive(args, fed), ...feeding(args, fed)],
  chgrp: recursive,
  kill: (args) =>
    args.slice(1).some(({ value }) => value === '-1') && args.length > 1
      ? [destructive('Ends every process')]
      : [],
  find: (args) =>
    args.some(({ value }) => value === '-delete') ? [destructive('"find -delete" removes')] : [],
  tar: (args) =>
    args.some(({ value }) => /^--(?:rem|rec|unlink)/.test(value))
      ? [destructive('Removes what is packed')]
      : [],
  rsync: (args) =>
    args.some(({ value }) => /^--(?:del|remove-source-files)/.test(value))
      ? [destructive('Removes what is not in the source')]
      : [],
  zip: (args) =>
    hasFlag(parseOptions(args), 'm', '--move') ? [destructive('Removes what is packed')] : [],
  '7z': moved,
  '7za': moved,
  prisma: (args, fed) => [
    ...resets(/^(?:reset|--force-reset|--accept-data-loss)$/)(args, fed),
    ...(args[0]?.value === 'db' && args[1]?.value === 'execute'
      ? [ambiguous('A script of the database may drop data')]
      : []),
  ],
  rails: (args, fed) => [
    ...resets(railsLosing)(args, fed),
    ...(/^(?:destroy|d)$/.test(args[0]?.value ?? '')
      ? [destructive('Removes files of the project')]
      : []),
  ],
  rake: resets(railsLosing),
  'drizzle-kit': resets(/^(?:drop|--force)$/),
  wrangler: hosted,
  opencode: (args) =>
    /^(?:--version|-v|--help|-h|models|stats)$/.test(args[0]?.value ?? '')
      ? []
      : [ambiguous('Another agent decides what is run')],
  sequelize: resets(/^db:drop$|:undo(?::all)?$/),
  'sequelize-cli': resets(/^db:drop$|:undo(?::all)?$/),
  typeorm: resets(/^(?:schema:drop|migration:revert)$/),
  knex: resets(/^(?:migrate:(?:rollback|down)|seed:run)$/),
  alembic: resets(/^downgrade$/),
  supabase: resets(/^reset$/),
  'manage.py': managed,
  python: pythonModule,
  python3: pythonModule,
  'redis-cli': storeFindings,
  envsubst: (args) =>
    args.some(({ value }) => !value.startsWith('-'))
      ? []
      : [ambiguous('It prints whatever variables its input names')],
  terraform: (args) => (args[0]?.value === 'destroy' ? [destructive('Destroys resources')] : []),
  kubectl: (args) =>
    args.some(({ value }) => value === 'delete') ? [destructive('Deletes resources')] : [],
  let: (args) => [
    ...setsUnseen(args),
    ...(args.every(isKnown) ? [] : [ambiguous('A substitution is evaluated')]),
  ],
  hash: (args) => (args.some(({ value }) => value === '-p') ? [redefines] : []),
  enable: () => [redefines],
  alias: (args) => (args.some(({ value }) => value.includes('=')) ? [redefines] : []),
  rimraf: () => [destructive('Removes whole folders')],
  cmake: (args) =>
    args[0]?.value === '-E' && /^(?:rm|remove|remove_directory)$/.test(args[1]?.value ?? '')
      ? [destructive('Removes files')]
      : [],
}
const redefines = ambiguous('It changes what a command name means')

/** Nothing but wildcards, dots and slashes. */
const sweeping = /^[*?./]*$/
/** Every file of a folder. */
const isWholeFolder = (path: string): boolean => {
  const file = path.slice(path.lastIndexOf('/') + 1)
  return path.includes('/') && /[*?]/.test(file) && /^[*?.]*$/.test(file)
}

function removal(args: readonly Arg[], fed: boolean): Finding[] {
  const parsed = parseOptions(args, optionSet(''))
  if (hasFlag(parsed, 'r', 'R', '--recursive')) return [destructive('Removes whole folders')]
  if (fed) return [destructive('Nobody sees what it is given')]
  if (
    parsed.operands.some(
      ({ value }) =>
        sweeping.test(globWithoutBrackets(value)) || isWholeFolder(globWithoutBrackets(value)),
    )
  )
    return [destructive('Removes everything')]
  return unknownTarget(args)
}

function unknownTarget(args: readonly Arg[]): Finding[] {
  return args.every((arg) => isKnown(arg) && !arg.expands)
    ? []
    : [ambiguous('What is removed is known only when it runs')]
}
