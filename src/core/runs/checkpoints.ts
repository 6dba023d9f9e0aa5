import { AppError } from '../../contract/error.ts'
import type { CheckpointId, RunId } from '../../contract/ids.ts'
import {
  type Checkpoint,
  type CheckpointCreate,
  maxCheckpointBytes,
  type Run,
} from '../../contract/run.ts'
import type { Sql } from '../ports.ts'
import { isLongerThan } from '../../contract/canonical.ts'
import { changeRun, mustOpenRun, mustRun, projectRun, record, toRun } from './run.ts'
import { rowsThatFit } from './rows-that-fit.ts'

interface Row {
  id: string
  run_id: string
  label: string
  state: string
  created_at: number
}

export function addCheckpoint(
  sql: Sql,
  now: number,
  runId: string,
  id: string,
  { label, state }: CheckpointCreate,
): Checkpoint {
  const run = mustOpenRun(sql, runId)
  const text = JSON.stringify(state)
  if (isLongerThan(text, maxCheckpointBytes))
    throw new AppError('too_large', 'The state of a checkpoint has at most 256 KiB of JSON', [
      { path: 'state', message: 'Too large' },
    ])
  sql.run(
    'insert into checkpoints (id, run_id, label, state, created_at) values (?, ?, ?, ?, ?)',
    id,
    runId,
    label,
    text,
    now,
  )
  sql.run('update runs set latest_checkpoint_id = ?, updated_at = ? where n = ?', id, now, run.n)
  record(sql, now, runId, 'checkpoint.saved', { checkpointId: id, label })
  projectRun(sql, now, runId)
  return loadCheckpoint(sql, runId, id)
}

export function listCheckpoints(sql: Sql, runId: string): Checkpoint[] {
  const query = {
    from: 'checkpoints where run_id = ?',
    by: 'n desc',
    size: 'length(state)',
    limit: 100,
  }
  return rowsThatFit<Row>(sql, query, runId).map(toCheckpoint)
}

export function loadCheckpoint(sql: Sql, runId: string, id: string): Checkpoint {
  const row = sql.all<Row>('select * from checkpoints where id = ? and run_id = ?', id, runId)[0]
  if (!row) throw new AppError('not_found', `No such checkpoint: "${id}"`)
  return toCheckpoint(row)
}

/** Gives back exactly what was stored. A run that has not begun begins; one that waits for a person goes on waiting. */
export function resumeFrom(
  sql: Sql,
  now: number,
  runId: string,
  checkpointId: string | null,
): { run: Run; checkpoint: Checkpoint } {
  const run = mustOpenRun(sql, runId)
  const id = checkpointId ?? run.latest_checkpoint_id
  if (id === null)
    throw new AppError('wrong_state', `Cannot resume run "${runId}": it has no checkpoint`)
  const checkpoint = loadCheckpoint(sql, runId, id)
  changeRun(sql, now, runId, 'start', `Resumed from "${checkpoint.label}"`)
  record(sql, now, runId, 'run.resumed', { checkpointId: id, label: checkpoint.label })
  return { run: toRun(sql, mustRun(sql, runId)), checkpoint }
}

const toCheckpoint = (row: Row): Checkpoint => ({
  id: row.id as CheckpointId,
  runId: row.run_id as RunId,
  label: row.label,
  state: JSON.parse(row.state) as unknown,
  createdAt: row.created_at,
})
