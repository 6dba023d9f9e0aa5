import { hostOf, unknownHost } from '../../matching/hosts.ts'
import { type Arg, hole } from '../words/arg.ts'
import { ambiguous, destructive, external, type Finding, type Nested } from '../words/finding.ts'

/**
 * What the arguments of any tool may say, whatever the tool: a command that it should run, code, a program, another place,
 * a word that publishes. Tools run the project's own code whatever their options are (tools.ts); this looks for what comes
 * from the command line instead.
 */
export interface ToolArgs {
  findings: Finding[]
  nested: Nested[]
  hosts: string[]
}

/** isReadAsCode: what follows the option is looked into elsewhere. isProgram: it is known, and no tool of the project. */
export function readToolArgs(
  program: string,
  args: readonly Arg[],
  { isReadAsCode, isProgram }: ToolReading,
): ToolArgs {
  // Their scripts are read as scripts, and what follows one is its own affair.
  if (readAsScripts.test(program)) return { findings: [], nested: [], hosts: [] }
  const module = moduleOf(program, args)
  const own = ownArgs(program, args)
  const findings = own.flatMap((arg, index) => {
    const before = own[index - 1]?.value ?? ''
    return isReadAsCode(before) || isReadAsCode(arg.value) ? [] : argFindings(program, arg, before)
  })
  return {
    findings: [...findings, ...verbFindings(program, own), ...(module?.findings ?? [])],
    nested: [...nestedCommands(program, args, isProgram), ...(module?.nested ?? [])],
    hosts: own.flatMap(({ value }) => toolArgHosts(value)),
  }
}

interface ToolReading {
  isReadAsCode: (option: string) => boolean
  isProgram: (name: string) => boolean
}

const readAsScripts =
  /^(?:bash|sh|dash|zsh|ksh|eval|source|\.|time|timeout|xargs|nice|nohup|env|command|exec|builtin)$/
/** Their first operand is a program of the project, and what follows is its own affair. */
const interpreters =
  /^(?:python[\d.]*|pypy[\d.]*|node|nodejs|tsx|ts-node|perl[\d.]*|ruby[\d.]*|php[\d.]*|lua|luajit|java|r|rscript|julia|elixir|escript)$/
const startsOwn = /^(?:run|start|task|dev|exec)$/

/** What the tool itself gets: not what stands behind a script or behind `--`. */
function ownArgs(program: string, args: readonly Arg[]): readonly Arg[] {
  const dashes = args.findIndex(({ value }) => value === '--')
  const own = dashes < 0 ? args : args.slice(0, dashes)
  if (interpreters.test(program)) {
    const script = own.findIndex(
      ({ value }, index) => !value.startsWith('-') && !/^-\w$/.test(own[index - 1]?.value ?? ''),
    )
    return script < 0 ? own : own.slice(0, script + 1)
  }
  // `go run . x`, `deno run x.ts y`
  if (/^(?:go|deno|bun)$/.test(program) && startsOwn.test(own[0]?.value ?? '')) {
    const script = own.findIndex(({ value }, index) => index > 0 && !value.startsWith('-'))
    return script < 0 ? own : own.slice(0, script + 1)
  }
  return own
}

const words = (text: string): ReadonlySet<string> => new Set(text.split(/\s+/))

/** Options whose value is a text for people or for a search, by the last word of their names. */
const texts = words(
  `m t k g n run bench skip message title name description grep filter pattern test tests match author comment format template
  header reason select ignore only expression flags define`,
)
/** A command or a program, by the last word of the option's name. */
const commands = words(
  `command commands cmd exec execute executable eval evaluate shell hook editor viewer pager launcher wrapper linker interpreter
  chooser under jvmargs wrap`,
)
/** The words of an option's name: `--post-run-command=x`, `-afterSuiteHook`, `-Dexec.args=x`. */
function optionWords(value: string): string[] {
  const name = (value.split('=')[0] ?? '').slice(0, 80)
  return name
    .replace(/^-{1,2}/, '')
    .replaceAll(/[a-z](?=[A-Z])/g, '$& ')
    .split(/[-._ ]/)
    .map((word) => word.toLowerCase())
}
/** A letter may stand in a cluster: `-am`. */
function takesText(option: string): boolean {
  if (/^-[a-zA-Z]{1,4}$/.test(option))
    return texts.has(option.slice(-1)) || texts.has(option.slice(1))
  return option.startsWith('-') && texts.has(optionWords(option).at(-1) ?? '')
}
function takesCommand(value: string): boolean {
  if (!/^--?[a-zA-Z]/.test(value) || /^--?(?:no-|prose-)/.test(value)) return false
  const all = optionWords(value)
  // `-Dexec.executable=x`, `--config.script-shell=x`
  if (/^-[DP]/.test(value))
    return all.slice(1).some((word) => /^(?:args|exec)$/.test(word) || commands.has(word))
  return (
    value.startsWith('--config.') || (all.join('').length > 1 && commands.has(all.at(-1) ?? ''))
  )
}
const bringsCode = /javaagent|agentlib|agentpath|OnError|OnOutOfMemory|-extld\b|popen\/\/|\bssh=/
/** `-e`, `-E`, `-p`, `-x`: code to many of them. */
const codeOption = /^-{1,2}(?:[a-zA-Z]{0,3}[eEpPxrRc]|execute|eval)$/

function argFindings(program: string, { value }: Arg, before: string): Finding[] {
  const text =
    /^(?:-{1,2}[\w.-]+|[A-Z_]{1,60})[:+?]?=(.*)$/s.exec(value)?.[1] ??
    (value.startsWith('-') ? '' : value)
  const option = value.startsWith('-') ? (value.split('=')[0] ?? '') : before
  const runs = takesCommand(value)
  const browses = /^--browser(?:=|$)/.test(value) && /^(?:npm|pnpm|yarn|bun)$/.test(program)
  const isCode = codeOption.test(before) && /[("';`]|\$\(/.test(value)
  // `npm pkg set scripts.x="…"` writes into the project's own file.
  const isField = program === 'npm' && /^[\w.]{1,80}=/.test(value)
  const hasSpace = /[\s`]|\$\(/.test(text.trim()) && !/^\s*-/.test(text)
  const isText = hasSpace && !isField && !isQuoted(program, option)
  // Settings as JSON: a place in them is not seen as one.
  const leads = /^\s{0,4}[[{]/.test(text) && /["'](?:\/|~\/|\.\.\/)/.test(text)
  const isHarmful = harmful.test(text) && text !== value
  const brings = leads || isHarmful || bringsCode.test(value) || /^(?:--[\w-]+=)?data:/i.test(value)
  return runs || browses || isCode || isText || brings
    ? [ambiguous(`An argument may say what is run: ${value.replaceAll(hole, '…').slice(0, 60)}`)]
    : []
}

/** `--gcov-tool=rm`: it would be given files of the project. */
const harmful =
  /^(?:[\w./-]{0,100}\/)?(?:rm|mv|cp|dd|sudo|curl|wget|ssh|scp|nc|chmod|chown|tee|ln|shred|truncate|unlink|rmdir|rsync|kill)$/

/** Of these, texts are what they are for, or read elsewhere. */
const textual =
  /^(?:sqlite3|psql|mysql|mariadb|shellcheck|codespell|typos|vale|magick|convert|ffmpeg|ffprobe|commitlint|changeset|opencode|jsonlint|createdb)$/
const isQuoted = (program: string, option: string): boolean =>
  textual.test(program) || takesText(option)

const publishes =
  /^(?:(?:hex\.|pub:)?publish|deploy|upload|uploadArchives|release|gh-deploy|site-deploy|login|unpublish|yank|undeprecate|trust|register|release:(?:perform|prepare))$/
const shells = /^(?:shell|shell_plus|console|tinker|repl|dbshell|dbconsole|runscript|eval|lua)$/
const changesItself =
  /^(?:self|self-update|plugin|plugins|policies|server|setup|archive\.install|escript\.install|local\.hex)$/
const scriptRunners = /^(?:npm|pnpm|yarn|bun|npx|deno|node|make|gmake|just|task|mage|rake|invoke)$/

/** Words that mean the same to many tools. */
function verbFindings(program: string, own: readonly Arg[]): Finding[] {
  if (interpreters.test(program)) return setupFindings(own)
  const words = own
    .filter((_, index) => !takesText(own[index - 1]?.value ?? ''))
    .map(({ value }) => value)
    .filter((value) => !value.startsWith('-'))
  const [first = '', second = ''] = words
  const findings: Finding[] = []
  if (words.slice(0, 2).some((word) => publishes.test(word)) && !/^(?:run|test)$/.test(first))
    findings.push(external('It publishes or changes something outside'))
  if (words.slice(0, 3).some((word) => shells.test(word)) && !scriptRunners.test(program))
    findings.push(ambiguous('A shell of the tool runs what it is given'))
  const isMain = /^(?:npm|pnpm|yarn|bun|deno|poetry|pdm|rye|uv|rustup|mix|gem|bundle|composer)$/
  if (isMain.test(program) && changesItself.test(first))
    findings.push(ambiguous(`It changes the tool itself: ${program} ${first}`))
  const sets = words.length > 2 || own.some(({ value }) => /^--(?:add|set|edit|unset)/.test(value))
  if (first === 'config' && (sets || /^(?:edit|set|unset|add)$/.test(second)))
    findings.push(ambiguous(`It changes settings: ${program} config`))
  if (losesFolder(program, own, words)) findings.push(destructive('Empties a folder'))
  return findings
}

/** `python setup.py upload` */
const setupFindings = (own: readonly Arg[]): Finding[] =>
  own.some(({ value }) => /(?:^|\/)setup\.py$/.test(value))
    ? [ambiguous('A script of set-up may publish, or install from elsewhere')]
    : []

/** Tools that empty the folder which the option names, or take something else away. */
const emptied: readonly [programs: RegExp, option: RegExp][] = [
  [/^(?:pytest|py\.test)$/, /^--basetemp(?:=|$)/],
  [/^pipenv$/, /^--rm$/],
  [/^playwright$/, /^--output(?:=|$)/],
  [/^(?:c8|nyc)$/, /^--temp-dir/],
  [/^(?:vitest|vite)$/, /^--coverage\.reportsDirectory/],
  [/^typedoc$/, /^--out(?:=|$)/],
  [/^mkdocs$/, /^(?:-d|--site-dir)/],
  [/^sphinx-build$/, /^clean$/],
  [/^storybook$/, /^(?:-o|--output-dir)/],
  [/^ng$/, /^--(?:output-path|delete-output-path)/],
  [/^expo$/, /^--clean$/],
  [/^knip$/, /^--allow-remove/],
  [/^(?:babel|swc)$/, /^--delete-dir-on-start/],
]
const cleans =
  /^--(?:clean|clear|empty-?out-?dir|output-clean|delete-[\w-]{1,30}|cleanDestinationDir)(?:=true)?$/i
const namesFolder = /^-[dDo]$|^--?(?:out|dist|output|site|dest|target)[\w.-]{0,30}(?:=|$)/i

/** A folder that is named is emptied first. */
function losesFolder(program: string, own: readonly Arg[], words: readonly string[]): boolean {
  const has = (pattern: RegExp) => own.some(({ value }) => pattern.test(value))
  if (emptied.some(([programs, option]) => programs.test(program) && has(option))) return true
  if (program === 'uv' && words[0] === 'venv')
    return has(/^--clear$/) || words.slice(1).some((word) => !/^\.?venv[\w.-]{0,20}$/.test(word))
  if (program === 'cargo') return words[0] === 'clean' && has(/^--target-dir/)
  if (/^(?:conda|mamba)$/.test(program)) return has(/^--all$/) && words[0] === 'remove'
  return has(cleans) && has(namesFolder)
}

/** `yarn knex migrate:rollback`: they run what a package has brought, too. */
const packageManagers = /^(?:yarn|pnpm|bun)$/
const losingBinaries =
  /^(?:prisma|knex|sequelize|sequelize-cli|typeorm|drizzle-kit|rimraf|supabase|wrangler|playwright|nyc|c8|knip|shx|del|del-cli|trash|trash-cli|cpx|concurrently|cross-env|cross-env-shell|nodemon|zx)$/

/** `tox exec -- rm -rf x`, `yarn workspace a exec rm x`: what stands there is a command, if it is the name of a program. */
function nestedCommands(
  program: string,
  args: readonly Arg[],
  isProgram: (name: string) => boolean,
): Nested[] {
  if (interpreters.test(program)) return []
  const runners =
    program === 'pm2'
      ? /^(?:start|--)$/
      : /^(?:--|exec|run|foreach|dlx|x|cmd|devenv|watch|nightly|stable)$/
  // The first alone: what comes after it is that command's own, and each would be read in each.
  let before = ''
  const at = args.findIndex(({ value }, index) => {
    // `yarn run -T rm`, `pm2 start rm`
    const last = args[index - 1]?.value ?? ''
    if (!/^-./.test(last) || last === '--') before = last
    const named = runners.test(before) && value !== '.' && isProgram(value.split('/').at(-1) ?? '')
    // What is a script of the project to most of them.
    const isScript =
      before === 'run' && /^(?:test|install|env|time|info|size|join|split)$/.test(value)
    const isBinary =
      packageManagers.test(program) &&
      (index === 0 || before === 'run') &&
      losingBinaries.test(value)
    const isMeasured = measuring.test(program) && isProgram(value.split('/').at(-1) ?? '')
    return (named && !isScript) || isBinary || isMeasured
  })
  if (at < 0) return []
  // The first dashes are the tool's, also behind the command's name.
  const words = args.slice(at)
  const dashes = words.findIndex(({ value }) => value === '--')
  const given = words.filter((_, index) => dashes < 0 || index !== dashes)
  return [{ kind: 'command', words: given, fed: false }]
}

/** They run the command that stands behind their options. */
const measuring = /^(?:c8|nyc)$/

/** Wherever a URL stands. The machine itself and files are no other place. */
export function toolArgHosts(value: string): string[] {
  const parts = value.split('://')
  return parts.slice(1, maxAddresses).flatMap((rest, index) => {
    const scheme = /[a-z][a-z0-9+.-]{0,12}$/i.exec((parts[index] ?? '').slice(-14))?.[0]
    const url = `${scheme}://${/^[^\s'"<>]*/.exec(rest)?.[0]}`
    if (scheme === undefined) return []
    if (/^(?:file|unix|sqlite\w{0,10}|workspace|jdbc:h2):/i.test(url)) return []
    const host = url.includes(hole)
      ? unknownHost
      : (hostOf(url.replace(/^(?:git|hg|svn)\+/i, '')) ?? unknownHost)
    return /^(?:localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3}|::1|\[::1\]|0\.0\.0\.0)$/.test(host)
      ? []
      : [host]
  })
}

const maxAddresses = 20

/** Modules of Python that do more than look at files: they run their arguments, connect, or take a workspace in whole. */
const unclearModules =
  /^(?:asyncio|code|timeit|pdb|runpy|trace|idlelib|pydoc|ensurepip|pickle|lib2to3|turtledemo|antigravity|zipapp|test|xmlrpc|wsgiref|cgi|smtpd)(?:\.|$)/
const connectingModules =
  /^(?:ftplib|telnetlib|smtplib|poplib|imaplib|nntplib|webbrowser|urllib)(?:\.|$)/

/** `python -m pip …` is `pip …`. */
function moduleOf(
  program: string,
  args: readonly Arg[],
): { findings: Finding[]; nested: Nested[] } | null {
  if (!/^(?:python|pypy)[\d.]*$/.test(program)) return null
  const at = args.findIndex(({ value }) => /^-[a-zA-Z]*m/.test(value))
  const option = args[at]?.value ?? ''
  const glued = option.slice(option.indexOf('m') + 1)
  const name = glued === '' ? (args[at + 1]?.value ?? '') : glued
  const rest = args.slice(at + (glued === '' ? 2 : 1))
  if (at < 0 || name === '') return null
  const packs =
    /^(?:zipfile|tarfile)$/.test(name) && rest.some(({ value }) => /^\.{0,2}\/?$/.test(value))
  const findings = [
    ...(unclearModules.test(name) || packs
      ? [ambiguous('A module of Python runs its arguments')]
      : []),
    ...(connectingModules.test(name) ? [ambiguous('A module of Python connects elsewhere')] : []),
  ]
  const isTool =
    /^(?:pip|pytest|mypy|black|ruff|flake8|isort|pylint|coverage|tox|nox|twine|uvicorn|gunicorn|django|flask|celery|alembic|sqlite3|virtualenv|poetry|pipenv|uv|mkdocs|bandit|build|jupyter|ipython|IPython|playwright)$/
  if (!isTool.test(name)) return { findings, nested: [] }
  const tool = name === 'django' ? 'django-admin' : name.toLowerCase()
  const word: Arg = { ...(args[at] as Arg), value: tool, text: name }
  return { findings, nested: [{ kind: 'command', words: [word, ...rest], fed: false }] }
}
