import { setDeadline } from '../deadlines.ts'
import { addToOutbox, lastKind } from '../outbox.ts'
import type { Sql } from '../ports.ts'
import type { Kernel } from './kernel.ts'
import type { Ending } from './ending.ts'
import type { OutboxSender } from './outbox-sender.ts'
import { isBase } from './pruning.ts'
import { ownSnapshots } from './snapshots.ts'

/** From here on it is not there for callers; the rest is done by a deadline. */
export function beginErase(kernel: Kernel): void {
  kernel.commit(markErased)
}

/** Inside a commit. */
export function markErased(sql: Sql, now: number): void {
  sql.run(`update session set status = 'erased'`)
  addToOutbox(sql, now, 'session.erased', {})
  setDeadline(sql, 'erase', now)
}

/** First the machine and the shared rows, then the record itself: a crash between them starts here again. */
export async function finishErase(
  kernel: Kernel,
  ending: Ending,
  outbox: OutboxSender,
): Promise<void> {
  const { ports } = kernel
  const session = kernel.session()
  if (session.provider !== 'none') await ending.stopAll()
  const provider = await ports.provider(session.provider, session.organisationId)
  for (const id of ownSnapshots(ports.sql)) {
    if (await isBase(kernel, session.organisationId, id)) continue
    await provider?.deleteSnapshot(session.organisationId, id)
  }
  // Again, as the last word: a call may have ended since, also while this is sent, and its row must not outlive the session.
  do {
    kernel.commit((sql, now) => addToOutbox(sql, now, 'session.erased', {}))
    await outbox.drain()
    await kernel.crash('erase.drained')
  } while (lastKind(ports.sql) !== 'session.erased')
  kernel.forget()
  await ports.host.erase()
}
