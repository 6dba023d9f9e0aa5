import type { ToolCall, ToolResult } from '../../../contract/tool.ts'
import { nextPageStart, pageOf } from '../../actor/paging.ts'
import type { Sql } from '../../ports.ts'
import type { CallRow } from './rows.ts'

export function listCalls(
  sql: Sql,
  page: { limit: number; after: number | null },
): { items: ToolCall[]; next: number | null } {
  const size = 'length(args) + coalesce(length(response), 0)'
  const rows = pageOf<CallRow>(sql, { table: 'calls', size }, page)
  return { items: rows.map(toToolCall), next: nextPageStart(sql, 'calls', rows) }
}

function toToolCall(row: CallRow): ToolCall {
  return {
    tool: row.tool,
    toolCallId: row.tool_call_id,
    operationId: row.operation_id,
    state: row.state,
    generation: row.generation,
    attempts: row.attempts,
    conflicts: row.conflicts,
    args: JSON.parse(row.args) as unknown,
    response: row.response === null ? null : (JSON.parse(row.response) as ToolResult),
    error: row.error,
    startedAt: row.started_at,
    settledAt: row.settled_at,
  }
}

export function countActiveCalls(sql: Sql): number {
  return (
    sql.all<{ c: number }>(`select count(*) as c from calls where state = 'pending'`)[0]?.c ?? 0
  )
}

/** Asked for by sandboxes before this one: nobody of them can ask again. */
export const pendingBefore = (sql: Sql, generation: number): CallRow[] =>
  sql.all(`select * from calls where state = 'pending' and generation < ? order by n`, generation)
