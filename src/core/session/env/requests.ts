import type { EnvRequest } from '../../../contract/env.ts'
import { AppError } from '../../../contract/error.ts'
import type { SandboxEnv } from '../../../contract/manifest.ts'
import { maxSessionSealedBytes } from '../../../contract/secret.ts'
import type { EnvFile } from '../../../contract/tools/save-env-files.ts'
import {
  type EnvRequestKey,
  RequestEnvVariablesArgs,
} from '../../../contract/tools/request-env-variables.ts'
import { nextPageStart, pageOf } from '../../actor/paging.ts'
import type { Sql } from '../../ports.ts'
import { appendEvent } from '../log/events.ts'
import {
  addEnvSecrets,
  type OpenValue,
  saveEnvSecrets,
  type SealedValue,
} from '../record/secrets.ts'

interface Row {
  n: number
  id: string
  keys: string
  state: 'open' | 'closed'
  asked_at: number
  closed_at: number | null
}

/** The streamed start of the tool is the request: OpenCode checks no arguments, so what does not fit is ignored. */
export function receiveEnvRequest(sql: Sql, now: number, id: string, input: unknown): void {
  const parsed = RequestEnvVariablesArgs.safeParse(input)
  if (!parsed.success) return
  sql.run(
    `insert or ignore into env_requests (id, keys, state, asked_at) values (?, ?, 'open', ?)`,
    id,
    JSON.stringify(parsed.data.keys),
    now,
  )
}

export function listEnvRequests(
  sql: Sql,
  page: { limit: number; after: number | null },
): { items: EnvRequest[]; next: number | null } {
  const rows = pageOf<Row>(sql, { table: 'env_requests', size: 'length(keys)' }, page)
  const items = rows.map((row) => ({
    id: row.id,
    keys: JSON.parse(row.keys) as EnvRequestKey[],
    state: row.state,
    askedAt: row.asked_at,
    closedAt: row.closed_at,
  }))
  return { items, next: nextPageStart(sql, 'env_requests', rows) }
}

/** A submission answers every open request: the person has seen what was asked and gave what they would. */
export function answerEnvRequests(
  sql: Sql,
  now: number,
  values: readonly SealedValue[],
  replace: boolean,
): void {
  const changed = replace ? values : addEnvSecrets(sql, now, values)
  if (replace) saveEnvSecrets(sql, now, values)
  const bytes =
    sql.all<{ bytes: number }>('select sum(length(sealed)) as bytes from env_values')[0]?.bytes ?? 0
  if (bytes > maxSessionSealedBytes) {
    throw new AppError(
      'too_large',
      `A session holds at most ${maxSessionSealedBytes} bytes of sealed values`,
    )
  }
  sql.run(`update env_requests set state = 'closed', closed_at = ? where state = 'open'`, now)
  appendEvent(sql, now, 'env.submitted', { keys: changed.map(({ key }) => key) })
}

/** What is injected into requests stays out. */
export function requestedSandboxEnv(
  values: readonly OpenValue[],
  files: readonly EnvFile[],
): SandboxEnv {
  const given = values.filter(({ inject }) => inject === null)
  const byKey = new Map(given.map(({ key, value }) => [key, value]))
  return {
    values: Object.fromEntries(byKey),
    files: files.map((file) => ({
      path: envFilePath(file),
      content: file.keys
        .filter(({ key }) => byKey.has(key))
        .map(({ key }) => `${key}=${dotenvValue(byKey.get(key) as string)}\n`)
        .join(''),
    })),
  }
}

export const envFilePath = ({ workspacePath, path }: EnvFile): string =>
  workspacePath === '.' ? path : `${workspacePath}/${path}`

/** Single quotes keep everything as it is, but cannot hold one themselves or a line's end in every reader. */
function dotenvValue(value: string): string {
  if (/^[A-Za-z0-9_./:@%+,-]*$/.test(value)) return value
  if (!value.includes("'") && !value.includes('\n')) return `'${value}'`
  return `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('$', '\\$').replaceAll('\n', '\\n')}"`
}
