// The life of a proposal: submitted, voted on, cancelled, applied. Each act is one batch that says from which state it
// leads, so that of two at once one is refused, and the same act again changes nothing.

import { AppError } from '../../../contract/error.ts'
import type { SkillProposal, SkillProposalResolve } from '../../../contract/skill-proposal.ts'
import type { Db, DbStatement } from '../../ports.ts'
import { hideSecretLikeText } from '../../redaction/secret-like.ts'
import { newestVersion } from './changes.ts'
import {
  type LoadedProposal,
  loadProposal,
  stateStatement,
  viewProposal,
  wrongProposalState,
} from './proposals.ts'
import { loadSkill } from './skills.ts'
import { addVersionStatements, mustMayActivateVersion, type VersionCaller } from './versions.ts'

export async function submitProposal(
  db: Db,
  caller: VersionCaller,
  id: string,
): Promise<SkillProposal> {
  const found = await loadProposal(db, caller, id)
  if (found.state === 'draft') await db.batch([stateStatement(id, ['draft'], 'submitted')])
  const after = await viewProposal(db, caller, id)
  if (after.state === 'submitted') return after
  throw wrongProposalState('submit', after)
}

/** A person's word on exactly what its hash names. Still submitted while the quorum is not reached. */
export async function resolveProposal(
  db: Db,
  now: number,
  caller: VersionCaller,
  id: string,
  { resolution, hash, reason }: SkillProposalResolve,
): Promise<SkillProposal> {
  const found = await loadProposal(db, caller, id)
  if (hash !== found.hash)
    throw new AppError('wrong_state', `Cannot resolve "${id}": it says something else`, [
      { path: 'hash', message: `Expected ${found.hash}` },
    ])
  mustBeEligible(found, caller, resolution)
  if (isSettled(found, caller, resolution)) return await viewProposal(db, caller, id)
  if (found.state !== 'submitted') throw wrongProposalState('resolve', found)
  const word = { by: caller.keyId, reason: hideSecretLikeText(reason), at: now }
  await db.batch(
    resolution === 'approved'
      ? [voteStatement(id, caller, word), approveStatement(id, word)]
      : endStatements(id, ['submitted'], 'rejected', word),
  )
  const after = await loadProposal(db, caller, id)
  const hasVoted = after.votes.some(({ memberId }) => memberId === voterOf(caller))
  const isDone = resolution === 'approved' ? hasVoted : after.state === 'rejected'
  if (!isDone) throw wrongProposalState('resolve', after)
  return await viewProposal(db, caller, id)
}

/** A new key counts as the member's who has made it: nobody becomes several by making members. */
const voterOf = ({ countsAs, memberId }: VersionCaller): string => countsAs?.memberId ?? memberId

/** With this member's keys, or through a member that it has just made. */
const hasAsked = ({ askerMember, askerCountsAs }: LoadedProposal, caller: VersionCaller): boolean =>
  [caller.memberId, voterOf(caller)].some((id) => id === askerMember || id === askerCountsAs)

/** Who asked never approves; what is one's own is one's own to approve. */
function mustBeEligible(
  proposal: LoadedProposal,
  caller: VersionCaller,
  resolution: SkillProposalResolve['resolution'],
): void {
  const { id, scope, group } = proposal
  if (scope === 'personal') return
  if (resolution === 'approved' && hasAsked(proposal, caller))
    throw new AppError(
      'forbidden',
      `Cannot approve "${id}": you have proposed it yourself, or through a key that you have just made`,
    )
  if (group !== null && !group.includes(caller.keyId) && !group.includes(voterOf(caller)))
    throw new AppError('forbidden', `Cannot resolve "${id}": this key is not in its group`)
}

/** The same word of the same person came before. */
const isSettled = (
  { state, votes, resolution: end }: LoadedProposal,
  caller: VersionCaller,
  resolution: SkillProposalResolve['resolution'],
): boolean =>
  resolution === 'approved'
    ? state !== 'rejected' &&
      state !== 'cancelled' &&
      votes.some((one) => one.memberId === voterOf(caller))
    : state === 'rejected' && end?.by === caller.keyId

interface Word {
  by: string
  reason: string
  at: number
}

const voteStatement = (id: string, caller: VersionCaller, word: Word): DbStatement => ({
  sql: `insert into skill_votes (proposal_id, member_id, key_id, reason, at)
        select ?1, ?2, ?3, ?4, ?5 from skill_proposals where id = ?1 and state = 'submitted'
        on conflict do nothing`,
  values: [id, voterOf(caller), caller.keyId, word.reason, word.at],
})

/** The vote that reaches the quorum. */
const approveStatement = (id: string, word: Word): DbStatement => ({
  sql: `update skill_proposals set state = 'approved', resolution = ?2
        where id = ?1 and state = 'submitted'
          and (select count(*) from skill_votes where proposal_id = ?1) >= quorum`,
  values: [id, JSON.stringify(word)],
})

const endStatements = (
  id: string,
  from: readonly SkillProposal['state'][],
  to: 'rejected' | 'cancelled',
  word: Word,
): DbStatement[] => [
  stateStatement(id, from, to),
  {
    sql: 'update skill_proposals set resolution = ?2 where id = ?1 and changes() > 0',
    values: [id, JSON.stringify(word)],
  },
]

/** By whoever proposed it, or who may approve. */
export async function cancelProposal(
  db: Db,
  now: number,
  caller: VersionCaller,
  id: string,
  reason: string,
): Promise<SkillProposal> {
  const found = await loadProposal(db, caller, id)
  if (found.askerMember !== caller.memberId) mustMayActivateVersion(caller, found)
  const word = { by: caller.keyId, reason: hideSecretLikeText(reason), at: now }
  if (found.state !== 'cancelled')
    await db.batch(endStatements(id, ['draft', 'submitted', 'approved'], 'cancelled', word))
  const after = await viewProposal(db, caller, id)
  if (after.state === 'cancelled') return after
  throw wrongProposalState('cancel', after)
}

/** The one way from a proposal to a version. Only if people have approved it and what it improves is still current. */
export async function applyProposal(
  db: Db,
  now: number,
  caller: VersionCaller,
  id: string,
  reason: string,
): Promise<SkillProposal> {
  const found = await loadProposal(db, caller, id)
  mustMayActivateVersion(caller, found)
  if (found.state === 'approved') await db.batch(applyStatements(now, caller, found, reason))
  const after = await viewProposal(db, caller, id)
  if (after.state === 'applied') return after
  if (after.state !== 'approved') throw wrongProposalState('apply', after)
  const { currentVersion } = await loadSkill(db, caller, found.skillId)
  throw new AppError(
    'wrong_state',
    `Cannot apply "${id}": it improves version ${found.baseVersion ?? 'none'}, and the current one is ${currentVersion ?? 'none'}`,
    [{ path: 'baseVersion', message: 'Cancel it, and propose the change anew' }],
  )
}

/** One batch: version, current version, history and proposal, or nothing. Each stands on the one before. */
function applyStatements(
  now: number,
  { keyId }: VersionCaller,
  { id, skillId, description, compatibility, source, sha256 }: LoadedProposal,
  reason: string,
): DbStatement[] {
  const saying = { description, compatibility, source, sha256 }
  return [
    ...addVersionStatements(now, {
      ...{ skillId, saying, activate: true, actor: keyId, reason: `${reason} (${id})` },
      ifSql: `exists (select 1 from skill_proposals as p join skills as s on s.id = p.skill_id
        where p.id = ?9 and p.state = 'approved' and s.current_version is p.base_version)`,
      ifValues: [id],
    }),
    {
      sql: `update skill_proposals set state = 'applied',
              application = json_object('version', ${newestVersion}, 'by', ?3, 'reason', ?4, 'at', ?5)
            where id = ?2 and skill_id = ?1 and state = 'approved' and changes() > 0`,
      values: [skillId, id, keyId, hideSecretLikeText(reason), now],
    },
  ]
}
