import { ownedId } from '../../../contract/ids.ts'
import { AppError } from '../../../contract/error.ts'
import type {
  Backfill,
  BackfillCreate,
  BackfillOutcome,
  BundleAnswer,
  EvidenceMismatch,
} from '../../../contract/change-ledger.ts'
import type { ProofStatistics, ProvenChange } from '../../../contract/change.ts'
import {
  EvidenceBundle,
  lowerEvidenceMode,
  maxBundleChanges,
  type ProofMode,
} from '../../../contract/evidence.ts'
import { namedEvidencePaths } from '../../../contract/evidence-paths.ts'
import { onceByKey } from '../../actor/keys.ts'
import { type ProofResult, proveChanges } from '../../evidence/prove.ts'
import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'
import type { Caller, SandboxCaller } from '../record/caller.ts'
import { guardSession, guardOpenSession, guardOpenSandbox } from '../record/guards.ts'
import type { SessionKernel } from '../record/kernel.ts'
import { mustRun, recordOnRun } from '../runs/rows.ts'
import {
  askCollect,
  type CollectRow,
  failCollect,
  findCollect,
  isBeingCollected,
  isCollected,
  lastUntil,
  mustCollect,
  noteCollectReached,
  reachedBy,
  storeCollect,
  toCollect,
} from './collects.ts'
import { type DeliveredTurn, turnDelivery, evidenceDelivery } from './delivery.ts'
import { importEvidenceEvent } from './events.ts'
import { hideEvidenceSecrets } from './hidden.ts'
import { mismatchesOf } from './mismatch.ts'
import { nameEvidenceTexts, storeEvidenceTexts } from './texts.ts'
import { toldNeverFound, noteToldFound, toldStepsToCollect } from './told.ts'

type Result = { next: string | null } | { error: string }

/**
 * Asks the sandbox's agent for what OpenCode has stored of a turn, and keeps what comes back. A turn is read in order, in
 * pieces of at most ten steps that change files: while it runs as soon as there are so many, and the rest when it has
 * ended. It promises that no step is read twice in one mode, that a bundle counts only from the generation that had the
 * turn, and that bundle and ledger are stored in one commit. The evidence room has it; the link tells it of steps, ends
 * and results.
 */
export class Collecting {
  readonly #kernel: SessionKernel

  constructor(kernel: SessionKernel) {
    this.#kernel = kernel
  }

  /** Inside the commit in which the agent has told the end of a turn. What is being read now goes on by its result. */
  readonly turnEnded = (sql: Sql, now: number, turnId: string): void => {
    const turn = turnDelivery(sql, turnId)
    const { mode } = this.#kernel.ports.config.evidence
    if (turn?.opencodeSessionId && !isCollected(sql, turn.id, mode))
      this.#ask(sql, now, turn, mode, reachedBy(sql, turn.id, mode))
  }

  /** Inside the commit in which the agent has told the end of a step. Off reads no steps, so it has no reason to begin. */
  readonly stepFinished = (sql: Sql, now: number, turnId: string | null): void => {
    const { mode } = this.#kernel.ports.config.evidence
    if (turnId === null || mode === 'off' || isBeingCollected(sql, turnId, mode)) return
    const until = toldStepsToCollect(sql, turnId, lastUntil(sql, turnId, mode))
    const turn = until === null ? null : turnDelivery(sql, turnId)
    if (until === null || !turn?.opencodeSessionId) return
    this.#ask(sql, now, turn, mode, reachedBy(sql, turnId, mode), until)
  }

  /** Inside the commit in which the result of a collect has come. */
  readonly collected = (sql: Sql, now: number, id: string, result: Result): void => {
    const collect = findCollect(sql, id)
    if (!collect) return
    const error = 'error' in result ? result.error : 'Its bundle has not come'
    failCollect(sql, now, id, { outcome: 'transient-error', reason: this.#kernel.hide(error) })
    const next = 'next' in result && collect.state === 'stored' ? result.next : null
    if (next !== null) noteCollectReached(sql, id, next)
    const turn = turnDelivery(sql, collect.turn_id)
    if (!turn) return
    const { mode } = collect
    if (collect.until_message !== null) {
      if (hasEnded(sql, turn.id)) this.#ask(sql, now, turn, mode, reachedBy(sql, turn.id, mode))
    } else if (next !== null) this.#ask(sql, now, turn, mode, next)
    else if (collect.state === 'stored') this.#tellNeverFound(sql, now, collect)
  }

  #ask(
    sql: Sql,
    now: number,
    turn: DeliveredTurn,
    mode: ProofMode,
    after: string | null,
    until?: string,
  ): string {
    const id = ownedId('col', this.#kernel.session().id, this.#kernel.ports.crypto.random(8))
    askCollect(sql, now, { id, turn, mode, after, ...(until !== undefined && { until }) })
    return id
  }

  async backfill(
    caller: Caller,
    runId: string,
    input: BackfillCreate,
    key: string | null,
  ): Promise<Backfill> {
    const session = guardSession(this.#kernel, caller)
    guardOpenSession(session)
    const { config, sql } = this.#kernel.ports
    const mode = lowerEvidenceMode(config.evidence.mode, input.mode)
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
      const turn = turnDelivery(sql, id)
      const reason = this.#whyNot(sql, turn, mode)
      if (reason) asked.skipped.push({ turnId: id as never, ...reason })
      else if (turn) asked.ids.push(this.#ask(sql, now, turn, mode, reachedBy(sql, turn.id, mode)))
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
    guardOpenSandbox(this.#kernel, sandbox)
    await this.#kernel.openSecrets()
    guardOpenSandbox(this.#kernel, sandbox)
    const { sql } = this.#kernel.ports
    const collect = mustCollect(sql, collectId)
    if (collect.generation !== sandbox.generation)
      throw new AppError('old_generation', 'Another sandbox was asked for this')
    if (collect.state !== 'asked') return { accepted: false }
    const claimed = parseBundle(text)
    if (claimed === null) return this.#refuse(collectId)
    const turn = turnDelivery(sql, collect.turn_id) as DeliveredTurn
    const bundle = hideEvidenceSecrets(this.#kernel, claimed)
    const delivery = evidenceDelivery(sql, turn)
    const holdsSecret = (derived: string) => this.#kernel.hide(derived) !== derived
    const proof = proveChanges({ bundle, delivery, mode: collect.mode, holdsSecret })
    await storeEvidenceTexts(this.#kernel, proof.changes)
    guardOpenSandbox(this.#kernel, sandbox)
    return this.#kernel.commit((sql, now) => {
      if (mustCollect(sql, collectId).state !== 'asked') return { accepted: false }
      this.#tellMismatches(sql, now, collect, mismatchesOf(bundle, delivery))
      noteToldFound(sql, partsIn(bundle))
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
    nameEvidenceTexts(sql, now, changes)
    const imported = changes.filter(({ event }) =>
      importEvidenceEvent(sql, now, { runId, turnId, event }),
    ).length
    const end = { candidates: changes.length, imported, statistics, diagnostics }
    storeCollect(sql, now, collect.id, { ...end, outcome: outcomeOf(bundle, changes, imported) })
    appendEvent(sql, now, 'changes.collected', {
      ...{ collectId: collect.id, turnId, runId, mode: collect.mode },
      ...{ candidates: changes.length, imported, ...toldStatistics(statistics) },
    })
  }

  #tellMismatches(
    sql: Sql,
    now: number,
    { run_id: runId, turn_id: turnId }: CollectRow,
    mismatches: readonly EvidenceMismatch[],
  ): void {
    for (const mismatch of mismatches.slice(0, maxMismatches)) {
      if (isTold(sql, runId, mismatch.partId)) continue
      appendEvent(sql, now, 'evidence.mismatch', { runId, turnId, ...mismatch })
      recordOnRun(sql, now, runId, 'evidence.mismatch', { turnId, ...mismatch })
    }
  }

  /** The turn is read to its end, and something that the link told as done was nowhere. */
  #tellNeverFound(sql: Sql, now: number, collect: CollectRow): void {
    const gone = toldNeverFound(sql, collect.turn_id).map((part) => ({
      ...part,
      what: 'gone' as const,
    }))
    this.#tellMismatches(sql, now, collect, gone)
  }
}

const hasEnded = (sql: Sql, turnId: string): boolean =>
  sql.all('select 1 from turns where id = ? and ended_at is not null', turnId).length > 0

const toldStatistics = (statistics: ProofStatistics) => ({
  attempted: statistics.attemptedChanges,
  upgraded: statistics.upgradedChanges,
  wouldUpgrade: statistics.wouldUpgradeChanges,
  skipped: statistics.skippedByReason,
  reads: statistics.snapshotReadCount,
  readMs: statistics.snapshotReadElapsedMs,
})

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
    const bundle = EvidenceBundle.safeParse(JSON.parse(text)).data
    return bundle && changesIn(bundle) <= maxBundleChanges ? bundle : null
  } catch {
    return null
  }
}

const changesIn = ({ parts }: EvidenceBundle): number =>
  parts.reduce((total, part) => total + namedEvidencePaths(part).length, 0)

const partsIn = ({ parts, neighbours, failures }: EvidenceBundle): string[] => [
  ...[...parts, ...neighbours].map(({ id }) => id),
  ...failures.flatMap(({ partId }) => partId ?? []),
]

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
