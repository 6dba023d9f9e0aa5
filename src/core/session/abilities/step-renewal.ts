import { parseDuration } from '../../abilities/durations.ts'
import { saveExecutionStep } from '../executions/rows.ts'
import { sleptMs } from '../generations/renewal.ts'
import { type Moving, stepDefinition, stepTimeout, type StepWork } from './step-work.ts'

/**
 * What should have ended so long ago was slept over: the machine was suspended, or no process was there. Neither the
 * agent nor a person could do anything meanwhile, so its time counts anew. Moves ask it before they look what is overdue.
 */
export function renewStepTimes(moving: Moving, works: Record<string, StepWork>): void {
  const { sql, now, execution, steps, copy } = moving
  const isSlept = (at: number | null): boolean => at !== null && now - at >= sleptMs
  if (isSlept(execution.deadline_at)) {
    execution.deadline_at = now + (parseDuration(copy.definition.settings.timeout ?? 0) ?? 0)
    sql.run('update executions set deadline_at = ? where n = ?', execution.deadline_at, execution.n)
  }
  for (const step of steps) {
    if (step.state !== 'running' || !isSlept(step.deadline_at)) continue
    const own = works[step.type]?.patienceMs?.(moving, step)
    step.renewed_at = now
    step.deadline_at = now + (own ?? stepTimeout(stepDefinition(moving, step)))
    saveExecutionStep(sql, step)
  }
}
