// The commands of `npm run admin`. Each may be repeated: what is done already is said and not done again. A key's
// secret is shown or written before it is stored, so nobody loses a key that opens something. admin.ts parses the
// command line and calls them.

import { createLibsql } from '../../src/adapters/libsql.ts'
import { createWebCrypto } from '../../src/adapters/web-crypto.ts'
import { Text } from '../../src/contract/ids.ts'
import { KeyCreate } from '../../src/contract/key.ts'
import {
  isKeyNameTaken,
  type KeyOrder,
  newKeyId,
  newKeySecret,
  storeKey,
} from '../../src/core/registry/keys.ts'
import { ensureOrganisation, findOrganisations } from '../../src/core/registry/organisations.ts'
import type { Db } from '../../src/core/ports.ts'
import { readConfig } from '../../src/config.ts'
import { readinessTrouble } from '../../src/http/kit/readiness.ts'
import { Environment } from '../../src/variables.ts'
import { keepKeyFile } from './key-file.ts'
import { applyMigrations } from '../database/migrations.ts'

/** Where the commands read from and where they speak. */
export interface Admin {
  environment: Record<string, string | undefined>
  /** For people. Standard output is left to what a script reads. */
  say: (line: string) => void
  print: (line: string) => Promise<void>
  /** A path as whoever called means it. */
  fromHere: (path: string) => string
}

export interface Flags {
  name?: string
  organisation?: string
  scopes?: string
  owner?: string
  'expires-days'?: string
  'key-file'?: string
  print?: boolean
}

/** The command line is wrong: the usage is shown. */
export class WrongUsage extends Error {}

const crypto = createWebCrypto([])

export async function migrateCommand({ environment, say }: Admin): Promise<boolean> {
  const { url, token } = adminCommandLibsql(environment)
  say(`libSQL at ${new URL(url).host}`)
  const tellUnknown = (names: string[]) =>
    say(`A newer release has added ${names.join(', ')}: this one lives with it`)
  const applied = await plainly(applyMigrations(url, token, undefined, tellUnknown))
  for (const name of applied) say(`Applied ${name}`)
  if (applied.length === 0) say('Nothing to do: every migration is applied')
  return true
}

export async function organisationCommand(admin: Admin, flags: Flags): Promise<boolean> {
  const name = Text(100, 1).safeParse(flags.name)
  if (!name.success) throw new WrongUsage('Set --name to a text of 1 to 100 characters')
  const db = openDb(admin)
  const { id, created } = await plainly(ensureOrganisation(db, crypto, Date.now(), name.data))
  const what = created ? 'Made organisation' : 'Nothing to do: there is an organisation'
  admin.say(`${what} "${name.data}": ${id}`)
  return true
}

export async function keyCommand(admin: Admin, flags: Flags): Promise<boolean> {
  const file = flags['key-file']
  if ((file === undefined) !== (flags.print === true))
    throw new WrongUsage('Set one of --key-file and --print')
  const input = keyInput(flags)
  const db = openDb(admin)
  const organisationId = await plainly(organisationOf(db, flags.organisation))
  const order = { ...input, organisationId, maker: null, oncePerName: true }
  return file === undefined
    ? printKey(admin, db, order)
    : fileKey(admin, db, order, admin.fromHere(file))
}

type Order = Omit<KeyOrder, 'id' | 'secret'>

async function fileKey({ say }: Admin, db: Db, order: Order, path: string): Promise<boolean> {
  const kept = await plainly(keepKeyFile({ db, crypto }, path, order))
  if (kept === null) {
    say(`${alreadyThere(order)}, but "${path}" does not hold it: restore the file, or ${another}`)
    return false
  }
  const { key, created } = kept
  if (key.organisationId !== order.organisationId || key.name !== order.name) {
    say(`"${path}" holds another key, "${key.name}" (${key.id}): choose another --key-file`)
    return false
  }
  say(`${created ? 'Made' : 'Nothing to do:'} key "${key.name}" (${key.id}) in "${path}"`)
  return true
}

/** Printed before it is stored: whoever is killed in between has a key that opens nothing, and asks again. */
async function printKey({ say, print }: Admin, db: Db, order: Order): Promise<boolean> {
  if (await plainly(isKeyNameTaken(db, Date.now(), order))) {
    say(`${alreadyThere(order)}, and its secret was shown once: ${another}`)
    return false
  }
  const secret = newKeySecret(crypto)
  await print(secret)
  try {
    const key = await plainly(
      storeKey(db, crypto, Date.now(), { ...order, id: newKeyId(crypto), secret }),
    )
    if (key === null) throw new Error(`${alreadyThere(order)}: ${another}`)
    say(`Made key "${key.name}" (${key.id}): its secret is not shown again`)
    return true
  } catch (error) {
    say('The key that was printed was not stored: it opens nothing')
    throw error
  }
}

const alreadyThere = ({ name }: Order) =>
  `Nothing was changed: the organisation has a key "${name}" already`
const another = 'make one of another --name and revoke this one by DELETE /v1/keys/…'

function keyInput(flags: Flags): Pick<KeyOrder, 'name' | 'owner' | 'scopes' | 'expiresAt'> {
  const days = flags['expires-days']
  const parsed = KeyCreate.safeParse({
    name: flags.name,
    ...(flags.owner === undefined ? {} : { owner: flags.owner }),
    scopes: flags.scopes?.split(',').map((scope) => scope.trim()) ?? [],
    ...(days === undefined
      ? {}
      : { expiresAt: Date.now() + Math.round(Number(days) * 86_400_000) }),
  })
  if (parsed.success && !(Number(days ?? 1) > 0)) throw new WrongUsage(wrongFlag.expiresAt)
  if (parsed.success) {
    const { memberId: _, ...input } = parsed.data
    return { ...input, owner: input.owner ?? 'operator' }
  }
  const [issue] = parsed.error.issues
  throw new WrongUsage(wrongFlag[issue?.path[0] as keyof typeof wrongFlag])
}

const wrongFlag = {
  name: 'Set --name to a text of 1 to 100 characters',
  owner: 'Set --owner to a text of 1 to 100 characters',
  scopes: 'Set --scopes to some of read, write, approve, admin, separated by commas',
  expiresAt: 'Set --expires-days to a number above 0',
}

async function organisationOf(db: Db, idOrName: string | undefined): Promise<string> {
  if (!idOrName) throw new WrongUsage('Set --organisation to the name or the id of one')
  const found = await findOrganisations(db, idOrName)
  const [first, ...others] = found
  if (first === undefined)
    throw new Error(
      `There is no organisation "${idOrName}": make it with create-organisation --name "${idOrName}"`,
    )
  if (others.length === 0) return first.id
  throw new Error(
    `There are several organisations "${idOrName}": name one by its id (${found.map(({ id }) => id).join(', ')})`,
  )
}

const openDb = ({ environment }: Admin): Db => createLibsql(adminCommandLibsql(environment))

export function adminCommandLibsql(environment: Admin['environment']): {
  url: string
  token: string | null
} {
  const own = readConfig(environment).problems.filter(({ name }) => name.startsWith('LIBSQL_'))
  if (own.length > 0) {
    const lines = own.map(({ name, problem }) => `${name}: ${problem}`)
    throw new Error(`Cannot open the database\n  ${lines.join('\n  ')}`)
  }
  const { LIBSQL_URL: url, LIBSQL_TOKEN: token } = environment
  return { url: Environment.shape.LIBSQL_URL.parse(url?.trim()), token: token?.trim() || null }
}

/** A database that cannot be used: which variable to look at. */
async function plainly<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    const trouble = readinessTrouble(error)
    if (trouble === null) throw error
    throw new Error(`Cannot use the database: ${trouble.message}. ${trouble.hint}`, {
      cause: error,
    })
  }
}
