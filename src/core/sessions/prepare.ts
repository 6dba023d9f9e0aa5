import { AppError } from '../../contract/error.ts'
import type { SessionCreate } from '../../contract/session.ts'
import { loadConfiguration } from '../configurations/configuration.ts'
import type { Db } from '../ports.ts'
import type { CreateSession, SessionConfiguration } from './api.ts'
import type { SealedValue } from './secrets.ts'

/** What a session takes from its configuration, read once: from then on it needs libSQL for nothing. */
export async function prepareSession(
  db: Db,
  organisationId: string,
  input: SessionCreate,
): Promise<Required<Pick<CreateSession, 'configuration' | 'secrets'>>> {
  const { configurationId } = input
  if (configurationId === undefined) return { configuration: null, secrets: [] }
  const configuration = await loadForSession(db, { organisationId, configurationId })
  if (input.project !== 'default' && input.project !== configuration.project) {
    throw new AppError(
      'unprocessable',
      `The configuration belongs to project "${configuration.project}"`,
      [{ path: 'project', message: `Must be "${configuration.project}", or be left out` }],
    )
  }
  return { configuration, secrets: await loadSealed(db, organisationId, configurationId) }
}

async function loadForSession(
  db: Db,
  key: { organisationId: string; configurationId: string },
): Promise<SessionConfiguration> {
  const found = await loadConfiguration(db, key)
  const rows = await db.all<{ token: string | null }>(
    'select repository_token as token from configurations where organisation_id = ? and id = ?',
    key.organisationId,
    key.configurationId,
  )
  return {
    id: found.id,
    project: found.project,
    name: found.name,
    repository: found.repository && {
      url: found.repository.url,
      ref: found.repository.ref,
      token: rows[0]?.token ?? null,
    },
    defaultModel: found.defaultModel,
    trustProjectConfig: found.trustProjectConfig,
    snapshotId: found.baseSnapshotId,
    envFiles: found.envFiles,
  }
}

/** Still sealed. The configuration's own value hides the organisation's of the same name: '' sorts first. */
async function loadSealed(
  db: Db,
  organisationId: string,
  configurationId: string,
): Promise<SealedValue[]> {
  const rows = await db.all<{ name: string; sealed: string }>(
    `select name, sealed from secrets where organisation_id = ? and configuration_id in ('', ?)
     order by name, configuration_id`,
    organisationId,
    configurationId,
  )
  const byName = new Map(rows.map(({ name, sealed }) => [name, sealed]))
  return Array.from(byName, ([key, sealed]) => ({ key, sealed, kind: 'secret' as const }))
}
