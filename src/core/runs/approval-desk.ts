import type { Approval, ApprovalResolve, ApprovalRevoke } from '../../contract/approval.ts'
import { AppError } from '../../contract/error.ts'
import type { Caller } from '../sessions/caller.ts'
import { answerApproved } from '../sessions/asks.ts'
import { callerSession } from '../sessions/doors.ts'
import type { Kernel } from '../sessions/kernel.ts'
import type { ApprovalApi } from './api.ts'
import {
  escalateDue,
  listApprovals,
  mustApproval,
  overdueApprovals,
  settleApproval,
  toApproval,
} from './approvals.ts'
import { addGrant, endGrant } from './grants.ts'
import { mustRun, record } from './run.ts'
import { voteOn } from './vote.ts'

/** Where people resolve what waits for them, and where time does. */
export class ApprovalDesk implements ApprovalApi {
  readonly #kernel: Kernel
  /** A call that was refused is not counted any more: others may wait for it. */
  readonly #onRoom: () => void

  constructor(kernel: Kernel, onRoom: () => void) {
    this.#kernel = kernel
    this.#onRoom = onRoom
  }

  async approvals(caller: Caller, runId: string | null): Promise<Approval[]> {
    callerSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    return listApprovals(sql, runId === null ? null : mustRun(sql, runId).id)
  }

  async approval(caller: Caller, approvalId: string): Promise<Approval> {
    callerSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    return toApproval(sql, mustApproval(sql, approvalId))
  }

  async resolveApproval(
    caller: Caller,
    approvalId: string,
    sent: ApprovalResolve,
  ): Promise<Approval> {
    callerSession(this.#kernel, caller)
    await this.#kernel.openSecrets()
    callerSession(this.#kernel, caller)
    const vote = this.#kernel.redact(sent)
    // Time has decided, though its alarm is late.
    const { sql: store, now: clock } = this.#kernel.ports
    if (overdueApprovals(store, clock()).length > 0) this.onDeadline()
    const approval = this.#kernel.commit((sql, now) => {
      const row = voteOn(sql, now, approvalId, caller, vote)
      if (row.state === 'approved' && vote.remember) addGrant(sql, now, row, vote.remember)
      const answer = answerApproved(sql, now, row)
      if (answer) this.#kernel.answer([answer])
      return toApproval(sql, row)
    })
    this.#onRoom()
    return approval
  }

  /** What was remembered is asked about again from now on. What runs already is not stopped by it. */
  async revokeApproval(caller: Caller, id: string, { reason }: ApprovalRevoke): Promise<Approval> {
    callerSession(this.#kernel, caller)
    await this.#kernel.openSecrets()
    callerSession(this.#kernel, caller)
    const { keyId: actor, owner } = caller
    const why = this.#kernel.redact(reason)
    return this.#kernel.commit((sql, now) => {
      const row = mustApproval(sql, id)
      if (!endGrant(sql, now, id))
        throw new AppError('wrong_state', `Cannot revoke "${id}": it is not remembered`)
      const told = { approvalId: id, operationHash: row.operation_hash, actor, owner, reason: why }
      record(sql, now, row.run_id, 'permission.revoked', told)
      return toApproval(sql, row)
    })
  }

  /** Whatever nobody has answered in time is rejected: nothing waits for ever. */
  onDeadline(): void {
    this.#kernel.commit((sql, now) => {
      for (const { id } of overdueApprovals(sql, now)) {
        const row = settleApproval(sql, now, id, {
          state: 'rejected',
          actor: 'deadline',
          owner: null,
          reason: 'Nobody answered in time',
        })
        const answer = row && answerApproved(sql, now, row)
        if (answer) this.#kernel.answer([answer])
      }
      escalateDue(sql, now)
    })
    this.#onRoom()
  }
}
