/**
 * What a change has in its phases: artifacts whole, by project and change, with revisions. Reading and saving do just
 * that. Nothing here starts a phase, an agent or a run, and nothing is written anywhere else.
 */
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
} from '../../../contract/phase.ts'
import { byteLength } from '../../../contract/byte-length.ts'
import type { Crypto, Db } from '../../ports.ts'
import {
  type ArtifactRow,
  type ChangeKey,
  findPhaseArtifact,
  listPhaseApprovals,
  listPhaseArtifacts,
  type NewArtifact,
  presentPhases,
  savePhaseApproval,
  savePhaseStatement,
} from './rows.ts'
import { phaseReadiness, phaseStatus } from './rules.ts'

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
interface Approver {
  keyId: string
  keyMemberId: string
  memberId: string
  owner: string
}

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
  const made = await savePhaseApproval(db, now, key, phase, { sha256, decision, reason, ...caller })
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
