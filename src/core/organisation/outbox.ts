import { countDeadLetters, listDeadLetters, resendDeadLetters } from '../actor/dead-letters.ts'
import { LedgerSender } from '../actor/ledger-sender.ts'
import { canBeTold, tellReservationsAnew } from './firewall/reservations.ts'
import type { RoomOf } from '../actor/room.ts'
import type { LettersApi } from './record/api.ts'
import type { OrganisationKernel } from './record/kernel.ts'

/**
 * The room of the organisation's own outbox: its reservations and actions on their way to libSQL, by the same ledger
 * shards and with the same watermark as a session's rows. Admins list the rows that libSQL has refused and have them sent
 * again.
 */
export function createOutbox(kernel: OrganisationKernel): RoomOf<LettersApi> {
  const { id } = kernel.ports
  const sender = new LedgerSender(kernel, () => ({ id, organisationId: id }))
  return {
    api: {
      async list(page) {
        await sender.ask().catch(() => undefined)
        return kernel.read((sql) => listDeadLetters(sql, page, canBeTold))
      },
      async resend(seqs) {
        await sender.ask()
        return kernel.commit((sql, now) => {
          const sent = resendDeadLetters(sql, now, seqs, (kind) =>
            tellReservationsAnew(sql, now, kind),
          )
          return { sent, left: countDeadLetters(sql) }
        })
      },
    },
    deadlines: sender.deadlines,
  }
}
