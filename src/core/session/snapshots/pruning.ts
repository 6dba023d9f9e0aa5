import { clearDeadline } from '../../actor/deadlines.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { outsideProvider } from '../record/outside.ts'
import { forgetSnapshot, giveAwaySnapshot, prunableSnapshots } from './rows.ts'

/** Deletes the session's own snapshots that are older than the two it keeps. Repeated until none is left. */
export async function pruneSnapshots(kernel: SessionKernel): Promise<void> {
  const { organisationId } = kernel.session()
  const provider = await outsideProvider(kernel)
  for (const id of prunableSnapshots(kernel.ports.sql)) {
    // A person may have made it the base of a configuration.
    if (await isBaseSnapshot(kernel, organisationId, id))
      kernel.commit((sql) => giveAwaySnapshot(sql, id))
    else {
      await provider.deleteSnapshot(organisationId, id)
      kernel.commit((sql, now) => forgetSnapshot(sql, now, id))
    }
  }
  kernel.commit((sql) => {
    if (prunableSnapshots(sql).length === 0) clearDeadline(sql, 'snapshots.prune')
  })
}

/** A configuration starts from it, whoever took it. */
export async function isBaseSnapshot(
  kernel: SessionKernel,
  organisationId: string,
  id: string,
): Promise<boolean> {
  const rows = await kernel.ports
    .db()
    .all(
      'select 1 from configurations where organisation_id = ? and base_snapshot_id = ?',
      organisationId,
      id,
    )
  return rows.length > 0
}
