import type { Sql, SqlValue } from '../ports.ts'

/** Of each list in one answer: all of them must fit into one message between objects. */
const maxLength = 2 * 1024 * 1024

/** The first rows, as many as fit, and one at least. `from` and `size` are SQL; `by` orders them. */
export function rowsThatFit<T extends object>(
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
