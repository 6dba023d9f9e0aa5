import type { AbilityFile } from '../../../contract/ability-folder.ts'
import { abilityFolderFiles } from '../../registry/abilities/abilities.ts'
import { loadOfferFolder } from '../offers/rows.ts'
import type { SessionPorts } from '../record/ports.ts'

/** The files that the session has pinned under this hash: of its workspace, as they were copied, or stored ones. */
export async function executionFiles(
  ports: Pick<SessionPorts, 'sql' | 'db'>,
  organisationId: string,
  hash: string,
): Promise<AbilityFile[]> {
  const own = loadOfferFolder(ports.sql, hash)
  return own.length > 0 ? own : await abilityFolderFiles(ports.db(), organisationId, hash)
}
