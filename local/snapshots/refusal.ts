// A refusal with an error code, as AppError is one, for the processes that take and scrub snapshots: without zod, which
// AppError's file imports, they start in a fifth of the time. taker.ts turns it into an AppError.

import type { ErrorCode } from '../../src/contract/error.ts'

export class Refusal extends Error {
  readonly code: ErrorCode
  constructor(code: ErrorCode, message: string) {
    super(message)
    this.name = 'Refusal'
    this.code = code
  }
}
