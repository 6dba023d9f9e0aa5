import { clearDeadline, setDeadline } from '../deadlines.ts'
import {
  hasUnsent,
  nextVerification,
  outboxWatermark,
  setWatermark,
  unsentRows,
} from '../outbox.ts'
import type { OutboxRow } from '../ports.ts'
import type { OrganisationKernel } from './kernel.ts'

/**
 * Sends reservations and actions to libSQL, by the same writers and with the same watermark as a session's rows. Only by
 * its deadline: nobody waits for these. If it fails, the deadline comes again.
 */
export async function sendLedger(kernel: OrganisationKernel): Promise<void> {
  await sendUnsent(kernel)
  kernel.commit((sql, now) => {
    // What was committed while the last batch was on its way has found this deadline set.
    if (hasUnsent(sql)) return setDeadline(sql, 'outbox', now)
    clearDeadline(sql, 'outbox')
    setDeadline(sql, 'outbox.verify', nextVerification(now))
  })
}

/** Long after the last row: does libSQL still have it? */
export async function verifyLedger(kernel: OrganisationKernel): Promise<void> {
  await append(kernel, [])
  await sendUnsent(kernel)
  kernel.commit((sql) => clearDeadline(sql, 'outbox.verify'))
}

async function sendUnsent(kernel: OrganisationKernel): Promise<void> {
  const { sql } = kernel.ports
  for (let rows = unsentRows(sql); rows.length > 0; rows = unsentRows(sql))
    await append(kernel, rows)
}

async function append(kernel: OrganisationKernel, rows: OutboxRow[]): Promise<void> {
  const { ports } = kernel
  const { id, sql } = ports
  const after = outboxWatermark(sql)
  const stored = await ports.ledger(id).append({ sessionId: id, organisationId: id, after, rows })
  setWatermark(sql, ports.now(), stored)
}
