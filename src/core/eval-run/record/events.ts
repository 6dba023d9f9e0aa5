import type { EvalEvent, EvalEventData, EvalEventKind } from '../../../contract/eval-run.ts'
import type { Sql } from '../../ports.ts'
import { pageThatFits } from '../../actor/paging.ts'

/** `once`: what was told under this name before is not told again. */
export function tellEvalEvent<K extends EvalEventKind>(
  sql: Sql,
  now: number,
  kind: K,
  data: EvalEventData<K>,
  once: string | null = null,
): void {
  sql.run(
    'insert or ignore into events (at, kind, data, once) values (?, ?, ?, ?)',
    now,
    kind,
    JSON.stringify(data),
    once,
  )
}

export function listEvalEvents(sql: Sql, after: number, limit: number): EvalEvent[] {
  const query = { from: 'events where seq > ?', by: 'seq', size: 'length(data)', limit }
  return pageThatFits<{ seq: number; at: number; kind: string; data: string }>(
    sql,
    query,
    after,
  ).map(({ seq, at, kind, data }) => ({
    seq,
    at,
    kind: kind as EvalEventKind,
    data: JSON.parse(data) as Record<string, unknown>,
  }))
}

export const lastEvalEventSeq = (sql: Sql): number =>
  sql.all<{ seq: number | null }>('select max(seq) as seq from events')[0]?.seq ?? 0
