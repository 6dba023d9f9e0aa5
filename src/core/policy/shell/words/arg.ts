import { parse, type Word, type WordPart } from 'unbash'
import { expandBraces } from './braces.ts'

/** Stands for what is only known when the command runs. No command can contain it. */
export const hole = '\u0000'
/** Where the shell splits the value of a variable into words. */
const split = '\u0001'

/** A word of a command, as far as it can be told without running it. */
export interface Arg {
  /** Without quotes; with holes. */
  value: string
  /** As written. */
  text: string
  /** Variables whose value is in it. */
  variables: readonly string[]
  /** One word may become several, or another one, and it cannot be told which. */
  expands: boolean
  /** The shell looks for files of that pattern. */
  globs: boolean
  /** What is not known of it stands outside of quotes, so it may be several words. */
  splits: boolean
}

export interface Surroundings {
  home: string | undefined
  /** Where the command may be running: more than one if a `cd` may have failed. */
  folders: readonly string[]
  /** Every value that a variable of the script may have there; null: that cannot be told; undefined: it is none of it. */
  values?: (name: string) => readonly string[] | null | undefined
}

export const isKnown = (arg: Arg): boolean => !arg.value.includes(hole)

export const literalArg = (value: string): Arg => ({
  value,
  text: value,
  variables: [],
  expands: false,
  globs: false,
  splits: false,
})

/** In a place where nothing is split and no list in braces is expanded, or where only its kind matters. */
export function argOf(word: Word, around: Surroundings): Arg {
  const [first, ...others] = alternatives(word, around, false)
  if (first && others.length === 0) return first[0] ?? literalArg('')
  return { ...literalArg(hole), text: word.text, variables: first?.[0]?.variables ?? [] }
}

const maxAlternatives = 16

/** What the word may become: each alternative is a list of words, since one may become several or none. */
export function argsOf(word: Word, around: Surroundings): Arg[][] {
  const words = bracedWords(word)
  if (words === null) return [[{ ...argOf(word, around), expands: true }]]
  return (
    argChoices(words.map((one) => alternatives(one, around, true))) ?? [
      words.map((one) => holed(one)),
    ]
  )
}

/** Every choice of one alternative each, one after the other; null: too many. */
export function argChoices<T>(lists: readonly T[][][]): T[][] | null {
  let all: T[][] = [[]]
  for (const list of lists) {
    if (all.length * list.length > maxAlternatives) return null
    // Most have one: then nothing is copied.
    const [only] = list
    if (list.length === 1 && only) for (const before of all) before.push(...only)
    else all = all.flatMap((before) => list.map((one) => [...before, ...one]))
  }
  return all
}

const holed = (word: Word): Arg => ({ ...literalArg(hole), text: word.text, splits: true })

function bracedWords(word: Word): Word[] | null {
  if (!word.parts?.some(({ type }) => type === 'BraceExpansion')) return [word]
  const texts = expandBraces(word.text)
  return texts && texts.flatMap((text) => wordOf(text) ?? [])
}

function wordOf(text: string): Word | null {
  const command = parse(`: ${text}`).commands[0]?.command
  const [arg] = command?.type === 'Command' ? command.args : []
  return arg?.type === 'Word' ? arg : null
}

function alternatives(word: Word, around: Surroundings, splits: boolean): Arg[][] {
  const { parts } = word
  if (parts === undefined) return [[{ ...literalArg(word.value), text: word.text }]]
  const variables: string[] = []
  const read: Reader = { around, variables, globs: false, splits: false }
  const texts = joined(parts.map((part) => partTexts(part, read, splits)))
  const arg = {
    text: word.text,
    variables,
    expands: parts.some(({ type }) => type === 'ExtendedGlob' || type === 'BraceExpansion'),
  }
  return texts.map((text) =>
    text.includes(split)
      ? text
          .split(split)
          .filter((value) => value !== '')
          .map((value) => ({
            ...arg,
            value,
            text: value,
            globs: read.globs || isPattern(value),
            splits: read.splits,
          }))
      : [{ ...arg, value: text, globs: read.globs, splits: read.splits }],
  )
}

const isPattern = (value: string): boolean => /[*?[]/.test(value)

/** Every text that the parts together may be. Too many of them are one that is not known. */
function joined(lists: readonly (readonly string[])[]): string[] {
  let all = ['']
  for (const list of lists) {
    const texts = all.length * list.length > maxAlternatives ? [hole] : list
    const [only = ''] = texts
    if (all.length === 1 && texts.length === 1) {
      all[0] += only
      continue
    }
    all = all.flatMap((before) => texts.map((text) => `${before}${text}`))
  }
  return all.length > maxAlternatives ? [hole] : [...new Set(all)]
}

interface Reader {
  around: Surroundings
  variables: string[]
  globs: boolean
  splits: boolean
}

/** Every text that a part may be. splits: it is not in quotes. */
function partTexts(part: WordPart, read: Reader, splits: boolean): readonly string[] {
  switch (part.type) {
    case 'Literal':
    case 'SingleQuoted':
    case 'AnsiCQuoted':
      return [part.value]
    case 'Glob':
    case 'ExtendedGlob':
      read.globs = true
      return [part.text]
    case 'BraceExpansion':
      return [part.text]
    case 'DoubleQuoted':
    case 'LocaleString':
      return joined(part.parts.map((inner) => partTexts(inner, read, false)))
    case 'SimpleExpansion':
      return expanded(variable(part.text.slice(1), read), read, splits)
    case 'ParameterExpansion':
      return expanded(parameterTexts(part, read), read, splits)
    case 'ArithmeticExpansion':
      return ['0']
    case 'CommandExpansion':
      return expanded([printedBy(part.text, read.around)], read, splits)
    case 'ProcessSubstitution':
      return [substituted]
    default:
      return [hole]
  }
}

/** Outside of quotes a value is split at spaces, and its stars find files. */
function expanded(texts: readonly string[], read: Reader, splits: boolean): readonly string[] {
  if (!splits) return texts
  if (texts.some(isPattern)) read.globs = true
  if (texts.some((text) => text.includes(hole))) read.splits = true
  return texts.map((text) =>
    /\s/.test(text) || text === '' ? text.replaceAll(/\s+|^$/g, split) : text,
  )
}

type Parameter = Extract<WordPart, { type: 'ParameterExpansion' }>

function parameterTexts(part: Parameter, read: Reader): readonly string[] {
  const { parameter, prefix, index, operation } = part
  if (prefix === '#') return ['0']
  if (prefix === '!') return [hole]
  // An array's elements are kept as the values of its name.
  const isWhole = index === undefined || /^[@*\d]+$/.test(index.value)
  const own = (name = parameter) => (isWhole ? variable(name, read) : [hole])
  if (!operation) return own()
  if (parameter === 'PWD' && /^[%/]/.test(operation.operator)) {
    read.variables.push('PWD')
    // The folder above.
    return [`/${hole}`]
  }
  if (operation.type !== 'Default') {
    read.variables.push(parameter)
    return [hole]
  }
  const operand = wordTexts(operation.operand, read)
  if (operation.operator.endsWith('?')) return own()
  if (operation.operator.endsWith('+')) return ['', ...operand]
  return [...new Set([...own(), ...operand])]
}

function wordTexts({ parts, value }: Word, read: Reader): string[] {
  return parts === undefined ? [value] : joined(parts.map((part) => partTexts(part, read, false)))
}

/** A file that another command fills. */
export const substituted = '/dev/fd/63'

/** Numbers: of processes, of arguments, of what has ended. */
const numbers = new Set([
  '?',
  '#',
  '$',
  '!',
  'RANDOM',
  'SECONDS',
  'LINENO',
  'UID',
  'EUID',
  'PPID',
  'BASHPID',
])

function variable(name: string, read: Reader): readonly string[] {
  const { home, folders, values } = read.around
  read.variables.push(name)
  if (numbers.has(name)) return ['0']
  const assigned = values?.(name)
  if (assigned) return assigned
  if (assigned === null) return [hole]
  if (name === 'HOME') return [home ?? '/~']
  if (name === 'TMPDIR') return ['/tmp']
  const xdg = Object.hasOwn(xdgFolders, name) ? xdgFolders[name] : undefined
  if (xdg) return [`${home ?? '/~'}${xdg}`]
  if (name === 'PWD' && folders.length === 1) return [folders[0] ?? hole]
  return [hole]
}

const xdgFolders: Record<string, string> = {
  XDG_CONFIG_HOME: '/.config',
  XDG_DATA_HOME: '/.local/share',
  XDG_CACHE_HOME: '/.cache',
  XDG_STATE_HOME: '/.local/state',
}

/** What prints one word without a slash, whatever it is. */
const plainPrinter =
  /^(?:date(?: [-+%\w:"']{1,40})?|nproc|whoami|uname -[smr]|arch|id -u|git rev-parse (?:--short )?HEAD|git rev-list --count HEAD|node -v)$/

/** It prints numbers, one or many. */
const counter = /^seq(?: -w)?(?: \d{1,6}){1,2}$|^seq \d{1,6} -?\d{1,6} \d{1,6}$/

/** `$(pwd)` is the folder; `$(date +%s)` is a plain word. */
function printedBy(text: string, { folders }: Surroundings): string {
  const script = text.startsWith('$(') ? text.slice(2, -1).trim() : text.slice(1, -1).trim()
  if (script === 'pwd') return folders.length === 1 ? (folders[0] ?? hole) : hole
  if (counter.test(script)) return '0'
  return script.length <= 60 && plainPrinter.test(script) ? 'x' : hole
}

/** For people and for patterns: single spaces, no quotes, "…" for what is not known. */
export const textOf = (args: readonly Arg[]): string =>
  args.map(({ value }) => value.replaceAll(hole, '…').replaceAll(/\s+/g, ' ')).join(' ')
