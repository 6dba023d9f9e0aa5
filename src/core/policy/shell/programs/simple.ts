import { isGitFile } from '../../matching/paths.ts'
import { type Arg, literalArg, textOf } from '../words/arg.ts'
import { ambiguous, type Finding, type Nested } from '../words/finding.ts'
import { perlInputFindings } from '../code/perl.ts'
import { consoleFindings } from './consoles.ts'
import { gitUse } from './git.ts'
import { isAllFound, isSecretFound, showsFound } from '../words/found.ts'
import { isInterpreterPath, isProgramPath, isSystemPath, locate } from '../words/locate.ts'
import { isNetworkProgram, networkUse } from './network.ts'
import {
  asOperand,
  isText,
  operandListedPaths,
  operandPaths,
  operandUses,
} from '../words/operands.ts'
import { isRisky, riskFindings } from './risks.ts'
import { checkKnown, isKnownTool } from '../known/check.ts'
import { secretWhy } from './secrets.ts'
import type { Situation } from './situation.ts'
import { sweep } from './sweeps.ts'
import type { Segment, SegmentPath } from '../words/segment.ts'
import { isCodeOption, isRunner, runOfShell } from './shells.ts'

interface Simple {
  segment: Segment
  nested: readonly Nested[]
}

/** What one command with a known name does, as far as its words tell. */
export function readSimple(program: string, words: readonly Arg[], at: Situation): Simple {
  const [name, ...args] = words as [Arg, ...Arg[]]
  if (program === 'git') return readGit(name, args, at)
  const found = findParts(program, args)
  const run = runOfShell(program, args, at.stdin)
  const code = run?.code ?? []
  const network = networkUse(program, args)
  const isOwn =
    at.isFunction(program) ||
    isRisky(program) ||
    isNetworkProgram(program) ||
    // `@a/b` is a package, whose program is called b.
    (name.value.includes('/') && !isProgramPath(name.value) && !name.value.startsWith('@'))
  const checked = checkKnown(program, found.args, {
    isOwn,
    isReadAsCode: (option) => isCodeOption(program, option),
    isDangerous: (name) => isRisky(name) || isNetworkProgram(name) || isRunner(name),
  })
  const hosts = [...new Set([...(network?.hosts ?? []), ...checked.hosts])]
  const swept = sweep(program, found.args, at)
  const glued = locateSimpleArgs('', checked.glued, at)
  const opened = locateSimpleArgs(
    '',
    code.flatMap(({ reads }) => reads.map(literalArg)),
    at,
  )
  const located = locateSimpleArgs(program, found.args, at)
  const secret =
    secretWhy(program, args) ??
    (code.some((report) => report.secret) ? 'The code prints the environment' : null)
  return {
    segment: {
      text: textOf([shownName(program, name), ...args]),
      category: secret ? 'secrets' : hosts.length > 0 || network ? 'network' : 'shell',
      findings: [
        ...riskFindings(program, args, at.fed),
        ...swept.findings,
        ...simpleGitFindings(
          program,
          [...found.args, ...checked.glued],
          [...located.paths, ...glued.paths],
          at,
        ),
        ...shownFindings(program, found),
        ...fedFindings(program, at),
        ...(run?.findings ?? []),
        ...perlInputFindings(program, args, at.fed),
        ...patchFindings(program, at),
        ...consoleFindings(program, args, at.stdin, code.length > 0),
        ...(network?.findings ?? []),
        ...code.flatMap((report) => [...report.findings, ...outsideInCode(report.paths, at)]),
        ...opened.findings,
        ...located.findings,
        ...glued.findings,
        ...checked.findings,
      ],
      paths: [
        ...simpleProgramPath(name, at),
        ...located.paths,
        ...glued.paths,
        ...opened.paths,
        ...swept.paths,
        ...(program === 'patch' ? [anyPath] : []),
      ],
      hosts,
      secret,
    },
    nested: [...(run?.nested ?? []), ...found.nested, ...checked.nested],
  }
}

/** A patch that is seen says where it writes. */
const patchFindings = (program: string, { stdin }: Situation): Finding[] =>
  program === 'patch' && stdin.kind === 'text' && !cleanPatch(stdin.text)
    ? [ambiguous('It cannot be told which files the patch changes')]
    : []
const cleanPatch = (text: string): boolean =>
  /^(?:---|diff) /m.test(text) &&
  !/^(?:---|\+\+\+|\*\*\*|diff|Index:|rename|copy)[^\n]*(?:\s["']?\/|\.\.\/|\.git\/)/m.test(text)

const editors = /^(?:g?sed|perl|ruby)$/
/** They write nothing that they are given, but for the options below. Any other program may. */
const gitFileReaders =
  /^(?:cat|tac|ls|dir|ll|head|tail|less|more|bat|stat|file|wc|du|df|find|fd|test|\[|diff|cmp|cksum|sum|\w{2,6}sum|od|strings|hexdump|realpath|readlink|basename|dirname|cd|pushd|cut|nl|jq|[efz]?grep|rg|ag|sed|gsed|awk|gawk|mawk|sort|tree|exa|eza|printf|echo|bash|sh)$/
const writingOption = /^(?:-[a-zA-Z]*[io]|-r|--in-place|--output|--revert)/
const namesNone = /^--?(?:exclude|ignore|skip|prune|no-)|^-[xI]$/

/** What git keeps there decides what its commands do; a lock that was left behind does not. */
export function simpleGitFindings(
  program: string,
  args: readonly Arg[],
  paths: readonly SegmentPath[],
  at: Situation,
): Finding[] {
  const isHit = ({ path }: SegmentPath) => isGitFile(path) && !path.endsWith('.lock')
  const isInGit = at.around.folders.some((folder) => isGitFile(folder)) && program !== 'git'
  if (!isInGit && !paths.some(isHit)) return []
  const edits =
    editors.test(program) && args.some(({ value }) => /^(?:-\w*i|--in-place)/.test(value))
  const writes =
    /^(?:sort|tree)$/.test(program) && args.some(({ value }) => writingOption.test(value))
  if (gitFileReaders.test(program) && !edits && !writes) return []
  // What is left out is not written.
  const meant = args.filter(
    ({ value }, index) => !namesNone.test(value) && !namesNone.test(args[index - 1]?.value ?? ''),
  )
  const copies = /^(?:cp|rsync|install|xxd)$/.test(program)
  const own = program === 'git' ? meant.slice(1) : meant
  const namesHit = locateSimpleArgs(program, own, at).paths.some(
    (path) => isHit(path) && !(path.read && copies),
  )
  return namesHit || (isInGit && own.some(({ value }) => !value.startsWith('-')))
    ? [ambiguous("It changes git's own files")]
    : []
}

/** Names that come from somewhere else may be of any file. */
const fedFindings = (program: string, { fed, listed }: Situation): Finding[] =>
  fed && !listed && !isText(program) ? [ambiguous('Nobody sees which files it is given')] : []

function readGit(name: Arg, args: readonly Arg[], at: Situation): Simple {
  const use = gitUse(args)
  const secret = use.secret ? 'It prints a credential' : secretWhy('git', args)
  const [sub, ...rest] = use.words
  const before = args.slice(0, args.length - use.words.length)
  const there = { ...at, around: { ...at.around, folders: use.folders(at.around.folders) } }
  const inTrees = rest
    .flatMap(({ value }) => [
      /^[^/:]*:([^/:].*)$/s.exec(value)?.[1] ?? [],
      // `-L:name:file`
      /^[^/]*:([^/:]+(?:\/[^:]*)?)$/s.exec(value)?.[1] ?? [],
    ])
    .flat()
    .map(literalArg)
  const parts = [
    locateSimpleArgs('git', before, at),
    locateSimpleArgs(`git ${sub?.value ?? ''}`, rest, there),
    locateSimpleArgs('git', inTrees, there),
    {
      findings: [],
      paths: [
        ...(sub && packsTree.has(sub.value) ? sweep('rg', rest, there).paths : []),
        ...(sub && writesUnseen.has(sub.value) ? [anyPath] : []),
      ],
    },
  ]
  return {
    segment: {
      text: textOf([literalArg('git'), ...use.words]),
      category: secret ? 'secrets' : use.isNetwork ? 'network' : 'git',
      findings: [
        ...use.findings,
        ...riskFindings('git', args, at.fed),
        ...fedFindings('git', at),
        ...simpleGitFindings('git', use.words, parts[1]?.paths ?? [], there),
        ...parts.flatMap(({ findings }) => findings),
      ],
      paths: [...simpleProgramPath(name, at), ...parts.flatMap(({ paths }) => paths)],
      hosts: use.hosts,
      secret,
    },
    nested: use.nested,
  }
}

/** They show or pack files of the tree whose names they are not given. */
const packsTree = new Set(['grep', 'archive'])
/** The patch says which files they write. */
const writesUnseen = new Set(['apply', 'am'])
const anyPath: SegmentPath = { path: '/', read: false, kind: 'any' }

/** `/bin/rm` is `rm` to a pattern; `./rm` is not. */
const shownName = (program: string, name: Arg): Arg =>
  isProgramPath(name.value) ? literalArg(program) : name

/** Programs of the system are not paths of the request; others are read when they run. */
export function simpleProgramPath(name: Arg, { around, isInside }: Situation): SegmentPath[] {
  if (!name.value.includes('/') && !name.value.startsWith('~')) return []
  return locate(name, around, isInside)
    .paths.filter((path) => !isProgramPath(path))
    .map((path) => ({ path, read: true }))
}

interface LocatedArgs {
  paths: SegmentPath[]
  findings: Finding[]
}

export function locateSimpleArgs(
  program: string,
  args: readonly Arg[],
  at: Situation,
): LocatedArgs {
  const result: LocatedArgs = { paths: [], findings: [] }
  const uses = operandUses(program, args, at.captured)
  for (const [index, arg] of args.entries()) {
    if (uses[index] === 'text') continue
    const read = uses[index] === 'read'
    const texts = [
      ...operandPaths(asOperand(program, arg)),
      ...(isKnownTool(program) ? operandListedPaths(arg) : []),
    ]
    for (const text of texts) {
      const { paths, findings, any } = locate(text, at.around, at.isInside)
      // Whether a file is there is all that these tell.
      if (!/^(?:test|\[)$/.test(program)) result.findings.push(...findings)
      if (any) result.paths.push({ path: '/', read, kind: 'any' })
      for (const path of paths)
        if (!(read && isInterpreterPath(path)))
          result.paths.push({ path, read, ...(text.globs ? { kind: 'pattern' as const } : {}) })
    }
  }
  return result
}

function outsideInCode(paths: readonly string[], { around, isInside }: Situation): Finding[] {
  const outside = paths
    .filter((path) => !path.startsWith('/') || isSystemPath(path))
    .flatMap((path) => locate(literalArg(path), around, isInside).paths)
    .find((path) => !isInside(path))
  return outside ? [{ risk: 'ambiguous', why: `The code names a path outside: ${outside}` }] : []
}

/** `find . -exec cat {} +`, `fd -H -x cat` */
function shownFindings(program: string, { args, nested }: ReturnType<typeof findParts>): Finding[] {
  const isFd = runsOf[program] === fdRuns
  const shown = nested.some(
    (part) =>
      part.kind === 'command' &&
      showsFound(
        part.words.map(({ value }) => value),
        isFd,
      ),
  )
  if (!shown) return []
  const takesAll = isFd ? isSecretFound(args) : isAllFound(args.map(({ value }) => value))
  return takesAll ? [ambiguous('It takes in the whole workspace, and its files of secrets')] : []
}

/** `find . -exec sh -c 'cat {}' \;`: a name of a file is then part of a script. */
const becomesScript = ([name, ...rest]: readonly Arg[]): boolean =>
  isRunner((name?.value ?? '').split('/').at(-1) ?? '') &&
  rest.some(
    ({ value }, index) =>
      value.includes('{') &&
      (!/^\{[/.]{0,2}\}$/.test(value) ||
        /^-[a-zA-Z]{0,6}[ceEpr]$/.test(rest[index - 1]?.value ?? '')),
  )
/** No option of any program, so whoever has it is unclear. */
const unclearOption = '--{}'

const findRuns = new Set(['-exec', '-execdir', '-ok', '-okdir'])
const fdRuns = new Set(['-x', '--exec', '-X', '--exec-batch'])
const runsOf: Record<string, ReadonlySet<string>> = {
  find: findRuns,
  gfind: findRuns,
  fd: fdRuns,
  fdfind: fdRuns,
}

/** `find` runs what stands between -exec and ";" or "+", and `fd` likewise; the rest are its own arguments. */
function findParts(program: string, args: readonly Arg[]): { args: Arg[]; nested: Nested[] } {
  const runs = Object.hasOwn(runsOf, program) ? runsOf[program] : undefined
  if (!runs) return { args: [...args], nested: [] }
  const own: Arg[] = []
  const nested: Nested[] = []
  for (let index = 0; index < args.length; index += 1) {
    const arg = args[index] as Arg
    if (!runs.has(arg.value)) {
      own.push(arg)
      continue
    }
    const from = index + 1
    while (index < args.length && !/^[;+]$/.test(args[index]?.value ?? '')) index += 1
    const words = args.slice(from, index)
    if (becomesScript(words)) own.push(literalArg(unclearOption))
    if (words.length > 0) nested.push({ kind: 'command', words, fed: true, listed: true })
  }
  return { args: own, nested }
}
