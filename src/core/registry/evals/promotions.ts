import { AppError } from '../../../contract/error.ts'
import type { AuditAction } from '../../../contract/audit.ts'
import type { EvalBaseline } from '../../../contract/eval-run.ts'
import type {
  Promotion,
  PromotionResolve,
  PromotionRow,
  PromotionState,
  RegistryRevision,
} from '../../../contract/promotion.ts'
import type { Crypto, Db, DbStatement } from '../../ports.ts'
import { auditValues } from '../audit.ts'
import { limitValues, type ListCaller, mayUseProject } from '../place.ts'
import { loadPolicyApprovalTerms } from '../policies/policies.ts'

/**
 * Which revisions may be released, suite by suite: one row for each revision, project and suite, made by a run that is
 * good enough or by asking people. It counts for the baseline that it was held against. Every change of its state is one
 * batch with its entry in the audit, and sent again it changes nothing.
 */

export interface PromotionCaller extends ListCaller {
  keyId: string
  countsAs?: { memberId: string } | null
}

type Columns = Omit<Promotion, 'reasons' | 'votes'>
interface Row extends Columns {
  reasons: string
  askerMember: string | null
  askerCountsAs: string | null
  groupKeys: string | null
}

const columns = `id, project, dataset, kind, name, sha256, state, baseline_run_id as baselineRunId, eval_run_id as evalRunId,
  target, run_hash as runHash, reasons, asked_by as askedBy, ask_reason as askReason, quorum, resolved_by as resolvedBy,
  resolve_reason as resolveReason, created_at as createdAt, updated_at as updatedAt, asker_member as askerMember,
  asker_counts_as as askerCountsAs, group_keys as groupKeys`
const own =
  'organisation_id = ?1 and project = ?2 and dataset = ?3 and kind = ?4 and name = ?5 and sha256 = ?6'

type Gate = Pick<EvalBaseline, 'project' | 'dataset' | 'evalRunId'>
type Where = Gate & RegistryRevision

const keyOf = (organisationId: string, { project, dataset, kind, name, sha256 }: Where) => [
  ...[organisationId, project, dataset, kind, name, sha256],
]

/** Whether the revision may be released as far as this suite goes. */
export async function isPromoted(db: Db, organisationId: string, where: Where): Promise<boolean> {
  const rows = await db.all(
    `select 1 from promotions where ${own} and state in ('passed', 'overridden') and baseline_run_id = ?7`,
    ...keyOf(organisationId, where),
    where.evalRunId,
  )
  return rows.length > 0
}

interface Ports {
  db: Db
  crypto: Pick<Crypto, 'random'>
  now: number
}

export interface Passed {
  evalRunId: string
  target: string
  runHash: string | null
  reasons: readonly string[]
}

/** By its run. What people are still asked is answered by it. */
export async function recordPassedPromotion(
  ports: Ports,
  caller: PromotionCaller,
  where: Where,
  { evalRunId, target, runHash, reasons }: Passed,
): Promise<void> {
  await save(ports, caller, where, {
    ...{ state: 'passed', evalRunId, target, runHash, reasons, askReason: null, quorum: 1 },
    ...{
      group: null,
      replaces: `state <> 'passed' or baseline_run_id <> excluded.baseline_run_id`,
    },
  })
}

/** Asks people to release it all the same. While they are asked, asking again changes nothing. */
export async function askPromotion(
  ports: Ports,
  caller: PromotionCaller,
  where: Where,
  asked: { reason: string; reasons: readonly string[]; run: Passed | null },
): Promise<Promotion> {
  const { quorum, group } = await loadPolicyApprovalTerms(
    ports.db,
    caller.organisationId,
    where.project,
  )
  const { evalRunId = null, target = null, runHash = null } = asked.run ?? {}
  await save(ports, caller, where, {
    ...{ state: 'asked', evalRunId, target, runHash, reasons: asked.reasons },
    ...{ askReason: asked.reason, quorum, group },
    replaces: `state = 'refused' or baseline_run_id <> excluded.baseline_run_id`,
  })
  const [row] = await ports.db.all<Row>(
    `select ${columns} from promotions where ${own}`,
    ...keyOf(caller.organisationId, where),
  )
  if (!row) throw noPromotion()
  return promotionOf(row, await votesOf(ports.db, row.id))
}

interface Saved {
  state: Extract<PromotionState, 'passed' | 'asked'>
  evalRunId: string | null
  target: string | null
  runHash: string | null
  reasons: readonly string[]
  askReason: string | null
  quorum: number
  group: readonly string[] | null
  /** SQL: which rows that are there give way. */
  replaces: string
}

async function save(
  { db, crypto, now }: Ports,
  caller: PromotionCaller,
  where: Where,
  saved: Saved,
): Promise<void> {
  const { organisationId, keyId, memberId, countsAs } = caller
  const { state, evalRunId, target, runHash, reasons, askReason, quorum, group } = saved
  await db.batch([
    {
      sql: `insert into promotions (organisation_id, project, dataset, kind, name, sha256, id, state, baseline_run_id,
              eval_run_id, target, run_hash, reasons, asked_by, asker_member, asker_counts_as, ask_reason, quorum,
              group_keys, created_at, updated_at)
            values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?20)
            on conflict (organisation_id, project, dataset, kind, name, sha256) do update set
              state = excluded.state, baseline_run_id = excluded.baseline_run_id, eval_run_id = excluded.eval_run_id,
              target = excluded.target, run_hash = excluded.run_hash, reasons = excluded.reasons,
              asked_by = excluded.asked_by, asker_member = excluded.asker_member,
              asker_counts_as = excluded.asker_counts_as, ask_reason = excluded.ask_reason, quorum = excluded.quorum,
              group_keys = excluded.group_keys, resolved_by = null, resolve_reason = null,
              updated_at = excluded.updated_at
            where ${saved.replaces}`,
      values: [
        ...keyOf(organisationId, where),
        ...[`prm_${crypto.random(20)}`, state, where.evalRunId, evalRunId, target, runHash],
        ...[JSON.stringify(reasons), keyId, memberId, countsAs?.memberId ?? null, askReason],
        ...[quorum, group && JSON.stringify(group), now],
      ],
    },
    auditOf(crypto, now, caller, `promotion.${state}`, where, { evalRunId, runHash, askReason }),
    {
      // Votes were for what was asked before.
      sql: `delete from promotion_votes where changes() > 0
              and promotion_id = (select id from promotions where ${own})`,
      values: keyOf(organisationId, where),
    },
  ])
}

/** Behind a statement that must have changed a row. */
function auditOf(
  crypto: Pick<Crypto, 'random'>,
  now: number,
  maker: PromotionCaller,
  action: AuditAction,
  where: Where,
  more: Record<string, unknown>,
): DbStatement {
  const { organisationId } = maker
  const { project, dataset, kind, name, sha256, evalRunId: baselineRunId } = where
  const detail = { project, dataset, kind, name, sha256, baselineRunId, ...more }
  const subject = `${kind} ${name}`
  return {
    sql: `insert into audit (id, organisation_id, action, subject, actor, detail, created_at)
          select ?, ?, ?, ?, ?, ?, ? where changes() > 0`,
    values: auditValues(crypto, now, { organisationId, action, subject, maker, detail }),
  }
}

/** A person's word on exactly the revision that its hash names. Still asked while the quorum is not reached. */
export async function resolvePromotion(
  { db, crypto, now }: Ports,
  caller: PromotionCaller,
  id: string,
  { resolution, sha256, reason }: PromotionResolve,
): Promise<Promotion> {
  const found = await load(db, caller, id)
  if (found.sha256 !== sha256)
    throw new AppError('wrong_state', `Cannot resolve "${id}": it is about another revision`, [
      { path: 'sha256', message: `Expected ${found.sha256}` },
    ])
  mustBeEligible(found, caller, resolution)
  const wanted = resolution === 'approved' ? 'overridden' : 'refused'
  if (found.state !== 'asked') {
    if (found.state === wanted) return await viewPromotion(db, caller, id)
    throw new AppError('wrong_state', `Cannot resolve "${id}": it is ${found.state}`)
  }
  const where = { ...found, evalRunId: found.baselineRunId }
  const end: DbStatement = {
    sql: `update promotions set state = ?2, resolved_by = ?3, resolve_reason = ?4, updated_at = ?5
          where id = ?1 and state = 'asked'
            and (?2 = 'refused' or (select count(*) from promotion_votes where promotion_id = ?1) >= quorum)`,
    values: [id, wanted, caller.keyId, reason, now],
  }
  const told = { evalRunId: found.evalRunId, runHash: found.runHash, reason }
  await db.batch([
    ...(resolution === 'approved' ? [voteStatement(id, caller, reason, now)] : []),
    end,
    auditOf(crypto, now, caller, `promotion.${wanted}`, where, told),
  ])
  return await viewPromotion(db, caller, id)
}

const voteStatement = (
  id: string,
  caller: PromotionCaller,
  reason: string,
  now: number,
): DbStatement => ({
  sql: `insert into promotion_votes (promotion_id, member_id, key_id, reason, at)
        select ?1, ?2, ?3, ?4, ?5 from promotions where id = ?1 and state = 'asked' on conflict do nothing`,
  values: [id, voterOf(caller), caller.keyId, reason, now],
})

/** A new key counts as the member's who has made it: nobody becomes several by making members. */
const voterOf = ({ countsAs, memberId }: PromotionCaller): string => countsAs?.memberId ?? memberId

/** Who asked never approves. */
function mustBeEligible(
  { id, askerMember, askerCountsAs, groupKeys }: Row,
  caller: PromotionCaller,
  resolution: PromotionResolve['resolution'],
): void {
  const isAsker = [caller.memberId, voterOf(caller)].some(
    (one) => one === askerMember || one === askerCountsAs,
  )
  if (resolution === 'approved' && isAsker)
    throw new AppError(
      'forbidden',
      `Cannot approve "${id}": you have asked for it yourself, or through a key that you have just made`,
    )
  const group = groupKeys === null ? null : (JSON.parse(groupKeys) as string[])
  if (group !== null && !group.includes(caller.keyId) && !group.includes(voterOf(caller)))
    throw new AppError('forbidden', `Cannot resolve "${id}": this key is not in its group`)
}

async function load(db: Db, caller: PromotionCaller, id: string): Promise<Row> {
  const [row] = await db.all<Row>(
    `select ${columns} from promotions where organisation_id = ? and id = ?`,
    caller.organisationId,
    id,
  )
  if (!row || !mayUseProject(caller, row.project)) throw noPromotion()
  return row
}

export async function viewPromotion(
  db: Db,
  caller: PromotionCaller,
  id: string,
): Promise<Promotion> {
  return promotionOf(await load(db, caller, id), await votesOf(db, id))
}

interface Filter {
  project?: string | undefined
  dataset?: string | undefined
  kind?: string | undefined
}

/** Newest first, without votes. */
export async function listPromotions(
  db: Db,
  caller: PromotionCaller,
  { project, dataset, kind }: Filter,
  page: { limit: number; before: { createdAt: number; id: string } | null },
): Promise<PromotionRow[]> {
  const { projects } = limitValues(caller)
  const rows = await db.all<Row>(
    `select ${columns} from promotions
     where organisation_id = ?1 and (?2 is null or project = ?2) and (?3 is null or dataset = ?3)
       and (?4 is null or kind = ?4) and (?5 is null or project in (select value from json_each(?5)))
       and (created_at, id) < (?6, ?7) order by created_at desc, id desc limit ?8`,
    ...[caller.organisationId, project ?? null, dataset ?? null, kind ?? null, projects],
    ...[page.before?.createdAt ?? Number.MAX_SAFE_INTEGER, page.before?.id ?? '', page.limit],
  )
  return rows.map((row) => {
    const { votes: _, ...plain } = promotionOf(row, [])
    return plain
  })
}

const votesOf = (db: Db, id: string): Promise<Promotion['votes']> =>
  db.all<Promotion['votes'][number]>(
    'select key_id as keyId, reason, at from promotion_votes where promotion_id = ? order by at, member_id',
    id,
  )

function promotionOf(row: Row, votes: Promotion['votes']): Promotion {
  const { askerMember: _, askerCountsAs: __, groupKeys: ___, reasons, ...plain } = row
  return { ...plain, reasons: JSON.parse(reasons) as string[], votes }
}

const noPromotion = () => new AppError('not_found', 'There is no such promotion')
