import type { Db } from '../../ports.ts'

/** Of these runs, or of this time. */
export type Selection = { runIds: readonly string[] } | { from: number; to: number }

export interface RecordedRow {
  runId: string
  sessionId: string
  seq: number
  at: number
  data: string
}
const columns = 'run_id as runId, session_id as sessionId, seq, at, data'
const decisions = `organisation_id = ?1 and kind = 'permission-decision'`
/** One answer of libSQL must stay small, and a single row may have many kilobytes. */
const pageSize = 250

/** Page by page, in an order that does not change while others write. At most `limit` rows. */
export async function* recordedDecisions(
  db: Db,
  organisationId: string,
  selection: Selection,
  limit: number,
): AsyncGenerator<RecordedRow[]> {
  let last: RecordedRow | undefined
  for (let left = limit; left > 0;) {
    const wanted = Math.min(pageSize, left)
    const rows = await loadPage(db, organisationId, selection, last, wanted)
    if (rows.length > 0) yield rows
    if (rows.length < wanted) return
    last = rows.at(-1)
    left -= rows.length
  }
}

function loadPage(
  db: Db,
  organisationId: string,
  selection: Selection,
  last: RecordedRow | undefined,
  limit: number,
): Promise<RecordedRow[]> {
  const runId = last?.runId ?? ''
  const seq = last?.seq ?? 0
  if ('runIds' in selection) {
    return db.all<RecordedRow>(
      `select ${columns} from run_events where ${decisions}
         and run_id in (select value from json_each(?2)) and (run_id, seq) > (?3, ?4)
       order by run_id, seq limit ?5`,
      organisationId,
      JSON.stringify(selection.runIds),
      runId,
      seq,
      limit,
    )
  }
  return db.all<RecordedRow>(
    `select ${columns} from run_events where ${decisions}
       and at >= ?2 and at < ?3 and (at, run_id, seq) > (?2, ?4, ?5)
     order by at, run_id, seq limit ?6`,
    organisationId,
    last?.at ?? selection.from,
    selection.to,
    runId,
    seq,
    limit,
  )
}
