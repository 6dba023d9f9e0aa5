import { addToOutbox, lastKind } from '../outbox.ts'
import type { Kernel } from './kernel.ts'
import type { Lifecycle } from './lifecycle.ts'
import type { OutboxSender } from './outbox-sender.ts'
import { ownSnapshots } from './snapshots.ts'

/** First the machine and the shared rows, then the record itself: a crash between them starts here again. */
export async function finishErase(
  kernel: Kernel,
  lifecycle: Lifecycle,
  outbox: OutboxSender,
): Promise<void> {
  const { ports } = kernel
  const session = kernel.session()
  if (session.provider !== 'none') await lifecycle.stopAll()
  const provider = ports.provider(session.provider)
  for (const id of ownSnapshots(ports.sql)) {
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
