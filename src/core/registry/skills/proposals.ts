// What somebody proposes to change in a skill. Nothing here changes the skill: a proposal is kept, shown, voted on; only
// apply.ts makes a version of it. Its text never changes, and whoever approves names the hash of what they have seen.

import { canonicalJson } from '../../../contract/canonical.ts'
import { AppError } from '../../../contract/error.ts'
import type { Skill } from '../../../contract/skill.ts'
import type {
  ProposalState,
  SkillPropose,
  SkillProposal,
  SkillProposalQuery,
  SkillProposalRow,
} from '../../../contract/skill-proposal.ts'
import type { Crypto, Db, DbStatement } from '../../ports.ts'
import { hideSecretLikeText } from '../../redaction/secret-like.ts'
import { limitValues } from '../place.ts'
import { loadPolicyApprovalTerms } from '../policies/policies.ts'
import { proposalDiff } from './proposal-diff.ts'
import { findSkillVersion, loadSkill, type SkillCaller, visible } from './skills.ts'
import { checkedSkillVersion } from './versions.ts'

/** Who proposes: a key, or a session's sandbox, which nobody is. */
export interface Asker {
  kind: 'key' | 'sandbox'
  id: string
  memberId: string | null
  /** The member as whom a new key of the asker counts. */
  countsAs: string | null
}

/** The same id again gives the same proposal. */
export async function createProposal(
  db: Db,
  crypto: Pick<Crypto, 'sha256'>,
  now: number,
  caller: Pick<SkillCaller, 'organisationId'>,
  given: { id: string; skill: Skill; asker: Asker; input: SkillPropose },
): Promise<void> {
  const { id, skill, asker, input } = given
  // What it was made for may have changed since: then it is not checked again.
  if (await isThere(db, id)) return
  mustImproveCurrent(skill, input.baseVersion)
  const base = await findSkillVersion(db, skill, skill.currentVersion)
  const { description = base?.description ?? skill.description, source } = input
  const { compatibility = base?.compatibility ?? '' } = input
  const saying = await checkedSkillVersion(crypto, { description, compatibility, source })
  if (saying.sha256 === base?.sha256) throw saysTheSame(base.version)
  const about = { skillId: skill.id, baseVersion: skill.currentVersion, sha256: saying.sha256 }
  const hash = await crypto.sha256(canonicalJson(about))
  const terms = await termsOf(db, caller.organisationId, skill)
  await db.batch([
    {
      sql: `insert into skill_proposals (id, skill_id, state, base_version, description, compatibility, source, sha256,
              hash, rationale, signal, diff, asker_kind, asker_id, asker_member, asker_counts_as, quorum, group_keys, created_at)
            values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing`,
      values: [
        ...[id, skill.id, input.submit ? 'submitted' : 'draft', skill.currentVersion],
        ...[description, compatibility, JSON.stringify(source), saying.sha256, hash],
        ...[hideSecretLikeText(input.rationale), hideSecretLikeText(JSON.stringify(input.signal))],
        ...[JSON.stringify(proposalDiff(base, saying)), asker.kind, asker.id, asker.memberId],
        ...[asker.countsAs],
        ...[terms.quorum, terms.group && JSON.stringify(terms.group), now],
      ],
    },
  ])
}

/** Of one session that wait for people. */
export async function countProposals(db: Db, sessionId: string): Promise<number> {
  const [row] = await db.all<{ n: number }>(
    `select count(*) as n from skill_proposals where asker_kind = 'sandbox' and asker_id = ? and state = 'submitted'`,
    sessionId,
  )
  return row?.n ?? 0
}

async function isThere(db: Db, id: string): Promise<boolean> {
  return (await db.all('select 1 from skill_proposals where id = ?', id)).length > 0
}

/** Who must approve it: by the project's policy, as for everything else that people are asked. What is one's own: oneself. */
async function termsOf(
  db: Db,
  organisationId: string,
  { project, scope }: Skill,
): Promise<{ quorum: number; group: string[] | null }> {
  if (scope === 'personal') return { quorum: 1, group: null }
  return await loadPolicyApprovalTerms(db, organisationId, project)
}

function mustImproveCurrent({ currentVersion }: Skill, base: number | undefined): void {
  if (base === undefined || base === currentVersion) return
  throw new AppError(
    'wrong_state',
    `Cannot propose a change of version ${base}: the current one is ${currentVersion ?? 'none'}`,
    [{ path: 'baseVersion', message: `Look at version ${currentVersion ?? 'none'} first` }],
  )
}

const saysTheSame = (version: number) =>
  new AppError('unprocessable', `Cannot propose it: version ${version} says the same`, [
    { path: 'source', message: 'Nothing would change' },
  ])

interface Row {
  id: string
  state: ProposalState
  source: string
  signal: string
  diff: string
  askerKind: 'key' | 'sandbox'
  askerId: string
  askerMember: string | null
  askerCountsAs: string | null
  groupKeys: string | null
  resolution: string | null
  application: string | null
}
type Plain = Omit<
  SkillProposal,
  'source' | 'signal' | 'diff' | 'asker' | 'group' | 'votes' | 'resolution' | 'application'
>

const shortColumns = `p.id as id, p.skill_id as skillId, s.name as name, s.project as project, s.scope as scope,
  p.state as state, p.base_version as baseVersion, p.hash as hash, p.created_at as createdAt`
const columns = `${shortColumns}, p.description as description, p.compatibility as compatibility, p.source as source,
  p.sha256 as sha256, p.rationale as rationale, p.signal as signal, p.diff as diff, p.asker_kind as askerKind,
  p.asker_id as askerId, p.asker_member as askerMember,
  p.asker_counts_as as askerCountsAs, p.quorum as quorum,
  p.group_keys as groupKeys, p.resolution as resolution, p.application as application`

/** With the members that asked, which are for the votes alone. */
export type LoadedProposal = SkillProposal & Pick<Row, 'askerMember' | 'askerCountsAs'>

/** What the skill is not there for is not there either. */
export async function loadProposal(
  db: Db,
  caller: SkillCaller,
  proposalId: string,
): Promise<LoadedProposal> {
  const [row] = await db.all<Row & Plain>(
    `select ${columns} from skill_proposals as p join skills as s on s.id = p.skill_id
     where ${visible} and p.id = ?3`,
    caller.organisationId,
    caller.memberId,
    proposalId,
  )
  if (!row) throw new AppError('not_found', 'There is no such proposal')
  await loadSkill(db, caller, row.skillId)
  return { ...proposalOf(row), votes: await votesOf(db, row.id) }
}

function proposalOf(row: Row & Plain): Omit<LoadedProposal, 'votes'> {
  const { askerKind, askerId, groupKeys, source, signal, diff, resolution, application } = row
  const { askerKind: _, askerId: __, groupKeys: ___, ...plain } = row
  return {
    ...plain,
    source: JSON.parse(source) as SkillProposal['source'],
    signal: JSON.parse(signal) as SkillProposal['signal'],
    diff: JSON.parse(diff) as SkillProposal['diff'],
    asker: { kind: askerKind, id: askerId },
    group: groupKeys === null ? null : (JSON.parse(groupKeys) as string[]),
    resolution:
      resolution === null ? null : (JSON.parse(resolution) as SkillProposal['resolution']),
    application:
      application === null ? null : (JSON.parse(application) as SkillProposal['application']),
  }
}

const votesOf = (db: Db, proposalId: string): Promise<SkillProposal['votes']> =>
  db.all<SkillProposal['votes'][number]>(
    `select key_id as keyId, member_id as memberId, reason, at from skill_votes
     where proposal_id = ? order by at, member_id`,
    proposalId,
  )

/** As callers get it. */
export async function viewProposal(
  db: Db,
  caller: SkillCaller,
  proposalId: string,
): Promise<SkillProposal> {
  const { askerMember: _, askerCountsAs: __, ...shown } = await loadProposal(db, caller, proposalId)
  return shown
}

/** Newest first. */
export async function listProposals(
  db: Db,
  caller: SkillCaller,
  filter: Omit<SkillProposalQuery, 'limit' | 'cursor'>,
  page: { limit: number; before: { createdAt: number; id: string } | null },
): Promise<SkillProposalRow[]> {
  return await db.all<SkillProposalRow>(
    `select ${shortColumns} from skill_proposals as p join skills as s on s.id = p.skill_id
     where ${visible} and (p.created_at, p.id) < (?3, ?4)
       and (?5 is null or s.project = ?5) and (?6 is null or p.skill_id = ?6)
       and (?7 is null or p.state = ?7)
       and (?8 is null or s.project in (select value from json_each(?8)))
     order by p.created_at desc, p.id desc limit ?9`,
    caller.organisationId,
    caller.memberId,
    page.before?.createdAt ?? Number.MAX_SAFE_INTEGER,
    page.before?.id ?? '',
    filter.project ?? null,
    filter.skillId ?? null,
    filter.state ?? null,
    limitValues(caller).projects,
    page.limit,
  )
}

/** From exactly that state, so that of two acts at once one is refused. */
export const stateStatement = (
  id: string,
  from: readonly ProposalState[],
  to: ProposalState,
): DbStatement => ({
  sql: `update skill_proposals set state = ?2 where id = ?1 and state in (select value from json_each(?3))`,
  values: [id, to, JSON.stringify(from)],
})

export const wrongProposalState = (
  act: string,
  { id, state }: Pick<SkillProposal, 'id' | 'state'>,
) =>
  new AppError('wrong_state', `Cannot ${act} "${id}": it is ${state}`, [
    { path: 'state', message: whatNext[state] },
  ])

const whatNext: Record<ProposalState, string> = {
  draft: 'May be submitted or cancelled',
  submitted: 'May be approved, rejected or cancelled',
  approved: 'May be applied or cancelled',
  rejected: 'This is the end: propose anew',
  cancelled: 'This is the end: propose anew',
  applied: 'This is the end: roll the skill back, or propose anew',
}
