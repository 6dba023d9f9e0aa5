import { type Arg, literalArg } from './arg.ts'

/** Arguments sorted into options and operands, by the options that take a value of their own. */
export interface Parsed {
  /** "r", "--force" */
  flags: Set<string>
  values: { option: string; value: Arg }[]
  operands: Arg[]
}

const none: ReadonlySet<string> = new Set()

/** With `stop`, everything after the first operand is an operand, as for commands that run another one. */
export function parseOptions(
  args: readonly Arg[],
  withValue: ReadonlySet<string> = none,
  stop = false,
): Parsed {
  const parsed: Parsed = { flags: new Set(), values: [], operands: [] }
  for (let index = 0; index < args.length; index += 1) {
    const arg = args[index] as Arg
    const { value } = arg
    if (value === '--') return addOperands(parsed, args.slice(index + 1))
    if (!isOption(value)) {
      if (stop) return addOperands(parsed, args.slice(index))
      parsed.operands.push(arg)
    } else if (takesNext(parsed, value, withValue)) {
      index += 1
      const next = args[index]
      if (next) parsed.values.push({ option: optionName(value), value: next })
    }
  }
  return parsed
}

const isOption = (value: string): boolean => value.length > 1 && value.startsWith('-')

function addOperands(parsed: Parsed, rest: readonly Arg[]): Parsed {
  parsed.operands.push(...rest)
  return parsed
}

const optionName = (value: string): string =>
  value.startsWith('--') ? value.slice(2) : value.slice(-1)

/** Notes what the option says; true if its value is the next argument. */
function takesNext(parsed: Parsed, value: string, withValue: ReadonlySet<string>): boolean {
  if (value.startsWith('--')) {
    const [name = '', ...rest] = value.slice(2).split('=')
    parsed.flags.add(`--${name}`)
    if (rest.length === 0) return withValue.has(name)
    parsed.values.push({ option: name, value: literalArg(rest.join('=')) })
    return false
  }
  for (let at = 1; at < value.length; at += 1) {
    const letter = value[at] ?? ''
    parsed.flags.add(letter)
    if (!withValue.has(letter)) continue
    if (at === value.length - 1) return true
    parsed.values.push({ option: letter, value: literalArg(value.slice(at + 1)) })
    return false
  }
  return false
}

/** Long options count when they are shortened, too: "--rec" is "--recursive". */
export const hasFlag = ({ flags }: Parsed, ...names: string[]): boolean =>
  names.some(
    (name) =>
      flags.has(name) ||
      (name.startsWith('--') &&
        [...flags].some((flag) => flag.length > 2 && name.startsWith(flag))),
  )

export const valuesOf = ({ values }: Parsed, ...names: string[]): Arg[] =>
  values.filter(({ option }) => names.includes(option)).map(({ value }) => value)

export const optionSet = (names: string): ReadonlySet<string> => new Set(names.split(' '))
