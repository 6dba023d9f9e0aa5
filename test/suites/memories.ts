import { importMemories } from '../../src/core/registry/memories/import.ts'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Db } from '../../src/core/ports.ts'
import {
  loadMemory,
  removeMemory,
  saveMemory,
  updateMemory,
  listMemoryRevisions,
} from '../../src/core/registry/memories/memories.ts'
import { searchMemories } from '../../src/core/registry/memories/search.ts'
import type { Place } from '../../src/core/registry/place.ts'

/** What memories need of a libSQL server: its full-text index most of all. */
export function memoriesSuite(name: string, open: () => Db): void {
  describe(`Memories: ${name}`, () => {
    let n = 0
    const id = () => `mem_${String((n += 1)).padStart(20, '0')}`
    const placeIn = (organisationId: string, change: Partial<Place> = {}): Place => ({
      ...{ organisationId, project: 'web', scope: 'project', memberId: '', ...change },
    })
    const place = placeIn('org_suite')
    const save = (at: Place, title: string, content: string, type = 'note', now = n) => {
      const memoryId = id()
      const saving = { savedBy: 'key_x', operationId: memoryId }
      return saveMemory(open(), now, at, { id: memoryId, type, title, content, ...saving })
    }
    const find = async (query: string, more: object = {}, at: Place[] = [place]) => {
      const search = { places: at, query, type: null, limit: 10, ...more }
      return await searchMemories(open(), search)
    }
    const titles = async (...given: Parameters<typeof find>) =>
      (await find(...given)).map(({ title }) => title)

    beforeAll(async () => {
      await save(place, 'Deploying', 'We deploy to staging every Friday with make release')
      await save(place, 'Staging', 'The staging database is restored each night', 'decision')
      await save(place, 'Größe', 'Die Größe der Uploads ist begrenzt')
    })

    test('[MEM4] words are found by their stems, without accents, in title and content', async () => {
      expect(await titles('deployed')).toEqual(['Deploying'])
      expect(await titles('GROSSE uploads')).toEqual(['Größe'])
      expect(await titles('grösse')).toEqual([])
      expect(await titles('nothing-of-this')).toEqual([])
    })

    test('[MEM4] the one with more of the words comes first, and a type narrows it', async () => {
      expect(await titles('staging friday')).toEqual(['Deploying', 'Staging'])
      expect(await titles('staging')).toEqual(['Staging', 'Deploying'])
      expect(await titles('staging', { type: 'decision' })).toEqual(['Staging'])
      expect(await titles('staging', { limit: 1 })).toEqual(['Staging'])
    })

    test('[MEM3] a change is found by its new words and no more by its old ones; what is deleted is not found', async () => {
      const made = await save(place, 'Port', 'The proxy listens on quetzal')
      const saving = { savedBy: 'key_x', operationId: 'op1' }
      const change = { content: 'The proxy listens on axolotl' }
      await updateMemory(open(), 5, place, made.id, change, saving)
      expect([await titles('quetzal'), await titles('axolotl')]).toEqual([[], ['Port']])
      await removeMemory(open(), 6, place, made.id)
      expect(await titles('axolotl')).toEqual([])
      await open().batch([
        { sql: `insert into memory_index (memory_index) values ('integrity-check')`, values: [] },
      ])
    })

    test('[MEM2] the same operation again writes nothing; changes at once keep every revision', async () => {
      const made = await save(place, 'Race', 'start')
      const update = (text: string, operationId: string) =>
        updateMemory(open(), 7, place, made.id, { content: text }, { savedBy: 'k', operationId })
      await update('one', 'op-a')
      await update('two', 'op-b')
      expect((await update('one', 'op-a')).revision).toBe(2)
      expect((await loadMemory(open(), place, made.id)).content).toBe('two')
      const texts = Array.from({ length: 10 }, (_, at) => `text ${at}`)
      await Promise.all(texts.map((text, at) => update(text, `op-${at}`)))
      const kept = await listMemoryRevisions(open(), made.id, { limit: 50, before: null })
      expect(kept.map(({ revision }) => revision)).toEqual(
        Array.from({ length: 13 }, (_, at) => 13 - at),
      )
      expect(new Set(kept.map(({ content }) => content))).toEqual(
        new Set(['start', 'one', 'two', ...texts]),
      )
    })

    test('[MEM5] rows of others change no score, no order and no count', async () => {
      const own = placeIn('org_own')
      await save(own, 'Alpha', 'zebra zebra yak')
      await save(own, 'Beta', 'yak yak zebra lion')
      await save(own, 'Gamma', 'zebra')
      const before = await find('zebra yak', {}, [own])
      expect(before).toHaveLength(3)
      const others = [
        placeIn('org_else'),
        placeIn('org_own', { project: 'api' }),
        placeIn('org_own', { scope: 'personal', memberId: 'mbr_a' }),
      ]
      for (const other of others)
        for (let at = 0; at < 15; at += 1)
          await save(other, `Zebra ${at}`, at % 2 ? 'zebra '.repeat(50) : 'yak zebra yak')
      expect(await find('zebra yak', {}, [own])).toEqual(before)
    })

    test('[MEM8] an import that fails at any statement leaves nothing, and again it is made once', async () => {
      const at = placeIn('org_import')
      const memories = ['one', 'two', 'three'].map((title) => ({
        ...{ type: 'note', title, content: `${title} content` },
      }))
      const given = { project: 'web', scope: 'project' as const, dryRun: false, memories }
      const by = () => ({ savedBy: 'key_x', idOf: id })
      for (let statement = 0; statement < 9; statement += 1) {
        const broken: Db = {
          all: (...asked) => open().all(...asked),
          batch: (all) => open().batch(all.toSpliced(statement, 1, { sql: 'selec', values: [] })),
        }
        await expect(importMemories(broken, 8, at, given, by())).rejects.toThrow()
        expect(await titles('content', {}, [at])).toEqual([])
      }
      for (const outcome of ['created', 'unchanged']) {
        const { items } = await importMemories(open(), 9, at, given, by())
        expect(items.map((item) => item.outcome)).toEqual([outcome, outcome, outcome])
      }
      expect(await titles('content', {}, [at])).toHaveLength(3)
    })
  })
}
