import type { Sql, SqlValue } from '../ports.ts'

/**
 * One page of a table in the order of its `n`, shorter than its limit where more would not fit into one message between
 * objects. `size` is SQL: how long what is large in a row is.
 */
export function pageOf<Row extends { n: number }>(
  sql: Sql,
  { table, size }: { table: string; size: string },
  page: { limit: number; after: number | null },
): Row[] {
  const query = { from: `${table} where n > ?`, by: 'n', size, limit: page.limit }
  return pageThatFits<Row>(sql, query, page.after ?? 0)
}

/** Where the page after this one begins; null: nothing comes after it. */
export function nextPageStart(sql: Sql, table: string, page: { n: number }[]): number | null {
  const last = page.at(-1)?.n
  if (last === undefined) return null
  return sql.all(`select 1 from ${table} where n > ? limit 1`, last).length > 0 ? last : null
}

/** Of each list in one answer: all of them must fit into one message between objects. */
const maxLength = 2 * 1024 * 1024

/** The first rows, as many as fit, and one at least. `from` and `size` are SQL; `by` orders them. */
export function pageThatFits<T extends object>(
  sql: Sql,
  query: { from: string; by: string; size: string; limit: number },
  ...values: SqlValue[]
): T[] {
  const { from, by, size, limit } = query
  return sql.all<T>(
    `with page as (select * from ${from} order by ${by} limit ?),
       measured as (select *, sum(${size}) over (order by ${by}) - ${size} as length_before from page)
     select * from measured where length_before < ${maxLength} order by ${by}`,
    ...values,
    limit,
  )
}
