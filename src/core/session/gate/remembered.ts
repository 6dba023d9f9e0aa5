import type { ApprovalTerms } from '../../../contract/policy.ts'
import type { Sql } from '../../ports.ts'
import { isInGroup, mustApproval } from '../approvals/rows.ts'
import { findGrants } from '../approvals/grants.ts'

/** What is to be asked, of whom, and in which run. */
export interface Asked {
  operationHash: string
  runId: string
  terms: ApprovalTerms
}

/** The remembered approval that spares the question. */
export function findRemembered(sql: Sql, now: number, asked: Asked): string | null {
  return allRemembered(sql, now, asked)[0] ?? null
}

/** Whoever approved it must still be one who may, alone: the session may have been moved to another policy since. */
export function allRemembered(
  sql: Sql,
  now: number,
  { operationHash, runId, terms }: Asked,
): string[] {
  const { quorum, group, escalate } = terms
  if (quorum > 1) return []
  const others = escalate?.group ?? []
  return findGrants(sql, now, operationHash, runId).filter((id) => {
    const { actor, actor_member: memberId } = mustApproval(sql, id)
    return group === null || isInGroup([...group, ...others], { keyId: actor ?? '', memberId })
  })
}
