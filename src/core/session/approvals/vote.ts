import type { ApprovalResolve } from '../../../contract/approval.ts'
import { AppError } from '../../../contract/error.ts'
import type { Sql } from '../../ports.ts'
import type { Caller } from '../record/caller.ts'
import { type ApprovalRow, keysOf, mustApproval, settleApproval, votesOf } from './rows.ts'

/** A person's word. The row as it is afterwards: still pending while its quorum is not reached. */
export function voteOn(
  sql: Sql,
  now: number,
  id: string,
  caller: Caller,
  vote: ApprovalResolve,
): ApprovalRow {
  const row = mustApproval(sql, id)
  mustBePending(row)
  mustBeEligible(row, now, caller, vote.resolution)
  if (vote.remember) mustBeRememberable(row, vote.resolution)
  if (vote.operationHash !== undefined && vote.operationHash !== row.operation_hash)
    throw new AppError('wrong_state', `Cannot resolve "${id}": it is about another operation`, [
      { path: 'operationHash', message: `Expected ${row.operation_hash}` },
    ])
  if (vote.resolution === 'approved' && !isEnough(sql, now, row, caller, vote.reason)) return row
  const { keyId, owner } = caller
  const reason = vote.reason || `${vote.resolution} by ${owner || keyId}`
  const { resolution: state, remember = null } = vote
  settleApproval(sql, now, id, { state, actor: keyId, owner, reason, remember })
  return mustApproval(sql, id)
}

function mustBePending(row: ApprovalRow): void {
  if (row.state === 'pending') return
  throw new AppError(
    'wrong_state',
    `Cannot resolve "${row.id}": it was ${row.state} by ${row.actor ?? ''}`,
  )
}

/** Nobody allows alone what several people must allow. */
function mustBeRememberable(row: ApprovalRow, resolution: ApprovalResolve['resolution']): void {
  if (resolution === 'approved' && row.quorum === 1) return
  const why = row.quorum > 1 ? 'it needs several people each time' : 'only an approval can be'
  throw new AppError('unprocessable', `Cannot remember "${row.id}": ${why}`, [
    { path: 'remember', message: 'Not here' },
  ])
}

/** Who asked never approves, not with another key of the same person either; but may take the question back. */
function mustBeEligible(
  row: ApprovalRow,
  now: number,
  { keyId, owner }: Caller,
  resolution: ApprovalResolve['resolution'],
): void {
  const hasAsked = row.asker_kind === 'key' && (row.asker_id === keyId || row.asker_owner === owner)
  if (hasAsked && resolution === 'approved')
    throw new AppError('forbidden', `Cannot approve "${row.id}": you have asked for it yourself`)
  if (hasAsked && resolution === 'cancelled') return
  const group = keysOf(row.group_keys)
  const escalated = row.escalates_at !== null && row.escalates_at <= now
  const second = escalated ? (keysOf(row.escalation_keys) ?? []) : []
  if (group !== null && !group.includes(keyId) && !second.includes(keyId))
    throw new AppError('forbidden', `Cannot resolve "${row.id}": this key is not in its group`)
}

/** Counts people, never keys. */
function isEnough(
  sql: Sql,
  now: number,
  row: ApprovalRow,
  { keyId, owner }: Caller,
  reason: string,
): boolean {
  sql.run('insert or ignore into votes values (?, ?, ?, ?, ?)', row.id, owner, keyId, reason, now)
  return votesOf(sql, row.id).length >= row.quorum
}
