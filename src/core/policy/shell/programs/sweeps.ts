import { type Arg, hole } from '../words/arg.ts'
import { ambiguous, type Finding } from '../words/finding.ts'
import { locate } from '../words/locate.ts'
import { fdValues, narrowsFound } from '../words/found.ts'
import { hasFlag, optionSet, type Parsed, parseOptions, valuesOf } from '../words/options.ts'
import { asFile } from '../words/operands.ts'
import type { SegmentPath } from '../words/segment.ts'
import type { Situation } from './situation.ts'

/** The folders whose content a command shows or packs, and whether hidden files are among it. */
interface Swept {
  folders: readonly Arg[]
  hidden: boolean
}
type Sweep = (parsed: Parsed, args: readonly Arg[]) => Swept | null

const here: Arg = {
  value: '.',
  text: '.',
  variables: [],
  expands: false,
  globs: false,
  splits: false,
}
const orHere = (operands: readonly Arg[]): readonly Arg[] =>
  operands.length > 0 ? operands : [here]
const included = (args: readonly Arg[]): boolean => {
  const patterns = args.flatMap(({ value }) => /^--include=(.*)$/s.exec(value)?.[1] ?? [])
  return patterns.length > 0 && patterns.every((one) => !one.includes(hole) && narrowsFound(one))
}

const all = (folders: readonly Arg[]): Swept => ({ folders, hidden: true })
const operandsOf = ({ operands }: Parsed): Swept => all(operands)
const behindPattern = ({ operands, flags }: Parsed): readonly Arg[] =>
  orHere(operands.slice(flags.has('e') || flags.has('f') ? 0 : 1))

const grep: Sweep = (parsed, args) =>
  hasFlag(parsed, 'r', 'R') ||
  parsed.flags.has('--recursive') ||
  parsed.flags.has('--dereference-recursive') ||
  valuesOf(parsed, 'd', 'directories').some(({ value }) => value !== 'skip')
    ? { folders: behindPattern(parsed), hidden: !included(args) }
    : null
const copies: Sweep = (parsed) =>
  hasFlag(parsed, 'r', 'R', 'a', '--recursive', '--archive') ? operandsOf(parsed) : null
const unfiltered = ['u', '--hidden', '--no-ignore', '--unrestricted', '.', '--no-ignore-vcs']
const rg: Sweep = (parsed) => ({
  folders: behindPattern(parsed),
  hidden:
    hasFlag(parsed, ...unfiltered) ||
    valuesOf(parsed, 'g', 'glob', 'iglob').some(({ value }) => /(?:^|[/{,!])[.[?]/.test(value)),
})
const packed: Sweep = (parsed) => (hasFlag(parsed, 'r', '--recursive') ? operandsOf(parsed) : null)
/** What it finds is named, or given to another command. */
const found: Sweep = (_, args) => {
  const at = args.findIndex(({ value }) => /^[-!(]/.test(value))
  return { folders: orHere(at < 0 ? args : args.slice(0, at)), hidden: false }
}

const fd: Sweep = ({ operands }) => ({ folders: orHere(operands.slice(1)), hidden: false })

/** null: it takes in files by their names alone. */
const sweeps: Record<string, Sweep> = {
  grep,
  egrep: grep,
  fgrep: grep,
  zgrep: grep,
  rgrep: (parsed, args) => ({ folders: behindPattern(parsed), hidden: !included(args) }),
  rg,
  ag: (parsed) => ({
    folders: behindPattern(parsed),
    hidden: hasFlag(parsed, 'u', 'a', '--hidden'),
  }),
  ack: (parsed) => all(orHere(parsed.operands.slice(1))),
  tar: (parsed, [first]) =>
    hasFlag(parsed, 'c', 'r', 'u', '--create', '--append', '--update') ||
    /^(?=.{0,8}[cru])\w{1,12}$/.test(first?.value ?? '')
      ? operandsOf(parsed)
      : null,
  zip: (parsed) => (hasFlag(parsed, 'r', '--recurse-paths') ? operandsOf(parsed) : null),
  '7z': (parsed) => (parsed.operands[0]?.value === 'a' ? all(parsed.operands.slice(2)) : null),
  '7za': (parsed) => (parsed.operands[0]?.value === 'a' ? all(parsed.operands.slice(2)) : null),
  cp: copies,
  rsync: copies,
  diff: (parsed) => (hasFlag(parsed, 'r', '--recursive') ? operandsOf(parsed) : null),
  find: found,
  gfind: found,
  fd,
  fdfind: fd,
  gzip: packed,
  xz: packed,
  zstd: packed,
  pigz: packed,
}
const values = optionSet(
  'e f A B C m d D t T g G j M glob iglob type include exclude exclude-dir directories file C directory I X',
)
/** What stands in place of a match. To all others the letter means whole folders. */
const rgValues = new Set([...values, 'r'])
const packValues = optionSet(
  'f C X T b exclude file directory exclude-from transform strip-components',
)
/** Their `-f` and `-d` stand alone. */
const compressorValues = optionSet('S T M b o suffix threads memory memlimit')

function valuesOfSweep(program: string): ReadonlySet<string> {
  if (program === 'rg') return rgValues
  if (/^fd(?:find)?$/.test(program)) return fdValues
  if (/^(?:gzip|xz|zstd|pigz)$/.test(program)) return compressorValues
  return /^(?:tar|zip|cp|rsync|diff)$/.test(program) ? packValues : values
}

interface Sweeping {
  findings: Finding[]
  /** Everything in the folders, for rules that are about some of it. */
  paths: SegmentPath[]
}

/** The whole workspace has its files of secrets in it. */
export function sweep(program: string, args: readonly Arg[], at: Situation): Sweeping {
  const read = Object.hasOwn(sweeps, program) ? sweeps[program] : undefined
  const swept = read?.(parseOptions(args, valuesOfSweep(program)), args)
  if (!swept) return { findings: [], paths: [] }
  const paths = swept.folders.flatMap(({ value }) => foldersOf(value, at))
  const isWhole = (path: string) => at.isInside(path) && !at.isInside(parentOf(path))
  return {
    findings:
      swept.hidden && paths.some(isWhole)
        ? [ambiguous('It takes in the whole workspace, and its files of secrets')]
        : [],
    paths: paths
      .filter(at.isInside)
      .map((path) => ({ path: `${path}/**`, read: false, kind: 'pattern' })),
  }
}

const parentOf = (path: string) => path.slice(0, path.lastIndexOf('/')) || '/'

function foldersOf(value: string, { around, isInside }: Situation): string[] {
  const isHere = value === '' || /^[*]+$/.test(value)
  return locate(asFile({ ...here, value: isHere ? '.' : value }), around, isInside).paths
}
