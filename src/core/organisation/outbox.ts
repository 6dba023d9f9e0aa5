import { countLetters, keepDeadLetters, listLetters, resendLetters } from '../actor/dead-letters.ts'
import { clearDeadline, clearTakenDeadline, setDeadline } from '../actor/deadlines.ts'
import {
  hasUnsentOutbox,
  nextOutboxVerification,
  outboxWatermark,
  setOutboxWatermark,
  unsentOutbox,
} from '../actor/outbox.ts'
import type { OutboxRow } from '../ports.ts'
import { canBeTold, tellReservationsAnew } from './firewall/reservations.ts'
import type { RoomOf } from '../actor/room.ts'
import type { LettersApi } from './record/api.ts'
import type { OrganisationKernel } from './record/kernel.ts'

/**
 * The room of the organisation's own outbox: its reservations and actions on their way to libSQL, by the same ledger
 * shards and with the same watermark as a session's rows. Rows are sent at the deadline `outbox` only, because nobody
 * waits for them; if that fails, the deadline comes again. Long after the last row, `outbox.verify` asks whether libSQL
 * still has it. Admins list the rows that libSQL has refused and have them sent again.
 */
export function createOutbox(kernel: OrganisationKernel): RoomOf<LettersApi> {
  return {
    api: {
      async list(page) {
        await askLedger(kernel).catch(() => undefined)
        return kernel.read((sql) => listLetters(sql, page, canBeTold))
      },
      async resend(seqs) {
        await askLedger(kernel)
        return kernel.commit((sql, now) => {
          const sent = resendLetters(sql, now, seqs, (kind) => tellReservationsAnew(sql, now, kind))
          return { sent, left: countLetters(sql) }
        })
      },
    },
    deadlines: {
      outbox: () => sendLedger(kernel),
      'outbox.verify': () => verifyLedger(kernel),
    },
  }
}

async function sendLedger(kernel: OrganisationKernel): Promise<void> {
  await sendUnsent(kernel)
  kernel.commit((sql, now) => {
    // What was committed while the last batch was on its way has found this deadline set.
    if (hasUnsentOutbox(sql)) return setDeadline(sql, 'outbox', now)
    clearDeadline(sql, 'outbox')
    setDeadline(sql, 'outbox.verify', nextOutboxVerification(now))
  })
}

async function verifyLedger(kernel: OrganisationKernel): Promise<void> {
  await askLedger(kernel)
  await sendUnsent(kernel)
  kernel.commit((sql) => clearTakenDeadline(sql, 'outbox.verify'))
}

/** How far libSQL is, and which rows it has refused. */
async function askLedger(kernel: OrganisationKernel): Promise<void> {
  if (kernel.created) await append(kernel, [])
}

async function sendUnsent(kernel: OrganisationKernel): Promise<void> {
  const { sql } = kernel.ports
  for (let rows = unsentOutbox(sql); rows.length > 0; rows = unsentOutbox(sql))
    await append(kernel, rows)
}

async function append(kernel: OrganisationKernel, rows: OutboxRow[]): Promise<void> {
  const { ports } = kernel
  const { id, sql } = ports
  const after = outboxWatermark(sql)
  const answer = await ports.ledger(id).append({ sessionId: id, organisationId: id, after, rows })
  // A mere question may be answered after rows that were sent meanwhile: only a loss moves the mark back.
  const isLoss = answer.stored < after
  const stored = isLoss ? answer.stored : Math.max(answer.stored, outboxWatermark(sql))
  sql.transaction(() => {
    keepDeadLetters(sql, { ...answer, stored })
    setOutboxWatermark(sql, ports.now(), stored)
  })
}
