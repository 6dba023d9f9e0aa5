/**
 * Search in memories, by one statement. The index is only asked for rows of the places that are searched: each place has a
 * range of row numbers of its own. FTS5's own ranking is not used: it weighs words by how often the whole table has them, so
 * another organisation's rows would change an order. What counts is which words a memory has, and which in its title; the
 * index knows both, so only what is given back is read.
 */
import { AppError } from '../../../contract/error.ts'
import type { MemoryHit } from '../../../contract/memory.ts'
import type { Db, DbValue } from '../../ports.ts'
import type { Place } from '../place.ts'
import { placeToken } from './memories.ts'

export interface MemorySearch {
  places: readonly Place[]
  query: string
  type: string | null
  limit: number
  /** Where the caller has said the query; absent: `query`. */
  path?: string
}

/** Of more memories with a word than this, those changed last count. */
const maxFound = 400
const maxWords = 16
const snippetCharacters = 240
const before = 60

/** First what has all words, then what has some. */
export async function searchMemories(db: Db, search: MemorySearch): Promise<MemoryHit[]> {
  const words = searchWords(search.query, search.path)
  const [first] = search.places
  if (!first) return []
  const places = search.places.map(placeToken)
  const values: DbValue[] = [
    ...[first.organisationId, search.type, search.limit, `{title content} : (${all(words)})`],
    ...[...places, ...words, ...words.map(stem)],
  ]
  const rows = await db.all<Row>(searchSql(places.length, words.length), ...values)
  return rows.map(({ part, begin, length, ...hit }) => ({
    ...hit,
    snippet: `${begin > 1 ? '…' : ''}${part}${begin + snippetCharacters <= length ? '…' : ''}`,
  }))
}

interface Row extends Omit<MemoryHit, 'snippet'> {
  part: string
  begin: number
  length: number
}

/** Letters with their accents, and digits: nothing of what remains can be syntax. */
export function searchWords(query: string, path = 'query'): string[] {
  const found = query.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}\p{M}]*/gu) ?? []
  const words = [...new Set(found)].slice(0, maxWords)
  if (words.length > 0) return words
  throw new AppError('invalid_request', `Invalid ${path}: there is no word in it`, [
    { path, message: 'Give at least one word of letters or digits' },
  ])
}

const all = (words: readonly string[]): string => words.map((word) => `"${word}"`).join(' AND ')

const firstPlace = 5
const numbers = (first: number, count: number): string[] =>
  Array.from({ length: count }, (_, at) => `?${first + at}`)

function searchSql(places: number, words: number): string {
  const tokens = numbers(firstPlace, places)
  const given = numbers(firstPlace + places, words)
  const stems = numbers(firstPlace + places + words, words)
  const seen = stems.map((one) => `nullif(instr(lower(content), ${one}), 0)`)
  return `
    with best as materialized (${tokens.map((place) => bestOf(place, given)).join(' union all ')}
    ), hits as materialized (
      select *, max(1, coalesce(${[...seen, '1'].join(', ')}) - ${before}) as begin
      from best cross join memories using (n)
      where organisation_id = ?1 and place in (${tokens.join(', ')}) and deleted_at is null
      order by whole desc, score desc, updated_at desc, n desc limit ?3
    )
    select id, project, scope, type, title, revision, updated_at as updatedAt, score, begin,
      substr(content, begin, ${snippetCharacters}) as part, length(content) as length
    from hits order by whole desc, score desc, updated_at desc, n desc`
}

/** Of one place: what has all words, then by points: for each word, and for each in the title some more. */
function bestOf(place: string, words: readonly string[]): string {
  const begin = `(select number << 32 from memory_places where place = ${place})`
  const found = (match: string, whole: 0 | 1, some: 0 | 1, title: 0 | 1): string =>
    `select * from (select rowid as n, ${whole} as whole, ${some} as some, ${title} as title from memory_index
       where memory_index match ${match} and rowid between ${begin} and ${begin} + 4294967295
       order by rowid desc limit ${maxFound})`
  const lists = [
    found('?4', 1, 0, 0),
    // With one word these are all.
    ...(words.length === 1 ? [] : words.map((word) => found(inText(word), 0, 1, 0))),
    ...words.map((word) => found(inTitle(word), 0, 0, 1)),
  ]
  return `
      select * from (
        select n, max(whole) as whole,
          3 * (case when max(whole) then ${words.length} else sum(some) end) + 5 * sum(title) as score
        from (${lists.join(' union all ')}) as found
        where ?2 is null or ?2 = (select type from memories where memories.n = found.n)
        group by n order by whole desc, score desc, n desc limit ?3
      )`
}

const inText = (word: string): string => `'{title content} : "' || ${word} || '"'`
const inTitle = (word: string): string => `'title : "' || ${word} || '"'`

/** Without endings that the index does not look at either. */
const stem = (word: string): string => word.slice(0, Math.max(4, word.length - 3))
