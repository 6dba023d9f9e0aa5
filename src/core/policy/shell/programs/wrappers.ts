import { unknownHost } from '../../matching/hosts.ts'
import { type Arg, isKnown, literalArg, textOf } from '../words/arg.ts'
import { assignmentFindings, assignmentOf } from '../words/assignments.ts'
import { ambiguous, type Finding, type Nested } from '../words/finding.ts'
import { hasFlag, optionSet, type Parsed, parseOptions, valuesOf } from '../words/options.ts'

interface Wrapper {
  /** Options that take a value. */
  values?: string
  /** Options that stand alone. Any other option may change what is run. */
  flags?: string
  /** Operands before the command that is run. */
  skip?: number
  /** Options whose value is a script. */
  script?: string[]
  /** `NAME=value` may come before the command. */
  assigns?: true
  /** Options whose value is `NAME=value`. */
  sets?: string[]
  /** What it runs reaches another host than it names. */
  reroutes?: true
  /** Adds arguments from elsewhere. */
  feeds?: true
  /** Its operands together are a script. */
  joins?: true
  /** Each of its operands is a script. */
  scripts?: true
  /** What it writes may go to a command. */
  traces?: true
  /** It does something of its own, so it is judged like any command too. */
  own?: true
  /** It fetches what it does not find. */
  fetches?: true
}

/** Commands that run another one. What they do besides does not matter unless they are `own`. */
const wrappers: Record<string, Wrapper> = {
  nohup: {},
  setsid: { flags: 'c f w ctty fork wait' },
  chronic: {},
  unbuffer: {},
  builtin: {},
  busybox: {},
  toybox: {},
  catchsegv: {},
  caffeinate: { values: 't w', flags: 'd i m s u' },
  time: { values: 'f o format output', flags: 'p v a q l h portability verbose append quiet' },
  gtime: { values: 'f o format output', flags: 'p v a q portability verbose append quiet' },
  timeout: {
    values: 's k signal kill-after',
    flags: 'v f p preserve-status foreground verbose',
    skip: 1,
  },
  gtimeout: { values: 's k signal kill-after', flags: 'preserve-status foreground v', skip: 1 },
  nice: { values: 'n adjustment', flags: '0 1 2 3 4 5 6 7 8 9 -' },
  ionice: { values: 'c n p P u class classdata', flags: 't ignore' },
  taskset: { skip: 1, flags: 'a c all-tasks cpu-list' },
  chrt: { skip: 1, flags: 'b f i o r batch fifo idle other rr' },
  stdbuf: { values: 'i o e input output error' },
  command: { flags: 'p' },
  exec: { values: 'a', flags: 'c l' },
  env: {
    values: 'u unset C chdir S split-string',
    flags: 'i 0 v ignore-environment null debug',
    assigns: true,
  },
  'cross-env': { assigns: true },
  xargs: {
    values: 'I d E n L P s a max-args max-procs max-chars delimiter arg-file',
    flags: '0 r t p x null no-run-if-empty verbose exit i replace open-tty o',
    feeds: true,
  },
  parallel: {
    values: 'j jobs a arg-file n N I',
    flags: 'k 0 null keep-order bar progress will-cite halt',
    feeds: true,
  },
  watch: {
    values: 'n interval',
    flags: 'd t b e g c x p differences no-title beep errexit chgexit color precise',
    joins: true,
  },
  flock: {
    flags: 's x n u o e shared exclusive nonblock nb unlock close verbose',
    values: 'w E timeout conflict-exit-code c command',
    skip: 1,
    script: ['c', 'command'],
  },
  script: {
    values: 'c command',
    flags: 'q a f e append quiet flush return',
    script: ['c', 'command'],
    skip: 1000,
  },
  strace: {
    values: 'o e p s a P u X E I O S b env',
    flags: 'f c t T y v q r i k x C ff tt',
    sets: ['E', 'env'],
    traces: true,
  },
  ltrace: { values: 'o e p s a u l n x', traces: true },
  'xvfb-run': {
    values: 'n s e f p server-num server-args error-file auth-file',
    flags: 'a l auto-servernum listen-tcp',
  },
  'dbus-run-session': {},
  setarch: {},
  linux32: {},
  linux64: {},
  i386: {},
  x86_64: {},
  fakeroot: { values: 'l i s b' },
  eatmydata: {},
  valgrind: {
    flags:
      'v q verbose quiet leak-check track-origins show-leak-kinds error-exitcode tool log-file num-callers',
  },
  numactl: { values: 'i p N m C w interleave cpunodebind membind physcpubind' },
  firejail: {},
  cgexec: { values: 'g' },
  prlimit: {},
  rlwrap: {},
  entr: {},
  ifne: {},
  lckdo: { skip: 1 },
  torsocks: { reroutes: true },
  proxychains: { values: 'f', reroutes: true },
  proxychains4: { values: 'f', reroutes: true },
  ccache: {},
  sccache: {},
  faketime: { values: 'f', skip: 1 },
  tini: {},
  'dumb-init': {},
  dotenv: { values: 'e v c', flags: 'o override quiet', sets: ['v'] },
  shx: {},
  xe: { values: 'I N j a', feeds: true },
  hyperfine: {
    values: 'w r m M warmup runs min-runs max-runs export-json export-markdown n command-name',
    flags: 'i N ignore-failure show-output style',
    scripts: true,
  },
  pee: { scripts: true },
  mispipe: { scripts: true },
  sg: { skip: 1, scripts: true },
  concurrently: {
    values:
      'n names c prefix-colors p prefix s success restart-tries restart-after max-processes m',
    flags: 'k r g kill-others kill-others-on-fail raw group timings no-color hide',
    scripts: true,
  },
  uvx: { values: 'p python from with', flags: 'q quiet isolated no-cache refresh', own: true },
  'nix-shell': {
    values: 'run command p packages A attr',
    script: ['run', 'command'],
    skip: 1000,
  },
  npx: {
    values: 'p package c call w workspace',
    flags:
      'y n q yes no no-install quiet prefer-offline prefer-online offline ignore-existing workspaces include-workspace-root silent s',
    script: ['c', 'call'],
    own: true,
    fetches: true,
  },
  pnpx: { values: 'p package c', flags: 'silent s', own: true, fetches: true },
  bunx: { values: 'p package', flags: 'bun silent verbose no-install', own: true, fetches: true },
  sudo: {
    values: 'u g h p C r t T U D R user group host prompt chdir chroot role type other-user',
    assigns: true,
    own: true,
  },
  gosu: { skip: 1, own: true },
  'su-exec': { skip: 1, own: true },
  doas: { values: 'u C', own: true },
  pkexec: { values: 'user', own: true },
  run0: { values: 'u user', own: true },
  chroot: { values: 'userspec groups', skip: 1, own: true },
  unshare: { values: 'S G R w root wd setuid setgid', own: true },
  nsenter: { values: 't S G target setuid setgid', own: true },
  su: { values: 'c command s shell g G', script: ['c', 'command'], skip: 1000, own: true },
  runuser: { values: 'c command s u g G', script: ['c', 'command'], own: true },
  'systemd-run': { values: 'u p unit property', own: true },
  setpriv: { own: true },
}

const npmExec: Wrapper = {
  values: 'c call w workspace package',
  flags: 'y yes no silent s q workspaces ws include-workspace-root prefer-offline offline',
  script: ['c', 'call'],
  own: true,
  fetches: true,
}

const denoX: Wrapper = { flags: 'A q allow-all quiet', own: true, fetches: true }

/** Those that do so only with a certain first word. */
const subWrappers: Record<string, Record<string, Wrapper>> = {
  npm: { exec: npmExec, x: npmExec },
  pnpm: {
    exec: {
      values: 'filter F dir C',
      flags: 'r c recursive parallel silent workspace-root w',
      own: true,
    },
    dlx: { values: 'package', flags: 'silent s', own: true, fetches: true },
  },
  yarn: {
    exec: { flags: 'silent s', own: true },
    dlx: { values: 'p package', flags: 'q', own: true, fetches: true },
  },
  bun: { x: { values: 'p package', flags: 'bun silent', own: true, fetches: true } },
  deno: { x: denoX },
  uv: {
    run: {
      values: 'p python with group extra package env-file with-requirements directory project',
      flags:
        'q quiet isolated frozen locked no-sync all-extras all-groups no-dev dev active exact no-project offline no-cache module m',
      own: true,
    },
  },
  perf: { stat: { values: 'e r o' }, record: { values: 'e F o' }, trace: { values: 'e o' } },
  conda: { run: { values: 'n p name prefix cwd', flags: 'no-capture-output live-stream' } },
  pipx: { run: { values: 'spec python pip-args index-url i', flags: 'no-cache', own: true } },
  poetry: { run: {} },
  pipenv: { run: {} },
  pdm: { run: {} },
  rye: { run: {} },
  bundle: { exec: {} },
  mise: { exec: {} },
  direnv: { exec: { skip: 1 } },
  asdf: { exec: {} },
}

interface Unwrapped {
  nested: Nested[]
  findings: Finding[]
  /** Where it fetches what it runs, if that is not the usual registry. */
  hosts: string[]
  own: boolean
}

/** What the command runs in turn; null if it is none that does. */
export function unwrapWrapper(program: string, args: readonly Arg[]): Unwrapped | null {
  const direct = Object.hasOwn(wrappers, program) ? wrappers[program] : undefined
  if (direct) return unwrapWith(direct, args)
  const subs = Object.hasOwn(subWrappers, program) ? subWrappers[program] : undefined
  if (!subs) return null
  // Options may stand before the word: `npm -s exec`.
  const globals = parseOptions(args, optionSet(globalValues), true)
  const name = globals.operands[0]?.value ?? ''
  const sub = Object.hasOwn(subs, name) ? subs[name] : undefined
  if (!sub) return null
  const unwrapped = unwrapWith(sub, globals.operands.slice(1))
  unwrapped.findings.push(...unknownFlags(globals, globalValues, globalFlags))
  return unwrapped
}

const globalValues = 'C prefix dir cwd filter F workspace w directory project'
const globalFlags = 's q r silent quiet recursive workspaces ws workspace-root no-update-notifier'

/** An option that is not known may take the next word for itself. */
function unknownFlags({ flags }: Parsed, values = '', standing = ''): Finding[] {
  const known = new Set(['help', 'version', ...values.split(' '), ...standing.split(' ')])
  const unknown = [...flags].find((flag) => !known.has(flag.replace(/^--/, '')))
  return unknown === undefined
    ? []
    : [ambiguous(`An option that is not known may change what is run: ${unknown.slice(0, 40)}`)]
}

function unwrapWith(wrapper: Wrapper, args: readonly Arg[]): Unwrapped {
  const parsed = parseOptions(args, optionSet(wrapper.values ?? ''), true)
  const findings: Finding[] = unknownFlags(parsed, wrapper.values, wrapper.flags)
  const words = commandWords(wrapper, parsed, findings)
  const hosts = wrapper.fetches
    ? fetchedHosts([...words.slice(0, 1), ...valuesOf(parsed, 'p', 'package')])
    : []
  if (wrapper.reroutes) hosts.push(unknownHost)
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(words[0]?.value ?? ''))
    findings.push(ambiguous('It runs what it fetches'))
  if (wrapper.traces && valuesOf(parsed, 'o').some(({ value }) => /^\s*[|!]/.test(value)))
    findings.push(ambiguous('What it prints goes to a command'))
  for (const text of valuesOf(parsed, ...(wrapper.sets ?? []))) findings.push(...setFindings(text))
  const nested = [...scriptOptions(wrapper, parsed, findings), ...runs(wrapper, words, findings)]
  if (wrapper.assigns && hasFlag(parsed, 'S', '--split-string', 'C', '--chdir'))
    findings.push(ambiguous('Options of "env" change what is run'))
  if (wrapper.feeds) findings.push(...replacements(parsed, words))
  return { nested, findings, hosts, own: wrapper.own ?? false }
}

/** A name alone takes the variable away. */
function setFindings(text: Arg): Finding[] {
  const assigned = assignmentOf(text)
  return assigned ? assignmentFindings(assigned.name, literalArg(assigned.value)) : []
}

function commandWords(wrapper: Wrapper, parsed: Parsed, findings: Finding[]): Arg[] {
  const { operands } = parsed
  let from = wrapper.skip ?? 0
  // A lone dash empties the environment first.
  if (wrapper.assigns && operands[from]?.value === '-') from += 1
  for (; wrapper.assigns && from < operands.length; from += 1) {
    const assigned = assignmentOf(operands[from] as Arg)
    if (!assigned) break
    findings.push(...assignmentFindings(assigned.name, literalArg(assigned.value)))
  }
  return operands.slice(from)
}

function scriptOptions(wrapper: Wrapper, parsed: Parsed, findings: Finding[]): Nested[] {
  return scripts(valuesOf(parsed, ...(wrapper.script ?? [])), findings)
}

/** Several words are one argument list; but `watch` and its like hand them to a shell as one text. */
function runs(wrapper: Wrapper, words: Arg[], findings: Finding[]): Nested[] {
  if (words.length === 0) return []
  if (wrapper.joins) return scripts([literalArg(textOf(words))], findings)
  if (wrapper.scripts) return scripts(words, findings)
  // `npm exec rm -- -rf x`: its own dashes do not reach the command.
  const given = wrapper.own ? withoutDashes(words) : words
  return [{ kind: 'command', words: given, fed: wrapper.feeds ?? false }]
}

function scripts(texts: readonly Arg[], findings: Finding[]): Nested[] {
  return texts.flatMap((text) => {
    if (isKnown(text)) return [{ kind: 'script', text: text.value }]
    findings.push(ambiguous('A command is put together when it runs'))
    return []
  })
}

/** `xargs -I % sh -c '%'`: what is read becomes the command itself. */
function replacements(parsed: Parsed, words: readonly Arg[]): Finding[] {
  const marks = ['{}', ...valuesOf(parsed, 'I', 'i', 'replace').map(({ value }) => value)]
  const replaces = hasFlag(parsed, 'I', 'i', '--replace')
  const [name, ...rest] = words
  const inName = marks.some((mark) => mark && name?.value.includes(mark))
  const inScript =
    /^(?:.*\/)?(?:(?:ba|da|z|k)?sh|eval|(?:python|perl|ruby|php|lua)[\d.]*|node|nodejs|bun|deno|tsx|ts-node|[gmn]?awk|g?sed)$/.test(
      name?.value ?? '',
    ) &&
    rest.some(({ value }) => marks.some((mark) => mark && mark !== value && value.includes(mark)))
  return inName || (replaces && inScript) ? [ambiguous('What is read becomes a command')] : []
}

/** Without the first `--` behind the name of the command. */
function withoutDashes(words: readonly Arg[]): Arg[] {
  const at = words.findIndex(({ value }, index) => index > 0 && value === '--')
  return words.filter((_, index) => at < 0 || index !== at)
}

/** `npx github:a/b`, `npx a/b`, `npx x@git+ssh://…`: not what a name alone is, nor a file of the project. */
const fetchedHosts = (packages: readonly Arg[]): string[] =>
  packages.some(({ value }) =>
    /^(?:@?[\w./-]{1,100}@)?(?:github|gitlab|bitbucket|gist|git|ssh|https?)[:+]|^git@|^[\w-][\w.-]{0,99}\/[\w.-]{1,100}(?:#|$)/i.test(
      value,
    ),
  )
    ? [unknownHost]
    : []
