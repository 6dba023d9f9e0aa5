/**
 * What a team or a member wants to remember, for people and agents. A memory belongs to a project, or to one member in it;
 * to everybody else it is not there. A change is the next revision, and all stay readable. What looks like a secret is
 * refused: memories are read by agents.
 */
import { AppError } from '../../../contract/error.ts'
import type {
  Memory,
  MemoryFields,
  MemoryImport,
  MemoryImported,
  MemoryUpdate,
} from '../../../contract/memory.ts'
import type { Db, DbStatement } from '../../ports.ts'
import { hideSecretLikeText } from '../../redaction/secret-like.ts'
import { type Limited, mayUseProject, type Place } from '../place.ts'
import {
  newMemoryStatements,
  deleteMemory,
  findMemoryByTitle,
  findMemory,
  type MemoryChange,
  memoryRevisionBy,
  type Saving,
  updateMemoryStatements,
} from './rows.ts'

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
  refuseSecrets(given)
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
  refuseSecrets({ title, content })
  const change: MemoryChange = {
    ...{ type: type ?? null, title: title ?? null, content: content ?? null },
    expectedRevision: expectedRevision ?? null,
  }
  await db.batch(updateMemoryStatements(now, id, change, saving))
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

/** All or none. One of the same type and title is changed, if it says something else. */
export async function importMemories(
  db: Db,
  now: number,
  place: Place,
  { dryRun, memories }: MemoryImport,
  { savedBy, idOf }: { savedBy: string; idOf: (index: number) => string },
): Promise<MemoryImported> {
  refuseTwice(memories)
  for (const [index, one] of memories.entries()) refuseSecrets(one, `memories.${index}.`)
  const items: MemoryImported['items'] = []
  const statements: DbStatement[] = []
  for (const [index, one] of memories.entries()) {
    const found = await findMemoryByTitle(db, place, one)
    const id = idOf(index)
    const saving = { savedBy, operationId: id }
    const { title } = one
    if (!found) {
      statements.push(...newMemoryStatements(now, place, { id, ...one, ...saving }))
      items.push({ title, outcome: 'created', id: dryRun ? null : (id as Memory['id']) })
    } else if (found.content === one.content) {
      items.push({ title, outcome: 'unchanged', id: found.id })
    } else {
      const change = { type: null, title: null, content: one.content, expectedRevision: null }
      statements.push(...updateMemoryStatements(now, found.id, change, saving))
      items.push({ title, outcome: 'updated', id: found.id })
    }
  }
  if (!dryRun) await db.batch(statements)
  return { dryRun, items }
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

/** Agents read memories, and whatever they read may be told to a model. */
function refuseSecrets(
  texts: { title?: string | undefined; content?: string | undefined },
  at = '',
): void {
  for (const field of ['title', 'content'] as const) {
    const text = texts[field]
    if (text === undefined || hideSecretLikeText(text) === text) continue
    throw new AppError('unprocessable', `Cannot remember what looks like a secret (${field})`, [
      { path: `${at}${field}`, message: 'Looks like a key or a password: leave it out' },
    ])
  }
}

const noMemory = () => new AppError('not_found', 'There is no such memory')
