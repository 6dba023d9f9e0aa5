import type {
  Configuration,
  ConfigurationCreate,
  ConfigurationRow,
  ConfigurationUpdate,
} from '../../../contract/configuration.ts'
import { AppError } from '../../../contract/error.ts'
import type { ServiceCommand } from '../../../contract/tools/save-commands.ts'
import type { EnvFile } from '../../../contract/tools/save-env-files.ts'
import type { Crypto, Db, DbValue } from '../../ports.ts'
import { type Limited, type ListCaller, limitValues, mayUseProject } from '../place.ts'

export interface ConfigurationKey extends Limited {
  organisationId: string
  configurationId: string
}

export async function insertConfiguration(
  db: Db,
  crypto: Crypto,
  now: number,
  organisationId: string,
  input: ConfigurationCreate,
): Promise<Configuration> {
  const id = `cfg_${crypto.random(20)}`
  const { repository } = input
  await db.batch([
    {
      // A repeated statement meets its own id, another caller the name: both change nothing.
      sql: `insert into configurations (id, organisation_id, project, name, repository_url, repository_ref,
              repository_token, default_model, trust_project_config, service_commands, env_files,
              warm_pool_size, created_at, updated_at)
            values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing`,
      values: [
        id,
        organisationId,
        input.project,
        input.name,
        repository?.url ?? null,
        repository?.ref ?? null,
        repository?.token === undefined ? null : await crypto.seal(repository.token),
        input.defaultModel,
        input.trustProjectConfig ? 1 : 0,
        commandsText(input.serviceCommands),
        envFilesText(input.envFiles),
        input.warmPool.size,
        now,
        now,
      ],
    },
  ])
  const made = await findConfiguration(db, { organisationId, configurationId: id })
  if (!made) throw nameTaken('create', input.name)
  return made
}

/** Newest first. */
export async function listConfigurations(
  db: Db,
  caller: ListCaller,
  page: { project: string | null; limit: number; before: { createdAt: number; id: string } | null },
): Promise<ConfigurationRow[]> {
  const rows = await db.all<Row>(
    `select ${columns} from configurations
     where organisation_id = ?1 and (?2 is null or project = ?2) and (created_at, id) < (?3, ?4)
       and (?6 is null or project in (select value from json_each(?6)))
     order by created_at desc, id desc limit ?5`,
    caller.organisationId,
    page.project,
    page.before?.createdAt ?? Number.MAX_SAFE_INTEGER,
    page.before?.id ?? '',
    page.limit,
    limitValues(caller).projects,
  )
  return rows.map(configurationRow)
}

/** Refuses what is not there, what is another organisation's and what the key may not see, alike. */
export async function loadConfiguration(db: Db, key: ConfigurationKey): Promise<Configuration> {
  const found = await findConfiguration(db, key)
  if (!found || !mayUseProject(key, found.project)) throw notFound()
  return found
}

/** The credential for the clone, still sealed. */
export async function loadSealedConfigurationToken(
  db: Db,
  { organisationId, configurationId }: ConfigurationKey,
): Promise<string | null> {
  const [row] = await db.all<{ token: string | null }>(
    'select repository_token as token from configurations where organisation_id = ? and id = ?',
    organisationId,
    configurationId,
  )
  if (!row) throw notFound()
  return row.token
}

export async function changeConfiguration(
  db: Db,
  crypto: Crypto,
  now: number,
  key: ConfigurationKey,
  change: ConfigurationUpdate,
): Promise<Configuration> {
  if (change.baseSnapshotId) await checkSnapshot(db, key.organisationId, change.baseSnapshotId)
  const sets: Assignment[] = []
  if (change.name !== undefined) sets.push(['name = ?', change.name])
  if (change.repository !== undefined)
    sets.push(...(await repositorySets(crypto, change.repository)))
  if (change.defaultModel !== undefined) sets.push(['default_model = ?', change.defaultModel])
  if (change.trustProjectConfig !== undefined)
    sets.push(['trust_project_config = ?', change.trustProjectConfig ? 1 : 0])
  if (change.serviceCommands) sets.push(commandsSet(change.serviceCommands))
  if (change.envFiles) sets.push(envFilesSet(change.envFiles))
  if (change.warmPool) sets.push(['warm_pool_size = ?', change.warmPool.size])
  if (change.baseSnapshotId !== undefined) sets.push(snapshotSet(change.baseSnapshotId))
  return await applySets(db, now, key, sets, change.name)
}

/** Repeatable, like the other two of a setup session: the list that is given replaces the one before. */
export const saveServiceCommands = (
  db: Db,
  now: number,
  { commands, ...key }: ConfigurationKey & { commands: readonly ServiceCommand[] },
): Promise<Configuration> => applySets(db, now, key, [commandsSet(commands)])

export const saveEnvFiles = (
  db: Db,
  now: number,
  { files, ...key }: ConfigurationKey & { files: readonly EnvFile[] },
): Promise<Configuration> => applySets(db, now, key, [envFilesSet(files)])

/** The snapshot need not be in libSQL yet: its own row comes by the session's outbox. */
export const setBaseSnapshot = (
  db: Db,
  now: number,
  { snapshotId, ...key }: ConfigurationKey & { snapshotId: string | null },
): Promise<Configuration> => applySets(db, now, key, [snapshotSet(snapshotId)])

/** With its secrets, all or nothing. */
export async function removeConfiguration(db: Db, key: ConfigurationKey): Promise<void> {
  await loadConfiguration(db, key)
  const values = [key.organisationId, key.configurationId]
  await db.batch([
    { sql: 'delete from secrets where organisation_id = ? and configuration_id = ?', values },
    { sql: 'delete from configurations where organisation_id = ? and id = ?', values },
  ])
}

async function findConfiguration(
  db: Db,
  { organisationId, configurationId }: ConfigurationKey,
): Promise<Configuration | null> {
  const [row] = await db.all<LongRow>(
    `select ${longColumns} from configurations where organisation_id = ? and id = ?`,
    organisationId,
    configurationId,
  )
  return row ? configurationOf(row) : null
}

/** An assignment and its values. */
type Assignment = [sql: string, ...values: DbValue[]]

const commandsSet = (commands: readonly ServiceCommand[]): Assignment => [
  'service_commands = ?',
  commandsText(commands),
]
const envFilesSet = (files: readonly EnvFile[]): Assignment => [
  'env_files = ?',
  envFilesText(files),
]
const snapshotSet = (id: string | null): Assignment => ['base_snapshot_id = ?', id]

/**
 * Without a new token the stored one stays only with its URL: else whoever may change the URL could have the token sent
 * to a server of theirs.
 */
async function repositorySets(
  crypto: Crypto,
  repository: NonNullable<ConfigurationUpdate['repository']> | null,
): Promise<Assignment[]> {
  const url = repository?.url ?? null
  const token = repository === null ? null : repository.token
  const tokenSet: Assignment =
    token === undefined
      ? ['repository_token = case when repository_url = ? then repository_token end', url]
      : ['repository_token = ?', token === null ? null : await crypto.seal(token)]
  return [['repository_url = ?', url], ['repository_ref = ?', repository?.ref ?? null], tokenSet]
}

/** One statement, so that a name taken in the meantime cannot be taken twice. */
async function applySets(
  db: Db,
  now: number,
  key: ConfigurationKey,
  sets: Assignment[],
  name: string | null = null,
): Promise<Configuration> {
  const { organisationId, configurationId } = key
  const [row] = await db.all<LongRow>(
    `update configurations set ${[...sets.map(([sql]) => sql), 'updated_at = ?'].join(', ')}
     where organisation_id = ? and id = ? and not exists (
       select 1 from configurations as other
       where other.organisation_id = configurations.organisation_id
         and other.project = configurations.project and other.name = ? and other.id <> configurations.id)
     returning ${longColumns}`,
    ...sets.flatMap(([, ...values]) => values),
    now,
    organisationId,
    configurationId,
    name,
  )
  if (row) return configurationOf(row)
  await loadConfiguration(db, key)
  throw nameTaken('rename', name ?? '')
}

async function checkSnapshot(db: Db, organisationId: string, snapshotId: string): Promise<void> {
  const found = await db.all(
    'select 1 from snapshots where organisation_id = ? and id = ?',
    organisationId,
    snapshotId,
  )
  if (found.length === 0) throw new AppError('not_found', 'There is no such snapshot')
}

const notFound = () => new AppError('not_found', 'There is no such configuration')

const nameTaken = (verb: string, name: string) =>
  new AppError(
    'wrong_state',
    `Cannot ${verb} configuration "${name}": its project has one of this name already`,
    [{ path: 'name', message: 'Taken in this project' }],
  )

export interface Row {
  id: string
  organisation_id: string
  project: string
  name: string
  repository_url: string | null
  repository_ref: string | null
  has_token: number
  default_model: string | null
  trust_project_config: number
  base_snapshot_id: string | null
  warm_pool_size: number
  created_at: number
  updated_at: number
}
/** What may be long is not read for lists. */
export interface LongRow extends Row {
  service_commands: string
  env_files: string
}
export const columns = `id, organisation_id, project, name, repository_url, repository_ref,
  repository_token is not null as has_token, default_model, trust_project_config, base_snapshot_id, warm_pool_size,
  created_at, updated_at`
const longColumns = `${columns}, service_commands, env_files`

const commandsText = (commands: readonly ServiceCommand[]): string => JSON.stringify(commands)

/** Field by field, so that nothing but the specification can be stored, whatever else an object carries. */
const envFilesText = (files: readonly EnvFile[]): string =>
  JSON.stringify(
    files.map(({ workspacePath, path, format, mode, keys }) => ({
      workspacePath,
      path,
      format,
      mode,
      keys: keys.map(({ key, required }) => ({ key, required })),
    })),
  )

function configurationRow(row: Row): ConfigurationRow {
  const { repository_url: url, repository_ref: ref } = row
  return {
    id: row.id as Configuration['id'],
    organisationId: row.organisation_id as Configuration['organisationId'],
    project: row.project,
    name: row.name,
    repository: url === null ? null : { url, ref, hasToken: row.has_token === 1 },
    defaultModel: row.default_model,
    trustProjectConfig: row.trust_project_config === 1,
    baseSnapshotId: row.base_snapshot_id as Configuration['baseSnapshotId'],
    warmPool: { size: row.warm_pool_size },
    createdAt: row.created_at,
    updatedAt: row.updated_at,
  }
}

function configurationOf(row: LongRow): Configuration {
  return {
    ...configurationRow(row),
    serviceCommands: JSON.parse(row.service_commands) as ServiceCommand[],
    envFiles: JSON.parse(row.env_files) as EnvFile[],
  }
}
