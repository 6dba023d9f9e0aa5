import { AppError } from '../../../contract/error.ts'
import {
  topicKey,
  type ChangeStatus,
  type Phase,
  type PhaseApproval,
  type PhaseApprove,
  type PhaseArtifact,
  type PhaseImport,
  type PhaseImported,
  type PhaseReadiness,
  type PhaseSave,
  type WholePhaseArtifact,
  type ChangeRow,
  type ListedPhaseArtifact,
} from '../../../contract/phase.ts'
import { byteLength } from '../../../contract/byte-length.ts'
import type { Crypto, Db, DbStatement } from '../../ports.ts'
import { hideSecretLikeText } from '../../redaction/secret-like.ts'
import { phaseReadiness, phaseStatus, nextPhase, phases, positionOf } from './rules.ts'

/**
 * What a change has in its phases: artifacts whole, by project and change, with revisions. Reading and saving do just
 * that. Nothing here starts a phase, an agent or a run, and nothing is written anywhere else.
 */

type Hashes = Pick<Crypto, 'sha256'>

/** Who saves: a key, or an agent in a session for the member of that session. */
export interface Saver {
  organisationId: string
  savedBy: string
  memberId: string
}

/** Repeatable: what the newest revision says already is that revision. */
export async function storePhaseArtifact(
  db: Db,
  crypto: Hashes,
  now: number,
  saver: Saver,
  about: { change: string; phase: Phase },
  { project, content, expectedRevision }: PhaseSave,
): Promise<PhaseArtifact> {
  const { change, phase } = about
  const artifact = await artifactOf(crypto, saver, { project, change, phase, content })
  const { sql, values } = savePhaseStatement(now, artifact, expectedRevision ?? null)
  const [made] = await db.all<ArtifactRow>(sql, ...values)
  if (made) return shownPhase(artifact, made)
  const found = await findPhaseArtifact(db, artifact, phase, null)
  const isSame = found?.sha256 === artifact.sha256
  if (found && isSame) return shownPhase(artifact, found)
  throw changedMeanwhile(artifact, phase, found?.revision ?? 0)
}

async function artifactOf(
  crypto: Hashes,
  { organisationId, savedBy, memberId }: Saver,
  given: { project: string; change: string; phase: Phase; content: string },
): Promise<NewArtifact> {
  const sha256 = await crypto.sha256(given.content)
  const bytes = byteLength(given.content)
  return { organisationId, ...given, sha256, bytes, savedBy, memberId }
}

export const shownPhase = ({ project, change }: ChangeKey, row: ArtifactRow): PhaseArtifact => ({
  ...{ project, change, phase: row.phase, topicKey: topicKey(change, row.phase) },
  ...{ revision: row.revision, sha256: row.sha256, bytes: row.bytes },
  ...{ savedBy: row.savedBy, createdAt: row.createdAt },
})

export async function loadPhaseArtifact(
  db: Db,
  key: ChangeKey,
  phase: Phase,
  revision: number | null,
): Promise<WholePhaseArtifact> {
  const found = await findPhaseArtifact(db, key, phase, revision)
  if (!found) throw noArtifact(key, phase)
  return {
    ...shownPhase(key, found),
    content: found.content,
    isNewest: found.revision === found.newest,
    approvals: await listPhaseApprovals(db, key, phase, found.revision),
  }
}

export async function loadPhaseStatus(db: Db, key: ChangeKey): Promise<ChangeStatus> {
  const artifacts = await listPhaseArtifacts(db, key)
  const present = new Set(artifacts.map(({ phase }) => phase))
  return { project: key.project, change: key.change, ...phaseStatus(key, present), artifacts }
}

export async function loadPhaseReadiness(
  db: Db,
  key: ChangeKey,
  phase: Phase,
): Promise<PhaseReadiness> {
  return phaseReadiness(key, phase, await presentPhases(db, key))
}

/** `memberId` and `owner` are those as whom the key counts, `keyMemberId` is whose it is. */
type Approver = Record<'keyId' | 'keyMemberId' | 'memberId' | 'owner', string>

/** Bound to the hash of what was read, and void for every later revision. Who saved it does not approve it. */
export async function approvePhaseArtifact(
  db: Db,
  now: number,
  { keyMemberId, ...caller }: Approver,
  key: ChangeKey,
  phase: Phase,
  { sha256, decision, reason }: Omit<PhaseApprove, 'project'>,
): Promise<PhaseApproval> {
  const found = await findPhaseArtifact(db, key, phase, null)
  if (!found) throw noArtifact(key, phase)
  const what = `"${topicKey(key.change, phase)}"`
  const savers = [found.memberId, found.keyMemberId]
  if (decision === 'approved' && [caller.memberId, keyMemberId].some((id) => savers.includes(id)))
    throw new AppError('forbidden', `Cannot approve ${what}: you have saved it yourself`)
  const made = await savePhaseApproval(db, now, key, phase, {
    ...{ sha256, decision, reason: hideSecretLikeText(reason), ...caller },
  })
  if (made) return made
  const newest = `the newest revision is ${found.revision} with sha256 ${found.sha256}`
  throw new AppError('wrong_state', `Cannot approve ${what}: ${newest}. Read it first`, [
    { path: 'sha256', message: `The newest is ${found.sha256}` },
  ])
}

/** All or nothing. Without a dry run it does what the dry run says, unless somebody saves in between. */
export async function storePhaseImport(
  db: Db,
  crypto: Hashes,
  now: number,
  saver: Saver,
  { project, dryRun, artifacts }: PhaseImport,
): Promise<PhaseImported> {
  refuseTwice(artifacts)
  const wanted = await Promise.all(
    artifacts.map((one) => artifactOf(crypto, saver, { project, ...one })),
  )
  const items: PhaseImported['items'] = []
  for (const one of wanted) items.push(await planned(db, one))
  if (!dryRun) await db.batch(wanted.map((one) => savePhaseStatement(now, one, null)))
  return { dryRun, items }
}

async function planned(db: Db, one: NewArtifact): Promise<PhaseImported['items'][number]> {
  const key = topicKey(one.change, one.phase)
  const found = await findPhaseArtifact(db, one, one.phase, null)
  if (!found) return { topicKey: key, outcome: 'created', revision: 1 }
  const { revision } = found
  return found.sha256 === one.sha256
    ? { topicKey: key, outcome: 'unchanged', revision }
    : { topicKey: key, outcome: 'updated', revision: revision + 1 }
}

function refuseTwice(artifacts: PhaseImport['artifacts']): void {
  const seen = new Set<string>()
  for (const [index, { change, phase }] of artifacts.entries()) {
    const key = topicKey(change, phase)
    if (seen.has(key))
      throw new AppError('unprocessable', `Cannot import "${key}" twice at once`, [
        { path: `artifacts.${index}`, message: 'Named before in this list: leave one out' },
      ])
    seen.add(key)
  }
}

const noArtifact = ({ change }: ChangeKey, phase: Phase) =>
  new AppError('not_found', `There is no artifact "${topicKey(change, phase)}" here`)

const changedMeanwhile = ({ change }: ChangeKey, phase: Phase, revision: number) =>
  new AppError(
    'wrong_state',
    `Cannot save "${topicKey(change, phase)}": its newest revision is ${revision}`,
    [{ path: 'expectedRevision', message: `The newest is ${revision}` }],
  )

// The SQL of phases. Rows are only added: a save is the next revision, so whatever was present stays present.

export interface ChangeKey {
  organisationId: string
  project: string
  change: string
}

export interface NewArtifact extends ChangeKey {
  phase: Phase
  content: string
  sha256: string
  bytes: number
  savedBy: string
  /** Of the member who saved it, and so does not approve it. */
  memberId: string
}

export interface ArtifactRow {
  phase: Phase
  revision: number
  sha256: string
  bytes: number
  savedBy: string
  createdAt: number
}

const columns = 'phase, revision, sha256, bytes, saved_by as savedBy, created_at as createdAt'
const ofChange = 'organisation_id = ?1 and project = ?2 and change = ?3'
const ofPhase = `${ofChange} and phase = ?4`
const newest = `select revision, sha256 from phase_artifacts where ${ofPhase} order by revision desc limit 1`

const keyOf = ({ organisationId, project, change }: ChangeKey): string[] => [
  ...[organisationId, project, change],
]

/** Decides and writes in one: of two who know the same revision one writes. What the newest says already is not written. */
function savePhaseStatement(
  now: number,
  artifact: NewArtifact,
  expectedRevision: number | null,
): DbStatement {
  const { phase, content, sha256, bytes, savedBy, memberId } = artifact
  return {
    sql: `insert into phase_artifacts (organisation_id, project, change, phase, position, revision, n, content, sha256,
            bytes, saved_by, member_id, created_at)
          select ?1, ?2, ?3, ?4, ?5, coalesce((select revision from (${newest})), 0) + 1,
            coalesce((select max(n) from phase_artifacts where ${ofChange}), 0) + 1, ?6, ?7, ?8, ?9, ?10, ?11
          where (?12 is null or coalesce((select revision from (${newest})), 0) = ?12)
            and not exists (select 1 from (${newest}) where sha256 = ?7)
          returning ${columns}`,
    values: [
      ...[...keyOf(artifact), phase, positionOf(phase), content, sha256, bytes],
      ...[savedBy, memberId, now, expectedRevision],
    ],
  }
}

/** The newest of each phase, in the order of the phases. */
async function listPhaseArtifacts(db: Db, key: ChangeKey): Promise<ListedPhaseArtifact[]> {
  const rows = await db.all<ArtifactRow & { staleSince: number | null; approved: number }>(
    `select ${columns},
       (select min(later.created_at) from phase_artifacts as later
        where later.organisation_id = ?1 and later.project = ?2 and later.change = ?3
          and later.position < own.position and later.n > own.n) as staleSince,
       coalesce((select min(decision = 'approved') from phase_approvals as word
        where word.organisation_id = ?1 and word.project = ?2 and word.change = ?3
          and word.phase = own.phase and word.revision = own.revision), 0) as approved
     from phase_artifacts as own
     where ${ofChange} and revision = (select max(revision) from phase_artifacts as all_of
       where all_of.organisation_id = ?1 and all_of.project = ?2 and all_of.change = ?3 and all_of.phase = own.phase)
     order by position`,
    ...keyOf(key),
  )
  return rows.map(({ approved, ...row }) => ({
    ...{ project: key.project, change: key.change },
    topicKey: topicKey(key.change, row.phase),
    ...row,
    approved: approved === 1,
  }))
}

export async function presentPhases(db: Db, key: ChangeKey): Promise<Set<Phase>> {
  const rows = await db.all<{ phase: Phase }>(
    `select distinct phase from phase_artifacts where ${ofChange}`,
    ...keyOf(key),
  )
  return new Set(rows.map(({ phase }) => phase))
}

/** Of several changes; one that nobody has begun is not there. */
export async function presentPhasesByChange(
  db: Db,
  { organisationId, project }: Omit<ChangeKey, 'change'>,
  changes: readonly string[],
): Promise<Map<string, Phase[]>> {
  const rows = await db.all<{ change: string; phase: Phase }>(
    `select distinct change, phase from phase_artifacts
     where organisation_id = ? and project = ? and change in (select value from json_each(?))`,
    ...[organisationId, project, JSON.stringify(changes)],
  )
  const found = new Map<string, Phase[]>()
  for (const { change, phase } of rows) found.set(change, [...(found.get(change) ?? []), phase])
  return found
}

/** How many hear at once that an artifact was saved; others look when their next turn begins. */
const maxTold = 50

/** Open sessions of the project, newest first; none if no policy of the organisation has ever named a phase. */
export async function openPhaseSessions(
  db: Db,
  { organisationId, project }: Omit<ChangeKey, 'change'>,
): Promise<string[]> {
  const rows = await db.all<{ id: string }>(
    `select id from sessions where organisation_id = ?1 and project = ?2 and status = 'open'
       and exists (select 1 from policies where organisation_id = ?1 and project in ('', ?2) and instr(source, 'sdd') > 0)
     order by created_at desc limit ?3`,
    ...[organisationId, project, maxTold],
  )
  return rows.map(({ id }) => id)
}

/** `memberId` is as whom the key counted that has saved it, `keyMemberId` whose key it is; null: a session has saved it. */
type FoundArtifact = ArtifactRow &
  Record<'content' | 'memberId', string> & { keyMemberId: string | null; newest: number }

/** Null revision: the newest. */
async function findPhaseArtifact(
  db: Db,
  key: ChangeKey,
  phase: Phase,
  revision: number | null,
): Promise<FoundArtifact | null> {
  const [row] = await db.all<FoundArtifact>(
    `select ${columns}, content, member_id as memberId,
       (select members.id from api_keys as own join members
        on members.organisation_id = own.organisation_id and members.name = own.owner
        where own.id = saved_by) as keyMemberId,
       (select max(revision) from phase_artifacts where ${ofPhase}) as newest
     from phase_artifacts where ${ofPhase} and (?5 is null or revision = ?5) order by revision desc limit 1`,
    ...[...keyOf(key), phase, revision],
  )
  return row ?? null
}

/** Newest first. */
export async function listPhaseRevisions(
  db: Db,
  key: ChangeKey,
  phase: Phase,
  page: { limit: number; before: number | null },
): Promise<ArtifactRow[]> {
  return await db.all<ArtifactRow>(
    `select ${columns} from phase_artifacts where ${ofPhase} and revision < ?5 order by revision desc limit ?6`,
    ...[...keyOf(key), phase, page.before ?? Number.MAX_SAFE_INTEGER, page.limit],
  )
}

/** By name. */
export async function listPhaseChanges(
  db: Db,
  { organisationId, project }: Omit<ChangeKey, 'change'>,
  page: { limit: number; after: string | null },
): Promise<ChangeRow[]> {
  const rows = await db.all<{ change: string; found: string; updatedAt: number }>(
    `select change, group_concat(distinct phase) as found, max(created_at) as updatedAt from phase_artifacts
     where organisation_id = ? and project = ? and change > ? group by change order by change limit ?`,
    ...[organisationId, project, page.after ?? '', page.limit],
  )
  return rows.map(({ change, found, updatedAt }) => {
    const present = new Set(found.split(',') as Phase[])
    const known = phases.filter((phase) => present.has(phase))
    return { project, change, present: known, next: nextPhase(present), updatedAt }
  })
}

const approvalColumns = `phase, revision, sha256, decision, reason, key_id as keyId, owner, created_at as createdAt`

interface Word {
  sha256: string
  decision: string
  reason: string
  keyId: string
  memberId: string
  owner: string
}

/** Only on the newest revision, and only if it is the one that was read. A member's last word counts. */
async function savePhaseApproval(
  db: Db,
  now: number,
  key: ChangeKey,
  phase: Phase,
  { sha256, decision, reason, keyId, memberId, owner }: Word,
): Promise<PhaseApproval | null> {
  const [made] = await db.all<PhaseApproval>(
    `insert into phase_approvals (organisation_id, project, change, phase, revision, sha256, decision, reason, key_id,
       member_id, owner, created_at)
     select ?1, ?2, ?3, ?4, revision, sha256, ?6, ?7, ?8, ?9, ?10, ?11 from (${newest}) where sha256 = ?5
     on conflict (organisation_id, project, change, phase, revision, member_id) do update set
       decision = excluded.decision, reason = excluded.reason, key_id = excluded.key_id, created_at = excluded.created_at
     returning ${approvalColumns}`,
    ...[...keyOf(key), phase, sha256, decision, reason, keyId, memberId, owner, now],
  )
  return made ?? null
}

async function listPhaseApprovals(
  db: Db,
  key: ChangeKey,
  phase: Phase,
  revision: number,
): Promise<PhaseApproval[]> {
  return await db.all<PhaseApproval>(
    `select ${approvalColumns} from phase_approvals where ${ofPhase} and revision = ?5 order by created_at, member_id`,
    ...[...keyOf(key), phase, revision],
  )
}
