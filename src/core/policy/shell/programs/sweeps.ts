import { type Arg, hole } from '../words/arg.ts'
import { ambiguous, type Finding } from '../words/finding.ts'
import { locate } from '../words/locate.ts'
import { hasFlag, optionSet, type Parsed, parseOptions } from '../words/options.ts'
import type { Situation } from './situation.ts'

type Sweep = (parsed: Parsed, args: readonly Arg[]) => readonly Arg[] | null

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
const narrows = (args: readonly Arg[]): boolean =>
  args.some(({ value }) => /^--include=\*?[\w.*-]*\.\w{1,6}$/.test(value) && !value.includes(hole))

const grep: Sweep = (parsed, args) =>
  hasFlag(parsed, 'r', 'R') ||
  parsed.flags.has('--recursive') ||
  parsed.flags.has('--dereference-recursive')
    ? narrows(args)
      ? null
      : orHere(parsed.operands.slice(parsed.flags.has('e') || parsed.flags.has('f') ? 0 : 1))
    : null
const copies: Sweep = (parsed) =>
  hasFlag(parsed, 'r', 'R', 'a', '--recursive', '--archive') ? parsed.operands : null
const unfiltered = ['u', '--hidden', '--no-ignore', '--unrestricted', '.', '--no-ignore-vcs']

/** The folders whose whole content a command shows or packs, hidden files too; null: it does not. */
const sweeps: Record<string, Sweep> = {
  grep,
  egrep: grep,
  fgrep: grep,
  zgrep: grep,
  rgrep: (parsed, args) => (narrows(args) ? null : orHere(parsed.operands.slice(1))),
  rg: (parsed) => (hasFlag(parsed, ...unfiltered) ? orHere(parsed.operands.slice(1)) : null),
  ag: (parsed) => (hasFlag(parsed, 'u', 'a', '--hidden') ? orHere(parsed.operands.slice(1)) : null),
  ack: (parsed) => orHere(parsed.operands.slice(1)),
  tar: (parsed, [first]) =>
    hasFlag(parsed, 'c', 'r', 'u', '--create', '--append', '--update') ||
    /^(?=.{0,8}[cru])\w{1,12}$/.test(first?.value ?? '')
      ? parsed.operands
      : null,
  zip: (parsed) => (hasFlag(parsed, 'r', '--recurse-paths') ? parsed.operands : null),
  '7z': (parsed) => (parsed.operands[0]?.value === 'a' ? parsed.operands.slice(2) : null),
  '7za': (parsed) => (parsed.operands[0]?.value === 'a' ? parsed.operands.slice(2) : null),
  cp: copies,
  rsync: copies,
  diff: (parsed) => (hasFlag(parsed, 'r', '--recursive') ? parsed.operands : null),
}
const values = optionSet(
  'e f A B C m d D t T g G j M r glob type include exclude exclude-dir file C directory I X',
)
const packValues = optionSet(
  'f C X T b exclude file directory exclude-from transform strip-components',
)

/** The whole workspace has its files of secrets in it. */
export function sweepFindings(
  program: string,
  args: readonly Arg[],
  { around, isInside }: Situation,
): Finding[] {
  const sweep = Object.hasOwn(sweeps, program) ? sweeps[program] : undefined
  if (!sweep) return []
  const parsed = parseOptions(
    args,
    /^(?:tar|zip|cp|rsync|diff)$/.test(program) ? packValues : values,
  )
  const whole = (sweep(parsed, args) ?? []).some(({ value }) =>
    locate(
      { ...here, value: value === '' || /^[*]+$/.test(value) ? '.' : value },
      around,
      isInside,
    ).paths.some(
      (path) => isInside(path) && !isInside(path.slice(0, path.lastIndexOf('/')) || '/'),
    ),
  )
  return whole ? [ambiguous('It takes in the whole workspace, and its files of secrets')] : []
}
