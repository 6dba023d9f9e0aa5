import type { Word, WordPart } from 'unbash'

/** Stands for what is only known when the command runs. No command can contain it. */
export const hole = '\u0000'

/** A word of a command, as far as it can be told without running it. */
export interface Arg {
  /** Without quotes; with holes. */
  value: string
  /** As written. */
  text: string
  /** Variables whose value is in it. */
  variables: readonly string[]
  /** One word may become several, or another one. */
  expands: boolean
}

export interface Surroundings {
  home: string | undefined
  /** Where the command may be running: more than one if a `cd` may have failed. */
  folders: readonly string[]
}

export const isKnown = (arg: Arg): boolean => !arg.value.includes(hole)

export const literalArg = (value: string): Arg => ({
  value,
  text: value,
  variables: [],
  expands: false,
})

export function argOf(word: Word, around: Surroundings): Arg {
  if (word.parts === undefined) return { ...literalArg(word.value), text: word.text }
  const variables: string[] = []
  const value = word.parts.map((part) => partValue(part, around, variables)).join('')
  return { value, text: word.text, variables, expands: word.parts.some(isExpanding) }
}

const isExpanding = ({ type }: WordPart): boolean =>
  type === 'BraceExpansion' || type === 'ExtendedGlob'

function partValue(part: WordPart, around: Surroundings, variables: string[]): string {
  switch (part.type) {
    case 'Literal':
    case 'SingleQuoted':
    case 'AnsiCQuoted':
      return part.value
    case 'Glob':
    case 'ExtendedGlob':
    case 'BraceExpansion':
      return part.text
    case 'DoubleQuoted':
    case 'LocaleString':
      return part.parts.map((inner) => partValue(inner, around, variables)).join('')
    case 'SimpleExpansion':
      return variable(part.text.slice(1), around, variables)
    case 'ParameterExpansion': {
      if (part.prefix === '#' || part.operation?.operator?.endsWith('+')) return hole
      const plain = !part.operation && !part.prefix && !part.index
      const value = variable(part.parameter, around, variables, plain)
      return climbs(part) ? `/${hole}` : value
    }
    default:
      return hole
  }
}

/** `${PWD%/*}` is the folder above. */
const climbs = ({ parameter, operation }: Extract<WordPart, { type: 'ParameterExpansion' }>) =>
  parameter === 'PWD' && /^(?:%|\/)/.test(operation?.operator ?? '')

function variable(
  name: string,
  { home, folders }: Surroundings,
  variables: string[],
  plain = true,
): string {
  variables.push(name)
  if (!plain) return hole
  if (name === 'HOME') return home ?? '/~'
  if (name === 'TMPDIR') return '/tmp'
  const xdg = Object.hasOwn(xdgFolders, name) ? xdgFolders[name] : undefined
  if (xdg) return `${home ?? '/~'}${xdg}`
  if (name === 'PWD' && folders.length === 1) return folders[0] ?? hole
  return hole
}

const xdgFolders: Record<string, string> = {
  XDG_CONFIG_HOME: '/.config',
  XDG_DATA_HOME: '/.local/share',
  XDG_CACHE_HOME: '/.cache',
  XDG_STATE_HOME: '/.local/state',
}

/** For people and for patterns: single spaces, no quotes, "…" for what is not known. */
export const textOf = (args: readonly Arg[]): string =>
  args.map(({ value }) => value.replaceAll(hole, '…').replaceAll(/\s+/g, ' ')).join(' ')
