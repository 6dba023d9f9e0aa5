import { type RunStatus, runEnds } from '../../contract/run.ts'

/** One cause per change of status. The table in SPEC.md, area RUN, is this one. */
export type RunCause =
  | 'plan'
  | 'start'
  | 'wait'
  | 'answer'
  | 'complete'
  | 'fail'
  | 'block'
  | 'cancel'

const ending = {
  complete: 'completed',
  fail: 'failed',
  block: 'blocked',
  cancel: 'cancelled',
} as const

export const runTransitions: Record<RunStatus, Partial<Record<RunCause, RunStatus>>> = {
  created: { plan: 'planned', start: 'running', wait: 'needs-human', ...ending },
  planned: { start: 'running', wait: 'needs-human', ...ending },
  running: { wait: 'needs-human', ...ending },
  'needs-human': { answer: 'running', ...ending },
  completed: {},
  failed: {},
  blocked: {},
  cancelled: {},
}

export const endCause = {
  completed: 'complete',
  failed: 'fail',
  blocked: 'block',
  cancelled: 'cancel',
} as const satisfies Record<(typeof runEnds)[number], RunCause>

export const nextRunStatus = (status: RunStatus, cause: RunCause): RunStatus | null =>
  runTransitions[status][cause] ?? null

export const hasEnded = (status: RunStatus): boolean => runEnds.some((end) => end === status)
