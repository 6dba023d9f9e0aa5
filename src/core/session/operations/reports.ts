import type { ExecutionReport } from '../../../contract/operation.ts'
import { hideSecretLike } from '../../redaction/redaction.ts'

/** It was never begun. */
export const cannotRun = (error: string): ExecutionReport => ({
  ...unknownReport(error),
  status: 'failed',
})

/** Nobody can say how it went. */
const unknownReport = (error: string): ExecutionReport => ({
  status: 'unknown',
  output: '',
  truncated: false,
  exitCode: null,
  error,
  durationMs: 0,
  branch: null,
  files: [],
  enforced: [],
})

/** A command that came to nothing says no more than that: whether it was begun is not known. */
export function operationReport(ok: boolean, data: unknown, error: string): ExecutionReport {
  return hideSecretLike(ok ? (data as ExecutionReport) : unknownReport(error))
}
