import { AppError } from '../../../contract/error.ts'
import type { CheckpointId, RunId } from '../../../contract/ids.ts'
import {
  type Checkpoint,
  type CheckpointCreate,
  maxCheckpointBytes,
} from '../../../contract/run.ts'
import type { Sql } from '../../ports.ts'
import { isByteLengthOver } from '../../../contract/byte-length.ts'
import { changeRun, mustOpenRun, projectRun, recordOnRun } from './rows.ts'
import { pageThatFits } from '../../actor/paging.ts'

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
): void {
  const run = mustOpenRun(sql, runId)
  const text = JSON.stringify(state)
  if (isByteLengthOver(text, maxCheckpointBytes))
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
  recordOnRun(sql, now, runId, 'checkpoint.saved', { checkpointId: id, label })
  projectRun(sql, now, runId)
}

export function listCheckpoints(sql: Sql, runId: string): Checkpoint[] {
  const query = {
    from: 'checkpoints where run_id = ?',
    by: 'n desc',
    size: 'length(state)',
    limit: 100,
  }
  return pageThatFits<Row>(sql, query, runId).map(toCheckpoint)
}

export function loadCheckpoint(sql: Sql, runId: string, id: string): Checkpoint {
  const row = sql.all<Row>('select * from checkpoints where id = ? and run_id = ?', id, runId)[0]
  if (!row) throw new AppError('not_found', `No such checkpoint: "${id}"`)
  return toCheckpoint(row)
}

/** The checkpoint that is taken up. A run that has not begun begins; one that waits for a person goes on waiting. */
export function resumeFromCheckpoint(
  sql: Sql,
  now: number,
  runId: string,
  checkpointId: string | null,
): string {
  const run = mustOpenRun(sql, runId)
  const id = checkpointId ?? run.latest_checkpoint_id
  if (id === null)
    throw new AppError('wrong_state', `Cannot resume run "${runId}": it has no checkpoint`)
  const { label } = loadCheckpoint(sql, runId, id)
  changeRun(sql, now, runId, 'start', `Resumed from "${label}"`)
  recordOnRun(sql, now, runId, 'run.resumed', { checkpointId: id, label })
  return id
}

const toCheckpoint = (row: Row): Checkpoint => ({
  id: row.id as CheckpointId,
  runId: row.run_id as RunId,
  label: row.label,
  state: JSON.parse(row.state) as unknown,
  createdAt: row.created_at,
})
