import type { RoomOf } from '../../actor/room.ts'
import type { Sql } from '../../ports.ts'
import {
  type ApprovalRow,
  escalateApprovals,
  listApprovals,
  mustApproval,
  overdueApprovals,
  settleApproval,
  toApproval,
} from './rows.ts'
import type { Approval, ApprovalResolve, ApprovalRevoke } from '../../../contract/approval.ts'
import type { Enclosure } from '../../../contract/enclosure.ts'
import { AppError } from '../../../contract/error.ts'
import type { Caller } from '../record/caller.ts'
import { guardSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { addGrant, endGrant } from './grants.ts'
import { mustRun, recordOnRun } from '../runs/rows.ts'
import { voteOnApproval } from './vote.ts'

export interface ApprovalsApi {
  /** Newest first; of one run, or of all. */
  list(caller: Caller, runId: string | null): Promise<Approval[]>
  get(caller: Caller, approvalId: string): Promise<Approval>
  resolve(caller: Caller, approvalId: string, vote: ApprovalResolve): Promise<Approval>
  /** Ends what was remembered. */
  revoke(caller: Caller, approvalId: string, revoke: ApprovalRevoke): Promise<Approval>
}

/** Who has asked. An approval that is resolved is told in the commit that resolves it. */
export interface Asker {
  answered(sql: Sql, now: number, approval: ApprovalRow): void
  /** A call that was refused is not counted any more: others may wait for what it would have spent. */
  decideParked(): void
  /** What holds the sandbox that asks. */
  enclosure(): Enclosure
}

/**
 * Where people resolve what waits for them, and where time does. An approval is resolved once; what nobody has answered
 * in time is rejected, so nothing waits for ever.
 */
export class Approvals implements RoomOf<ApprovalsApi> {
  readonly api: ApprovalsApi = this
  readonly #kernel: SessionKernel
  readonly #asker: Asker

  constructor(kernel: SessionKernel, asker: Asker) {
    this.#kernel = kernel
    this.#asker = asker
  }

  async list(caller: Caller, runId: string | null): Promise<Approval[]> {
    guardSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    return listApprovals(sql, runId === null ? null : mustRun(sql, runId).id)
  }

  async get(caller: Caller, approvalId: string): Promise<Approval> {
    guardSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    return toApproval(sql, mustApproval(sql, approvalId))
  }

  async resolve(caller: Caller, approvalId: string, sent: ApprovalResolve): Promise<Approval> {
    guardSession(this.#kernel, caller)
    await this.#kernel.openSecrets()
    guardSession(this.#kernel, caller)
    const vote = this.#kernel.hide(sent)
    // Time has decided, though its alarm is late.
    const { sql: store, now: clock } = this.#kernel.ports
    if (overdueApprovals(store, clock()).length > 0) this.#expire()
    const approval = this.#kernel.commit((sql, now) => {
      if (vote.resolution === 'approved') this.#mustHaveWalls(mustApproval(sql, approvalId))
      const row = voteOnApproval(sql, now, approvalId, caller, vote)
      if (row.state === 'approved' && vote.remember) addGrant(sql, now, row, vote.remember)
      this.#asker.answered(sql, now, row)
      return toApproval(sql, row)
    })
    this.#asker.decideParked()
    return approval
  }

  /** An agent that can read a key would answer itself. Whoever runs the deployment may accept that. */
  #mustHaveWalls({ id, asker_kind }: ApprovalRow): void {
    const isAccepted = this.#kernel.ports.config.unwalledApprovals === 'accept'
    if (isAccepted || asker_kind === 'key' || this.#asker.enclosure() !== 'none') return
    const advice = 'give its sandbox one, or set GANTRY_UNWALLED_APPROVALS=accept'
    throw new AppError(
      'forbidden',
      `Cannot approve "${id}": its sandbox has no enclosure; ${advice}`,
    )
  }

  /** What was remembered is asked about again from now on. What runs already is not stopped by it. */
  async revoke(caller: Caller, id: string, { reason }: ApprovalRevoke): Promise<Approval> {
    guardSession(this.#kernel, caller)
    await this.#kernel.openSecrets()
    guardSession(this.#kernel, caller)
    const { keyId: actor, owner } = caller
    const why = this.#kernel.hide(reason)
    return this.#kernel.commit((sql, now) => {
      const row = mustApproval(sql, id)
      if (!endGrant(sql, now, id))
        throw new AppError('wrong_state', `Cannot revoke "${id}": it is not remembered`)
      const told = { approvalId: id, operationHash: row.operation_hash, actor, owner, reason: why }
      recordOnRun(sql, now, row.run_id, 'permission.revoked', told)
      return toApproval(sql, row)
    })
  }

  readonly deadlines = { approval: () => this.#expire() }

  #expire(): void {
    this.#kernel.commit((sql, now) => {
      for (const { id } of overdueApprovals(sql, now)) {
        const row = settleApproval(sql, now, id, {
          state: 'rejected',
          actor: 'deadline',
          owner: null,
          reason: 'Nobody answered in time',
        })
        if (row) this.#asker.answered(sql, now, row)
      }
      escalateApprovals(sql, now)
    })
    this.#asker.decideParked()
  }
}
