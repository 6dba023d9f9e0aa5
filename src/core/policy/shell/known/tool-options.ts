import { type Arg, hole, substituted } from '../words/arg.ts'
import { ambiguous, type Finding } from '../words/finding.ts'

/**
 * Tools run the project's own code whatever their options are. Some options bring a program, code or a setting from the
 * command line instead: those are unclear. Long ones count from the first letter that tells them apart, since many tools
 * take any beginning of an option for the whole.
 */
interface Dangers {
  /** Long options, without dashes. */
  long?: string
  /** Short ones, with their dash. */
  short?: RegExp
  /** The first word that is no option. */
  sub?: RegExp
  /** Any argument. */
  any?: RegExp
}

const dangers: [programs: string, Dangers][] = [
  [
    'make gmake',
    {
      long: 'eval',
      short: /^-E/,
      any: /^(?:SHELL|\.SHELLFLAGS|MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS)[:+?]?=|^\w+[:+?]?=[^-\s]\S*\s|^\w+[:+?]?=(?:rm|mv|cp|dd|sh|bash|sudo|eval|curl|wget|ssh|nc|chmod|chown|tee|ln|shred|kill)$/,
    },
  ],
  [
    'cmake',
    {
      short: /^-E$/,
      any: /^(?:-DCMAKE_\w*(?:LAUNCHER|COMPILER|PROGRAM)\b.*[\s;]|env$|chdir$|time$|(?:SHELL|MAKEFLAGS)=|--eval)/,
    },
  ],
  [
    'npm pnpm yarn bun',
    {
      long: 'script-shell shell-emulator node-options init-module global location git use-yarnrc global-dir',
      short: /^-[a-zA-Z]*g/,
      sub: /^(?:explore|edit|config|c|set|create|innit|global|link|ln|env|exec|publish)$/,
    },
  ],
  [
    'bun deno',
    { sub: /^(?:upgrade|exec|compile|jupyter)$/, long: 'global', short: /^-[a-zA-Z]*g/ },
  ],
  ['just', { short: /^-c$/ }],
  ['rustup', { sub: /^self$/ }],
  ['pytest py.test', { long: 'pastebin' }],
  [
    'php',
    {
      any: /^(?:-d\s{0,4})?(?:auto_prepend_file|auto_append_file|allow_url_include|extension|zend_extension|sendmail_path|disable_functions|open_basedir)=/i,
      long: 'run process-code process-begin process-end',
      short: /^-z/,
    },
  ],
  ['cargo', { long: 'config', short: /^-Z/ }],
  ['dotnet', { long: 'global tool-path', short: /^-g$/ }],
  ['sqlite3', { short: /^-(?:A|init$)/, long: 'init' }],
  [
    'mysql mariadb',
    {
      long: 'pager init-command plugin-dir defaults-file defaults-extra-file defaults-group-suffix login-path',
      any: /^--(?:loose|enable|maximum)[-_]|^--(?:init|plugin|defaults)_/,
    },
  ],
  [
    'go',
    {
      any: /^-{1,2}(?:toolexec|exec|vettool|overlay|modfile|asmflags|gccgoflags|ldflags=.*extld|replace|w$)|^https?:/,
    },
  ],
  [
    'mvn mvnw gradle gradlew',
    { long: 'init-script settings global-settings', short: /^-(?:I|s|gs)$/, any: /^-D\w*exec/ },
  ],
  ['gcc g++ cc c++ clang clang++ javac ld ar rustc', { any: /^@/ }],
  ['cargo rustc', { any: /linker=/ }],
  [
    'dlv',
    { long: 'init listen redirect log-dest', short: /^-[lr]/, sub: /^(?:attach|connect|dap)$/ },
  ],
  ['gem', { sub: /^exec$/ }],
  ['meson', { long: 'ninja-args vs-args xcode-args' }],
  ['nim', { any: /^--eval/ }],
  ['rake', { any: /^--exec/, short: /^-[eEp]/ }],
  ['rollup', { long: 'plugin', short: /^-p/ }],
  ['uv', { sub: /^tool$/ }],
  ['rails', { sub: /^(?:runner|r|dbconsole|db)$/ }],
  ['pylint', { long: 'init-hook' }],
  [
    'java',
    {
      any: /^@|^-(?:javaagent|agentlib|agentpath|Xlog:.*file=|Xloggc|XX:(?:OnError|OnOutOfMemoryError|Flags|VMOptionsFile|\w{0,40}(?:File|Path)\b))/,
    },
  ],
  [
    'node nodejs bun tsx ts-node deno',
    { any: /^(?:https?:|data:|npm:|jsr:)/i, short: /^-[ep]./, long: 'eval print' },
  ],
  ['pytest py.test', { short: /^-p./, long: 'pdbcls' }],
  ['gdb lldb', { any: /./ }],
  ['conda mamba', { any: /^vars$/ }],
  ['composer', { sub: /^(?:exec|global)$/ }],
  ['bundle bundler', { sub: /^config$/ }],
  ['pre-commit', { sub: /^try-repo$/ }],
  // Before a colon stands where it comes from, and much of that reads or runs something else.
  [
    'convert magick identify',
    {
      any: /^(?!(?:png|jpe?g|gif|webp|bmp|tiff?|avif|heic|pdf|xc|canvas|gradient|null|rgba?|gray|mpr):)[a-z][a-z0-9+]{1,20}:|^[|@]|=@/i,
      short: /^-script$/,
    },
  ],
  [
    'ffmpeg ffprobe',
    {
      any: /^[a-z][a-z0-9+]{1,20}:(?:.*[/.]|.*\|)|^(?:pipe|data|tcp|udp):|^\[f=|(?:^|[=:,[])a?movie=/i,
      short: /^-(?:safe|protocol_whitelist)$/,
    },
  ],
  ['dot mmdc plantuml', { any: /^https?:/i }],
  ['redis-cli mongosh', { long: 'eval', short: /^-x/ }],
  [
    'perl ruby',
    {
      short: /^-(?![0aclnpsw]{0,8}(?:i(?:\.\w{1,12})?)?[0aclnpsw]{0,8}[eE]?$|v$|c$)/,
      long: 'require',
    },
  ],
  ['python python2 python3 pypy pypy3', { short: /^-[a-bd-ln-zA-Z]+c./ }],
  ['watch nodemon', { long: 'exec', short: /^-x/ }],
  // `R CMD x` runs any program, and a debugger is one.
  ['R', { any: /^CMD$/, short: /^-[dg]/, long: 'debugger gui interactive' }],
  [
    'R Rscript julia elixir iex erl ghci ocaml jshell dart clojure clj groovy swift lua luajit php',
    { short: /^-(?:[a-zA-Z]*e|E|r|R|B|F|i|l|M|m|n|p)/, long: 'eval execute' },
  ],
]

/** A program may stand in several lines. */
const table = new Map<string, Dangers[]>()
for (const [programs, danger] of dangers)
  for (const name of programs.toLowerCase().split(' '))
    table.set(name, [...(table.get(name) ?? []), danger])

/** isReadAsCode: what follows the option is looked into. */
export function toolOptionFindings(
  program: string,
  args: readonly Arg[],
  isReadAsCode: (option: string) => boolean,
): Finding[] {
  if (args.some(({ value }) => value === substituted && program !== 'psql'))
    return [ambiguous('A program runs what another command prints')]
  const all = table.get(program) ?? []
  const found = args.find(
    ({ value }) => all.some((danger) => isDangerous(danger, value)) && !isReadAsCode(value),
  )
  const first = args.find(
    ({ value }, index) =>
      !value.startsWith('-') &&
      !/^(?:--(?:prefix|workspace)|-w)$/.test(args[index - 1]?.value ?? ''),
  )
  if (!found && first && program === 'npm' && !npmCommands.has(first.value))
    return [ambiguous(`Not a command of npm that is known here: ${first.value}`)]
  if (!found && first && all.some(({ sub }) => sub?.test(first.value)))
    return [ambiguous(`It changes settings or runs something else: ${program} ${first.value}`)]
  if (!found && first && startsPackage(program, args, first))
    return [ambiguous(`A package decides what is run: ${program} ${first.value}`)]
  if (!found) return []
  return [
    ambiguous(`An argument says what is run: ${found.value.replaceAll(hole, '…').slice(0, 60)}`),
  ]
}

/** `npm init x` is `npx create-x`; `go run a.b/c@latest` and `uv run https://a.b/c.py` run what they fetch. */
const startsPackage = (program: string, args: readonly Arg[], first: Arg): boolean =>
  (/^(?:npm|pnpm|yarn|bun)$/.test(program) &&
    first.value === 'init' &&
    args.some((arg) => arg !== first && !arg.value.startsWith('-'))) ||
  (program === 'go' && first.value === 'run' && args.some(({ value }) => value.includes('@')))

/** Any other word is refused by npm, or changes more than the project. */
const npmCommands = new Set(
  `install i in ins add ci clean-install install-test it cit install-ci-test test t tst run run-script rum urn start stop restart
  ls list la ll view info show v outdated audit why explain version pack prune dedupe ddp rebuild rb update up upgrade uninstall un rm
  remove r unlink fund help doctor root prefix query search find s se sbom shrinkwrap pkg docs repo bugs home cache ping whoami diff
  find-dupes completion get exec x init create innit login logout adduser publish unpublish deprecate owner access dist-tag token
  star unstar stars org team hook profile config c set edit explore bin`.split(/\s+/),
)

function isDangerous({ long, short, any }: Dangers, value: string): boolean {
  if (any?.test(value)) return true
  if (!value.startsWith('--')) return short?.test(value) ?? false
  const name = value.slice(2).split('=')[0] ?? ''
  return name !== '' && (long?.split(' ').some((one) => one.startsWith(name)) ?? false)
}
