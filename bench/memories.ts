import { applyMigrations } from '../local/database/migrations.ts'
import { startSqld } from '../local/database/sqld.ts'
import { createLibsql } from '../src/adapters/libsql.ts'
import type { Db, DbStatement } from '../src/core/ports.ts'
import { newMemoryStatements } from '../src/core/registry/memories/memories.ts'
import { searchMemories } from '../src/core/registry/memories/search.ts'
import type { Place } from '../src/core/registry/place.ts'
import type { Row } from './table.ts'

const entries = 50_000
const searches = 200
const limit = 10
const place: Place = {
  ...{ organisationId: 'org_bench', project: 'web', scope: 'project', memberId: '' },
}

/** From common to rare: the word n stands in about one of n + 1 entries. */
const word = (n: number): string => `word${n.toString(36)}q`

function entry(n: number): { title: string; content: string } {
  const words = Array.from({ length: 300 }, (_, at) => at).filter((at) => n % (at + 1) === 0)
  const filler = `entry${n}q and what was decided about it then `.repeat(8)
  return { title: `Entry ${n}`, content: `${filler}${words.map(word).join(' ')}` }
}

/** A search of memories against the same words asked of FTS5 alone, ranked by itself, through the same client. */
export async function measureMemories(stateDir: string): Promise<Row> {
  const server = await startSqld({ stateDir })
  try {
    await applyMigrations(server.url, server.token)
    const db = createLibsql({ url: server.url, token: server.token, requestTimeoutMs: 60_000 })
    await fill(db)
    const queries = Array.from({ length: searches }, (_, n) => [word(n % 250), word((n * 7) % 250)])
    const ours: number[] = []
    const bare: number[] = []
    // In turns, so that both meet the same machine.
    for (const words of queries) {
      ours.push(await timed(() => ourSearch(db, words)))
      bare.push(await timed(() => bareSearch(db, words)))
    }
    const half = Math.floor(bare.length / 2)
    return {
      measure: `search in ${entries} memories, p50`,
      ours: median(ours),
      base: median(bare.slice(0, half)),
      baseAgain: median(bare.slice(half)),
      unit: 'ms',
      aim: { most: 1.5 },
    }
  } finally {
    await server.stop()
  }
}

async function fill(db: Db): Promise<void> {
  let statements: DbStatement[] = []
  for (let n = 1; n <= entries; n += 1) {
    const id = `mem_${String(n).padStart(20, '0')}`
    const memory = { id, type: 'note', ...entry(n), savedBy: 'key_bench', operationId: id }
    statements.push(...newMemoryStatements(n, place, memory))
    if (statements.length < 1000 && n < entries) continue
    await db.batch(statements)
    statements = []
  }
}

const ourSearch = (db: Db, words: string[]) =>
  searchMemories(db, { places: [place], query: words.join(' '), type: null, limit })

const bareSearch = (db: Db, words: string[]) =>
  db.all(
    `select rowid, snippet(memory_index, 3, '', '', '…', 24) as snippet from memory_index
     where memory_index match ? order by rank limit ?`,
    words.map((one) => `"${one}"`).join(' '),
    limit,
  )

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

const median = (values: number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
