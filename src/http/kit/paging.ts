import { AppError } from '../../contract/error.ts'
import type { PageQuery } from '../../contract/page.ts'

/** One page as callers get it. */
interface PageOf<Item> {
  items: Item[]
  nextCursor: string | null
}

/** How a list of libSQL writes where a page ends, and reads it again. */
export interface Cursor<Item, Last> {
  write: (last: Item) => string
  /** null: it is no cursor of this list. */
  read: (cursor: string) => Last | null
}

/** A page of a list that an object keeps: its cursors are the numbers of rows. */
export async function numberedPage<Item>(
  { limit, cursor }: PageQuery,
  list: (page: {
    limit: number
    after: number | null
  }) => Promise<{ items: Item[]; next: number | null }>,
): Promise<PageOf<Item>> {
  const { items, next } = await list({ limit, after: readPageCursor(cursor, readPageNumber) })
  return { items, nextCursor: next === null ? null : String(next) }
}

/** A page of a list in libSQL that is ordered by creation time and id. */
export const datedPage = <Item extends Dated>(
  query: PageQuery,
  list: (last: Dated | null, limit: number) => Promise<Item[]>,
): Promise<PageOf<Item>> => pageBy<Item, Dated>(query, dated, list)

/** A page of any list in libSQL. One row more than was asked for tells whether there is another page. */
export async function pageBy<Item, Last>(
  { limit, cursor }: PageQuery,
  { read, write }: Cursor<Item, Last>,
  list: (last: Last | null, limit: number) => Promise<Item[]>,
): Promise<PageOf<Item>> {
  const rows = await list(readPageCursor(cursor, read), limit + 1)
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  return { items, nextCursor: rows.length > limit && last ? write(last) : null }
}

export function readPageNumber(cursor: string): number | null {
  return /^\d{1,15}$/.test(cursor) ? Number(cursor) : null
}

interface Dated {
  createdAt: number
  id: string
}

const dated: Cursor<Dated, Dated> = {
  write: ({ createdAt, id }) => `${createdAt}.${id}`,
  read(cursor) {
    const [, createdAt, id] = /^(\d{1,15})\.([a-z]{3}_[0-9a-z]{1,40})$/.exec(cursor) ?? []
    return createdAt === undefined || id === undefined ? null : { createdAt: Number(createdAt), id }
  },
}

export function readPageCursor<Last>(
  cursor: string | undefined,
  read: (cursor: string) => Last | null,
): Last | null {
  if (cursor === undefined) return null
  const last = read(cursor)
  if (last !== null) return last
  throw new AppError('invalid_request', 'Invalid cursor: pass back what the last page gave', [
    { path: 'cursor', message: 'Not a cursor of this list' },
  ])
}
