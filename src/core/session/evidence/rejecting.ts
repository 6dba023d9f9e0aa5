import { AppError } from '../../../contract/error.ts'
import type {
  ChangeReview,
  ChangesAccepted,
  ChangesRejected,
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
import { loadPlace } from '../gate/policy-row.ts'
import type { Operations } from '../operations/operations.ts'
import type { Caller } from '../record/caller.ts'
import { callerSession, enterSession, mustBeOpen } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { createRun, mustRun, ownedId, recordOnRun, reviewWorkflow } from '../runs/run.ts'
import { aboutOf, addDecision, isSettled, lastDecision, rejectedFile } from './decisions.ts'
import { countingEvents } from './events.ts'
import { reviewFiles } from './review.ts'

/** Beside it in the message to the agent. */
const maxTextBytes = 512 * 1024

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
    await enterSession(this.#kernel, caller)
    const reason = this.#kernel.hide(input.reason)
    return this.#kernel.commit((sql, now): ChangesAccepted => {
      const made = onceByKey(sql, now, { scope: 'run.accept', key, body: [runId, input] }, () => {
        const files = chosen(sql, runId, input)
        for (const file of files) {
          if (lastDecision(sql, runId, file)?.decision === 'accepted') continue
          decide(sql, now, { runId, file, decision: 'accepted', operationId: null, caller, reason })
        }
        return JSON.stringify(files.map(({ path }) => path))
      })
      return { accepted: JSON.parse(made) as string[] }
    })
  }

  async reject(
    caller: Caller,
    runId: string,
    input: ChangeReview,
    key: string | null,
  ): Promise<ChangesRejected> {
    await enterSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    const texts = await this.#loadTexts(caller, chosen(sql, runId, input))
    const reason = this.#kernel.hide(input.reason)
    const made = await this.#budget.spend((sql, now) => {
      mustBeOpen(callerSession(this.#kernel, caller))
      return onceByKey(sql, now, { scope: 'run.reject', key, body: [runId, input] }, () =>
        JSON.stringify(this.#plan(sql, now, { caller, runId, input, texts, reason })),
      )
    })
    const planned = JSON.parse(made) as Planned
    return { runId: planned.runId, files: planned.files.map((file) => this.#fileOf(file)) }
  }

  #fileOf(file: RejectedFile): RejectedFile {
    const { path, operationId } = file
    return operationId === null ? file : rejectedFile(this.#kernel.ports.sql, path, operationId)
  }

  /** Before the commit; a text that is not needed, or too large to be sent, is not loaded. */
  async #loadTexts(
    { organisationId }: Caller,
    files: readonly FileReview[],
  ): Promise<Map<string, string>> {
    const texts = new Map<string, string>()
    for (const { rejectable, before } of files) {
      if (!rejectable || !before || before.sizeBytes > maxTextBytes) continue
      const bytes = await this.#kernel.ports.blobs().get(organisationId, before.sha256)
      if (bytes) texts.set(before.sha256, textOf(bytes))
    }
    return texts
  }

  #plan(sql: Sql, now: number, plan: Plan): Planned {
    const { runId, input, texts } = plan
    const files = chosen(sql, runId, input)
    const known = files.map((file) => this.#known(sql, runId, file, texts))
    const isNew = (_: FileReview, at: number) => known[at] === null
    const review = files.some(isNew) ? this.#openRun(sql, now, runId) : null
    const planned = files.map(
      (file, at): RejectedFile =>
        known[at] ?? rejectedFile(sql, file.path, this.#start(sql, now, plan, review ?? '', file)),
    )
    if (review !== null) endIfSettled(sql, now, review)
    return { runId: review as Planned['runId'], files: planned }
  }

  /** What there is to say without doing anything; null: it is to be taken back. */
  #known(
    sql: Sql,
    runId: string,
    file: FileReview,
    texts: Map<string, string>,
  ): RejectedFile | null {
    const manual = (reason: string): RejectedFile => ({
      ...{ path: file.path, state: 'manual', reason, operationId: null, approvalId: null },
    })
    if (!file.rejectable) return manual(file.reasons.join('. '))
    if (file.before && !texts.has(file.before.sha256))
      return manual('Its text is gone, or over 512 KiB: put it back by hand')
    const last = lastDecision(sql, runId, file)
    if (last?.decision !== 'rejected' || last.operation_id === null) return null
    const before = rejectedFile(sql, file.path, last.operation_id)
    return isSettled(before) ? before : null
  }

  #openRun(sql: Sql, now: number, runId: string): string {
    const id = ownedId('run', this.#kernel.session().id, this.#kernel.ports.crypto.random(8))
    const intent = `Reject changes of ${runId}`
    createRun(sql, now, id, { intent, workflow: reviewWorkflow, implicit: false })
    return id
  }

  #start(sql: Sql, now: number, plan: Plan, review: string, file: FileReview): string {
    const { caller, runId, texts, reason } = plan
    const { path: targetPath, before, after } = file
    const restore = before?.sha256 ?? null
    const operation = Operation.parse({
      ...{ category: 'edit', operation: 'revert-file', targetPath },
      revert: { expect: after?.sha256 ?? null, restore },
      ...(restore !== null && { content: texts.get(restore) ?? '' }),
    })
    const operationId = this.#operations.start(sql, now, askerOf(caller), {
      runId: review,
      operation,
    })
    decide(sql, now, { runId, file, decision: 'rejected', operationId, caller, reason })
    return operationId
  }
}

interface Plan {
  caller: Caller
  runId: string
  input: ChangeReview
  texts: Map<string, string>
  reason: string
}

interface Planned {
  runId: ChangesRejected['runId']
  files: RejectedFile[]
}

function chosen(sql: Sql, runId: string, { paths }: ChangeReview): FileReview[] {
  const workspace = loadPlace(sql).layout?.workspace ?? null
  const files = reviewFiles(runId, countingEvents(sql, mustRun(sql, runId).id), workspace)
  if (paths === undefined) return files
  return paths.map((path) => {
    const file = files.find((each) => each.path === path)
    if (file) return file
    throw new AppError('unprocessable', `The run has not changed "${path}"`, [
      { path: 'paths', message: `"${path}" is not among the changed files` },
    ])
  })
}

interface Decided {
  runId: string
  file: FileReview
  decision: 'accepted' | 'rejected'
  operationId: string | null
  caller: Caller
  reason: string
}

function decide(sql: Sql, now: number, decided: Decided): void {
  const { runId, file, decision, operationId, caller, reason } = decided
  const { path } = file
  addDecision(sql, {
    ...{ run_id: runId, path, about: aboutOf(file), decision, operation_id: operationId, reason },
    ...{ actor: caller.keyId, created_at: now },
  })
  recordOnRun(sql, now, runId, `change.${decision}`, {
    path,
    operationId,
    reason,
    by: caller.keyId,
  })
}

/** Inside the commit in which an attempt has ended. */
export function reviewSettled(sql: Sql, now: number, attemptId: string): void {
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
