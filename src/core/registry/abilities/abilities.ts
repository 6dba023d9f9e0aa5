import { AppError } from '../../../contract/error.ts'
import type { AbilityCheck, AbilityChecked } from '../../../contract/ability.ts'
import type { AbilityFile } from '../../../contract/ability-folder.ts'
import type {
  AbilityPut,
  AbilityPutResult,
  AbilityRow,
  StoredAbility,
} from '../../../contract/stored-ability.ts'
import {
  type Ability,
  checkAbilityDefinition,
  parseAbilityDefinition,
} from '../../abilities/definition.ts'
import type { Crypto, Db } from '../../ports.ts'
import { readAbilityFolder } from './folder.ts'
import { withHookFiles } from './hook-files.ts'
import { type AbilityOwner, missingNames } from './named.ts'

/**
 * Abilities that a team has stored: of the whole organisation or of one project, each in versions that never change. Files
 * are written first, by the hash of their folder, and a version last: a version that is listed is whole, and a put that
 * was cut off left nothing that counts.
 */

interface Row {
  project: string
  name: string
  version: number
  description: string
  hash: string | null
  main_path: string
  created_by: string
  created_at: number
}

const columns = 'project, name, version, description, hash, main_path, created_by, created_at'
const own = 'organisation_id = ?1 and project = ?2 and name = ?3'
const newestOf = `select * from abilities where ${own} order by version desc limit 1`
const newestNumber = `(select coalesce(max(version), 0) from abilities where ${own})`

interface PutPorts {
  db: Db
  crypto: Pick<Crypto, 'sha256'>
  now: number
}

/** Repeatable: what the newest version has already is that version. */
export async function putAbility(
  { db, crypto, now }: PutPorts,
  caller: { organisationId: string; keyId: string },
  put: AbilityPut,
): Promise<AbilityPutResult> {
  const { ability, files, hash, mainPath, ...read } = await readAbilityFolder(put, crypto)
  const owner = { organisationId: caller.organisationId, project: put.project ?? null }
  const warnings = [...read.warnings, ...(await missingNames(db, owner, ability))]
  await storeFiles(db, caller.organisationId, hash, files)
  const [made] = await db.all<Row>(
    `insert into abilities (organisation_id, project, name, version, description, hash, main_path, created_by, created_at)
     select ?1, ?2, ?3, ${newestNumber} + 1, ?4, ?5, ?6, ?7, ?8
     where (?9 is null or ${newestNumber} = ?9) and not exists (select 1 from (${newestOf}) where hash = ?5)
     returning ${columns}`,
    ...[...keyOf(owner, ability.name), ability.description, hash, mainPath, caller.keyId, now],
    put.expectedVersion ?? null,
  )
  if (made) return { ...rowOf(made), warnings }
  const newest = await findNewest(db, owner, ability.name)
  if (newest?.hash === hash) return { ...rowOf(newest), warnings }
  throw changedMeanwhile(ability.name, newest?.version ?? 0)
}

/** One request each: together they may be larger than one may be. */
async function storeFiles(
  db: Db,
  organisationId: string,
  hash: string,
  files: readonly AbilityFile[],
): Promise<void> {
  for (const { path, content } of files)
    await db.batch([
      {
        sql: 'insert into ability_files (organisation_id, hash, path, content) values (?, ?, ?, ?) on conflict do nothing',
        values: [organisationId, hash, path, content],
      },
    ])
}

/** A version that says "none": the organisation's of that name counts again, if there is one. */
export async function removeAbility(
  { db, now }: Pick<PutPorts, 'db' | 'now'>,
  keyId: string,
  owner: AbilityOwner,
  name: string,
): Promise<AbilityRow> {
  const before = await findNewest(db, owner, name)
  if (before === null || before.hash === null) throw noAbility(name)
  const [made] = await db.all<Row>(
    `insert into abilities (organisation_id, project, name, version, description, hash, main_path, created_by, created_at)
     select ?1, ?2, ?3, version + 1, description, null, main_path, ?4, ?5 from (${newestOf}) where version = ?6
     returning ${columns}`,
    ...[...keyOf(owner, name), keyId, now, before.version],
  )
  if (made) return rowOf(made)
  const after = await findNewest(db, owner, name)
  if (after?.hash === null) return rowOf(after)
  throw changedMeanwhile(name, after?.version ?? 0)
}

/** What counts today, by name. */
export async function listAbilities(
  db: Db,
  { organisationId, project }: AbilityOwner,
  page: { limit: number; after: string | null },
): Promise<AbilityRow[]> {
  const rows = await db.all<Row>(
    `select ${columns} from abilities as a
     where organisation_id = ?1 and project = ?2 and name > ?3 and hash is not null
       and version = (select max(version) from abilities
         where organisation_id = ?1 and project = ?2 and name = a.name)
     order by name limit ?4`,
    ...[organisationId, project ?? '', page.after ?? '', page.limit],
  )
  return rows.map(rowOf)
}

/** Everything that can be said of a file without running it, with what it names and nobody has. */
export async function validateAbility(
  db: Db,
  owner: AbilityOwner,
  check: Pick<AbilityCheck, 'source' | 'path'>,
): Promise<AbilityChecked> {
  const checked = checkAbilityDefinition(check)
  if (checked.ability === null) return checked
  const { name, definition } = checked.ability
  const missing = await missingNames(db, owner, { name, steps: definition.steps })
  return { ...checked, warnings: [...checked.warnings, ...missing] }
}

/** As it would be read and run today. */
export async function checkedAbility(
  db: Db,
  owner: AbilityOwner,
  row: AbilityRow,
): Promise<AbilityRow> {
  const [file] = await db.all<{ main: string; content: string }>(
    `select main_path as main, content from abilities join ability_files using (organisation_id, hash)
     where ${own} and version = ?4 and path = main_path`,
    ...[...keyOf(owner, row.name), row.version],
  )
  const { main = '', content: source = '' } = file ?? {}
  const found = await validateAbility(db, owner, { source, path: `${row.name}/${main}` })
  const { valid, errors, warnings } = found
  return { ...row, checked: { valid, errors, warnings } }
}

/** Newest first, removals too. */
export async function listAbilityVersions(
  db: Db,
  owner: AbilityOwner,
  name: string,
  page: { limit: number; before: number | null },
): Promise<AbilityRow[]> {
  const rows = await db.all<Row>(
    `select ${columns} from abilities where ${own} and version < ?4 order by version desc limit ?5`,
    ...[...keyOf(owner, name), page.before ?? Number.MAX_SAFE_INTEGER, page.limit],
  )
  if (rows.length === 0 && page.before === null) throw noAbility(name)
  return rows.map(rowOf)
}

/** With its files; the newest, unless a version is named. */
export async function loadAbility(
  db: Db,
  owner: AbilityOwner,
  name: string,
  version: number | null,
): Promise<StoredAbility> {
  const [row] = await db.all<Row>(
    `select ${columns} from abilities where ${own} and (?4 is null or version = ?4) order by version desc limit 1`,
    ...[...keyOf(owner, name), version],
  )
  if (!row || (row.hash === null && version === null)) throw noAbility(name)
  return await withFiles(db, owner.organisationId, row)
}

/** Of a folder that a version, or a session, has under this hash. One request each: together they may be too much. */
export async function abilityFolderFiles(
  db: Db,
  organisationId: string,
  hash: string,
): Promise<AbilityFile[]> {
  const paths = await db.all<{ path: string }>(
    'select path from ability_files where organisation_id = ? and hash = ? order by path',
    organisationId,
    hash,
  )
  const files: AbilityFile[] = []
  for (const { path } of paths) {
    const [file] = await db.all<AbilityFile>(
      'select path, content from ability_files where organisation_id = ? and hash = ? and path = ?',
      ...[organisationId, hash, path],
    )
    if (file) files.push(file)
  }
  return files
}

async function withFiles(db: Db, organisationId: string, row: Row): Promise<StoredAbility> {
  if (row.hash === null) return { ...rowOf(row), definition: null, files: [] }
  const files = await abilityFolderFiles(db, organisationId, row.hash)
  const main = files.find(({ path }) => path === row.main_path)
  const parsed = parseAbilityDefinition(main?.content ?? '', `${row.name}/${row.main_path}`)
  const definition = 'ability' in parsed ? parsed.ability : null
  return { ...rowOf(row), definition, files }
}

/** An ability as it is run: its definition, and which files it has. */
export interface RunnableAbility {
  name: string
  version: number
  hash: string
  definition: Ability
  files: string[]
}

/** That of the project, else that of the organisation; the newest, unless a version is named. Null: there is none. */
export async function findRunnableAbility(
  db: Db,
  owner: AbilityOwner,
  name: string,
  version: number | null = null,
): Promise<RunnableAbility | null> {
  for (const project of new Set([owner.project, null])) {
    const newest = await findNewest(db, { ...owner, project }, name)
    if (newest === null || newest.hash === null) continue
    const row =
      version === null ? newest : await findVersion(db, { ...owner, project }, name, version)
    return row?.hash == null ? null : await runnableOf(db, owner.organisationId, row, row.hash)
  }
  return null
}

/** Of the version that a session of the project has pinned, found in the same order. */
export async function pinnedAbilityHash(
  db: Db,
  owner: AbilityOwner,
  name: string,
  version: number,
): Promise<string | null> {
  for (const project of new Set([owner.project, null])) {
    if ((await newestAbilityHash(db, { ...owner, project }, name)) === null) continue
    return (await findVersion(db, { ...owner, project }, name, version))?.hash ?? null
  }
  return null
}

/** Of what counts today there; null: nothing does. */
export const newestAbilityHash = async (
  db: Db,
  owner: AbilityOwner,
  name: string,
): Promise<string | null> => (await findNewest(db, owner, name))?.hash ?? null

async function findVersion(db: Db, owner: AbilityOwner, name: string, version: number) {
  const values = [...keyOf(owner, name), version]
  const [row] = await db.all<Row>(
    `select ${columns} from abilities where ${own} and version = ?4`,
    ...values,
  )
  return row ?? null
}

async function runnableOf(
  db: Db,
  organisationId: string,
  { name, version, main_path: mainPath }: Row,
  hash: string,
): Promise<RunnableAbility | null> {
  const rows = await db.all<{ path: string; content: string | null }>(
    `select path, case when path = ? or path like 'hooks/before/%.md' then content end as content from ability_files
     where organisation_id = ? and hash = ? order by path`,
    ...[mainPath, organisationId, hash],
  )
  const main = rows.find(({ path }) => path === mainPath)
  const parsed = parseAbilityDefinition(main?.content ?? '', `${name}/${mainPath}`)
  if ('errors' in parsed) return null
  // Its stored name counts: the file may have none of its own.
  const definition = withHookFiles({ ...parsed.ability, name }, rows)
  return { name, version, hash, definition, files: rows.map(({ path }) => path) }
}

async function findNewest(db: Db, owner: AbilityOwner, name: string): Promise<Row | null> {
  const [row] = await db.all<Row>(`select ${columns} from (${newestOf})`, ...keyOf(owner, name))
  return row ?? null
}

const keyOf = ({ organisationId, project }: AbilityOwner, name: string) => [
  organisationId,
  project ?? '',
  name,
]

const noAbility = (name: string) => new AppError('not_found', `There is no ability "${name}"`)

const changedMeanwhile = (name: string, version: number) =>
  new AppError('wrong_state', `Cannot change "${name}": its newest version is ${version}`, [
    { path: 'expectedVersion', message: `The newest is ${version}` },
  ])

const rowOf = (row: Row): AbilityRow => ({
  project: row.project || null,
  name: row.name,
  version: row.version,
  description: row.description,
  hash: row.hash,
  removed: row.hash === null,
  createdBy: row.created_by as AbilityRow['createdBy'],
  createdAt: row.created_at,
})
