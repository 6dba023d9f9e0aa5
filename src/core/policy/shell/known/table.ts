/** The options of a program that are known to do nothing but what its name says. */
export interface Known {
  /** Letters that stand alone. */
  flags: ReadonlySet<string>
  /** Letters that take a value, in the same word or the next. */
  values: ReadonlySet<string>
  /** Words: after two dashes, and after one where the program writes them so. */
  long: ReadonlySet<string>
  /** `-5`, `+5` */
  digits: boolean
  /** It runs the project's own code, so its options decide little; those that do are looked for elsewhere. */
  open: boolean
}

/**
 * One program per line: names | letters | letters with a value | words. A "#" before the names: `-5` is a number. A "*": it
 * runs the project's own code.
 */
export function readKnownTable(text: string): ReadonlyMap<string, Known> {
  const table = new Map<string, Known>()
  for (const line of text.split('\n')) {
    const [names = '', flags = '', values = '', long = ''] = line
      .split('|')
      .map((part) => part.trim())
    const open = names.startsWith('*')
    const digits = names.startsWith('#')
    const known: Known = {
      flags: new Set(flags),
      values: new Set(values),
      long: new Set([...words(long), 'help', 'version']),
      digits,
      open,
    }
    for (const name of words(names.replace(/^[*#]/, ''))) table.set(name.toLowerCase(), known)
  }
  return table
}

const words = (text: string): string[] => text.split(' ').filter((word) => word !== '')
