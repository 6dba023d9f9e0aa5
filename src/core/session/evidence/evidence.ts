import { AppError } from '../../../contract/error.ts'
import type {
  Backfill,
  BackfillCreate,
  BundleAnswer,
  ChangeImport,
  ChangeImported,
  ChangeReject,
  ChangeReview,
  ChangesAccepted,
  ChangesRejected,
  FileHunks,
  FileReview,
  RunChanges,
} from '../../../contract/change-ledger.ts'
import type { ProvenChange } from '../../../contract/change.ts'
import { onceByKey } from '../../actor/keys.ts'
import type { RoomOf } from '../../actor/room.ts'
import { safetyFingerprint } from '../../evidence/safety.ts'
import type { Sql } from '../../ports.ts'
import type { SessionBudget } from '../budget/budget.ts'
import { loadPolicyPlace } from '../gate/policy-row.ts'
import type { Operations } from '../operations/operations.ts'
import type { Caller, Page, SandboxCaller } from '../record/caller.ts'
import { guardSession, guardEntry, guardOpenSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { mustRun } from '../runs/rows.ts'
import { Collecting } from './collecting.ts'
import { collectsOf } from './collects.ts'
import { withDecision } from './decisions.ts'
import {
  changedEventFiles,
  countEvidenceEvents,
  type CountedEvents,
  eachCountingEvent,
  eachEvidenceEvent,
  hasEventText,
  importEvidenceEvent,
  type StoredEvent,
  storedEvidenceEvents,
} from './events.ts'
import { checkEvidenceImport } from './imports.ts'
import { Rejecting, settleRejecting } from './rejecting.ts'
import { reviewFile } from './review.ts'
import { nameEvidenceTexts, storeEvidenceTexts } from './texts.ts'

export interface EvidenceApi {
  /** Of the sandbox: the bundle of one collect, as JSON. Sent again it changes nothing. */
  takeBundle(sandbox: SandboxCaller, collectId: string, text: string): Promise<BundleAnswer>
  backfill(
    caller: Caller,
    runId: string,
    input: BackfillCreate,
    key: string | null,
  ): Promise<Backfill>
  list(caller: Caller, runId: string, page: Page): Promise<RunChanges>
  importChanges(
    caller: Caller,
    runId: string,
    input: ChangeImport,
    key: string | null,
  ): Promise<ChangeImported>
  /** Every event as it is stored, superseded ones too, after the row `after`: as many as fit. */
  stored(caller: Caller, runId: string, after: number): Promise<StoredEvent[]>
  /** Records that the files are right as they are. */
  accept(
    caller: Caller,
    runId: string,
    input: ChangeReview,
    key: string | null,
  ): Promise<ChangesAccepted>
  /** Takes the changes of files back, by policy and only where the disk still has what they left. */
  reject(
    caller: Caller,
    runId: string,
    input: ChangeReject,
    key: string | null,
  ): Promise<ChangesRejected>
  /** What a file has become, hunk by hunk, as far as hunks can be rejected. */
  hunks(caller: Caller, runId: string, path: string): Promise<FileHunks>
  /** Throws unless a change of the run has this text. */
  checkText(caller: Caller, runId: string, sha256: string): Promise<void>
}

/**
 * The ledger of what tools have changed. At the end of a turn, or when a caller asks, it lets the sandbox's agent collect
 * what OpenCode has stored; what comes back is a claim, judged by what the session itself holds. It promises that a
 * bundle counts only from the generation that had the turn, that importing again adds nothing, and that an event with its
 * texts is stored whole or not at all. The link tells it of ends and results.
 */
export class Evidence implements RoomOf<EvidenceApi> {
  readonly api: EvidenceApi = this
  readonly turnEnded: Collecting['turnEnded']
  readonly stepFinished: Collecting['stepFinished']
  readonly collected: Collecting['collected']
  readonly #kernel: SessionKernel
  readonly #rejecting: Rejecting
  readonly #collecting: Collecting
  #fingerprint: { runId: string; last: number | null; value: string } | undefined

  constructor(kernel: SessionKernel, operations: Operations, budget: SessionBudget) {
    this.#kernel = kernel
    this.#rejecting = new Rejecting(kernel, operations, budget)
    this.#collecting = new Collecting(kernel)
    this.turnEnded = this.#collecting.turnEnded
    this.stepFinished = this.#collecting.stepFinished
    this.collected = this.#collecting.collected
  }

  /** Inside the commit in which an attempt of an operation has ended. */
  readonly attemptEnded = settleRejecting

  accept(caller: Caller, runId: string, input: ChangeReview, key: string | null) {
    return this.#rejecting.accept(caller, runId, input, key)
  }

  reject(caller: Caller, runId: string, input: ChangeReject, key: string | null) {
    return this.#rejecting.reject(caller, runId, input, key)
  }

  hunks(caller: Caller, runId: string, path: string) {
    return this.#rejecting.hunks(caller, runId, path)
  }

  backfill(caller: Caller, runId: string, input: BackfillCreate, key: string | null) {
    return this.#collecting.backfill(caller, runId, input, key)
  }

  takeBundle(sandbox: SandboxCaller, collectId: string, text: string) {
    return this.#collecting.takeBundle(sandbox, collectId, text)
  }

  async list(caller: Caller, runId: string, page: Page): Promise<RunChanges> {
    guardSession(this.#kernel, caller)
    const { sql, config } = this.#kernel.ports
    const run = mustRun(sql, runId)
    const { files, next } = reviewPage(sql, run.id, page)
    const counted = countEvidenceEvents(sql, run.id)
    const mismatches = countMismatches(sql, run.id)
    return {
      runId: run.id as RunChanges['runId'],
      mode: config.evidence.mode,
      files,
      nextCursor: next === null ? null : String(next),
      warnings: warningsOf(counted, mismatches),
      mismatches,
      fingerprint: this.#fingerprintOf(run.id, counted.last),
      collects: collectsOf(sql, run.id),
    }
  }

  /** It is about all events of a run, which only grow: it is made once for all pages. */
  #fingerprintOf(runId: string, last: number | null): string {
    if (this.#fingerprint?.runId === runId && this.#fingerprint.last === last)
      return this.#fingerprint.value
    const value = safetyFingerprint(eachCountingEvent(this.#kernel.ports.sql, runId))
    this.#fingerprint = { runId, last, value }
    return value
  }

  async stored(caller: Caller, runId: string, after: number): Promise<StoredEvent[]> {
    guardSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    return storedEvidenceEvents(sql, mustRun(sql, runId).id, after)
  }

  async checkText(caller: Caller, runId: string, sha256: string): Promise<void> {
    guardSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    if (!hasEventText(sql, mustRun(sql, runId).id, sha256))
      throw new AppError('not_found', 'No change of this run has such a text')
  }

  async importChanges(
    caller: Caller,
    runId: string,
    input: ChangeImport,
    key: string | null,
  ): Promise<ChangeImported> {
    await guardEntry(this.#kernel, caller)
    mustRun(this.#kernel.ports.sql, runId)
    const changes = checkEvidenceImport(this.#kernel, runId, input)
    await storeEvidenceTexts(this.#kernel, changes)
    const made = this.#kernel.commit((sql, now) => {
      guardOpenSession(this.#kernel.session())
      const request = { scope: 'run.import', key, body: [runId, input] }
      return onceByKey(sql, now, request, () => {
        nameEvidenceTexts(sql, now, changes)
        const isNew = ({ event }: ProvenChange) =>
          importEvidenceEvent(sql, now, { runId, turnId: null, event })
        return String(changes.filter(isNew).length)
      })
    })
    return { imported: Number(made), duplicates: changes.length - Number(made) }
  }
}

const countMismatches = (sql: Sql, runId: string): number =>
  sql.all<{ n: number }>(
    `select count(*) as n from run_events where run_id = ? and kind = 'evidence.mismatch'`,
    runId,
  )[0]?.n ?? 0

function warningsOf({ files, unproven }: CountedEvents, mismatches: number) {
  return [
    ...(mismatches > 0
      ? [`${mismatches} tool parts read otherwise in the sandbox than over the link`]
      : []),
    ...(unproven > 0 ? [`${unproven} changes of ${files} files are not proven`] : []),
  ]
}

const maxPageLength = 2 * 1024 * 1024
const maxFileLength = 1024 * 1024

/** As many files as fit into one message between objects, and one at least. Only their own events are read. */
function reviewPage(
  sql: Sql,
  runId: string,
  { limit, after }: Page,
): { files: FileReview[]; next: number | null } {
  const workspace = loadPolicyPlace(sql).layout?.workspace ?? null
  const found = changedEventFiles(sql, runId, { after: after ?? 0, limit: limit + 1 })
  const files: FileReview[] = []
  let length = 0
  for (const { path, events } of found.slice(0, limit)) {
    const of = { runId, path, workspace, room: maxFileLength }
    const file = reviewFile(of, eachEvidenceEvent(sql, events))
    length += JSON.stringify(file).length
    if (files.length > 0 && length > maxPageLength) break
    files.push(withDecision(sql, runId)(file))
  }
  const next = files.length < found.length ? (found[files.length - 1]?.first ?? null) : null
  return { files, next }
}
