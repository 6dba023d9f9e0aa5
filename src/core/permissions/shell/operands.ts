import { type Arg, literalArg } from './arg.ts'
import { optionSet } from './options.ts'

/** What an argument is to its command: a file whose content is taken, a file that is only named or written, or no path. */
export type Use = 'read' | 'name' | 'text'

interface Grammar {
  /** No argument is a path. */
  text?: true
  /** The first operand is a pattern or a program. */
  first?: true
  /** Options whose value is text; without a dash. */
  values?: ReadonlySet<string>
  /** Operands of which no content is shown. */
  names?: 'last' | 'all'
}

const text: Grammar = { text: true }
const names: Grammar = { names: 'all' }
const target: Grammar = { names: 'last' }
const pattern: Grammar = {
  first: true,
  values: optionSet('e regexp m A B C max-count d t g glob include exclude exclude-dir type r'),
}
const program: Grammar = { first: true, values: optionSet('e expression F v') }
const code: Grammar = { values: optionSet('e E c m p pe eval print command execute r') }

const each = (grammar: Grammar, commands: string): [string, Grammar][] =>
  commands.split(' ').map((command) => [command, grammar])

const gitEach = (grammar: Grammar, subcommands: string): [string, Grammar][] =>
  each(grammar, subcommands).map(([name, one]) => [`git ${name}`, one])

/** Only where taking every argument for a path would be wrong. */
const grammars = new Map<string, Grammar>([
  ...each(text, 'echo printf print expr seq sleep tr kill export unset read shift let type'),
  ...each(text, 'which whereis man date basename dirname true false exit return wait : eval trap'),
  ...each(text, 'alias local declare typeset readonly hash command jobs fg bg umask ulimit'),
  ...each(pattern, 'grep egrep fgrep rg ag ack zgrep'),
  ...each(program, 'sed gsed awk gawk mawk nawk'),
  ...each({ first: true, values: optionSet('arg argjson') }, 'jq yq'),
  ...each(code, 'python python2 python3 node perl ruby php bun deno psql mysql mariadb lua'),
  ...each(names, 'touch rm unlink mkdir rmdir chmod chown ls stat tee test [ realpath readlink'),
  ...each(target, 'cp mv install ln'),
  ...gitEach(names, 'add rm mv check-ignore update-index ls-files status restore checkout'),
  ...gitEach(pattern, 'grep'),
  ...gitEach(
    { values: optionSet('m message author date grep S G format pretty since') },
    'commit log tag merge stash',
  ),
  ['cut', { values: optionSet('d f c b delimiter fields output-delimiter') }],
  ['sort', { values: optionSet('t k field-separator key') }],
  ['column', { values: optionSet('s t o separator') }],
  ['paste', { values: optionSet('d delimiters') }],
  ['xargs', { values: optionSet('I d E n L P s') }],
  ['find', { values: optionSet('name iname path ipath wholename regex iregex type perm size') }],
  ['wget', { values: optionSet('header user-agent post-data U') }],
  [
    'curl',
    {
      values: optionSet(
        'H header d data data-raw data-urlencode X request u user A user-agent e referer w write-out m max-time b F form',
      ),
    },
  ],
])

const printers = new Set(['echo', 'printf', 'print'])
/** Options that name a file of variables which the program takes in without showing it. */
const envFile = /^--env-file(?:-if-exists)?(?:=|$)/
const comparison = /^!?=~?=?$/

/**
 * The use of each argument, in order. Of an unknown command, every argument may be a path that is read. captured: what it
 * prints becomes arguments of another command.
 */
export function usesOf(command: string, args: readonly Arg[], captured: boolean): Use[] {
  const grammar = grammars.get(command) ?? {}
  if (grammar.text) return args.map(() => (captured && printers.has(command) ? 'read' : 'text'))
  const uses = args.map((_, index) => useOf(grammar, args, index))
  const operands = uses.flatMap((use, index) =>
    use === 'read' && !/^-./.test(args[index]?.value ?? '') ? [index] : [],
  )
  if (grammar.first && !givesPattern(args)) {
    const first = operands.find((index) => args[index]?.value !== '')
    if (first !== undefined) uses[first] = 'text'
  }
  for (const index of namedOnly(grammar, operands)) uses[index] = 'name'
  return uses
}

const givesPattern = (args: readonly Arg[]): boolean =>
  args.some(({ value }) => /^(?:-e|-f|--regexp|--expression|--file)/.test(value))

function namedOnly(grammar: Grammar, operands: readonly number[]): readonly number[] {
  if (grammar.names === 'all') return operands
  return grammar.names === 'last' && operands.length > 1 ? operands.slice(-1) : []
}

function useOf(grammar: Grammar, args: readonly Arg[], index: number): Use {
  const value = args[index]?.value ?? ''
  const before = args[index - 1]?.value ?? ''
  if (grammar.values && (takesText(grammar.values, before) || isGlued(grammar.values, value)))
    return /(?:^|=)@/.test(value) ? 'read' : 'text'
  if (comparison.test(before) || comparison.test(args[index + 1]?.value ?? '')) return 'text'
  return envFile.test(value) || envFile.test(before) ? 'name' : 'read'
}

function takesText(values: ReadonlySet<string>, option: string): boolean {
  const name = /^-{1,2}([\w-]+)$/.exec(option)?.[1]
  if (name === undefined) return false
  return values.has(name) || (!option.startsWith('--') && values.has(name.slice(-1)))
}

/** `-F/`, `-d/`, `--regexp=/x` */
function isGlued(values: ReadonlySet<string>, value: string): boolean {
  const name = /^--([\w-]+)=/.exec(value)?.[1] ?? /^-(\w)./.exec(value)?.[1]
  return name !== undefined && values.has(name)
}

/** The texts in an argument that may be paths: in `--out=x`, `if=x`, `-Ix`, `@x`, `/a:/b` and `file:///x`, too. */
export function pathTexts(arg: Arg): Arg[] {
  const { value } = arg
  const inner =
    /^(?:[\w.-]+=)?@(.+)$/s.exec(value)?.[1] ??
    /^(?:--?[\w.-]+|[A-Za-z_][\w.-]*)=(.+)$/s.exec(value)?.[1] ??
    /^-[A-Za-z]+((?:\/|~\/|~$|\.\.?\/|\.\.$).*)$/s.exec(value)?.[1] ??
    /^file:\/\/(\/.*)$/is.exec(value)?.[1]
  if (inner !== undefined) return splitList(inner).map(literalArg)
  if (value.startsWith('-') || /^[a-z][a-z0-9+.-]*:\/\//i.test(value)) return []
  const list = splitList(value)
  return list.length > 1 ? list.map(literalArg) : [arg]
}

const splitList = (value: string): string[] =>
  /^[/~.].*:[/~.]/s.test(value) ? value.split(':').filter((part) => part !== '') : [value]
