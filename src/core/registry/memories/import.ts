// Many memories at once, all or none. Whoever imports names them by type and title, and what has that name is changed. Two
// imports at once are as one after the other: each statement looks again whether somebody else has made what it would make.

import { AppError } from '../../../contract/error.ts'
import type { Memory, MemoryImport, MemoryImported } from '../../../contract/memory.ts'
import type { Db, DbStatement } from '../../ports.ts'
import type { Place } from '../place.ts'
import {
  findMemoryByTitle,
  memoryRevisionBy,
  memoryTitleValues,
  newMemoryStatements,
  refuseMemorySecrets,
  sameMemoryTitle,
  updateMemoryStatements,
  withMemoryId,
  withMemoryTitle,
} from './memories.ts'

/** All or none. One of the same type and title is changed, if it says something else. */
export async function importMemories(
  db: Db,
  now: number,
  place: Place,
  { dryRun, memories }: MemoryImport,
  { savedBy, idOf }: { savedBy: string; idOf: (index: number) => string },
): Promise<MemoryImported> {
  refuseTwice(memories)
  for (const [index, one] of memories.entries()) refuseMemorySecrets(one, `memories.${index}.`)
  const wanted: Imported[] = []
  for (const [index, one] of memories.entries())
    wanted.push({ ...one, id: idOf(index), found: await findMemoryByTitle(db, place, one) })
  if (!dryRun)
    await db.batch(wanted.flatMap((one) => importStatements(now, place, { ...one, savedBy })))
  const told = dryRun ? wanted.map(plannedImport) : await toldImports(db, place, wanted)
  return { dryRun, items: told.map((one, at) => ({ title: wanted[at]?.title ?? '', ...one })) }
}

interface Imported {
  type: string
  title: string
  content: string
  /** Its own, if it becomes a memory, and that of the operation. */
  id: string
  found: Memory | null
}

type Told = Omit<MemoryImported['items'][number], 'title'>

function plannedImport({ content, found }: Imported): Told {
  if (found === null) return { outcome: 'created', id: null }
  return { outcome: found.content === content ? 'unchanged' : 'updated', id: found.id }
}

/** Decides once more where it writes: what another import has made meanwhile is the memory that is meant. */
function importStatements(
  now: number,
  place: Place,
  { found, ...one }: Imported & { savedBy: string },
): DbStatement[] {
  if (found?.content === one.content) return []
  const saving = { savedBy: one.savedBy, operationId: one.id }
  const change = { type: null, title: null, content: one.content, expectedRevision: null }
  if (found) return updateMemoryStatements(now, withMemoryId(found.id), change, saving)
  const isNew = { sql: `not exists ${sameMemoryTitle(12)}`, values: memoryTitleValues(place, one) }
  return [
    ...newMemoryStatements(now, place, { ...one, ...saving }, isNew),
    ...updateMemoryStatements(now, withMemoryTitle(place, one), change, saving),
  ]
}

/** What each has written, whoever else was writing. */
async function toldImports(db: Db, place: Place, wanted: readonly Imported[]): Promise<Told[]> {
  const made = await revisionsByOperation(db, wanted)
  const told: Told[] = []
  for (const one of wanted) {
    const isMade = made.has(one.id)
    if (one.found) told.push({ outcome: isMade ? 'updated' : 'unchanged', id: one.found.id })
    else if (isMade) told.push({ outcome: 'created', id: one.id as Memory['id'] })
    else told.push(await toldLate(db, place, one))
  }
  return told
}

/** Somebody else has made one of this title meanwhile. */
async function toldLate(db: Db, place: Place, one: Imported): Promise<Told> {
  const found = await findMemoryByTitle(db, place, one)
  const revised = found && (await memoryRevisionBy(db, found.id, one.id))
  return { outcome: revised ? 'updated' : 'unchanged', id: found?.id ?? null }
}

function refuseTwice(memories: MemoryImport['memories']): void {
  const seen = new Set<string>()
  for (const [index, { type, title }] of memories.entries()) {
    const name = `${type}\n${title}`
    if (seen.has(name))
      throw new AppError('unprocessable', `Cannot import "${title}" twice at once`, [
        { path: `memories.${index}`, message: 'Named before in this list: leave one out' },
      ])
    seen.add(name)
  }
}

/** By operation: whether it has made a revision, of its own memory or of the one that was found. */
async function revisionsByOperation(db: Db, wanted: readonly Imported[]): Promise<Set<string>> {
  const rows = await db.all<{ operationId: string }>(
    `select operation_id as operationId from memory_revisions
     where memory_id in (select value from json_each(?1)) and operation_id in (select value from json_each(?2))`,
    JSON.stringify(wanted.map(({ id, found }) => found?.id ?? id)),
    JSON.stringify(wanted.map(({ id }) => id)),
  )
  return new Set(rows.map(({ operationId }) => operationId))
}
