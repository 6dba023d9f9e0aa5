import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parseArgs, parseEnv } from 'node:util'
import { checkAdminDeployment, checkAdminEnvironment } from './check.ts'
import {
  type Admin,
  keyCommand,
  organisationCommand,
  type Flags,
  migrateCommand,
  WrongUsage,
} from './commands.ts'

// `npm run admin`: what an operator needs before anybody has a key for the API. `npm start` uses the same functions.

const usage = `Usage: npm run admin -- <command> [options]

  migrate                      bring the database to the schema of this release
  create-organisation          make an organisation, unless there is one of this name
      --name NAME
  create-key                   make an API key, unless its file holds it already
      --organisation NAME      or its id
      --name NAME              one active key of this name per organisation
      --scopes LIST            of read, write, approve, admin, separated by commas
      --owner NAME             the member that it belongs to, made if there is none (default: operator)
      --expires-days N         (default: never)
      --key-file PATH          write the key there, for your user alone (0600), or
      --print                  print it once, alone on standard output: use "npm run --silent admin"
  check                        say what the configuration, the database and the providers lack
      --deployment URL         ask a deployment that runs instead

  --vars PATH                  read variables from this file, such as .dev.vars; those of the shell win

The database is that of LIBSQL_URL and LIBSQL_TOKEN; docs/configuration.md has every variable.
The same command again changes nothing. It ends with 0 if it is done or was done before, with 1 if it
failed or something is missing, and with 2 if it was called wrongly.`

const options = {
  name: { type: 'string' },
  organisation: { type: 'string' },
  scopes: { type: 'string' },
  owner: { type: 'string' },
  'expires-days': { type: 'string' },
  'key-file': { type: 'string' },
  print: { type: 'boolean' },
  deployment: { type: 'string' },
  vars: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const
type AllFlags = Flags & { deployment?: string; vars?: string; help?: boolean }

interface Command {
  flags: readonly (keyof AllFlags)[]
  /** True: done, or nothing was to do. */
  run: (admin: Admin, flags: AllFlags) => Promise<boolean>
}
const commands: Record<string, Command> = {
  migrate: { flags: [], run: migrateCommand },
  'create-organisation': { flags: ['name'], run: organisationCommand },
  'create-key': {
    flags: ['organisation', 'name', 'scopes', 'owner', 'expires-days', 'key-file', 'print'],
    run: keyCommand,
  },
  check: {
    flags: ['deployment'],
    run: (admin, { deployment }) =>
      deployment === undefined
        ? checkAdminEnvironment(admin)
        : checkAdminDeployment(admin, deployment),
  },
}

/** Who calls: a process, or a test. */
interface Caller extends Omit<Admin, 'fromHere'> {
  /** The folder in which the command was given. */
  cwd: string
}

/** One command; returns its exit code. */
export async function runAdmin(args: string[], caller: Caller): Promise<0 | 1 | 2> {
  try {
    const { command, flags } = parseCommand(args)
    if (command === null) {
      await caller.print(usage)
      return 0
    }
    return (await command.run(adminOf(flags, caller), flags)) ? 0 : 1
  } catch (error) {
    caller.say((error as Error).message)
    if (!(error instanceof WrongUsage)) return 1
    caller.say(`\n${usage}`)
    return 2
  }
}

/** Null: help was asked for. */
function parseCommand(args: string[]): { command: Command | null; flags: AllFlags } {
  const { positionals, values: flags } = parsed(args)
  const [name, ...more] = positionals
  if (flags.help || (name === 'help' && more.length === 0)) return { command: null, flags }
  const command = Object.hasOwn(commands, name ?? '') ? commands[name ?? ''] : undefined
  if (command === undefined || more.length > 0)
    throw new WrongUsage(`There is no command "${positionals.join(' ')}"`)
  const wrong = Object.keys(flags).find(
    (flag) => flag !== 'vars' && !command.flags.some((known) => known === flag),
  )
  if (wrong !== undefined) throw new WrongUsage(`Command "${name}" has no option --${wrong}`)
  return { command, flags }
}

function parsed(args: string[]) {
  try {
    return parseArgs({ args, options, allowPositionals: true })
  } catch (error) {
    throw new WrongUsage((error as Error).message)
  }
}

function adminOf({ vars }: AllFlags, { cwd, environment, say, print }: Caller): Admin {
  const fromHere = (path: string) => resolve(cwd, path)
  const variables = vars === undefined ? {} : readVariables(fromHere(vars))
  return { environment: { ...variables, ...environment }, say, print, fromHere }
}

function readVariables(path: string): Record<string, string | undefined> {
  try {
    return parseEnv(readFileSync(path, 'utf8'))
  } catch (error) {
    throw new Error(`Cannot read the variables of --vars: ${(error as Error).message}`, {
      cause: error,
    })
  }
}
