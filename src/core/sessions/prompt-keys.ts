import { AppError } from '../../contract/error.ts'
import type { Sql } from '../ports.ts'

/** A key seen before: the turn that it made, or a refusal if it came with another body. */
export function findPromptKey(sql: Sql, key: string, body: string): string | null {
  const row = sql.all<{ body: string; turn_id: string }>(
    'select body, turn_id from prompt_keys where key = ?',
    key,
  )[0]
  if (!row) return null
  if (row.body === body) return row.turn_id
  throw new AppError('key_conflict', `Idempotency-Key "${key}" was used with another prompt`)
}

export function savePromptKey(
  sql: Sql,
  now: number,
  key: string,
  body: string,
  turnId: string,
): void {
  sql.run(
    'insert into prompt_keys (key, body, turn_id, created_at) values (?, ?, ?, ?)',
    key,
    body,
    turnId,
    now,
  )
}
