import { ownedId } from '../../../contract/ids.ts'
import { AppError } from '../../../contract/error.ts'
import type {
  ChangeReject,
  ChangeReview,
  ChangesAccepted,
  ChangesRejected,
  FileHunks,
  FileReview,
  RejectedFile,
} from '../../../contract/change-ledger.ts'
import { Operation } from '../../../contract/operation.ts'
import { onceByKey } from '../../actor/keys.ts'
import { textOf } from '../../hash.ts'
import type { Sql } from '../../ports.ts'
import { closeRun } from '../approvals/close-runs.ts'
import type { SessionBudget } from '../budget/budget.ts'
import { askerOf } from '../operations/decision.ts'
import { loadPolicyPlace } from '../gate/policy-row.ts'
import type { Operations } from '../operations/operations.ts'
import type { Caller } from '../record/caller.ts'
import { guardAttempt, guardSession, guardEntry, guardOpenSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { insertRun, mustRun, recordOnRun, reviewWorkflow } from '../runs/rows.ts'
import {
  aboutOf,
  addEvidenceDecision,
  lastEvidenceDecision,
  rejectedByDecision,
  fileDecisions,
} from './decisions.ts'
import { changedEventFiles, eachEvidenceEvent } from './events.ts'
import { reviewFile } from './review.ts'
import { hunksToTakeBack, isTaking, maxTextBytes, takeBack, type Taking } from './taking-back.ts'

/**
 * Takes changes back, or records that they are accepted. Each file is one operation of a run of its own, decided by policy
 * like every edit, and carried out by the agent only if the file is what the change left. It promises that what is not
 * proven is never touched, and that asking twice is asking once. The evidence room has it.
 */
export class Rejecting {
  readonly #kernel: SessionKernel
  readonly #operations: Operations
  readonly #budget: SessionBudget

  constructor(kernel: SessionKernel, operations: Operations, budget: SessionBudget) {
    this.#kernel = kernel
    this.#operations = operations
    this.#budget = budget
  }

  async accept(caller: Caller, runId: string, input: ChangeReview, key: string | null) {
    await guardEntry(this.#kernel, caller)
    const reason = this.#kernel.hide(input.reason)
    return this.#kernel.commit((sql, now): ChangesAccepted => {
      const made = onceByKey(sql, now, { scope: 'run.accept', key, body: [runId, input] }, () => {
        const files = chosen(sql, runId, input)
        for (const file of files) {
          if (lastEvidenceDecision(sql, runId, file)?.decision === 'accepted') continue
          decide(sql, now, {
            runId,
            file,
            decision: 'accepted',
            operationId: null,
            hunks: null,
            caller,
            reason,
          })
        }
        return JSON.stringify(files.map(({ path }) => path))
      })
      return { accepted: JSON.parse(made) as string[] }
    })
  }

  async reject(
    caller: Caller,
    runId: string,
    input: ChangeReject,
    key: string | null,
  ): Promise<ChangesRejected> {
    await guardEntry(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    const texts = await this.#loadTexts(caller, runId, chosen(sql, runId, input), input.hunks)
    const reason = this.#kernel.hide(input.reason)
    const made = await this.#budget.spend((sql, now) => {
      guardOpenSession(guardSession(this.#kernel, caller))
      guardAttempt(this.#kernel, caller)
      return onceByKey(sql, now, { scope: 'run.reject', key, body: [runId, input] }, () =>
        JSON.stringify(this.#plan(sql, now, { caller, runId, input, texts, reason })),
      )
    })
    const planned = JSON.parse(made) as Planned
    return { runId: planned.runId, files: planned.files.map((file) => this.#fileOf(file)) }
  }

  async hunks(caller: Caller, runId: string, path: string): Promise<FileHunks> {
    await guardEntry(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    const files = chosen(sql, runId, { paths: [path] })
    const texts = await this.#loadTexts(caller, runId, files, [])
    const [file] = files as [FileReview]
    return hunksToTakeBack(file, fileDecisions(sql, runId, file), texts)
  }

  #fileOf(file: RejectedFile): RejectedFile {
    const { path, operationId } = file
    if (operationId === null) return file
    const { reason, ...now } = rejectedByDecision(this.#kernel.ports.sql, path, operationId)
    return { ...now, reason: reason ?? (now.state === file.state ? file.reason : null) }
  }

  /** Before the commit; a text that is not needed, or too large to be sent, is not loaded. */
  async #loadTexts(
    { organisationId }: Caller,
    runId: string,
    files: readonly FileReview[],
    hunks: readonly string[] | undefined,
  ): Promise<Map<string, string>> {
    const { ports } = this.#kernel
    const texts = new Map<string, string>()
    for (const file of files) {
      const isPartly = hunks !== undefined || fileDecisions(ports.sql, runId, file).applied.size > 0
      for (const ref of isPartly ? [file.before, file.after] : [file.before]) {
        if (!file.rejectable || !ref || ref.sizeBytes > maxTextBytes) continue
        const bytes = await ports.blobs().get(organisationId, ref.sha256)
        if (bytes) texts.set(ref.sha256, textOf(bytes))
      }
    }
    return texts
  }

  #plan(sql: Sql, now: number, plan: Plan): Planned {
    const { runId, input, texts } = plan
    const files = chosen(sql, runId, input)
    const takings = files.map((file) =>
      takeBack(file, input.hunks, fileDecisions(sql, runId, file), texts),
    )
    const review = takings.some(isTaking) ? this.#openRun(sql, now, runId) : null
    const planned = takings.map((taking, at): RejectedFile => {
      if (!isTaking(taking)) return taking
      const file = files[at] as FileReview
      const operationId = this.#start(sql, now, { ...plan, review: review ?? '', file, taking })
      return rejectedByDecision(sql, file.path, operationId)
    })
    if (review !== null) endIfSettled(sql, now, review)
    return { runId: review as Planned['runId'], files: planned }
  }

  #openRun(sql: Sql, now: number, runId: string): string {
    const id = ownedId('run', this.#kernel.session().id, this.#kernel.ports.crypto.random(8))
    const intent = `Reject changes of ${runId}`
    insertRun(sql, now, id, { intent, workflow: reviewWorkflow, implicit: false })
    return id
  }

  #start(
    sql: Sql,
    now: number,
    { caller, runId, reason, review, file, taking }: Plan & Started,
  ): string {
    const { expect, restore, content, executable, hunks } = taking
    const operation = Operation.parse({
      ...{ category: 'edit', operation: 'revert-file', targetPath: file.path },
      revert: { expect, restore, ...(executable && { executable }) },
      ...(restore !== null && { content: content ?? '' }),
    })
    const operationId = this.#operations.start(sql, now, askerOf(caller), {
      runId: review,
      operation,
    })
    decide(sql, now, { runId, file, decision: 'rejected', operationId, hunks, caller, reason })
    return operationId
  }
}

interface Started {
  review: string
  file: FileReview
  taking: Taking
}

interface Plan {
  caller: Caller
  runId: string
  input: ChangeReject
  texts: Map<string, string>
  reason: string
}

interface Planned {
  runId: ChangesRejected['runId']
  files: RejectedFile[]
}

/** In the order in which they are named, each once; all of them in the order of their first change. */
function chosen(sql: Sql, runId: string, { paths }: Pick<ChangeReview, 'paths'>): FileReview[] {
  const workspace = loadPolicyPlace(sql).layout?.workspace ?? null
  const found = changedEventFiles(sql, mustRun(sql, runId).id, paths === undefined ? {} : { paths })
  const files = found.map(({ path, events }) =>
    reviewFile({ runId, path, workspace, room: 0 }, eachEvidenceEvent(sql, events)),
  )
  if (paths === undefined) return files
  const byPath = new Map(files.map((file) => [file.path, file]))
  return [...new Set(paths)].map((path) => byPath.get(path) ?? refuseUnchanged(path))
}

function refuseUnchanged(path: string): never {
  throw new AppError('unprocessable', `The run has not changed "${path}"`, [
    { path: 'paths', message: `"${path}" is not among the changed files` },
  ])
}

interface Decided {
  runId: string
  file: FileReview
  decision: 'accepted' | 'rejected'
  operationId: string | null
  /** Null: the whole file. */
  hunks: string[] | null
  caller: Caller
  reason: string
}

function decide(sql: Sql, now: number, decided: Decided): void {
  const { runId, file, decision, operationId, hunks, caller, reason } = decided
  const { path } = file
  addEvidenceDecision(sql, {
    ...{ run_id: runId, path, about: aboutOf(file), decision, operation_id: operationId, reason },
    ...{ hunks: hunks && JSON.stringify(hunks), actor: caller.keyId, created_at: now },
  })
  recordOnRun(sql, now, runId, `change.${decision}`, {
    ...{ path, operationId, reason, by: caller.keyId },
    ...(hunks !== null && { hunks }),
  })
}

/** Inside the commit in which an attempt has ended. */
export function settleRejecting(sql: Sql, now: number, attemptId: string): void {
  const [row] = sql.all<{ id: string }>(
    `select runs.id from attempts join runs on runs.id = attempts.run_id
     where attempts.id = ? and workflow = ?`,
    attemptId,
    reviewWorkflow,
  )
  if (row) endIfSettled(sql, now, row.id)
}

/** A run that only takes changes back ends with the last of them. */
function endIfSettled(sql: Sql, now: number, runId: string): void {
  const [open] = sql.all(
    `select 1 from operations where run_id = ?1 and decision <> 'deny'
       and not exists (select 1 from attempts where operation_id = operations.id and status <> 'reserved')
     limit 1`,
    runId,
  )
  if (open) return
  const reason = 'All of them are settled'
  closeRun(sql, now, runId, { status: 'completed', reason, actor: 'review', owner: null })
}
