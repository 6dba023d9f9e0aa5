import { expect, test } from 'vitest'
import type { MemoryUpdate } from '../../../../src/contract/memory.ts'
import { importMemories } from '../../../../src/core/registry/memories/import.ts'
import {
  loadMemory,
  saveMemory,
  updateMemory,
  deleteMemory,
  listMemories,
  listMemoryRevisions,
  memoriesById,
  newestMemories,
  placeToken,
} from '../../../../src/core/registry/memories/memories.ts'
import type { Db } from '../../../../src/core/ports.ts'
import type { Place } from '../../../../src/core/registry/place.ts'
import { memoryDb } from '../../../support/memory-db.ts'

const place: Place = { organisationId: 'org_a', project: 'web', scope: 'project', memberId: '' }
const idOf = (n: number) => `mem_${String(n).padStart(20, '0')}`

async function world(count: number) {
  const db = memoryDb()
  for (let n = 0; n < count; n += 1) {
    const saving = { savedBy: 'k', operationId: idOf(n) }
    const memory = { id: idOf(n), type: 'note', title: `T${n}`, content: `c${n}`, ...saving }
    await saveMemory(db, n, place, memory)
  }
  const update = (n: number, change: MemoryUpdate, operationId: string, at: Db = db) =>
    updateMemory(at, 50, place, idOf(n), change, { savedBy: 'k', operationId })
  return { db, update }
}

test.each([{ type: 'other' }, { title: 'Mine' }, { content: 'mine' }])(
  '[MEM2] a change that was refused is not told as done, though its revision came meanwhile: %j',
  async (change) => {
    const { db, update } = await world(1)
    const raced: Db = {
      all: (...asked) => db.all(...asked),
      async batch(statements) {
        await db.batch(statements)
        await update(0, { title: 'Theirs', content: 'theirs', type: 'theirs' }, 'op-other')
      },
    }
    const late = update(0, { ...change, expectedRevision: 2 }, 'op-late', raced)
    await expect(late).rejects.toMatchObject({ code: 'wrong_state' })
    expect((await loadMemory(db, place, idOf(0))).title).toBe('Theirs')
  },
)

test('[MEM2] one operation may change several memories, each once', async () => {
  const { db, update } = await world(2)
  for (const n of [0, 1, 0]) expect((await update(n, { content: 'new' }, 'op')).revision).toBe(2)
  expect(await listMemoryRevisions(db, idOf(0), { limit: 10, before: null })).toHaveLength(2)
})

test('[MEM8] lists give as many as are asked for, from the first millisecond on', async () => {
  const { db, update } = await world(4)
  const list = async (limit: number) =>
    (await listMemories(db, place, null, { limit, after: null })).map(({ title }) => title)
  expect([await list(2), await list(9)]).toEqual([
    ['T0', 'T1'],
    ['T0', 'T1', 'T2', 'T3'],
  ])
  for (const content of ['a', 'b']) await update(0, { content }, content)
  expect(await listMemoryRevisions(db, idOf(0), { limit: 2, before: null })).toHaveLength(2)
})

test('[MEM9] the newest are those that were changed last; what is deleted or unknown is left out', async () => {
  const { db, update } = await world(3)
  await update(0, { content: 'again' }, 'op')
  const titles = async (limit: number) =>
    (await newestMemories(db, [place], limit)).map(({ title }) => title)
  expect([await titles(2), await titles(9)]).toEqual([
    ['T0', 'T2'],
    ['T0', 'T2', 'T1'],
  ])
  await deleteMemory(db, 60, 'org_a', idOf(1))
  const found = await memoriesById(db, [place], [idOf(2), idOf(1), 'mem_none', idOf(0)])
  expect(found.map(({ title }) => title)).toEqual(['T2', 'T0'])
  expect(await memoriesById(db, [{ ...place, project: 'other' }], [idOf(2)])).toEqual([])
  await deleteMemory(db, 70, 'org_a', idOf(1))
  await deleteMemory(db, 70, 'org_b', idOf(2))
  const rows = await db.all('select deleted_at as at from memories order by id')
  expect(rows).toEqual([{ at: null }, { at: 60 }, { at: null }])
})

test('[MEM8] an import means a memory by type and title', async () => {
  const { db } = await world(1)
  const memories = [{ type: 'decision', title: 'T0', content: 'c' }]
  const given = { project: 'web', scope: 'project' as const, dryRun: false, memories }
  const by = { savedBy: 'k', idOf: () => idOf(9) }
  const { items } = await importMemories(db, 5, place, given, by)
  expect(items).toEqual([{ title: 'T0', outcome: 'created', id: idOf(9) }])
})

test('[MEM5] places are apart, wherever one name ends and the next begins', () => {
  const token = (organisationId: string, project: string) =>
    placeToken({ ...place, organisationId, project })
  expect(token('org_1', '2')).not.toBe(token('org_', '12'))
  expect(token('org_1', '2')).toMatch(/^p[0-9a-f]{32}0$/)
})
