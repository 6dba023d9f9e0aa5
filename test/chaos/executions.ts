import type { ExecutionReport } from '../../src/contract/operation.ts'

/** An operation that an agent has carried out. */
export interface Execution {
  attemptId: string
  /** Of the operation: each has a path of its own. */
  label: string
  status: ExecutionReport['status']
  /** Comes back as the output, so that a result is known to be of this execution. */
  nonce: string
}

export const reportOf = ({ status, nonce }: Execution): ExecutionReport => ({
  status,
  output: nonce,
  truncated: false,
  exitCode: null,
  error: status === 'succeeded' ? null : 'As the dice fell',
  durationMs: 1,
  branch: null,
  files: [],
  enforced: [],
})
