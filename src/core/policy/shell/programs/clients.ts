import { type Arg, isKnown, literalArg } from '../words/arg.ts'
import { ambiguous, type Finding, type Nested } from '../words/finding.ts'
import { optionSet, parseOptions, valuesOf } from '../words/options.ts'

/** What the words of a database's client say. */
export interface ClientWords {
  statements: readonly Arg[]
  /** Files of statements. */
  files: readonly Arg[]
  nested: readonly Nested[]
  findings: readonly Finding[]
}

interface Client {
  /** Options that take a value; long ones count from the first letters that tell them apart. */
  values: string
  statement: readonly string[]
  file: readonly string[]
  output: readonly string[]
}

const psql: Client = {
  values:
    'c d f F h L o p P R T U v command dbname file field-separator host log-file output port pset record-separator table-attr username set variable',
  statement: ['c', 'command'],
  file: ['f', 'file'],
  output: ['o', 'output'],
}
const mysql: Client = {
  values:
    'e D h P S u execute database host port socket user tee pager delimiter init-command defaults-file defaults-extra-file plugin-dir',
  statement: ['e', 'execute'],
  file: [],
  output: [],
}
const clients: Record<string, Client> = { psql, mysql, mariadb: mysql }

/** null: it is none whose words are known. */
export function clientWords(program: string, args: readonly Arg[]): ClientWords | null {
  if (program === 'sqlite3') return sqliteWords(args)
  const client = Object.hasOwn(clients, program) ? clients[program] : undefined
  if (!client) return null
  const parsed = parseOptions(inFull(args, client), optionSet(client.values))
  const pipes = valuesOf(parsed, ...client.output).filter(({ value }) => value.startsWith('|'))
  return {
    statements: valuesOf(parsed, ...client.statement),
    files: valuesOf(parsed, ...client.file),
    // psql hands it to a shell.
    nested: pipes.filter(isKnown).map(({ value }) => ({ kind: 'script', text: value.slice(1) })),
    findings: pipes.every(isKnown) ? [] : [ambiguous('A command is put together when it runs')],
  }
}

/** `--outp=x` is `--output=x`. */
function inFull(args: readonly Arg[], { values }: Client): Arg[] {
  const names = values.split(' ').filter((name) => name.length > 1)
  return args.map((arg) => {
    const [, given, rest = ''] = /^--([\w-]+)(=.*)?$/s.exec(arg.value) ?? []
    const name = given && names.find((one) => one.startsWith(given))
    return name ? { ...arg, value: `--${name}${rest}` } : arg
  })
}

/** Words with one dash or two, of which these take a value. */
const sqliteValues = /^--?(?:cmd|separator|nullvalue|newline|vfs|mmap|heap|maxsize)$/

/** `sqlite3 -cmd '.mode csv' x.db 'select 1'`: behind the database stands what it does. */
function sqliteWords(args: readonly Arg[]): ClientWords {
  const isValue = (index: number) => sqliteValues.test(args[index - 1]?.value ?? '')
  const commands = args.filter((_, index) => /^--?cmd$/.test(args[index - 1]?.value ?? ''))
  const operands = args.filter(({ value }, index) => !value.startsWith('-') && !isValue(index))
  return { statements: [...commands, ...operands.slice(1)], files: [], nested: [], findings: [] }
}

/** Whether what follows the option is a statement. */
export const isClientStatement = (program: string, option: string): boolean =>
  program === 'sqlite3'
    ? /^--?cmd$/.test(option)
    : (clientWords(program, [literalArg(option), literalArg('x')])?.statements.length ?? 0) > 0
