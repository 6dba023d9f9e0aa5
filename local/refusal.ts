import type { ErrorCode } from '../src/contract/error.ts'

/** As AppError, for the process that takes snapshots: without zod it starts in a fifth of the time. */
export class Refusal extends Error {
  readonly code: ErrorCode
  constructor(code: ErrorCode, message: string) {
    super(message)
    this.name = 'Refusal'
    this.code = code
  }
}
