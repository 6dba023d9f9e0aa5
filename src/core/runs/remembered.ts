import type { IsolationPlan, Operation } from '../../contract/operation.ts'
import type { ApprovalTerms } from '../../contract/policy.ts'
import type { Sql } from '../ports.ts'
import { mustApproval } from './approvals.ts'
import { findGrants } from './grants.ts'
import { mustOperation, workOf } from './operations.ts'
import { hashText } from './timeline.ts'

/** What is to be asked, of whom, and in which run. */
export interface Asked {
  operationHash: string
  runId: string
  terms: ApprovalTerms
}

/** The remembered approval that spares the question. */
export function findRemembered(sql: Sql, now: number, asked: Asked): string | null {
  return remembered(sql, now, asked)[0] ?? null
}

/** One that was approved under a plan that held it to no more than this one does. */
export function findRememberedOperation(
  sql: Sql,
  now: number,
  operation: Operation,
  { notEnforced }: IsolationPlan,
  { runId, terms }: Omit<Asked, 'operationHash'>,
): string | null {
  const operationHash = hashText(JSON.stringify(operation))
  const covers = (approvalId: string) => {
    const { plan } = workOf(mustOperation(sql, mustApproval(sql, approvalId).subject))
    return notEnforced.every((each) => plan.notEnforced.includes(each))
  }
  return remembered(sql, now, { operationHash, runId, terms }).find(covers) ?? null
}

/** Whoever approved it must still be one who may, alone: the session may have been moved to another policy since. */
function remembered(sql: Sql, now: number, { operationHash, runId, terms }: Asked): string[] {
  const { quorum, group, escalate } = terms
  if (quorum > 1) return []
  return findGrants(sql, now, operationHash, runId).filter((id) => {
    const actor = mustApproval(sql, id).actor ?? ''
    return group === null || group.includes(actor) || escalate?.group.includes(actor) === true
  })
}
