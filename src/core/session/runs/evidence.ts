import type { EvidenceSummary } from '../../../contract/run.ts'
import type { Sql } from '../../ports.ts'

/** What was shown for a run, counted from its timeline. */
export function summarizeRunEvidence(sql: Sql, runId: string): EvidenceSummary {
  const counts = new Map(
    sql
      .all<{ kind: string; detail: string | null; count: number }>(
        `select kind, case kind when 'permission-decision' then json_extract(data, '$.decision')
           when 'verification.ended' then json_extract(data, '$.passed') is 1 end as detail, count(*) as count
         from run_events where run_id = ? group by 1, 2`,
        runId,
      )
      .map(({ kind, detail, count }) => [detail === null ? kind : `${kind} ${detail}`, count]),
  )
  const of = (name: string) => counts.get(name) ?? 0
  return {
    verifications: {
      started: of('verification.started'),
      passed: of('verification.ended 1'),
      failed: of('verification.ended 0'),
    },
    artifacts: of('artifact.written'),
    snapshots: of('snapshot.stored'),
    toolCalls: {
      requested: of('tool.requested'),
      completed: of('tool.completed'),
      failed: of('tool.failed'),
    },
    decisions: {
      allow: of('permission-decision allow'),
      ask: of('permission-decision ask'),
      deny: of('permission-decision deny'),
    },
    changes: of('change.recorded'),
    mismatches: of('evidence.mismatch'),
    lastVerification: lastVerification(sql, runId),
  }
}

function lastVerification(sql: Sql, runId: string): Record<string, unknown> | null {
  const row = sql.all<{ data: string }>(
    `select data from run_events where run_id = ? and kind = 'verification.ended' order by seq desc limit 1`,
    runId,
  )[0]
  return row ? (JSON.parse(row.data) as Record<string, unknown>) : null
}
