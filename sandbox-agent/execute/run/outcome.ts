import type { CollectedFile } from '../../../src/contract/artifact.ts'
import type { Enforcement, ExecutionReport } from '../../../src/contract/operation.ts'

/** What an executor says. What it leaves out is empty, and without an error it has succeeded. */
export interface Outcome {
  output?: string
  stderr?: string
  found?: boolean
  truncated?: boolean
  exitCode?: number | null
  timedOut?: true
  error?: string | null
  branch?: string | null
  /** What the branch points to. */
  commit?: string | null
  files?: CollectedFile[]
  enforced: Enforcement[]
}

export function outcomeReport(outcome: Outcome, durationMs: number): ExecutionReport {
  const { error = null, stderr, found, timedOut } = outcome
  return {
    status: error === null ? 'succeeded' : 'failed',
    output: outcome.output ?? '',
    ...(stderr !== undefined && { stderr }),
    ...(found !== undefined && { found }),
    truncated: outcome.truncated ?? false,
    exitCode: outcome.exitCode ?? null,
    ...(timedOut === true && { timedOut }),
    error,
    durationMs,
    branch: outcome.branch ?? null,
    files: outcome.files ?? [],
    enforced: outcome.enforced,
  }
}
