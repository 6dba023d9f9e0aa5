import { type Client, createClient, LibsqlError } from '@libsql/client/web'
import { AppError } from '../contract/error.ts'
import type { Db, DbValue } from '../core/ports.ts'

interface LibsqlOptions {
  url: string
  token: string | null
  requestTimeoutMs?: number
}

/** Fifty sessions that begin at once fill a small server for seconds. */
const retryBudgetMs = 5000
const maxDelayMs = 500
const firstDelayMs = 25

/**
 * Make one per request or per Durable Object event: the client's queue runs one caller's fetch inside another caller's
 * request, and workerd then hangs both.
 */
export function createLibsql({ url, token, requestTimeoutMs = 5000 }: LibsqlOptions): Db {
  const client = createClient({
    url,
    ...(token === null ? {} : { authToken: token }),
    fetch: (request: Request) => {
      // sqld compresses at about a megabyte per second: half a second for a chunk of a blob, against 5 ms as it is.
      request.headers.set('accept-encoding', 'identity')
      return fetch(request, { signal: AbortSignal.timeout(requestTimeoutMs) })
    },
  })
  return {
    async all<T extends object>(statement: string, ...values: DbValue[]) {
      const { columns, rows } = await retried(() =>
        client.execute({ sql: statement, args: values }),
      )
      return rows.map((row) => plainRow(columns, row) as T)
    },
    async batch(statements) {
      if (statements.length === 0) return
      const args = statements.map(({ sql, values }) => ({ sql, args: values }))
      await retried(() => client.batch(args, 'write'))
    },
  }
}

/** Statements may be repeated (that is the port's rule), so it does not matter whether a failed one was carried out. */
async function retried<T>(work: () => Promise<T>): Promise<T> {
  const startedAt = Date.now()
  for (let attempt = 0; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      const kind = classify(error)
      if (kind === 'refused') throw error
      if (kind === 'late') throw schemaLate(error)
      const delayMs = Math.min(firstDelayMs * 2 ** attempt, maxDelayMs) * (0.5 + Math.random())
      const mayRetry = kind === 'busy' || (kind === 'network' && attempt === 0)
      if (!mayRetry || Date.now() - startedAt + delayMs > retryBudgetMs) throw unavailable(error)
      await new Promise((resolve) => setTimeout(resolve, delayMs))
    }
  }
}

type Failure =
  /** The statement itself is wrong: a constraint, a syntax error. */
  | 'refused'
  /** It names a table or a column that the database does not have yet: its migrations come later than this release. */
  | 'late'
  /** Try again soon: with few connections the server answers 429, and writers meet each other. */
  | 'busy'
  /** One quick second try, for a kept-alive connection that the server has closed. */
  | 'network'
  | 'away'

function classify(error: unknown): Failure {
  if (error instanceof LibsqlError) {
    if (lacks.test(error.message)) return 'late'
    if (/^SQLITE_(BUSY|LOCKED)/.test(error.code)) return 'busy'
    if (/^SQLITE_(IOERR|FULL|READONLY|CANTOPEN|NOTADB|CORRUPT|NOMEM)/.test(error.code))
      return 'away'
    if (/^(SQLITE|SQL|ARGS)_/.test(error.code)) return 'refused'
    const status = httpStatus(error)
    return status === 429 || (status !== null && status >= 500) ? 'busy' : 'away'
  }
  const name = error instanceof Error ? error.name : ''
  if (name === 'TimeoutError' || name === 'AbortError') return 'away'
  // The client refuses a value that it cannot bind before it sends anything.
  return name === 'RangeError' ? 'refused' : 'network'
}

const lacks =
  /\b(no such table: \S+|no such column: \S+|has no column named \S+|cannot join using column \S+)/

function httpStatus(error: LibsqlError): number | null {
  const status = (error.cause as { status?: unknown } | undefined)?.status
  return typeof status === 'number' ? status : null
}

function unavailable(cause: unknown): AppError {
  const error = new AppError('storage_unavailable', 'The database cannot be reached at the moment')
  error.cause = cause
  return error
}

/** Retryable: it is right once the database is migrated. */
function schemaLate(cause: unknown): AppError {
  const [, what] = lacks.exec((cause as Error).message) ?? []
  const error = new AppError(
    'storage_unavailable',
    `The database is older than this release (${what}): run "npm run admin -- migrate"`,
  )
  error.cause = cause
  return error
}

type ResultRow = Awaited<ReturnType<Client['execute']>>['rows'][number]

function plainRow(columns: string[], row: ResultRow): object {
  return Object.fromEntries(
    columns.map((column, i) => {
      const value = row[i]
      return [column, value instanceof ArrayBuffer ? new Uint8Array(value) : value]
    }),
  )
}
