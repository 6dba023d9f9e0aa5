import { AppError } from '../../../contract/error.ts'
import { type RunStatus, runEnds } from '../../../contract/run.ts'

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

/** What a caller may make of it next. That a run needs a person, or goes on after one, is nobody's to say. */
const nextStatuses = (status: RunStatus): RunStatus[] =>
  Object.entries(runTransitions[status])
    .filter(([cause]) => cause !== 'wait' && cause !== 'answer')
    .map(([, next]) => next)

/** Says what the run is and what it may become: whoever is refused must know how to go on. */
export function wrongTransition(
  run: { id: string; status: RunStatus },
  wanted: RunStatus,
  why = `it is ${run.status}`,
): AppError {
  const next = nextStatuses(run.status).filter((status) => status !== wanted)
  const may = next.length > 0 ? `it may become ${next.join(', ')}` : 'it has ended, create another'
  return new AppError(
    'wrong_state',
    `Cannot make run "${run.id}" ${wanted}: ${why}; ${may}`,
    next.map((status) => ({ path: 'status', message: `Allowed next: ${status}` })),
  )
}
