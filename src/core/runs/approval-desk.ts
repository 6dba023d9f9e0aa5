import type { Approval, ApprovalResolve } from '../../contract/approval.ts'
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
import { addGrant } from './grants.ts'
import { mustRun } from './run.ts'
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
