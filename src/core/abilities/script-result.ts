import type { ScriptStep } from '../../contract/ability.ts'
import type { ExecutionReport } from '../../contract/operation.ts'
import type { Failure } from './engine.ts'
import { cutOutput } from './outputs.ts'

/** How a step went. */
export type Outcome =
  | { ok: true; output: string; exitCode?: number | null }
  | { ok: false; failure: Failure; error: string; output?: string; exitCode?: number | null }

/** Of one step; what was cut is marked. */
const maxStoredOutput = 200_000

/**
 * What the sandbox reports of a script, against what its author expects. Without a word of the author an exit code other
 * than 0 is a failure.
 */
export function judgeScriptResult(
  { id, validation, timeoutMs }: Pick<ScriptStep, 'id' | 'validation'> & { timeoutMs: number },
  report: ExecutionReport,
): Outcome {
  const { exitCode, stderr = '' } = report
  const output = cutOutput(report.output.trim() === '' ? stderr : report.output, maxStoredOutput)
  const failed = (failure: Failure, error: string): Outcome => ({
    ...{ ok: false, failure, error, output, exitCode },
  })
  if (exitCode === null && endedByOthers.test(report.error ?? ''))
    return failed('unknown', `It may or may not have run to its end: ${report.error}`)
  if (exitCode === null)
    return report.durationMs >= timeoutMs
      ? failed('timeout', `Step '${id}' timed out after ${timeoutMs}ms`)
      : failed('failed', report.error ?? 'It did not run to its end')
  const expected = validation?.exit_code ?? 0
  if (exitCode !== expected) return failed('failed', `Exit code ${exitCode}, expected ${expected}`)
  const missing = missingFrom(validation ?? {}, report)
  return missing === null ? { ok: true, output, exitCode } : failed('failed', missing)
}

/**
 * As the sandbox tells it. When OpenCode dies, everything that runs in its sandbox is ended: that is no failure of the
 * script, and how far it has come nobody knows.
 */
const endedByOthers = /^It was killed by SIG(KILL|TERM)\b/

function missingFrom(
  validation: NonNullable<ScriptStep['validation']>,
  { output, stderr = '', found }: ExecutionReport,
): string | null {
  const { stdout_contains: stdout, stderr_contains: error, file_exists: file } = validation
  if (stdout !== undefined && !output.includes(stdout))
    return `Standard output does not contain "${stdout}"`
  if (error !== undefined && !stderr.includes(error))
    return `Standard error does not contain "${error}"`
  return file !== undefined && found !== true ? `There is no "${file}"` : null
}
