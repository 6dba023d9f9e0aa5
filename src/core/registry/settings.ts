import type { Settings } from '../../contract/settings.ts'
import type { Crypto, Db } from '../ports.ts'
import { auditValues, type Maker } from './audit.ts'

export async function loadSettings(db: Db, organisationId: string): Promise<Settings> {
  const [row] = await db.all<{ count: number }>(
    'select new_keys_count as count from organisations where id = ?',
    organisationId,
  )
  return { newKeysCount: row?.count === 1 }
}

/** A change is on record once; setting what holds already changes and records nothing. */
export async function saveSettings(
  db: Db,
  crypto: Pick<Crypto, 'random'>,
  now: number,
  order: { organisationId: string; settings: Settings; maker: Maker },
): Promise<Settings> {
  const { organisationId, settings, maker } = order
  const count = settings.newKeysCount ? 1 : 0
  const deed = {
    organisationId,
    action: 'settings.changed',
    subject: organisationId,
    maker,
  } as const
  await db.batch([
    {
      sql: `insert into audit (id, organisation_id, action, subject, actor, detail, created_at)
            select ?, ?, ?, ?, ?, ?, ? where exists (
              select 1 from organisations where id = ? and new_keys_count <> ?)`,
      values: [
        ...auditValues(crypto, now, { ...deed, detail: { ...settings } }),
        ...[organisationId, count],
      ],
    },
    {
      sql: 'update organisations set new_keys_count = ? where id = ?',
      values: [count, organisationId],
    },
  ])
  return settings
}
