import { type Arg, isKnown, literalArg } from './arg.ts'
import { isSystemPath } from './locate.ts'
import { optionSet } from './options.ts'

/** What an argument is to its command: a file whose content is taken, a file that is only named or written, or no path. */
export type Use = 'read' | 'name' | 'text'

interface Grammar {
  /** No argument is a path. */
  text?: true
  /** The first operand is a pattern or a program. yq takes a single one for a file. */
  first?: true | 'of several'
  /** Options that stand in for that operand; without a dash, like all that follow. */
  gives?: ReadonlySet<string>
  /** Options whose value is text. */
  values?: ReadonlySet<string>
  /** Options whose value is a file that is read. */
  files?: ReadonlySet<string>
  /** Options whose value is where the operands go. */
  target?: ReadonlySet<string>
  /** Options with a name, which is text, and a value: text, or a file that is read. */
  named?: Readonly<Record<string, 'text' | 'read'>>
  /** Options whose value is text in the same word, and never the next word. */
  glues?: ReadonlySet<string>
  /** What follows the first operand belongs to a script. */
  script?: true
  /** Operands of which no content is shown. */
  names?: 'last' | 'all'
}

const text: Grammar = { text: true }
const names: Grammar = { names: 'all' }
const target: Grammar = { names: 'last', target: optionSet('t target-directory') }
/** One letter means different things to different programs: what one takes for text is a folder to the next. */
const patternValues = 'e regexp m A B C max-count'
const patternFiles = optionSet('f file exclude-from ignore-file')
const patternGiven = 'e regexp f file'
const pattern: Grammar = {
  first: true,
  gives: optionSet(patternGiven),
  values: optionSet(`${patternValues} d include exclude exclude-dir`),
  files: patternFiles,
}
/** With `--files` there is none. */
const typedPattern: Grammar = {
  first: true,
  gives: optionSet(`${patternGiven} files type-list`),
  values: optionSet(`${patternValues} d t T g glob iglob type type-not r replace`),
  files: patternFiles,
}
/** With `-g` they look for names, and all operands are folders. */
const namedPattern: Grammar = {
  first: true,
  gives: optionSet('g f'),
  values: optionSet('m A B C G g max-count ignore ignore-dir type'),
  files: optionSet('p path-to-ignore'),
}
const code = (values: string): Grammar => ({ values: optionSet(values), script: true })
const filter: Grammar = {
  first: true,
  gives: optionSet('f from-file'),
  files: optionSet('f from-file L'),
  named: { arg: 'text', argjson: 'text', slurpfile: 'read', rawfile: 'read' },
}
const statement = (values: string): Grammar => ({ values: optionSet(values) })

const each = (grammar: Grammar, commands: string): [string, Grammar][] =>
  commands.split(' ').map((command) => [command, grammar])

const gitEach = (grammar: Grammar, subcommands: string): [string, Grammar][] =>
  each(grammar, subcommands).map(([name, one]) => [`git ${name}`, one])

/** Only where taking every argument for a path would be wrong. */
const grammars = new Map<string, Grammar>([
  ...each(text, 'echo printf print expr seq sleep tr kill export unset read shift let type'),
  ...each(text, 'which whereis date basename dirname true false exit return wait : eval trap'),
  ...each(text, 'alias local declare typeset readonly hash command jobs fg bg umask ulimit'),
  ...each(pattern, 'grep egrep fgrep zgrep'),
  ...each(typedPattern, 'rg'),
  ...each(namedPattern, 'ag ack'),
  ...each(
    {
      first: true,
      gives: optionSet('e expression f file'),
      values: optionSet('e expression'),
      files: optionSet('f file'),
      glues: optionSet('i'),
    },
    'sed gsed',
  ),
  ...each(
    {
      first: true,
      gives: optionSet('e source f file E exec'),
      values: optionSet('e source F field-separator v assign'),
      files: optionSet('f file E exec i include l load'),
    },
    'awk gawk mawk nawk',
  ),
  ['jq', filter],
  ['yq', { ...filter, first: 'of several' }],
  ...each(code('c m'), 'python python2 python3'),
  ...each(code('e p pe eval print'), 'node bun deno'),
  ...each(code('e E'), 'perl ruby lua'),
  ...each(code('r B R E'), 'php'),
  ...each(statement('c e command execute'), 'psql mysql mariadb'),
  ...each(names, 'touch rm unlink mkdir rmdir chmod chown ls stat tee test [ realpath readlink'),
  ...each(target, 'cp mv install ln'),
  // The second is where it writes.
  ...each({ names: 'last', values: optionSet('c g l o s n') }, 'xxd'),
  ...each({ names: 'last' }, 'rsync'),
  ...gitEach(names, 'add rm mv check-ignore update-index status restore checkout'),
  ...gitEach({ names: 'all', files: optionSet('X exclude-from') }, 'ls-files'),
  ...gitEach(pattern, 'grep'),
  ...gitEach(
    { values: optionSet('author date grep S G since'), glues: optionSet('format pretty') },
    'log',
  ),
  ...gitEach(
    { values: optionSet('m message author date'), glues: optionSet('S format') },
    'commit tag merge stash',
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
  const { roles, isGiven, isAimed } = rolesOf(grammar, args)
  const uses = args.map((_, index) => useOf(roles, args, index))
  const operands = uses.flatMap((use, index) =>
    use === 'read' && roles[index] === 'operand' ? [index] : [],
  )
  if (takesFirst(grammar, operands.length) && !isGiven) {
    // `sed -i '' s/a/b/ x` of some systems.
    const first = operands.find(
      (index) => args[index]?.value !== '' || args[index - 1]?.value !== '-i',
    )
    if (first !== undefined) uses[first] = 'text'
  }
  if (!isAimed) for (const index of namedOnly(grammar, operands)) uses[index] = 'name'
  return uses
}

const takesFirst = ({ first }: Grammar, operands: number): boolean =>
  first === 'of several' ? operands > 1 : first === true

/** `printf -v x /etc/passwd`: what it prints is used later. */
const setsVariable = (command: string, args: readonly Arg[]): boolean =>
  command === 'printf' && args[0]?.value.startsWith('-v') === true

/** The shell looks into folders for it, whatever the command makes of the names. */
const isGlob = ({ value, globs }: Arg): boolean => globs && value.includes('/')

function namedOnly(grammar: Grammar, operands: readonly number[]): readonly number[] {
  if (grammar.names === 'all') return operands
  return grammar.names === 'last' && operands.length > 1 ? operands.slice(-1) : []
}

/** What an argument is by its place: an operand, an option with what is glued to it, or an option's value. */
type Role = 'operand' | 'option' | Use

interface Roles {
  roles: Role[]
  /** The pattern or the program is given by an option. */
  isGiven: boolean
  /** Where the operands go is given by an option. */
  isAimed: boolean
}

/** From left to right, as the program reads them: a value is no option, whatever it looks like. */
function rolesOf(grammar: Grammar, args: readonly Arg[]): Roles {
  const found: Roles = { roles: [], isGiven: false, isAimed: false }
  const { roles } = found
  let ended = false
  while (roles.length < args.length) {
    const value = args[roles.length]?.value ?? ''
    if (ended || value === '-' || !value.startsWith('-')) {
      roles.push('operand')
      ended ||= grammar.script === true
      continue
    }
    ended = value === '--'
    const option = readOption(grammar, value)
    found.isGiven ||= option.isGiven
    found.isAimed ||= option.isAimed
    roles.push(option.glued ?? 'option', ...option.next)
  }
  return { ...found, roles: roles.slice(0, args.length) }
}

interface Option {
  isGiven: boolean
  isAimed: boolean
  /** What the value in the same word is; null: there is none. */
  glued: Use | null
  /** What the words behind it are. */
  next: Use[]
}

function readOption(grammar: Grammar, value: string): Option {
  const [, word = '', glue] = /^--?([\w-]+)(=)?/.exec(value) ?? []
  const isLong = value.startsWith('--') || (word.length > 1 && valueUse(grammar, word) !== null)
  if (isLong) return optionOf(grammar, [word], glue !== undefined)
  const letters: string[] = []
  for (const letter of /^-(\w+)/.exec(value)?.[1] ?? '') {
    letters.push(letter)
    if (valueUse(grammar, letter) !== null || isGlue(grammar, letter)) break
  }
  return optionOf(grammar, letters, letters.length < value.length - 1)
}

/** Only the last of the letters has a value. */
function optionOf(grammar: Grammar, letters: readonly string[], isGlued: boolean): Option {
  const last = letters.at(-1) ?? ''
  const use = valueUse(grammar, last)
  const named = Object.hasOwn(grammar.named ?? {}, last) ? grammar.named?.[last] : undefined
  return {
    isGiven: letters.some((letter) => grammar.gives?.has(letter)),
    isAimed: grammar.target?.has(last) ?? false,
    glued: isGlued ? (isGlue(grammar, last) ? 'text' : use) : null,
    next: named ? ['text', named] : use === null || isGlued ? [] : [use],
  }
}

const isGlue = ({ glues }: Grammar, option: string): boolean => glues?.has(option) ?? false

/** What the value of an option is; null: it is not known to have one. */
function valueUse({ values, files, target }: Grammar, option: string): Use | null {
  if (values?.has(option)) return 'text'
  if (files?.has(option)) return 'read'
  return target?.has(option) ? 'name' : null
}

function useOf(roles: readonly Role[], args: readonly Arg[], index: number): Use {
  const value = args[index]?.value ?? ''
  const before = args[index - 1]?.value ?? ''
  const role = roles[index] ?? 'operand'
  if (role === 'text') return /(?:^|=)[@<]/.test(value) ? 'read' : 'text'
  if (role === 'read' || role === 'name') return role
  if (comparison.test(before) || comparison.test(args[index + 1]?.value ?? '')) return 'text'
  return envFile.test(value) || envFile.test(before) ? 'name' : 'read'
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
  const given = /^(?:[\w.-]+=)?[@<](.+)$/s.exec(value)?.[1]
  const inner =
    given ??
    /^(?:@?[\w./-]{1,100}@)?(?:file|link|portal):(?!\/\/)(.+)$/is.exec(value)?.[1] ??
    /^(?:--?[\w.-]+|[A-Za-z_][\w.-]*)=(.+)$/s.exec(value)?.[1] ??
    /^-(?!\w{0,8}i\.)[A-Za-z]+((?:\/|~\/|~$|\.\.?\/|\.\.$|\.[A-Za-z]).*)$/s.exec(value)?.[1] ??
    /^file:\/\/(\/.*)$/is.exec(value)?.[1]
  const part = (text: string): Arg => ({ ...literalArg(text), globs: arg.globs })
  if (inner !== undefined) {
    // `--override=name=/x`
    const deeper = /^[\w.-]{1,100}=(.+)$/s.exec(inner)?.[1]
    const isForm = given !== undefined || inner.includes(';headers=')
    return splitList(inner)
      .concat(deeper ?? [], isForm ? formFiles(inner) : [])
      .map(part)
  }
  if (value.startsWith('-') || /^[a-z][a-z0-9+.-]*:\/\//i.test(value)) return []
  const list = splitList(value)
  return list.length > 1 ? list.map(part) : [arg]
}

/** `"x",y;type=z` and `x;headers=@y`: how curl takes the files of a form. */
const formFiles = (text: string): string[] =>
  /[",;]/.test(text)
    ? text.split(/[,;]/).map((part) => part.replaceAll(/"|^\s{0,9}headers=[@<]?/g, ''))
    : []

const splitList = (value: string): string[] =>
  /^[/~.].*:[/~.]/s.test(value) ? value.split(':').filter((part) => part !== '') : [value]

/** In `-Wp,-MD,/etc/x`, `x:/etc/y` and `--inject:../z`: behind the first sign, whatever the tool makes of it. */
export const operandListedPaths = ({ value }: Arg): Arg[] =>
  value.length > 1000 || /\s|:\/\//.test(value)
    ? []
    : [...value.matchAll(/[:,=]((?:\/|~\/|\.\.\/|(?:\.\/)?\.git\/)[^:,=]{0,300})/g)]
        .map(([, path]) => literalArg(path ?? ''))
        .filter((part) => !part.value.startsWith('/') || isSystemPath(part.value))
