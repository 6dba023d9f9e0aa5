import type { Configuration, ConfigurationRow } from '../../../contract/configuration.ts'
import type { ServiceCommand } from '../../../contract/tools/save-commands.ts'
import type { EnvFile } from '../../../contract/tools/save-env-files.ts'

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
export const longColumns = `${columns}, service_commands, env_files`

export const commandsText = (commands: readonly ServiceCommand[]): string =>
  JSON.stringify(commands)

/** Field by field, so that nothing but the specification can be stored, whatever else an object carries. */
export const envFilesText = (files: readonly EnvFile[]): string =>
  JSON.stringify(
    files.map(({ workspacePath, path, format, mode, keys }) => ({
      workspacePath,
      path,
      format,
      mode,
      keys: keys.map(({ key, required }) => ({ key, required })),
    })),
  )

export function configurationRow(row: Row): ConfigurationRow {
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

export function configurationOf(row: LongRow): Configuration {
  return {
    ...configurationRow(row),
    serviceCommands: JSON.parse(row.service_commands) as ServiceCommand[],
    envFiles: JSON.parse(row.env_files) as EnvFile[],
  }
}
