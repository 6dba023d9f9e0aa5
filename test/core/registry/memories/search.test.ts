import { expect, test } from 'vitest'
import {
  removeMemory,
  saveMemory,
  updateMemory,
  placeToken,
} from '../../../../src/core/registry/memories/memories.ts'
import { searchMemories, searchWords } from '../../../../src/core/registry/memories/search.ts'
import type { Db } from '../../../../src/core/ports.ts'
import type { Place } from '../../../../src/core/registry/place.ts'
import { memoriesSuite } from '../../../suites/memories.ts'
import { memoryDb } from '../../../support/memory-db.ts'
import { random } from '../../../support/random.ts'

const shared = memoryDb()
memoriesSuite('in this process', () => shared)

const place = (project: string, memberId = ''): Place => ({
  ...{ organisationId: 'org_a', project, memberId },
  scope: memberId === '' ? 'project' : 'personal',
})

function world(db: Db = memoryDb()) {
  let n = 0
  const save = (at: Place, title: string, content: string, type = 'note') => {
    const id = `mem_${String((n += 1)).padStart(20, '0')}`
    const saving = { savedBy: 'k', operationId: id }
    return saveMemory(db, n, at, { id, type, title, content, ...saving })
  }
  const change = (at: Place, id: string, content: string) => {
    const operationId = `op_${(n += 1)}`
    return updateMemory(db, n, at, id, { content }, { savedBy: 'k', operationId })
  }
  const find = (at: Place[], query: string, more: { type?: string; limit?: number } = {}) =>
    searchMemories(db, { places: at, query, type: more.type ?? null, limit: more.limit ?? 10 })
  const titles = async (...asked: Parameters<typeof find>) =>
    (await find(...asked)).map(({ title }) => title)
  return { db, save, change, find, titles }
}

test('[MEM4] all words before some, then by points: three for a word, five more in the title; then what was changed last', async () => {
  const { save, change, find, titles } = world()
  const at = place('rank')
  await save(at, 'One', 'mango')
  await save(at, 'Both', 'mango and lychee')
  await save(at, 'Mango', 'nothing')
  const older = await save(at, 'Older', 'lychee')
  await save(at, 'Newer', 'lychee')
  const hits = await find([at], 'mango lychee')
  expect(hits.map(({ title, score }) => [title, score])).toEqual([
    ['Both', 6],
    ['Mango', 8],
    ['Newer', 3],
    ['Older', 3],
    ['One', 3],
  ])
  await change(at, older.id, 'lychee again')
  expect((await titles([at], 'mango lychee')).slice(2)).toEqual(['Older', 'Newer', 'One'])
  expect(await titles([at], 'mango lychee', { limit: 3 })).toEqual(['Both', 'Mango', 'Older'])
})

test('[MEM4] of more than 400 with a word those changed last count, and one with all words is found however old', async () => {
  const { save, change, titles } = world()
  const at = place('many')
  const oldest = await save(at, 'Oldest', 'common')
  await save(at, 'Whole', 'common rare')
  for (let n = 0; n < 400; n += 1) await save(at, `Entry ${n}`, 'common')
  const all = (await titles([at], 'common', { limit: 400 })).toSorted()
  expect(all).toHaveLength(400)
  expect(all).not.toContain('Oldest')
  expect((await titles([at], 'common rare'))[0]).toBe('Whole')
  await change(at, oldest.id, 'common still')
  expect((await titles([at], 'common'))[0]).toBe('Oldest')
})

test('[MEM4] several places together: the best of all, and of the same the one changed last', async () => {
  const { save, find, titles } = world()
  const [own, personal] = [place('p'), place('p', 'mbr_a')]
  for (let n = 0; n < 6; n += 1) await save(n % 2 ? own : personal, `At ${n}`, 'plum')
  expect(await titles([own, personal], 'plum', { limit: 4 })).toEqual(
    [5, 4, 3, 2].map((n) => `At ${n}`),
  )
  expect(await titles([personal], 'plum')).toEqual(['At 4', 'At 2', 'At 0'])
  expect((await find([own, personal], 'plum')).map(({ scope }) => scope)).toContain('personal')
  expect(await titles([place('nothing-here')], 'plum')).toEqual([])
  expect(await titles([], 'plum')).toEqual([])
})

test('[MEM4] a type is exact, and others take no room of it', async () => {
  const { save, titles } = world()
  const at = place('types')
  await save(at, 'Wanted', 'kiwi', 'decision')
  for (let n = 0; n < 12; n += 1) await save(at, `Other ${n}`, 'kiwi', 'decisions')
  expect(await titles([at], 'kiwi', { type: 'decision', limit: 5 })).toEqual(['Wanted'])
})

test('[MEM5] random rows of others, saved in between, change nothing of an answer', async () => {
  const next = random(13)
  const [alone, among] = [world(), world()]
  const at = place('own')
  const others = [place('else'), place('own', 'mbr_b'), { ...at, organisationId: 'org_b' }]
  const words = ['amber', 'basil', 'cedar', 'dune', 'ember']
  const text = () =>
    Array.from({ length: 4 }, () => words[Math.floor(next() * words.length)]).join(' ')
  for (let n = 0; n < 60; n += 1) {
    const [title, content] = [text(), text()]
    for (const { save } of [alone, among]) await save(at, `${n} ${title}`, content)
    const other = others[n % 3]
    if (other) for (let m = 0; m < 3; m += 1) await among.save(other, text(), text())
  }
  const told = async ({ find }: typeof alone, query: string) =>
    (await find([at], query)).map(({ title, score, snippet }) => ({ title, score, snippet }))
  for (const query of [...words, 'amber dune', 'ember basil cedar', 'amber unknown'])
    expect(await told(among, query)).toEqual(await told(alone, query))
})

test('[MEM3] what was saved before places had numbers is found, in its place alone', async () => {
  const db = memoryDb('0019')
  const columns = 'id, organisation_id, project, scope, member_id, place, type, title, content'
  const [mine, other] = [place('old'), place('other')]
  for (const [id, at] of [mine, other, mine].entries())
    await db.batch([
      {
        sql: `insert into memories (${columns}, revision, saved_by, created_at, updated_at)
              values (?, 'org_a', ?, 'project', '', ?, 'note', ?, 'walnut', 1, 'k', ?, ?)`,
        values: [`mem_old${id}`, at.project, placeToken(at), `Old ${id}`, id - 9, id - 9],
      },
    ])
  db.migrate()
  const { save, titles } = world(db)
  expect(await titles([mine], 'walnut')).toEqual(['Old 2', 'Old 0'])
  await save(mine, 'New', 'walnut')
  expect((await titles([mine], 'walnut'))[0]).toBe('New')
  expect(await titles([other], 'walnut')).toEqual(['Old 1'])
})

test('[MEM4] a snippet begins near the first word and is cut between characters', async () => {
  const { save, find } = world()
  const at = place('cut')
  await save(at, 'Emoji', `${'😀'.repeat(100)} walnut ${'😀'.repeat(300)}`)
  await save(at, 'Short', 'walnut')
  await save(at, 'Accent', `${'x '.repeat(100)}Wälnut`)
  const [short, emoji] = await find([at], 'walnut').then((hits) => [
    hits.find(({ title }) => title === 'Short')?.snippet,
    hits.find(({ title }) => title === 'Emoji')?.snippet,
  ])
  expect(short).toBe('walnut')
  expect(Array.from(emoji ?? '')).toHaveLength(242)
  expect(emoji).toMatch(/^…(😀)+ walnut (😀)+…$/u)
  const [accent] = (await find([at], 'walnut')).filter(({ title }) => title === 'Accent')
  expect(accent?.snippet).toBe(`${'x '.repeat(100)}Wälnut`)
})

test('[MEM6] words are letters and digits, each once, at most sixteen', () => {
  expect(searchWords('Ab-ab "cd" (2nd) OR NEAR')).toEqual(['ab', 'cd', '2nd', 'or', 'near'])
  expect(searchWords(Array.from({ length: 20 }, (_, n) => `w${n}`).join(' '))).toHaveLength(16)
  for (const query of ['', ' ', '"*"']) expect(() => searchWords(query)).toThrow('no word')
})

test('[MEM3] what is deleted is not found and takes no room', async () => {
  const { db, save, titles } = world()
  const at = place('gone')
  const made = await save(at, 'Gone', 'quince')
  await save(at, 'Here', 'quince')
  await removeMemory(db, 99, at, made.id)
  expect(await titles([at], 'quince', { limit: 1 })).toEqual(['Here'])
  expect(await titles([at], 'quince')).toEqual(['Here'])
})
