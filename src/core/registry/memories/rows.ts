// The SQL of memories, but for search. Everything that writes carries an operation id and may be repeated: it writes once.

import type { Memory, MemoryRevision } from '../../../contract/memory.ts'
import { hashText } from '../../hash.ts'
import type { Db, DbStatement } from '../../ports.ts'
import type { Place } from '../place.ts'

/** Who saves, and by which operation: the same one again writes nothing more. */
export interface Saving {
  savedBy: string
  operationId: string
}

export interface NewMemory extends Saving {
  id: string
  type: string
  title: string
  content: string
}

export interface MemoryChange {
  type: string | null
  title: string | null
  content: string | null
  expectedRevision: number | null
}

/** Names a place in one word. */
export const placeToken = ({ organisationId, project, scope, memberId }: Place): string =>
  `p${hashText([organisationId, project, scope, memberId].join('\n')).slice(0, 32)}0`

export const columns = `id, project, scope, type, title, content, revision, saved_by as savedBy,
  created_at as createdAt, updated_at as updatedAt`

/** The greatest n of a place, by its number: that of what was changed last. */
const newest = (number: string): string =>
  `(select n from memories as known where known.n between (${number}) << 32 and ((${number}) << 32) + 4294967295
    order by known.n desc limit 1)`

export function newMemoryStatements(now: number, place: Place, memory: NewMemory): DbStatement[] {
  const { organisationId, project, scope, memberId } = place
  const { id, type, title, content, savedBy, operationId } = memory
  return [
    {
      sql: `insert into memory_places (place) select ?1
            where not exists (select 1 from memory_places where place = ?1)`,
      values: [placeToken(place)],
    },
    {
      sql: `insert into memories (n, id, organisation_id, project, scope, member_id, place, type, title, content,
              revision, saved_by, created_at, updated_at)
            select coalesce(${newest('number')}, number << 32) + 1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1, ?10, ?11, ?11
            from memory_places where place = ?6 and not exists (select 1 from memories where id = ?1)`,
      values: [
        ...[id, organisationId, project, scope, memberId, placeToken(place)],
        ...[type, title, content, savedBy, now],
      ],
    },
    {
      sql: `insert into memory_revisions (memory_id, revision, operation_id, type, title, content, saved_by, created_at)
            select ?1, 1, ?2, ?3, ?4, ?5, ?6, ?7
            where not exists (select 1 from memory_revisions where memory_id = ?1)`,
      values: [id, operationId, type, title, content, savedBy, now],
    },
  ]
}

/** The revision first, with what it is to say; then the memory says it. Both see the same state. */
export function updateMemoryStatements(
  now: number,
  id: string,
  { type, title, content, expectedRevision }: MemoryChange,
  { savedBy, operationId }: Saving,
): DbStatement[] {
  return [
    {
      sql: `insert into memory_revisions (memory_id, revision, operation_id, type, title, content, saved_by, created_at)
            select id, revision + 1, ?2, coalesce(?3, type), coalesce(?4, title), coalesce(?5, content), ?6, ?7
            from memories where id = ?1 and deleted_at is null and (?8 is null or revision = ?8)
              and (coalesce(?3, type) <> type or coalesce(?4, title) <> title or coalesce(?5, content) <> content)
              and not exists (select 1 from memory_revisions where memory_id = ?1 and operation_id = ?2)`,
      values: [id, operationId, type, title, content, savedBy, now, expectedRevision],
    },
    {
      sql: `update memories set type = made.type, title = made.title, content = made.content, revision = made.revision,
              saved_by = made.saved_by, updated_at = made.created_at, n = ${newest('memories.n >> 32')} + 1
            from (select * from memory_revisions where memory_id = ?1 and operation_id = ?2) as made
            where memories.id = ?1 and memories.revision < made.revision and deleted_at is null`,
      values: [id, operationId],
    },
  ]
}

/** Of one of these places; what is deleted is not there. */
export async function findMemory(
  db: Db,
  organisationId: string,
  id: string,
): Promise<(Memory & { memberId: string }) | null> {
  const [row] = await db.all<Memory & { memberId: string }>(
    `select ${columns}, member_id as memberId from memories
     where organisation_id = ? and id = ? and deleted_at is null`,
    ...[organisationId, id],
  )
  return row ?? null
}

export async function memoryRevisionBy(
  db: Db,
  id: string,
  operationId: string,
): Promise<MemoryRevision | null> {
  const [row] = await db.all<MemoryRevision>(
    `select ${revisionColumns} from memory_revisions where memory_id = ? and operation_id = ?`,
    ...[id, operationId],
  )
  return row ?? null
}

const revisionColumns =
  'revision, type, title, content, saved_by as savedBy, created_at as createdAt'

/** Newest first. */
export async function listMemoryRevisions(
  db: Db,
  id: string,
  page: { limit: number; before: number | null },
): Promise<MemoryRevision[]> {
  return await db.all<MemoryRevision>(
    `select ${revisionColumns} from memory_revisions where memory_id = ? and revision < ?
     order by revision desc limit ?`,
    ...[id, page.before ?? Number.MAX_SAFE_INTEGER, page.limit],
  )
}

/** Oldest first. */
export async function listMemories(
  db: Db,
  place: Place,
  type: string | null,
  page: { limit: number; after: { createdAt: number; id: string } | null },
): Promise<Memory[]> {
  return await db.all<Memory>(
    `select ${columns} from memories
     where place = ?1 and organisation_id = ?2 and deleted_at is null and (?3 is null or type = ?3)
       and (created_at, id) > (?4, ?5) order by created_at, id limit ?6`,
    ...[placeToken(place), place.organisationId, type],
    ...[page.after?.createdAt ?? -1, page.after?.id ?? '', page.limit],
  )
}

/** The newest first, of several places together. */
export async function newestMemories(
  db: Db,
  places: readonly Place[],
  limit: number,
): Promise<Memory[]> {
  return await db.all<Memory>(
    `select ${columns} from memories
     where place in (select value from json_each(?1)) and organisation_id = ?2 and deleted_at is null
     order by updated_at desc, id limit ?3`,
    ...[JSON.stringify(places.map(placeToken)), places[0]?.organisationId ?? '', limit],
  )
}

/** In this order; what is not in these places is left out. */
export async function memoriesById(
  db: Db,
  places: readonly Place[],
  ids: readonly string[],
): Promise<Memory[]> {
  const rows = await db.all<Memory>(
    `select ${columns} from memories where id in (select value from json_each(?1)) and deleted_at is null
       and place in (select value from json_each(?2))`,
    ...[JSON.stringify(ids), JSON.stringify(places.map(placeToken))],
  )
  const byId = new Map(rows.map((row) => [row.id as string, row]))
  return ids.flatMap((id) => byId.get(id) ?? [])
}

export async function deleteMemory(
  db: Db,
  now: number,
  organisationId: string,
  id: string,
): Promise<void> {
  const sql = `update memories set deleted_at = ? where organisation_id = ? and id = ? and deleted_at is null`
  await db.batch([{ sql, values: [now, organisationId, id] }])
}

/** That an import means: of this type and title, the oldest. */
export async function findMemoryByTitle(
  db: Db,
  place: Place,
  { type, title }: { type: string; title: string },
): Promise<Memory | null> {
  const [row] = await db.all<Memory>(
    `select ${columns} from memories where place = ? and organisation_id = ? and type = ? and title = ?
       and deleted_at is null order by created_at, id limit 1`,
    ...[placeToken(place), place.organisationId, type, title],
  )
  return row ?? null
}
