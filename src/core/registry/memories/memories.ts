import { AppError } from '../../../contract/error.ts'
import type {
  Memory,
  MemoryFields,
  MemoryUpdate,
  MemoryRevision,
} from '../../../contract/memory.ts'
import type { Db, DbStatement } from '../../ports.ts'
import { type Limited, mayUseProject, type Place } from '../place.ts'
import { looksSecret } from '../secret-free.ts'
import { hashText } from '../../hash.ts'

/**
 * What a team or a member wants to remember, for people and agents. A memory belongs to a project, or to one member in it;
 * to everybody else it is not there. A change is the next revision, and all stay readable. What looks like a secret is
 * refused: memories are read by agents.
 */

/** Whoever reads and changes memories: a key, or an agent for the member of its session. */
export interface MemoryCaller extends Limited {
  organisationId: string
  memberId: string
}

/** The same id again gives the same memory. */
export async function saveMemory(
  db: Db,
  now: number,
  place: Place,
  given: MemoryFields & Saving & { id: string },
): Promise<Memory> {
  refuseMemorySecrets(given)
  await db.batch(newMemoryStatements(now, place, given))
  return await loadMemory(db, place, given.id)
}

/** Another organisation's, another member's and what is deleted are not there. */
export async function loadMemory(db: Db, caller: MemoryCaller, id: string): Promise<Memory> {
  const found = await findMemory(db, caller.organisationId, id)
  if (!found) throw noMemory()
  const { memberId, ...memory } = found
  if (memory.scope === 'personal' && memberId !== caller.memberId) throw noMemory()
  if (!mayUseProject(caller, memory.project)) throw noMemory()
  return memory
}

/** As its next revision; what changes nothing makes none. Of changes at once each is a revision. */
export async function updateMemory(
  db: Db,
  now: number,
  caller: MemoryCaller,
  id: string,
  { type, title, content, expectedRevision }: MemoryUpdate,
  saving: Saving,
): Promise<Memory> {
  await loadMemory(db, caller, id)
  refuseMemorySecrets({ title, content })
  const change: MemoryChange = {
    ...{ type: type ?? null, title: title ?? null, content: content ?? null },
    expectedRevision: expectedRevision ?? null,
  }
  await db.batch(updateMemoryStatements(now, withMemoryId(id), change, saving))
  const made = await memoryRevisionBy(db, id, saving.operationId)
  const newest = await loadMemory(db, caller, id)
  if (made) return { ...newest, ...asRevised(made) }
  if (saysAlready(newest, change)) return newest
  throw new AppError(
    'wrong_state',
    `Cannot change the memory: its newest revision is ${newest.revision}`,
    [{ path: 'expectedRevision', message: `The newest is ${newest.revision}` }],
  )
}

/** As this change has made it, whatever has come after. */
const asRevised = ({
  createdAt,
  ...revision
}: Omit<Memory, 'id' | 'project' | 'scope' | 'updatedAt'>) => ({
  ...revision,
  updatedAt: createdAt,
})

const saysAlready = (
  memory: Memory,
  { type, title, content, expectedRevision }: MemoryChange,
): boolean =>
  (expectedRevision === null || expectedRevision === memory.revision) &&
  (type ?? memory.type) === memory.type &&
  (title ?? memory.title) === memory.title &&
  (content ?? memory.content) === memory.content

/** Soft: it is found and read no more, and its row stays. */
export async function removeMemory(
  db: Db,
  now: number,
  caller: MemoryCaller,
  id: string,
): Promise<void> {
  await loadMemory(db, caller, id)
  await deleteMemory(db, now, caller.organisationId, id)
}

/** Agents read memories, and whatever they read may be told to a model. */
export function refuseMemorySecrets(
  texts: { title?: string | undefined; content?: string | undefined },
  at = '',
): void {
  for (const field of ['title', 'content'] as const) {
    const text = texts[field]
    if (text === undefined || !looksSecret(text)) continue
    throw new AppError('unprocessable', `Cannot remember what looks like a secret (${field})`, [
      { path: `${at}${field}`, message: 'Looks like a key or a password: leave it out' },
    ])
  }
}

const noMemory = () => new AppError('not_found', 'There is no such memory')

// The SQL of memories, but for search. Everything that writes carries an operation id and may be repeated: it writes once.

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

/** SQL over values of its own. */
interface Condition {
  sql: string
  values: string[]
}

/** With a condition, over values from `?12` on: only if that holds. */
export function newMemoryStatements(
  now: number,
  place: Place,
  memory: NewMemory,
  onlyIf: Condition = { sql: '1', values: [] },
): DbStatement[] {
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
            from memory_places where place = ?6 and not exists (select 1 from memories where id = ?1) and ${onlyIf.sql}`,
      values: [
        ...[id, organisationId, project, scope, memberId, placeToken(place)],
        ...[type, title, content, savedBy, now, ...onlyIf.values],
      ],
    },
    {
      sql: `insert into memory_revisions (memory_id, revision, operation_id, type, title, content, saved_by, created_at)
            select id, 1, ?2, ?3, ?4, ?5, ?6, ?7 from memories
            where id = ?1 and not exists (select 1 from memory_revisions where memory_id = ?1)`,
      values: [id, operationId, type, title, content, savedBy, now],
    },
  ]
}

/** Which memory is meant: SQL for its id, over values that begin with this number. */
interface Meant {
  sql(first: number): string
  values: string[]
}

export const withMemoryId = (id: string): Meant => ({ sql: (first) => `?${first}`, values: [id] })

/** That an import means: of this type and title, the oldest. */
export const withMemoryTitle = (place: Place, named: { type: string; title: string }): Meant => ({
  sql: sameMemoryTitle,
  values: memoryTitleValues(place, named),
})

export const sameMemoryTitle = (first: number): string =>
  `(select id from memories where place = ?${first} and organisation_id = ?${first + 1} and type = ?${first + 2}
     and title = ?${first + 3} and deleted_at is null order by created_at, id limit 1)`

export const memoryTitleValues = (
  place: Place,
  { type, title }: { type: string; title: string },
): string[] => [...[placeToken(place), place.organisationId, type, title]]

/** The revision first, with what it is to say; then the memory says it. Both see the same state. */
export function updateMemoryStatements(
  now: number,
  meant: Meant,
  { type, title, content, expectedRevision }: MemoryChange,
  { savedBy, operationId }: Saving,
): DbStatement[] {
  return [
    {
      sql: `insert into memory_revisions (memory_id, revision, operation_id, type, title, content, saved_by, created_at)
            select id, revision + 1, ?1, coalesce(?2, type), coalesce(?3, title), coalesce(?4, content), ?5, ?6
            from memories where id = ${meant.sql(8)} and deleted_at is null and (?7 is null or revision = ?7)
              and (coalesce(?2, type) <> type or coalesce(?3, title) <> title or coalesce(?4, content) <> content)
              and not exists (select 1 from memory_revisions where memory_id = memories.id and operation_id = ?1)`,
      values: [operationId, type, title, content, savedBy, now, expectedRevision, ...meant.values],
    },
    {
      sql: `update memories set type = made.type, title = made.title, content = made.content, revision = made.revision,
              saved_by = made.saved_by, updated_at = made.created_at, n = ${newest('memories.n >> 32')} + 1
            from (select * from memory_revisions where memory_id = ${meant.sql(2)} and operation_id = ?1) as made
            where memories.id = made.memory_id and memories.revision < made.revision and deleted_at is null`,
      values: [operationId, ...meant.values],
    },
  ]
}

/** Of one of these places; what is deleted is not there. */
async function findMemory(
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

/** That an import means. */
export async function findMemoryByTitle(
  db: Db,
  place: Place,
  named: { type: string; title: string },
): Promise<Memory | null> {
  const [row] = await db.all<Memory>(
    `select ${columns} from memories where id = ${sameMemoryTitle(1)}`,
    ...memoryTitleValues(place, named),
  )
  return row ?? null
}
