import { addToOutbox } from '../outbox.ts'
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
  // Again, as the last word: a call or the sandbox may have ended since, and its row must not outlive the session.
  kernel.commit((sql, now) => addToOutbox(sql, now, 'session.erased', {}))
  await outbox.drain()
  await kernel.crash('erase.drained')
  kernel.forget()
  await ports.host.erase()
}
