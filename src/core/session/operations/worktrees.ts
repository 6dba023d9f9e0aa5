import { AppError } from '../../../contract/error.ts'
import type { Attempt, DiscardReport, MergeReport } from '../../../contract/operation.ts'
import type { Sql } from '../../ports.ts'
import { addCommand } from '../commands/rows.ts'
import { findRun, recordOnRun } from '../runs/rows.ts'
import { hasEnded } from '../runs/transitions.ts'

/**
 * Merge and discard of an attempt's branch. Each is a row before the sandbox is asked, and the sandbox's result is
 * recorded in the commit that receives it: whoever asked may be long gone. While one is under way, and after it has
 * succeeded in this sandbox, asking again is the same step.
 */
export type StepKind = 'merge' | 'discard'

interface StepRow {
  n: number
  command_id: string
  attempt_id: string
  kind: StepKind
  generation: number
  actor: string
  state: 'open' | 'done' | 'failed' | 'lost'
}

const running = { merge: 'merging', discard: 'discarding' } as const

/** The command of the step. Inside a commit: it is begun here, or joined. */
export function beginWorktreeStep(
  sql: Sql,
  now: number,
  attempt: Attempt,
  step: { kind: StepKind; commandId: string; generation: number; actor: string },
): string {
  const { kind, commandId, generation, actor } = step
  const known = sql.all<StepRow>(
    `select * from worktree_steps where attempt_id = ? and kind = ?
       and (state = 'open' or (state = 'done' and generation = ?)) order by n desc limit 1`,
    attempt.id,
    kind,
    generation,
  )[0]
  if (known) return known.command_id
  sql.run(
    `insert into worktree_steps (command_id, attempt_id, kind, generation, actor, state, asked_at)
     values (?, ?, ?, ?, ?, 'open', ?)`,
    commandId,
    attempt.id,
    kind,
    generation,
    actor,
    now,
  )
  const body = { attemptId: attempt.id, branch: branchOf(attempt, kind) }
  addCommand(sql, now, { id: commandId, generation, kind, body })
  tell(sql, now, attempt.id, { status: running[kind], actor })
  return commandId
}

function branchOf({ id, status, report }: Attempt, kind: StepKind): string {
  if (status === 'succeeded' && report?.branch) return report.branch
  throw new AppError('wrong_state', `Attempt "${id}" has nothing to ${kind}`)
}

export type StepResult =
  | { ok: true; report: MergeReport | DiscardReport }
  | { ok: false; error: string }

/** The sandbox's result, inside the commit that stores it: once, since a command is finished once. */
export function endWorktreeStep(
  sql: Sql,
  now: number,
  commandId: string,
  result: StepResult,
): void {
  const [step] = sql.all<StepRow>('select * from worktree_steps where command_id = ?', commandId)
  // Of an earlier release: nobody has written it down.
  if (!step) return
  const isDone = result.ok && (!('merged' in result.report) || result.report.merged)
  saveEnd(sql, now, step, isDone ? 'done' : 'failed')
  const outcome = result.ok ? result.report : { error: result.error }
  const done = step.kind === 'merge' ? 'merged' : 'discarded'
  const status = isDone ? done : `not-${done}`
  tell(sql, now, step.attempt_id, { status, ...outcome, actor: step.actor })
}

/** Their sandbox is gone: nobody hears what came of them, and they may be asked for again. */
export function loseWorktreeSteps(sql: Sql, now: number, reason: string): void {
  const steps = sql.all<StepRow>(`select * from worktree_steps where state = 'open' order by n`)
  for (const step of steps) {
    saveEnd(sql, now, step, 'lost')
    const { attempt_id: id, actor, kind } = step
    tell(sql, now, id, { status: 'unknown', step: kind, reason, actor })
  }
}

/** By the sandbox of now: if the one that it was asked of slept, another was woken for it. */
function saveEnd(sql: Sql, now: number, { n }: StepRow, state: StepRow['state']): void {
  sql.run(
    `update worktree_steps set state = ?, ended_at = ?, generation = (select generation from session)
     where n = ?`,
    state,
    now,
    n,
  )
}

/** A run that has ended meanwhile still says what became of its worktree. */
function tell(sql: Sql, now: number, attemptId: string, data: Record<string, unknown>): void {
  const [attempt] = sql.all<{ operation_id: string; run_id: string }>(
    'select operation_id, run_id from attempts where id = ?',
    attemptId,
  )
  const run = attempt && findRun(sql, attempt.run_id)
  if (!run) return
  const late = hasEnded(run.status) ? { late: true } : {}
  const told = { operationId: attempt.operation_id, attemptId, ...data, ...late }
  recordOnRun(sql, now, run.id, 'operation-execution', told)
}

export function worktreeStepResult(ok: boolean, data: unknown, error: string): StepResult {
  return ok ? { ok, report: data as MergeReport | DiscardReport } : { ok, error }
}
