import { AppError } from '../../../contract/error.ts'
import type {
  Backfill,
  BackfillCreate,
  BackfillOutcome,
  BundleAnswer,
  ChangeImport,
  ChangeImported,
  ChangeReview,
  ChangesAccepted,
  ChangesRejected,
  RunChanges,
} from '../../../contract/change-ledger.ts'
import type { ChangeEvent, ProvenChange } from '../../../contract/change.ts'
import { EvidenceBundle, lowerMode, type ProofMode } from '../../../contract/evidence.ts'
import { onceByKey } from '../../actor/keys.ts'
import type { RoomOf } from '../../actor/room.ts'
import { type ProofResult, proveChanges } from '../../evidence/prove.ts'
import { fingerprintOf } from '../../evidence/safety.ts'
import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'
import type { SessionBudget } from '../budget/budget.ts'
import type { Operations } from '../operations/operations.ts'
import type { Caller, Page, SandboxCaller } from '../record/caller.ts'
import { callerSession, enterSession, mustBeOpen, openSandboxSession } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { mustRun, ownedId, recordOnRun } from '../runs/run.ts'
import {
  askCollect,
  type CollectRow,
  collectsOf,
  failCollect,
  findCollect,
  isCollected,
  mustCollect,
  storeCollect,
  toCollect,
} from './collects.ts'
import { withDecision } from './decisions.ts'
import { type DeliveredTurn, deliveredTurn, deliveryOf } from './delivery.ts'
import { countingEvents, hasTextOf, importEvent, type StoredEvent, storedEvents } from './events.ts'
import { hideSecrets } from './hidden.ts'
import { checkImport } from './imports.ts'
import { mismatchesOf } from './mismatch.ts'
import { Rejecting, reviewSettled } from './rejecting.ts'
import { reviewFiles } from './review.ts'
import { nameTexts, storeTexts } from './texts.ts'

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
    input: ChangeReview,
    key: string | null,
  ): Promise<ChangesRejected>
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
  readonly #kernel: SessionKernel

  readonly #rejecting: Rejecting

  constructor(kernel: SessionKernel, operations: Operations, budget: SessionBudget) {
    this.#kernel = kernel
    this.#rejecting = new Rejecting(kernel, operations, budget)
  }

  /** Inside the commit in which an attempt of an operation has ended. */
  readonly attemptEnded = reviewSettled

  accept(caller: Caller, runId: string, input: ChangeReview, key: string | null) {
    return this.#rejecting.accept(caller, runId, input, key)
  }

  reject(caller: Caller, runId: string, input: ChangeReview, key: string | null) {
    return this.#rejecting.reject(caller, runId, input, key)
  }

  /** Inside the commit in which the agent has told the end of a turn. */
  readonly turnEnded = (sql: Sql, now: number, turnId: string): void => {
    const turn = deliveredTurn(sql, turnId)
    const { mode } = this.#kernel.ports.config.evidence
    if (turn?.opencodeSessionId && !isCollected(sql, turn.id, mode)) this.#ask(sql, now, turn, mode)
  }

  /** Inside the commit in which the result of a collect has come. */
  readonly collected = (
    sql: Sql,
    now: number,
    id: string,
    result: { next: string | null } | { error: string },
  ): void => {
    const collect = findCollect(sql, id)
    if (!collect) return
    const error = 'error' in result ? result.error : 'Its bundle has not come'
    failCollect(sql, now, id, { outcome: 'transient-error', reason: this.#kernel.hide(error) })
    const turn = deliveredTurn(sql, collect.turn_id)
    if (turn && 'next' in result && result.next !== null)
      this.#ask(sql, now, turn, collect.mode, result.next)
  }

  #ask(
    sql: Sql,
    now: number,
    turn: DeliveredTurn,
    mode: ProofMode,
    after: string | null = null,
  ): string {
    const id = this.#newId('col')
    askCollect(sql, now, { id, turn, mode, after })
    return id
  }

  async backfill(
    caller: Caller,
    runId: string,
    input: BackfillCreate,
    key: string | null,
  ): Promise<Backfill> {
    const session = callerSession(this.#kernel, caller)
    mustBeOpen(session)
    const { config, sql } = this.#kernel.ports
    const mode = lowerMode(config.evidence.mode, input.mode)
    const made = this.#kernel.commit((sql, now) => {
      mustRun(sql, runId)
      return onceByKey(sql, now, { scope: 'run.backfill', key, body: [runId, input] }, () =>
        JSON.stringify(this.#askAll(sql, now, runId, input.turnId ?? null, mode)),
      )
    })
    const { ids, skipped } = JSON.parse(made) as Asked
    return { mode, collects: ids.map((id) => toCollect(mustCollect(sql, id))), skipped }
  }

  #askAll(sql: Sql, now: number, runId: string, turnId: string | null, mode: ProofMode): Asked {
    const asked: Asked = { ids: [], skipped: [] }
    for (const id of turnsOf(sql, runId, turnId)) {
      const turn = deliveredTurn(sql, id)
      const reason = this.#whyNot(sql, turn, mode)
      if (reason) asked.skipped.push({ turnId: id as never, ...reason })
      else if (turn) asked.ids.push(this.#ask(sql, now, turn, mode))
    }
    return asked
  }

  #whyNot(
    sql: Sql,
    turn: DeliveredTurn | null,
    mode: ProofMode,
  ): { outcome: BackfillOutcome; reason: string } | null {
    const { generation, sandboxState } = this.#kernel.session()
    if (!turn) return { outcome: 'no-history', reason: 'It has not reached a sandbox' }
    if (turn.opencodeSessionId === null)
      return { outcome: 'no-attribution', reason: 'Its agent did not say where it had sent it' }
    if (isCollected(sql, turn.id, mode))
      return { outcome: 'duplicates-only', reason: 'It was collected in this mode' }
    if (turn.generation !== generation)
      return { outcome: 'no-history', reason: 'The sandbox that had it was replaced' }
    if (sandboxState !== 'ready')
      return { outcome: 'transient-error', reason: `The sandbox is ${sandboxState}` }
    return null
  }

  async takeBundle(sandbox: SandboxCaller, collectId: string, text: string): Promise<BundleAnswer> {
    openSandboxSession(this.#kernel, sandbox)
    await this.#kernel.openSecrets()
    openSandboxSession(this.#kernel, sandbox)
    const { sql } = this.#kernel.ports
    const collect = mustCollect(sql, collectId)
    if (collect.generation !== sandbox.generation)
      throw new AppError('old_generation', 'Another sandbox was asked for this')
    if (collect.state !== 'asked') return { accepted: false }
    const claimed = parseBundle(text)
    if (claimed === null) return this.#refuse(collectId)
    const turn = deliveredTurn(sql, collect.turn_id) as DeliveredTurn
    const bundle = hideSecrets(this.#kernel, claimed)
    const delivery = deliveryOf(sql, turn)
    const proof = proveChanges({ bundle, delivery, mode: collect.mode })
    await storeTexts(this.#kernel, proof.changes)
    openSandboxSession(this.#kernel, sandbox)
    return this.#kernel.commit((sql, now) => {
      if (mustCollect(sql, collectId).state !== 'asked') return { accepted: false }
      this.#tellMismatches(sql, now, collect, mismatchesOf(bundle, delivery.seenParts))
      this.#store(sql, now, collect, bundle, proof)
      return { accepted: true }
    })
  }

  #refuse(id: string): BundleAnswer {
    const reason = 'The bundle has not the form of one'
    this.#kernel.commit((sql, now) =>
      failCollect(sql, now, id, { outcome: 'unsafe-input', reason }),
    )
    return { accepted: false }
  }

  #store(
    sql: Sql,
    now: number,
    collect: CollectRow,
    bundle: EvidenceBundle,
    { changes, statistics, diagnostics }: ProofResult,
  ): void {
    const { run_id: runId, turn_id: turnId } = collect
    nameTexts(sql, now, changes)
    const imported = changes.filter(({ event }) =>
      importEvent(sql, now, { runId, turnId, event }),
    ).length
    const end = { candidates: changes.length, imported, statistics, diagnostics }
    storeCollect(sql, now, collect.id, { ...end, outcome: outcomeOf(bundle, changes, imported) })
    appendEvent(sql, now, 'changes.collected', {
      ...{ collectId: collect.id, turnId, runId, mode: collect.mode },
      ...{ candidates: changes.length, imported, upgraded: statistics.upgradedChanges },
    })
  }

  #tellMismatches(
    sql: Sql,
    now: number,
    { run_id: runId, turn_id: turnId }: CollectRow,
    mismatches: ReturnType<typeof mismatchesOf>,
  ): void {
    for (const mismatch of mismatches.slice(0, maxMismatches)) {
      if (isTold(sql, runId, mismatch.partId)) continue
      appendEvent(sql, now, 'evidence.mismatch', { runId, turnId, ...mismatch })
      recordOnRun(sql, now, runId, 'evidence.mismatch', { turnId, ...mismatch })
    }
  }

  async list(caller: Caller, runId: string, page: Page): Promise<RunChanges> {
    callerSession(this.#kernel, caller)
    const { sql, config } = this.#kernel.ports
    const run = mustRun(sql, runId)
    const rows = countingEvents(sql, run.id)
    const files = reviewFiles(run.id, rows)
    const from = page.after ?? 0
    const shown = fitting(files.slice(from, from + page.limit))
    const next = from + shown.length
    const mismatches = countMismatches(sql, run.id)
    return {
      runId: run.id as RunChanges['runId'],
      mode: config.evidence.mode,
      files: shown.map(withDecision(sql, run.id)),
      nextCursor: next < files.length ? String(next) : null,
      warnings: warningsOf(files.length, rows, mismatches),
      mismatches,
      fingerprint: fingerprintOf(rows.map(({ event }) => JSON.parse(event) as ChangeEvent)),
      collects: collectsOf(sql, run.id),
    }
  }

  async stored(caller: Caller, runId: string, after: number): Promise<StoredEvent[]> {
    callerSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    return storedEvents(sql, mustRun(sql, runId).id, after)
  }

  async checkText(caller: Caller, runId: string, sha256: string): Promise<void> {
    callerSession(this.#kernel, caller)
    const { sql } = this.#kernel.ports
    if (!hasTextOf(sql, mustRun(sql, runId).id, sha256))
      throw new AppError('not_found', 'No change of this run has such a text')
  }

  async importChanges(
    caller: Caller,
    runId: string,
    input: ChangeImport,
    key: string | null,
  ): Promise<ChangeImported> {
    await enterSession(this.#kernel, caller)
    mustRun(this.#kernel.ports.sql, runId)
    const changes = checkImport(this.#kernel, runId, input)
    await storeTexts(this.#kernel, changes)
    const made = this.#kernel.commit((sql, now) => {
      mustBeOpen(this.#kernel.session())
      const request = { scope: 'run.import', key, body: [runId, input] }
      return onceByKey(sql, now, request, () => {
        nameTexts(sql, now, changes)
        const isNew = ({ event }: ProvenChange) =>
          importEvent(sql, now, { runId, turnId: null, event })
        return String(changes.filter(isNew).length)
      })
    })
    return { imported: Number(made), duplicates: changes.length - Number(made) }
  }

  #newId(prefix: string): string {
    return ownedId(prefix, this.#kernel.session().id, this.#kernel.ports.crypto.random(8))
  }
}

interface Asked {
  ids: string[]
  skipped: Backfill['skipped']
}

/** In one commit; a sandbox that lies throughout is known for it after these. */
const maxMismatches = 100

function turnsOf(sql: Sql, runId: string, turnId: string | null): string[] {
  const rows = sql.all<{ id: string }>(
    `select id from turns where run_id = ?1 and (?2 is null or id = ?2) and ended_at is not null order by n`,
    runId,
    turnId,
  )
  if (turnId !== null && rows.length === 0)
    throw new AppError('not_found', `No turn "${turnId}" of this run has ended`)
  return rows.map(({ id }) => id)
}

function parseBundle(text: string): EvidenceBundle | null {
  try {
    return EvidenceBundle.safeParse(JSON.parse(text)).data ?? null
  } catch {
    return null
  }
}

function outcomeOf(
  { capability, messages }: EvidenceBundle,
  changes: readonly ProvenChange[],
  imported: number,
): BackfillOutcome {
  if (!capability.schema.supported || capability.writeAheadFile === 'unreadable')
    return 'skipped-capability'
  if (messages.length === 0) return 'no-history'
  if (changes.length > 0 && imported === 0) return 'duplicates-only'
  const isManual = changes.every(({ event }) => event.evidenceProof === 'metadata-only-fallback')
  return changes.length > 0 && isManual ? 'manual-only' : 'imported'
}

const isTold = (sql: Sql, runId: string, partId: string): boolean =>
  sql.all(
    `select 1 from run_events where run_id = ? and kind = 'evidence.mismatch'
       and json_extract(data, '$.partId') = ? limit 1`,
    runId,
    partId,
  ).length > 0

const countMismatches = (sql: Sql, runId: string): number =>
  sql.all<{ n: number }>(
    `select count(*) as n from run_events where run_id = ? and kind = 'evidence.mismatch'`,
    runId,
  )[0]?.n ?? 0

function warningsOf(files: number, rows: readonly { rank: number }[], mismatches: number) {
  const unproven = rows.filter(({ rank }) => rank < 40).length
  return [
    ...(mismatches > 0
      ? [`${mismatches} tool parts read otherwise in the sandbox than over the link`]
      : []),
    ...(unproven > 0 ? [`${unproven} changes of ${files} files are not proven`] : []),
  ]
}

const maxPageLength = 2 * 1024 * 1024

/** As many as fit into one message between objects, and one at least. */
function fitting<T>(items: readonly T[]): T[] {
  let length = 0
  return items.filter((item, at) => {
    length += JSON.stringify(item).length
    return at === 0 || length <= maxPageLength
  })
}
