import type { TargetPermissions } from '../../../contract/eval-target.ts'
import type { Policy } from '../../../contract/policy.ts'
import type { Sql } from '../../ports.ts'

/** What makes a session that of an eval attempt. Nobody who makes sessions by the API can say any of it. */
export interface AttemptTerms {
  evalRunId: string
  /** How every question of the gate and of OpenCode is answered, at once. */
  permissions: TargetPermissions
  /** The only secrets that its sandbox may have, by name. */
  secrets: readonly string[]
  /** Null: the fixed one of attempts. */
  policy: Policy | null
  /** Written into the workspace before the agent begins, over what is there. */
  files: readonly { path: string; text: string }[]
  /** Where the agent writes its log, below the workspace or absolute. Null: nowhere. */
  logFile: string | null
}

export function saveAttemptTerms(sql: Sql, terms: AttemptTerms): void {
  sql.run('insert into attempt_terms (terms) values (?)', JSON.stringify(terms))
}

/** Null: it is no attempt of an eval run. */
export function loadAttemptTerms(sql: Sql): AttemptTerms | null {
  const [row] = sql.all<{ terms: string }>('select terms from attempt_terms')
  return row ? (JSON.parse(row.terms) as AttemptTerms) : null
}
