import { loadSession } from '../record/record.ts'
import { clearDeadline, setDeadline } from '../../actor/deadlines.ts'
import { addToOutbox, lastOutboxKind } from '../../actor/outbox.ts'
import type { Sql } from '../../ports.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { outsideOrganisation } from '../record/outside.ts'
import { isBaseSnapshot } from '../snapshots/pruning.ts'
import { ownSnapshots } from '../snapshots/rows.ts'

/** From here on it is not there for callers; the rest is done by a deadline. */
export function beginErase(kernel: SessionKernel): void {
  kernel.commit(markSessionErased)
}

/** Inside a commit. Marked once: while the rest waits for libSQL or the provider, nothing begins it a second time. */
export function markSessionErased(sql: Sql, now: number): void {
  clearDeadline(sql, 'purge')
  if (loadSession(sql).status === 'erased') return
  sql.run(`update session set status = 'erased'`)
  addToOutbox(sql, now, 'session.erased', {})
  setDeadline(sql, 'erase', now)
}

export interface Erasing {
  /** Every generation that may still have a machine. */
  stopSandboxes: () => Promise<void>
  /** Everything is in libSQL, or this throws. */
  drainOutbox: () => Promise<void>
  /** Answers to calls are kept outside of the database, too. */
  forgetAnswers: () => void
}

/** First the machine and the shared rows, then the record itself: a crash between them starts here again. */
export async function finishErase(
  kernel: SessionKernel,
  { stopSandboxes, drainOutbox, forgetAnswers }: Erasing,
): Promise<void> {
  const { ports } = kernel
  const session = kernel.session()
  if (session.provider !== 'none') await stopSandboxes()
  const provider = await ports.provider(session.provider, session.organisationId)
  for (const id of ownSnapshots(ports.sql)) {
    if (await isBaseSnapshot(kernel, session.organisationId, id)) continue
    await provider?.deleteSnapshot(session.organisationId, id)
  }
  // Also where nobody has asked for it: what the organisation keeps of it would stay for ever.
  await outsideOrganisation(kernel).creations.end(session.id)
  // Again, as the last word: a call may have ended since, also while this is sent, and its row must not outlive the session.
  do {
    kernel.commit((sql, now) => addToOutbox(sql, now, 'session.erased', {}))
    await drainOutbox()
    await kernel.crash('erase.drained')
  } while (lastOutboxKind(ports.sql) !== 'session.erased')
  kernel.forget()
  forgetAnswers()
  await ports.host.erase()
}
