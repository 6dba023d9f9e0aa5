// What an error of libSQL means for the rows of a batch: whether they are to blame, the schema is not there yet, or libSQL
// is away. The ledger asks it after a failed batch, and refuses a row for good only if the row itself is at fault.

import { AppError, errorCodeOf } from '../../contract/error.ts'
import type { OutboxRow } from '../ports.ts'

export class UnknownKind extends Error {
  constructor(kind: string) {
    super(`Unknown outbox row "${kind}"`)
  }
}

/**
 * Whether an error is clearly the row's own fault: only then do later rows go on without it. Everything else (a table or
 * column that is not there yet, an error that the server cannot name) may pass, and is waited for.
 */
export function isRowError(error: unknown): boolean {
  if (error instanceof UnknownKind) return true
  const { code, name, message } = error as { code?: unknown; name?: unknown; message?: unknown }
  // The client refuses a value that it cannot bind before it sends anything.
  if (name === 'RangeError' || /malformed JSON/i.test(String(message))) return true
  return typeof code === 'string' && /^SQLITE_(CONSTRAINT|MISMATCH|TOOBIG|RANGE)/.test(code)
}

/** Nothing can be written. A table or column that is not there yet concerns only those who write to it. */
export function isLibsqlAway(error: unknown): boolean {
  if (errorCodeOf(error) !== 'storage_unavailable') return false
  const { cause } = error as { cause?: { message?: unknown } }
  return !/no such (table|column)|has no column named/.test(String(cause?.message))
}

/** Told to the owner, who tries again. */
export function notYetError({ kind }: OutboxRow, error: unknown): AppError {
  return new AppError(
    'storage_unavailable',
    `libSQL does not take a row "${kind}" yet: ${libsqlReason(error)}`,
  )
}

/** Without the code that the client puts before it, sometimes twice. */
export function libsqlReason(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message.replace(/^((SQLITE|SQL)_[A-Z_]+: )+/, '')
}
