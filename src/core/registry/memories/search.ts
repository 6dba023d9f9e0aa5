/**
 * Search in memories. FTS5 finds rows, and only rows of the places that are asked for: each row has a word for its place in
 * the index, and each query demands it. FTS5's own ranking is not used: it weighs words by how often the whole table has
 * them, so another organisation's rows would change an order. Ranked are the newest that were found, by what they say
 * themselves: how many of the words, and where.
 */
import { AppError } from '../../../contract/error.ts'
import type { MemoryHit } from '../../../contract/memory.ts'
import type { Db, DbValue } from '../../ports.ts'
import type { Place } from '../place.ts'
import { placeToken } from './rows.ts'

export interface MemorySearch {
  places: readonly Place[]
  query: string
  type: string | null
  limit: number
}

/** Of more matches than this the newest are ranked. */
const maxRanked = 400
const maxWords = 16
/** Of a long memory only its beginning is ranked. */
const rankedCharacters = 4000
const snippetCharacters = 240
const before = 60

/** First what has all words, then what has some: one question, since the way to libSQL costs more than the second look. */
export async function searchMemories(db: Db, search: MemorySearch): Promise<MemoryHit[]> {
  const words = searchWords(search.query)
  const [first] = search.places
  if (!first) return []
  const values: DbValue[] = [
    ...[matchOf(search, words, 'AND'), matchOf(search, words, 'OR'), first.organisationId],
    ...[JSON.stringify(search.places.map(placeToken)), search.type, search.limit],
    ...words.map(stem),
  ]
  const rows = await db.all<Row>(sqlOf(words.length), ...values)
  return rows.map(({ part, begin, length, ...hit }) => ({
    ...hit,
    snippet: `${begin > 1 ? '…' : ''}${part}${begin + part.length <= length ? '…' : ''}`,
  }))
}

/** Letters and digits only: nothing of what remains can be syntax. */
export function searchWords(query: string): string[] {
  const found = query.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
  const words = [...new Set(found)].slice(0, maxWords)
  if (words.length > 0) return words
  throw new AppError('invalid_request', 'Invalid query: there is no word in it', [
    { path: 'query', message: 'Give at least one word of letters or digits' },
  ])
}

const quoted = (word: string): string => `"${word.replaceAll('"', '""')}"`

function matchOf({ places, type }: MemorySearch, words: string[], how: 'AND' | 'OR'): string {
  const place = `place : (${places.map((one) => quoted(placeToken(one))).join(' OR ')})`
  const kind = type === null ? '' : ` AND type : ${quoted(type)}`
  return `${place}${kind} AND {title content} : (${words.map(quoted).join(` ${how} `)})`
}

interface Row extends Omit<MemoryHit, 'snippet'> {
  part: string
  begin: number
  length: number
}

/** Without endings that the index does not look at either. */
const stem = (word: string): string => word.slice(0, Math.max(4, word.length - 3))

const firstWord = 7
const texts = new Map<number, string>()

function sqlOf(words: number): string {
  const known = texts.get(words) ?? makeSql(words)
  texts.set(words, known)
  return known
}

/** Newest first, so that the index gives no more than are wanted. */
const matching = (match: number, whole: number): string =>
  `select rowid as n, ${whole} as whole from memory_index where memory_index match ?${match}
   order by rowid desc limit ${maxRanked}`

function makeSql(words: number): string {
  const numbers = Array.from({ length: words }, (_, at) => `?${at + firstWord}`)
  const score = numbers
    .map((word) => `8 * (instr(heading, ${word}) > 0) + 3 * (instr(body, ${word}) > 0)`)
    .join(' + ')
  const places = numbers.map((word) => `nullif(instr(body, ${word}), 0)`)
  return `
    with found as materialized (
      select n, max(whole) as whole from (
        select * from (${matching(1, 1)})${words === 1 ? '' : ` union all select * from (${matching(2, 0)})`}
      ) group by n
    ), own as materialized (
      select m.n, whole, lower(m.title) as heading, lower(substr(m.content, 1, ${rankedCharacters})) as body,
        m.updated_at as at
      from found join memories as m on m.n = found.n
      where m.organisation_id = ?3 and m.place in (select value from json_each(?4))
        and m.deleted_at is null and (?5 is null or m.type = ?5)
    ), ranked as materialized (
      select n, whole, ${score} as score, max(1, coalesce(${[...places, '1'].join(', ')}) - ${before}) as begin
      from own order by whole desc, score desc, at desc, n desc limit ?6
    )
    select id, project, scope, type, title, revision, updated_at as updatedAt, score, begin,
      substr(content, begin, ${snippetCharacters}) as part, length(content) as length
    from ranked join memories using (n) order by whole desc, score desc, updatedAt desc, n desc`
}
