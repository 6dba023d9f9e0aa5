import type { ApprovalResolve } from '../../../contract/approval.ts'
import { AppError } from '../../../contract/error.ts'
import type { Sql } from '../../ports.ts'
import type { Caller } from '../record/caller.ts'
import {
  type ApprovalRow,
  isInGroup,
  mustApproval,
  namesOf,
  settleApproval,
  approvalVotes,
} from './rows.ts'

/** A person's word. The row as it is afterwards: still pending while its quorum is not reached. */
export function voteOnApproval(
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
  if (vote.option !== undefined) mustBeOffered(row, vote.option, vote.resolution)
  if (vote.operationHash !== undefined && vote.operationHash !== row.operation_hash)
    throw new AppError('wrong_state', `Cannot resolve "${id}": it is about another operation`, [
      { path: 'operationHash', message: `Expected ${row.operation_hash}` },
    ])
  if (vote.resolution === 'approved' && !isEnough(sql, now, row, caller, vote.reason)) return row
  const { keyId, owner } = caller
  const { memberId } = voterOf(caller)
  const reason = vote.reason || `${vote.resolution} by ${owner || keyId}`
  const { resolution: state, remember = null, option = null } = vote
  settleApproval(sql, now, id, { state, actor: keyId, owner, memberId, reason, option, remember })
  return mustApproval(sql, id)
}

/** One that says no is no way to say yes. */
function mustBeOffered(
  row: ApprovalRow,
  option: string,
  resolution: ApprovalResolve['resolution'],
): void {
  const { options } = JSON.parse(row.operation) as { options?: { value: string }[] | null }
  const values = row.kind === 'ability' ? (options ?? []).map(({ value }) => value) : []
  const isFitting = (option === 'rejected') === (resolution === 'rejected')
  if (values.includes(option) && (isFitting || option !== 'rejected')) return
  throw new AppError('unprocessable', `Cannot resolve "${row.id}" by the option "${option}"`, [
    {
      path: 'option',
      message: values.includes(option)
        ? 'It rejects: send it with the resolution "rejected"'
        : `Expected one of: ${values.join(', ') || 'it offers none'}`,
    },
  ])
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

/** A new key counts as the member's who has made it: nobody becomes several by making members. */
const voterOf = ({ countsAs, memberId, owner }: Caller) => countsAs ?? { memberId, owner }

/** With this key, with another one of the same member, or through a member that it has just made. */
function hasAsked(row: ApprovalRow, caller: Caller): boolean {
  if (row.asker_kind !== 'key') return false
  const askers = [row.asker_owner, row.asker_counts_as]
  return (
    row.asker_id === caller.keyId ||
    askers.includes(caller.owner) ||
    askers.includes(voterOf(caller).owner)
  )
}

/** Who asked never approves, but may take the question back. */
function mustBeEligible(
  row: ApprovalRow,
  now: number,
  caller: Caller,
  resolution: ApprovalResolve['resolution'],
): void {
  const isAsker = hasAsked(row, caller)
  if (isAsker && resolution === 'approved')
    throw new AppError('forbidden', `Cannot approve "${row.id}": ${askedBy(caller)}`)
  if (isAsker && resolution === 'cancelled') return
  const group = namesOf(row.group_keys)
  const escalated = row.escalates_at !== null && row.escalates_at <= now
  const second = escalated ? (namesOf(row.escalation_keys) ?? []) : []
  const voter = { keyId: caller.keyId, memberId: voterOf(caller).memberId }
  if (group !== null && !isInGroup([...group, ...second], voter))
    throw new AppError('forbidden', `Cannot resolve "${row.id}": this key is not in its group`)
}

const askedBy = ({ countsAs }: Caller): string =>
  countsAs
    ? `this key is new and counts as that of "${countsAs.owner}", who has made it, for a day`
    : 'you have asked for it yourself'

/** Counts members, never keys. */
function isEnough(
  sql: Sql,
  now: number,
  row: ApprovalRow,
  caller: Caller,
  reason: string,
): boolean {
  const { owner } = voterOf(caller)
  const vote = [row.id, owner, caller.keyId, reason, now]
  sql.run('insert or ignore into votes values (?, ?, ?, ?, ?)', ...vote)
  return approvalVotes(sql, row.id).length >= row.quorum
}
