import { beforeAll, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let admin: string
let key: string
let colleague: string
let stranger: string
beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  admin = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  key = await keyOf('ada')
  colleague = await keyOf('bob')
  stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})
const keyOf = async (owner: string, limits?: object) => {
  const body = { name: 'k', owner, scopes: ['write'], limits }
  return (await app.call('POST', '/v1/keys', admin, body)).json.secret as string
}

const path = '/v1/memories'
const save = (body: object, credential = key, headers = {}) =>
  app.call('POST', path, credential, body, headers)
const make = async (title: string, content: string, more = {}, credential = key) => {
  const answer = await save({ title, content, ...more }, credential)
  expect([answer.status, answer.json.error]).toEqual([201, undefined])
  return answer.json
}
const get = async (rest: string, credential = key) =>
  (await app.call('GET', `${path}${rest}`, credential)).json
const find = async (query: string, more = '', credential = key) =>
  (await get(`/search?query=${encodeURIComponent(query)}${more}`, credential)).items as {
    [name: string]: unknown
  }[]
const titles = async (...given: Parameters<typeof find>) =>
  (await find(...given)).map(({ title }) => title)
const outcome = async (call: ReturnType<TestApp['call']>) => {
  const { status, json } = await call
  return [status, json?.error?.code]
}
const missing = [404, 'not_found']

describe('a memory', () => {
  test('[MEM1] is saved, read, listed by type and searched', async () => {
    const answer = await save({
      ...{ project: 'basic', type: 'decision', title: 'Queues' },
      content: 'We use one queue per tenant',
    })
    expect(answer.json).toEqual({
      id: expect.stringMatching(/^mem_/),
      ...{ project: 'basic', scope: 'project', type: 'decision', title: 'Queues' },
      content: 'We use one queue per tenant',
      revision: 1,
      savedBy: expect.stringMatching(/^key_/),
      createdAt: app.deps.now(),
      updatedAt: app.deps.now(),
    })
    const location = answer.headers.get('location') ?? ''
    expect((await app.call('GET', location, colleague)).json).toEqual(answer.json)
    await make('Tabs', 'Two spaces', { project: 'basic', type: 'preference' })
    const listed = await get('?project=basic&type=decision')
    expect(listed.items).toEqual([answer.json])
    expect(await find('queue', '&project=basic', colleague)).toEqual([
      {
        ...{ id: answer.json.id, project: 'basic', scope: 'project', type: 'decision' },
        ...{ title: 'Queues', revision: 1, updatedAt: app.deps.now() },
        snippet: 'We use one queue per tenant',
        score: 8,
      },
    ])
  })

  test('[MEM1] is apart by project and by member, with the same title in both scopes', async () => {
    const place = { project: 'apart' }
    const shared = await make('Editor', 'kumquat for all', place)
    const own = await make('Editor', 'kumquat for me', { ...place, scope: 'personal' })
    await make('Editor', 'kumquat of bob', { ...place, scope: 'personal' }, colleague)
    await make('Editor', 'kumquat elsewhere', place, stranger)
    const snippets = async (scope: string, credential = key) =>
      (await find('kumquat', `&project=apart&scope=${scope}`, credential)).map(
        (hit) => hit['snippet'],
      )
    expect(await snippets('project')).toEqual(['kumquat for all'])
    expect(await snippets('personal')).toEqual(['kumquat for me'])
    expect(await snippets('all')).toEqual(['kumquat for me', 'kumquat for all'])
    expect(await snippets('personal', colleague)).toEqual(['kumquat of bob'])
    expect(await snippets('all', stranger)).toEqual(['kumquat elsewhere'])
    expect((await get('?project=apart&scope=personal')).items).toEqual([own])
    expect((await get('?project=apart')).items).toEqual([shared])
    for (const [id, credential] of [
      [own.id, colleague],
      [own.id, stranger],
      [shared.id, stranger],
    ] as const)
      for (const [method, rest, body] of [
        ['GET', '', undefined],
        ['GET', '/revisions', undefined],
        ['PATCH', '', { title: 'x' }],
        ['DELETE', '', undefined],
      ] as const)
        expect([
          method,
          await outcome(app.call(method, `${path}/${id}${rest}`, credential, body)),
        ]).toEqual([method, missing])
    expect((await get(`/${own.id}`)).title).toBe('Editor')
  })

  test('[MEM1] a key of other projects is refused there, and finds nothing by id', async () => {
    const limited = await keyOf('ada', { projects: ['allowed'] })
    const made = await make('Hidden', 'here', { project: 'hidden' })
    const at = (rest: string) => app.call('GET', `${path}${rest}`, limited)
    const refused = [403, 'forbidden']
    expect(await outcome(at('?project=hidden'))).toEqual(refused)
    expect(await outcome(at('/search?query=here&project=hidden'))).toEqual(refused)
    expect(await outcome(at(`/${made.id}`))).toEqual(missing)
    const body = { project: 'hidden', title: 'x', content: 'y' }
    expect(await outcome(save(body, limited))).toEqual(refused)
    const many = { project: 'hidden', memories: [{ title: 'x', content: 'y' }] }
    expect(await outcome(app.call('POST', `${path}/import`, limited, many))).toEqual(refused)
    await make('Seen', 'here', { project: 'allowed' }, limited)
  })

  test.each([
    [{ title: ' ', content: 'x' }, 'title'],
    [{ title: 'x', content: '\n' }, 'content'],
    [{ title: 'x', content: 'y', type: 'No Type' }, 'type'],
    [{ title: 'x', content: 'y'.repeat(32_001) }, 'content'],
    [{ title: 'x', content: 'y', scope: 'team' }, 'scope'],
  ])('[MEM1] %j is refused by its field', async (body, field) => {
    const { status, json } = await save(body)
    expect([status, json.error.details[0].path]).toEqual([400, field])
  })

  test('[MEM2] is made once per Idempotency-Key', async () => {
    const body = { project: 'once', title: 'Once', content: 'only' }
    const headers = { 'idempotency-key': 'k1' }
    const all = await Promise.all([1, 2, 3].map(() => save(body, key, headers)))
    expect(new Set(all.map(({ json }) => json.id)).size).toBe(1)
    expect((await get('?project=once')).items).toHaveLength(1)
    const changed = save({ ...body, content: 'other' }, key, headers)
    expect(await outcome(changed)).toEqual([409, 'key_conflict'])
  })

  test('[MEM3] is not there once it is deleted', async () => {
    const { id } = await make('Gone', 'pomelo', { project: 'gone' })
    expect((await app.call('DELETE', `${path}/${id}`, key)).status).toBe(204)
    for (const rest of ['', '/revisions'])
      expect(await outcome(app.call('GET', `${path}/${id}${rest}`, key))).toEqual(missing)
    expect(await outcome(app.call('PATCH', `${path}/${id}`, key, { title: 'x' }))).toEqual(missing)
    expect(await outcome(app.call('DELETE', `${path}/${id}`, key))).toEqual(missing)
    expect([await titles('pomelo', '&project=gone'), (await get('?project=gone')).items]).toEqual([
      [],
      [],
    ])
    const kept = await libsql.db().all('select content from memories where id = ?', id)
    expect(kept).toEqual([{ content: 'pomelo' }])
  })
})

describe('changes', () => {
  const change = (id: string, body: object) => app.call('PATCH', `${path}/${id}`, key, body)

  test('[MEM2] each is the next revision, and all can be read, page by page', async () => {
    const { id } = await make('Draft', 'one', { project: 'rev' })
    expect((await change(id, { content: 'two' })).json).toMatchObject({
      ...{ revision: 2, title: 'Draft', content: 'two' },
    })
    expect((await change(id, { content: 'two' })).json.revision).toBe(2)
    expect((await change(id, { title: 'Final', type: 'decision' })).json).toMatchObject({
      ...{ revision: 3, title: 'Final', content: 'two', type: 'decision' },
    })
    const first = await get(`/${id}/revisions?limit=2`)
    const second = await get(`/${id}/revisions?cursor=${first.nextCursor}`)
    const said = [...first.items, ...second.items].map(
      (one: { revision: number; title: string; content: string }) => [
        ...[one.revision, one.title, one.content],
      ],
    )
    expect(said).toEqual([
      [3, 'Final', 'two'],
      [2, 'Draft', 'two'],
      [1, 'Draft', 'one'],
    ])
    expect(second.nextCursor).toBe(null)
  })

  test('[MEM2] what changes nothing is refused as well if another revision is expected', async () => {
    const { id } = await make('Same', 'first')
    const change = (body: object) => app.call('PATCH', `${path}/${id}`, key, body)
    await change({ content: 'second' })
    expect((await change({ content: 'second', expectedRevision: 2 })).json.revision).toBe(2)
    expect(await outcome(change({ content: 'second', expectedRevision: 1 }))).toEqual([
      ...[409, 'wrong_state'],
    ])
    expect((await get(`/${id}/revisions`)).items).toHaveLength(2)
  })

  test('[MEM2] of two who expect the same revision one is refused', async () => {
    const { id } = await make('Both', 'start', { project: 'rev' })
    const answers = await Promise.all(
      ['a', 'b'].map((content) => change(id, { content, expectedRevision: 1 })),
    )
    expect(answers.map(({ status }) => `${status}`).toSorted()).toEqual(['200', '409'])
    const refused = answers.find(({ status }) => status === 409)?.json.error
    expect(refused).toMatchObject({
      code: 'wrong_state',
      details: [{ path: 'expectedRevision', message: 'The newest is 2' }],
    })
    expect((await get(`/${id}/revisions`)).items).toHaveLength(2)
  })

  test('[MEM2] of many at once each is a revision and is told its own', async () => {
    const { id } = await make('Many', 'start', { project: 'rev' })
    const texts = Array.from({ length: 12 }, (_, n) => `text ${n}`)
    const answers = await Promise.all(texts.map((content) => change(id, { content })))
    expect(answers.map(({ json }) => json.content)).toEqual(texts)
    const { items } = await get(`/${id}/revisions?limit=50`)
    expect(items.map(({ revision }: { revision: number }) => revision)).toEqual(
      Array.from({ length: 13 }, (_, n) => 13 - n),
    )
    expect((await get(`/${id}`)).content).toBe(items[0].content)
  })
})

describe('a search', () => {
  const at = '&project=found'
  beforeAll(async () => {
    const place = { project: 'found' }
    await make('Papaya', `${'filler '.repeat(40)}the papaya grows ${'more '.repeat(80)}`, place)
    await make('Garden', 'A papaya and a fig', place)
    await make('Fig', 'Only figs', { ...place, type: 'decision' })
  })

  test('[MEM4] ranks by words, title before content, and gives a bounded snippet around the first', async () => {
    expect(await titles('papaya', at)).toEqual(['Papaya', 'Garden'])
    expect(await titles('papaya fig', at)).toEqual(['Garden', 'Papaya', 'Fig'].toSorted(byHits))
    const [first] = await find('papaya', at)
    expect(first?.['snippet']).toMatch(/^….*the papaya grows.*…$/)
    expect(String(first?.['snippet']).length).toBeLessThanOrEqual(242)
    expect(await titles('fig', `${at}&type=decision`)).toEqual(['Fig'])
    expect(await titles('papaya', `${at}&limit=1`)).toEqual(['Papaya'])
    expect(await outcome(app.call('GET', `${path}/search?query=x&limit=51`, key))).toEqual([
      400,
      'invalid_request',
    ])
  })
  /** All words first; of those with one, the title counts more, then the newest. */
  const byHits = (a: string, b: string) => order.indexOf(a) - order.indexOf(b)
  const order = ['Garden', 'Fig', 'Papaya']

  test.each([
    '"papaya',
    'papaya"',
    'papaya*',
    'papaya OR',
    'NEAR(papaya)',
    '(papaya',
    'title:papaya',
    'papaya - fig',
    '^papaya',
    'papaya AND NOT AND',
    `papaya'; drop table memories; --`,
    'place:papaya',
    '{title content}:papaya',
    'papaya\\"',
    '+papaya "" ',
  ])('[MEM6] %j is words and never syntax', async (query) => {
    const { status, json } = await app.call(
      'GET',
      `${path}/search?query=${encodeURIComponent(query)}${at}`,
      key,
    )
    expect(status).toBe(200)
    expect(json.items.map(({ title }: { title: string }) => title)).toContain('Papaya')
  })

  test.each(['İstanbul', 'I\u0307stanbul', 'résumé', 're\u0301sume\u0301', 'RESUME', 'x\u0302y'])(
    '[MEM4] %j is found with its accents or without, however they are written',
    async (word) => {
      const where = { project: 'accents' }
      const bare = word.normalize('NFD').replaceAll(/\p{M}/gu, '')
      const title = `${word} ${Math.trunc(word.length * 7)}`
      await make(title, `about ${word.normalize('NFD')}`, where)
      for (const query of [word, word.normalize('NFD'), word.normalize('NFC'), bare])
        expect([query, await titles(query, '&project=accents')]).toEqual([
          query,
          expect.arrayContaining([title]),
        ])
    },
  )

  test('[MEM4] a snippet says where it was cut, to the character', async () => {
    const where = { project: 'cut' }
    for (const length of [240, 241])
      await make(`l${length}`, `kumquat ${'x'.repeat(length - 8)}`, where)
    const hits = await find('kumquat', '&project=cut')
    const cut = hits.map(({ title, snippet }) => [title, String(snippet).endsWith('…')])
    expect(Object.fromEntries(cut)).toEqual({ l240: false, l241: true })
  })

  test.each(['*', '""', '()', ' - ', '…', '😀'])('[MEM6] %j has no word', async (query) => {
    const request = `${path}/search?query=${encodeURIComponent(query)}`
    const { status, json } = await app.call('GET', request, key)
    expect([status, json.error.details[0].path]).toEqual([400, 'query'])
  })

  test('[MEM5] [MEM6] the words of the index itself find nothing', async () => {
    const rows = await libsql.db().all<{ place: string }>('select distinct place from memories')
    for (const { place } of rows) expect(await find(place, at)).toEqual([])
    expect(await titles('decision', at)).toEqual([])
  })
})

describe('secrets', () => {
  const secret = `ghp_${'a1B2'.repeat(9)}`
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  const hex = (text: string) => [...Buffer.from(text)].map((byte) => byte.toString(16))
  test.each([
    ['in base64', (text: string) => `token: ${Buffer.from(text).toString('base64')}`],
    ['in base64 for URLs', (text: string) => Buffer.from(`>>>${text}???`).toString('base64url')],
    ['percent-encoded', (text: string) => text.replace('_', '%5F')],
    [
      'with escapes',
      (text: string) => text.replace('_', String.raw`\u005f`).replace('p', String.raw`\x70`),
    ],
    ['with invisible characters', (text: string) => text.split('').join('\u200b')],
    ['in full width', (text: string) => text.replace('g', 'ｇ')],
    ['in base64 behind letters', (text: string) => `auth/${base64(text)}`],
    ['in base64 behind one letter', (text: string) => `x${base64(text)}`],
    ['in base64 behind two letters', (text: string) => `it${base64(text)}`],
    ['in base64 of lines', (text: string) => base64(text).replaceAll(/.{12}/g, '$&\n  ')],
    [
      'in base64 of wide letters',
      (text: string) => Buffer.from(text, 'utf16le').toString('base64'),
    ],
    ['in hex', (text: string) => Buffer.from(text).toString('hex')],
    ['in hex behind a digit', (text: string) => `f${Buffer.from(text).toString('hex')}`],
    ['as a dump of bytes', (text: string) => hex(text).join(' ')],
    [
      'as a list of bytes',
      (text: string) =>
        hex(text)
          .map((two) => `0x${two}`)
          .join(', '),
    ],
    ['as HTML', (text: string) => text.replace('_', '&#95;').replace('p', '&#x70;')],
    ['with long escapes', (text: string) => text.replace('_', String.raw`\u{5f}`)],
    ['with longer escapes', (text: string) => text.replace('_', String.raw`\U0000005f`)],
    ['with octal escapes', (text: string) => text.replace('_', String.raw`\137`)],
    ['with the marks of Markdown', (text: string) => text.replace('_', String.raw`\_`)],
    ['with selectors of variants', (text: string) => text.split('').join('\ufe0f')],
    ['with fillers', (text: string) => text.split('').join('\u3164')],
    ['with joiners', (text: string) => text.split('').join('\u034f')],
  ])('[MEM7] are refused %s', async (_, written) => {
    const content = `see ${written(secret)} there`
    expect(await outcome(save({ project: 'encoded', title: 'T', content }))).toEqual([
      ...[422, 'unprocessable'],
    ])
    expect((await get('?project=encoded')).items).toEqual([])
  })

  test('[MEM7] are refused by their field wherever they come in, and nothing is stored', async () => {
    const place = { project: 'secret' }
    const { id } = await make('Fine', 'nothing here', place)
    const cases = [
      [save({ ...place, title: 'Token', content: `use ${secret}` }), 'content'],
      [save({ ...place, title: secret, content: 'x' }), 'title'],
      [app.call('PATCH', `${path}/${id}`, key, { content: secret }), 'content'],
      [
        app.call('POST', `${path}/import`, key, {
          ...{ ...place, memories: [{ title: 'ok', content: 'ok' }] },
          memories: [
            { title: 'ok', content: 'ok' },
            { title: 'no', content: secret },
          ],
        }),
        'memories.1.content',
      ],
    ] as const
    for (const [call, field] of cases) {
      const { status, json, text } = await call
      expect([status, json.error.code, json.error.details[0].path]).toEqual([
        422,
        'unprocessable',
        field,
      ])
      expect(text).not.toContain(secret)
    }
    expect((await get('?project=secret')).items).toHaveLength(1)
    const all = await libsql.db().all('select * from memories, memory_revisions')
    expect(JSON.stringify(all)).not.toContain(secret)
  })
})

describe('export and import', () => {
  const memories = ['b', 'a', 'c'].map((title) => ({ type: 'note', title, content: `${title} 1` }))
  const send = (body: object) => app.call('POST', `${path}/import`, key, body)

  test('[MEM8] a dry run stores nothing, the import does what it said, once, and the list gives it all back', async () => {
    const place = { project: 'port', scope: 'personal' }
    await make('a', 'a 1', place)
    await make('c', 'before', place)
    const outcomes = async (body: object) =>
      (await send(body)).json.items.map(({ outcome: how }: { outcome: string }) => how)
    const before = await get('?project=port&scope=personal')
    const planned = ['created', 'unchanged', 'updated']
    expect(await outcomes({ ...place, memories, dryRun: true })).toEqual(planned)
    expect(await get('?project=port&scope=personal')).toEqual(before)
    expect(await outcomes({ ...place, memories })).toEqual(planned)
    const first = await get('?project=port&scope=personal&limit=2')
    const second = await get(`?project=port&scope=personal&cursor=${first.nextCursor}`)
    const exported = [...first.items, ...second.items]
    expect(
      exported
        .map(({ type, title, content }: (typeof memories)[number]) => ({ type, title, content }))
        .toSorted((a, b) => a.title.localeCompare(b.title)),
    ).toEqual(memories.toSorted((a, b) => a.title.localeCompare(b.title)))
    expect(await outcomes({ ...place, memories })).toEqual(['unchanged', 'unchanged', 'unchanged'])
    const updated = exported.find(({ title }: { title: string }) => title === 'c')
    expect((await get(`/${updated.id}/revisions`)).items).toHaveLength(2)
    expect((await get('?project=port')).items).toEqual([])
  })

  test('[MEM8] [MEM1] one of the same title elsewhere, or of somebody else, is not the one that is meant', async () => {
    const where = { project: 'imported-here' }
    const one = { type: 'note', title: 'Shared title', content: 'old' }
    await make(one.title, one.content, { project: 'imported-there' })
    await make(one.title, one.content, { ...where, scope: 'personal' })
    await make(one.title, one.content, where, stranger)
    const body = { ...where, memories: [{ ...one, content: 'new' }] }
    const answer = await app.call('POST', `${path}/import`, key, body)
    expect(answer.json.items).toMatchObject([{ outcome: 'created' }])
    expect((await get('?project=imported-there')).items).toMatchObject([{ content: 'old' }])
    expect((await get('?project=imported-here&scope=personal')).items).toMatchObject([
      { content: 'old' },
    ])
  })

  test('[MEM8] the same import several times at once leaves what one leaves, and says who did it', async () => {
    const place = { project: 'at-once' }
    await make('c', 'before', place)
    const all = await Promise.all(Array.from({ length: 8 }, () => send({ ...place, memories })))
    const { items } = await get('?project=at-once')
    expect(items.map(({ title }: { title: string }) => title).toSorted()).toEqual(['a', 'b', 'c'])
    const revisions = items.map(({ revision }: { revision: number }) => revision)
    expect(revisions.toSorted()).toEqual([1, 1, 2])
    const told = all.flatMap(({ json }) => json.items) as { id: string; outcome: string }[]
    const ids = items.map(({ id }: { id: string }) => id)
    expect(told.every(({ id }) => ids.includes(id))).toBe(true)
    const counts = ['created', 'updated', 'unchanged'].map(
      (how) => told.filter(({ outcome: one }) => one === how).length,
    )
    expect(counts).toEqual([2, 1, 21])
  })

  test('[MEM8] imports at once that say different things are one memory with a revision of each', async () => {
    const texts = ['1', '2', '3', '4', '5']
    const send1 = (content: string) =>
      send({ project: 'differ', memories: [{ type: 'note', title: 'T', content }] })
    await Promise.all(texts.map(send1))
    const { items } = await get('?project=differ')
    expect(items).toHaveLength(1)
    const revisions = (await get(`/${items[0].id}/revisions`)).items
    const said = revisions.map(({ content }: { content: string }) => content)
    expect(said.toSorted()).toEqual(texts)
  })

  test('[MEM8] one that is named twice is refused', async () => {
    const [one] = memories
    const answer = await send({ project: 'twice', memories: [one, { ...one, content: 'other' }] })
    expect([answer.status, answer.json.error.details[0].path]).toEqual([422, 'memories.1'])
    expect((await get('?project=twice')).items).toEqual([])
  })
})
