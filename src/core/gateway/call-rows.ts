import { isName } from '../outbox.ts'
import type { OutboxRow, Sql } from '../ports.ts'
import type { CallRow } from './calls.ts'

/** As in `nameInOutbox`, by the statement that begins or ends the call: this is on the path of each, twice. */
export const callTriggers = [
  `create trigger call_begun after insert on calls begin
    insert into outbox (kind, payload, created_at) values ('call', new.n, new.started_at);
  end`,
  `create trigger call_ended after update of state on calls when new.state <> 'pending' begin
    insert into outbox (kind, payload, created_at) values ('call', new.n, new.settled_at);
  end`,
] as const

/**
 * Calls are named in the outbox when they begin and when they end. What goes to libSQL is each call as it is now: most
 * have ended by then, and their arguments and answers are kept and sent a single time.
 */
export function describeCalls(sql: Sql, rows: readonly OutboxRow[]): OutboxRow[] {
  const named = rows.filter(isNamedCall).map(({ payload }) => payload)
  if (named.length === 0) return [...rows]
  const payloads = payloadsOf(sql, named)
  return rows.map((row) =>
    // A call is never deleted before its session; if it were, its row would become a dead letter.
    isNamedCall(row) ? { ...row, payload: payloads.get(row.payload) ?? '{}' } : row,
  )
}

/** Rows of earlier releases bring their payload themselves. */
const isNamedCall = (row: OutboxRow) => row.kind === 'call' && isName(row)

function payloadsOf(sql: Sql, numbers: string[]): Map<string, string> {
  const calls = sql.all<CallRow>(
    'select * from calls where n in (select value from json_each(?))',
    `[${numbers.join(',')}]`,
  )
  return new Map(calls.map((call) => [String(call.n), JSON.stringify(payloadOf(call))]))
}

function payloadOf(row: CallRow) {
  // One that runs again still has the time at which it failed.
  const settledAt = row.state === 'pending' ? null : row.settled_at
  return {
    tool: row.tool,
    toolCallId: row.tool_call_id,
    operationId: row.operation_id,
    generation: row.generation,
    status: row.state,
    attempts: row.attempts,
    input: row.args,
    output: row.response,
    error: row.error,
    durationMs: settledAt === null ? null : settledAt - row.started_at,
    startedAt: row.started_at,
    completedAt: settledAt,
  }
}
