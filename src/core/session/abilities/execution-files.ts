import type { AbilityFile } from '../../../contract/ability-folder.ts'
import type { Db, Sql } from '../../ports.ts'
import { abilityFolderFiles } from '../../registry/abilities/abilities.ts'
import { loadOfferFolder } from '../offers/rows.ts'

/** The files that the session has pinned under this hash: of its workspace, as they were copied, or stored ones. */
export async function executionFiles(
  sql: Sql,
  db: () => Db,
  organisationId: string,
  hash: string,
): Promise<AbilityFile[]> {
  const own = loadOfferFolder(sql, hash)
  return own.length > 0 ? own : await abilityFolderFiles(db(), organisationId, hash)
}
