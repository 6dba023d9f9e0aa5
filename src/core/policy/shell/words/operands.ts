import { type Arg, isKnown, literalArg } from './arg.ts'
import { isSystemPath } from './locate.ts'
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
/** One letter means different things to different programs: what one takes for text is a folder to the next. */
const patternValues = 'e regexp m A B C max-count include exclude exclude-dir'
const pattern: Grammar = { first: true, values: optionSet(`${patternValues} d`) }
const typedPattern: Grammar = {
  first: true,
  values: optionSet(`${patternValues} t T g G glob iglob type type-not r replace`),
}
const code = (values: string): Grammar => ({ values: optionSet(values) })

const each = (grammar: Grammar, commands: string): [string, Grammar][] =>
  commands.split(' ').map((command) => [command, grammar])

const gitEach = (grammar: Grammar, subcommands: string): [string, Grammar][] =>
  each(grammar, subcommands).map(([name, one]) => [`git ${name}`, one])

/** Only where taking every argument for a path would be wrong. */
const grammars = new Map<string, Grammar>([
  ...each(text, 'echo printf print expr seq sleep tr kill export unset read shift let type'),
  ...each(text, 'which whereis man date basename dirname true false exit return wait : eval trap'),
  ...each(text, 'alias local declare typeset readonly hash command jobs fg bg umask ulimit'),
  ...each(pattern, 'grep egrep fgrep zgrep'),
  ...each(typedPattern, 'rg ag ack'),
  ...each({ first: true, values: optionSet('e expression') }, 'sed gsed'),
  ...each({ first: true, values: optionSet('e F v') }, 'awk gawk mawk nawk'),
  ...each({ first: true, values: optionSet('arg argjson') }, 'jq yq'),
  ...each(code('c m'), 'python python2 python3'),
  ...each(code('e p pe eval print'), 'node bun deno'),
  ...each(code('e E'), 'perl ruby lua'),
  ...each(code('r B R E'), 'php'),
  ...each(code('c e command execute'), 'psql mysql mariadb'),
  ...each(names, 'touch rm unlink mkdir rmdir chmod chown ls stat tee test [ realpath readlink'),
  ...each(target, 'cp mv install ln rsync'),
  ...gitEach(names, 'add rm mv check-ignore update-index ls-files status restore checkout'),
  ...gitEach(pattern, 'grep'),
  ...gitEach(
    { values: optionSet('m message author date grep S G format pretty since') },
    'commit log tag merge stash',
  ),
  ['cut', { values: optionSet('d f c b delimiter fields output-delimiter') }],
  ['sort', { values: optionSet('t k field-separator key') }],
  ['column', { values: optionSet('s o separator output-separator') }],
  ['paste', { values: optionSet('d delimiters') }],
  ['xargs', { values: optionSet('I d E n L P s') }],
  ['find', { values: optionSet('name iname path ipath wholename regex iregex type perm size') }],
  ['wget', { values: optionSet('header user-agent post-data U') }],
  [
    'curl',
    {
      values: optionSet(
        'H header d data data-raw data-urlencode X request u user A user-agent e referer w write-out m max-time F form',
      ),
    },
  ],
])

/** Options of the command whose value is text; without a dash. */
export const textValues = (command: string): ReadonlySet<string> =>
  grammars.get(command)?.values ?? noValues
const noValues: ReadonlySet<string> = new Set()

/** Whether no argument of the command is a path. */
export const isText = (command: string): boolean => grammars.get(command)?.text === true

const printers = new Set(['echo', 'printf', 'print'])
/** Options that name a file of variables which the program takes in without showing it. */
const envFile = /^--env-file(?:-if-exists)?(?:=|$)/
const comparison = /^!?=~?=?$/

/**
 * The use of each argument, in order. Of an unknown command, every argument may be a path that is read. captured: what it
 * prints becomes arguments of another command.
 */
export function operandUses(command: string, args: readonly Arg[], captured: boolean): Use[] {
  const grammar = grammars.get(command) ?? {}
  if (grammar.text) {
    const handsOn = captured ? printers.has(command) : setsVariable(command, args)
    return args.map((arg) => (handsOn ? 'read' : isGlob(arg) ? 'name' : 'text'))
  }
  const uses = args.map((_, index) => useOf(grammar, args, index))
  const operands = uses.flatMap((use, index) =>
    use === 'read' && !/^-./.test(args[index]?.value ?? '') ? [index] : [],
  )
  if (grammar.first && !givesPattern(args)) {
    // `sed -i '' s/a/b/ x` of some systems.
    const first = operands.find(
      (index) => args[index]?.value !== '' || args[index - 1]?.value !== '-i',
    )
    if (first !== undefined) uses[first] = 'text'
  }
  for (const index of namedOnly(grammar, operands)) uses[index] = 'name'
  return uses
}

/** `printf -v x /etc/passwd`: what it prints is used later. */
const setsVariable = (command: string, args: readonly Arg[]): boolean =>
  command === 'printf' && args[0]?.value.startsWith('-v') === true

/** The shell looks into folders for it, whatever the command makes of the names. */
const isGlob = ({ value, globs }: Arg): boolean => globs && value.includes('/')

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
    return /(?:^|=)[@<]/.test(value) ? 'read' : 'text'
  if (comparison.test(before) || comparison.test(args[index + 1]?.value ?? '')) return 'text'
  return envFile.test(value) || envFile.test(before) ? 'name' : 'read'
}

function takesText(values: ReadonlySet<string>, option: string): boolean {
  const name = /^-{1,2}([\w-]+)$/.exec(option)?.[1]
  if (name === undefined) return false
  if (values.has(name) || option.startsWith('--')) return values.has(name)
  // In `-Fe` the "e" is the value of -F, not an option.
  return name.split('').findIndex((letter) => values.has(letter)) === name.length - 1
}

/** `-F/`, `-d/`, `--regexp=/x` */
function isGlued(values: ReadonlySet<string>, value: string): boolean {
  const name = /^--([\w-]+)=/.exec(value)?.[1] ?? /^-(\w)./.exec(value)?.[1]
  return name !== undefined && values.has(name)
}

const fileCommands = new Set(
  'rm unlink rmdir mkdir touch mv cp ln install cat tac nl head tail less more stat ls tee truncate shred wc diff cmp base64 xxd od hexdump strings'.split(
    ' ',
  ),
)

/** To commands that take nothing but files, a plain name is a file. Numbers are mostly values of options. */
export const asOperand = (program: string, arg: Arg): Arg =>
  fileCommands.has(program) ? asFile(arg) : arg

/** A name without a slash or a dot, which is a word elsewhere. */
export const asFile = (arg: Arg): Arg =>
  isKnown(arg) && /^[A-Za-z_][\w@+-]*$/.test(arg.value) ? { ...arg, value: `./${arg.value}` } : arg

/** The texts in an argument that may be paths: in `--out=x`, `if=x`, `-Ix`, `@x`, `/a:/b` and `file:///x`, too. */
export function operandPaths(arg: Arg): Arg[] {
  const { value } = arg
  const inner =
    /^(?:[\w.-]+=)?[@<](.+)$/s.exec(value)?.[1] ??
    /^(?:@?[\w./-]{1,100}@)?(?:file|link|portal):(?!\/\/)(.+)$/is.exec(value)?.[1] ??
    /^(?:--?[\w.-]+|[A-Za-z_][\w.-]*)=(.+)$/s.exec(value)?.[1] ??
    /^-(?!\w{0,8}i\.)[A-Za-z]+((?:\/|~\/|~$|\.\.?\/|\.\.$|\.[a-z]).*)$/s.exec(value)?.[1] ??
    /^file:\/\/(\/.*)$/is.exec(value)?.[1]
  const part = (text: string): Arg => ({ ...literalArg(text), globs: arg.globs })
  if (inner !== undefined) {
    // `--override=name=/x`
    const deeper = /^[\w.-]{1,100}=(.+)$/s.exec(inner)?.[1]
    return splitList(inner)
      .concat(deeper ?? [])
      .map(part)
  }
  if (value.startsWith('-') || /^[a-z][a-z0-9+.-]*:\/\//i.test(value)) return []
  const list = splitList(value)
  return list.length > 1 ? list.map(part) : [arg]
}

const splitList = (value: string): string[] =>
  /^[/~.].*:[/~.]/s.test(value) ? value.split(':').filter((part) => part !== '') : [value]

/** In `-Wp,-MD,/etc/x`, `x:/etc/y` and `--inject:../z`: behind the first sign, whatever the tool makes of it. */
export const operandListedPaths = ({ value }: Arg): Arg[] =>
  value.length > 1000 || /\s|:\/\//.test(value)
    ? []
    : [...value.matchAll(/[:,=]((?:\/|~\/|\.\.\/)[^:,=]{0,300})/g)]
        .map(([, path]) => literalArg(path ?? ''))
        .filter((part) => !part.value.startsWith('/') || isSystemPath(part.value))
