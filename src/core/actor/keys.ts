import { canonicalJson } from '../../contract/canonical.ts'
import { AppError } from '../../contract/error.ts'
import type { Sql } from '../ports.ts'
import { hashText } from '../hash.ts'

interface KeyedRequest {
  /** What is done, so that one key may serve for different things. */
  scope: string
  /** The Idempotency-Key; null: each request is one of its own. */
  key: string | null
  /** As it was sent. */
  body: unknown
}

/** Inside a commit. What the first request with this key made, or what `make` makes now; another body is refused. */
export function onceByKey(
  sql: Sql,
  now: number,
  request: KeyedRequest,
  make: () => string,
): string {
  const known = knownByKey(sql, request)
  if (known !== null) return known
  const made = make()
  const { scope, key, body } = request
  if (key === null) return made
  sql.run(
    'insert into request_keys (scope, key, body_hash, made, created_at) values (?, ?, ?, ?, ?)',
    scope,
    key,
    hashText(canonicalJson(body)),
    made,
    now,
  )
  return made
}

/** What the first request with this key made; null: there was none. Another body is refused. */
export function knownByKey(sql: Sql, { scope, key, body }: KeyedRequest): string | null {
  if (key === null) return null
  const [known] = sql.all<{ body_hash: string; made: string }>(
    'select body_hash, made from request_keys where scope = ? and key = ?',
    scope,
    key,
  )
  if (known && known.body_hash !== hashText(canonicalJson(body)))
    throw new AppError('key_conflict', `Idempotency-Key "${key}" was used with another body`)
  return known?.made ?? null
}

/** Keys of one kind of request that release 0.1.0 keeps in a table of its own, with the body as it was sent. */
export interface KeyTable {
  name: 'prompt_keys' | 'run_keys' | 'operation_keys'
  /** The column of what the first request made. */
  made: 'turn_id' | 'run_id' | 'operation_id'
  /** In the refusal. */
  what: string
}

/** What the first request with this key made; null: it is new, or there is no key. Another body is refused. */
export function madeByKey(
  sql: Sql,
  { name, made, what }: KeyTable,
  key: string | null,
  body: string,
): string | null {
  if (key === null) return null
  const [row] = sql.all<{ body: string; made: string }>(
    `select body, ${made} as made from ${name} where key = ?`,
    key,
  )
  if (!row) return null
  if (row.body === body) return row.made
  throw new AppError('key_conflict', `Idempotency-Key "${key}" was used with another ${what}`)
}
