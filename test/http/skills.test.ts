import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let organisationId: string
let key: string
let keyId: string
let stranger: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})
// Each test has an organisation of its own.
beforeEach(async () => {
  organisationId = await app.makeOrganisation()
  const made = await app.makeKey(organisationId, 'admin')
  key = made.secret
  keyId = made.id
})

async function ok(method: string, path: string, body?: unknown, credential = key) {
  const { status, json } = await app.call(method, path, credential, body)
  expect([path, status, json?.error]).toEqual([path, 200, undefined])
  return json
}
async function refusal(method: string, path: string, body?: unknown, credential = key) {
  const { status, json } = await app.call(method, path, credential, body)
  return [status, json?.error?.code, json?.error?.details?.[0]?.path]
}
const memberKey = async (owner: string, ...scopes: string[]): Promise<string> =>
  (await app.call('POST', '/v1/keys', key, { name: owner, owner, scopes })).json.secret

const put = (name: string, more: object = {}, credential = key) =>
  ok('PUT', '/v1/skills', { name, description: `About ${name}`, ...more }, credential)
const inline = (content: string) => ({ kind: 'inline', content })
const add = (skillId: string, content: string, more: object = {}, credential = key) =>
  ok('POST', `/v1/skills/${skillId}/versions`, { source: inline(content), ...more }, credential)
const current = async (skillId: string) => {
  const { currentVersion, current } = await ok('GET', `/v1/skills/${skillId}`)
  return [currentVersion, current?.state ?? null, current?.source.content ?? null]
}
const acts = async (skillId: string) => {
  const { items } = await ok('GET', `/v1/skills/${skillId}/changes`)
  type Item = { act: string; version: number | null; actor: string; reason: string }
  return items
    .map(({ act, version, actor, reason }: Item) => [act, version, actor === keyId, reason])
    .toReversed()
}
const rows = async (table: string, skillId: string) =>
  (await libsql.db().all(`select 1 from ${table} where skill_id = ?`, skillId)).length

describe('[SKILL1] registering', () => {
  test('one row per project, scope and name, with an id that stays', async () => {
    const first = await put('git-release')
    expect(first).toEqual({
      id: expect.stringMatching(/^skl_[0-9a-z]{20}$/),
      project: 'default',
      scope: 'project',
      name: 'git-release',
      description: 'About git-release',
      currentVersion: null,
      createdBy: keyId,
      createdAt: app.deps.now(),
      updatedAt: app.deps.now(),
    })
    app.pass(1000)
    expect(await put('git-release')).toEqual(first)
    const changed = await put('git-release', { description: 'Other' })
    expect(changed).toEqual({ ...first, description: 'Other', updatedAt: app.deps.now() })
    const ids = [
      first.id,
      (await put('git-release', { project: 'shop' })).id,
      (await put('git-release', { scope: 'personal' })).id,
      (await put('git-release', {}, stranger)).id,
    ]
    expect(new Set(ids).size).toBe(4)
  })

  test('at once: one row', async () => {
    const made = await Promise.all(Array.from({ length: 5 }, () => put('race')))
    expect(new Set(made.map(({ id }) => id)).size).toBe(1)
  })

  test.each([
    ['name', { name: 'Git' }],
    ['name', { name: '-git' }],
    ['name', { name: 'git--release' }],
    ['name', { name: 'git-' }],
    ['name', { name: 'a/b' }],
    ['name', { name: '' }],
    ['name', { name: 'a'.repeat(65) }],
    ['name', { name: 'customize-opencode' }],
    ['description', { description: '' }],
    ['description', { description: ' ' }],
    ['description', { description: 'd'.repeat(1025) }],
    ['description', { description: 'two\nlines' }],
    ['description', { description: '</description>' }],
    ['project', { project: 'A' }],
    ['scope', { scope: 'global' }],
  ])('what OpenCode could not load is refused: %s %j', async (path, wrong) => {
    const body = { name: 'git', description: 'd', ...wrong }
    expect(await refusal('PUT', '/v1/skills', body)).toEqual([400, 'invalid_request', path])
    expect((await ok('GET', '/v1/skills')).items).toEqual([])
  })

  test('the longest name and description are taken', async () => {
    const longest = { name: 'a'.repeat(64), description: 'd'.repeat(1024) }
    expect(await ok('PUT', '/v1/skills', longest)).toMatchObject(longest)
  })
})

describe('[SKILL2] versions', () => {
  test('[SKILL7] are numbered, keep what they say, and only an activated one is current', async () => {
    const { id } = await put('review')
    const draft = await add(id, 'Read it.')
    expect(draft).toEqual({
      skillId: id,
      version: 1,
      state: 'draft',
      description: 'About review',
      compatibility: '',
      source: inline('Read it.'),
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      createdBy: keyId,
      createdAt: app.deps.now(),
    })
    expect(await current(id)).toEqual([null, null, null])
    const more = { activate: true, description: 'Mine', compatibility: 'git', reason: 'better' }
    const second = await add(id, 'Read it twice.', more)
    expect(second).toMatchObject({ version: 2, state: 'active', description: 'Mine' })
    expect(second.sha256).not.toBe(draft.sha256)
    expect(await current(id)).toEqual([2, 'active', 'Read it twice.'])
    await put('review', { description: 'Changed later' })
    expect((await ok('GET', `/v1/skills/${id}/versions/1`)).description).toBe('About review')
    expect(await acts(id)).toEqual([
      ['version.added', 1, true, ''],
      ['version.activated', 2, true, 'better'],
    ])
  })

  test('[SKILL7] the same version again is that version, and undoes nothing', async () => {
    const { id } = await put('review')
    const first = await add(id, 'One.', { activate: true })
    expect(await add(id, 'One.', { activate: true })).toEqual(first)
    await add(id, 'Two.', { activate: true })
    await ok('POST', `/v1/skills/${id}/rollback`, { version: 1, reason: 'worse' })
    expect(await add(id, 'Two.', { activate: true })).toMatchObject({ version: 2 })
    expect(await current(id)).toEqual([1, 'active', 'One.'])
    expect([await rows('skill_versions', id), await rows('skill_changes', id)]).toEqual([2, 3])
    expect(await add(id, 'One.')).toMatchObject({ version: 3, state: 'draft' })
  })

  test('at once: none is lost, each has a number of its own, one is current', async () => {
    const { id } = await put('race')
    const texts = Array.from({ length: 6 }, (_, n) => `Text ${n}.`)
    const made = await Promise.all(texts.map((text) => add(id, text, { activate: true })))
    expect(made.map(({ version }) => version).toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6])
    expect(made.map(({ source }) => source.content)).toEqual(texts)
    expect((await current(id))[0]).toBe(6)
    expect(await rows('skill_changes', id)).toBe(6)
  })

  test('are listed newest first, by cursor', async () => {
    const { id } = await put('review')
    for (const text of ['One.', 'Two.', 'Three.']) await add(id, text)
    const list = `/v1/skills/${id}/versions?limit=2`
    const first = await ok('GET', list)
    const rest = await ok('GET', `${list}&cursor=${first.nextCursor}`)
    const numbers = (page: { items: { version: number }[] }) =>
      page.items.map(({ version }) => version)
    expect([numbers(first), numbers(rest), rest.nextCursor]).toEqual([[3, 2], [1], null])
    expect(await refusal('GET', `${list}&cursor=x`)).toEqual([400, 'invalid_request', 'cursor'])
    expect(await refusal('GET', `/v1/skills/${id}/versions/4`)).toEqual([
      404,
      'not_found',
      undefined,
    ])
  })

  test.each([
    ['path', { kind: 'path', path: 'skills/review/SKILL.md' }],
    ['url', { kind: 'url', url: 'https://example.com/SKILL.md' }],
  ])('a source can be a %s, which is kept as it is', async (_, source) => {
    const { id } = await put('review')
    expect(await ok('POST', `/v1/skills/${id}/versions`, { source })).toMatchObject({ source })
  })

  test.each([
    ['source.content', inline('')],
    ['source.content', inline(' \n')],
    ['source.content', inline('x'.repeat(65_537))],
    ['source.content', inline('---\nname: other\n---\nText')],
    ['source.url', { kind: 'url', url: 'file:///etc/passwd' }],
    ['source.path', { kind: 'path', path: '' }],
    ['source.kind', { kind: 'git' }],
    ['source.url', { kind: 'inline', content: 'x', url: 'https://example.com' }],
  ])('a source that cannot be one is refused: %s', async (path, source) => {
    const { id } = await put('review')
    const refused = await refusal('POST', `/v1/skills/${id}/versions`, { source })
    expect(refused).toEqual([400, 'invalid_request', path])
  })

  test('what looks like a credential is not stored', async () => {
    const { id } = await put('deploy')
    const token = `ghp_${'a1B2'.repeat(9)}`
    const path = `/v1/skills/${id}/versions`
    const refused = await app.call('POST', path, key, { source: inline(`Use ${token}`) })
    expect([refused.status, refused.json.error.code]).toEqual([422, 'unprocessable'])
    expect(refused.text).not.toContain(token)
    const lines = Buffer.from(token).toString('base64').replaceAll(/.{20}/g, '$&\n')
    for (const hidden of [lines, token.replace('_', String.raw`\x5f`), token.replace('_', '\\_')])
      expect((await app.call('POST', path, key, { source: inline(`Use ${hidden}`) })).status).toBe(
        422,
      )
    expect(await rows('skill_versions', id)).toBe(0)
    const described = { name: 'described', description: `Use ${token}` }
    const { status, json } = await app.call('PUT', '/v1/skills', key, described)
    expect([status, json.error.details[0].path]).toEqual([422, 'description'])
    const added = { source: inline('Fine'), activate: true, reason: `Was ${token}` }
    await app.call('POST', path, key, added)
    const changes = await app.call('GET', `/v1/skills/${id}/changes`, key)
    expect(changes.json.items[0].reason).toBe('Was [secret-like:github]')
  })
})

describe('[SKILL3] the life of a version', () => {
  const become = (id: string, version: number, state: string) =>
    app.call('POST', `/v1/skills/${id}/versions/${version}/state`, key, { state, reason: 'r' })

  test('every pair of states: what may follow follows, the rest is refused and changes nothing', async () => {
    const ways: Record<string, string[]> = {
      draft: [],
      active: ['active'],
      deprecated: ['active', 'deprecated'],
      archived: ['archived'],
    }
    const allowed = ['draft active', 'draft archived', 'active deprecated', 'deprecated archived']
    for (const [from, way] of Object.entries(ways))
      for (const to of ['active', 'deprecated', 'archived']) {
        const { id } = await put(`${from}-${to}`)
        await add(id, 'Text.')
        for (const state of way) await become(id, 1, state)
        const before = await rows('skill_changes', id)
        const { status, json } = await become(id, 1, to)
        const isAllowed = allowed.includes(`${from} ${to}`)
        const wanted = isAllowed || from === to ? [200, to] : [409, from]
        const { state } = await ok('GET', `/v1/skills/${id}/versions/1`)
        expect([from, to, status, state]).toEqual([from, to, ...wanted])
        expect([from, to, await rows('skill_changes', id)]).toEqual([
          ...[from, to, before + (isAllowed ? 1 : 0)],
        ])
        if (status === 409) expect(json.error.code).toBe('wrong_state')
      }
  })

  test('an activated draft is current; a deprecated one stays current', async () => {
    const { id } = await put('review')
    await add(id, 'One.')
    await become(id, 1, 'active')
    expect(await current(id)).toEqual([1, 'active', 'One.'])
    await become(id, 1, 'deprecated')
    expect(await current(id)).toEqual([1, 'deprecated', 'One.'])
    await ok('POST', `/v1/skills/${id}/rollback`, { version: 1, reason: 'it was good' })
    expect(await current(id)).toEqual([1, 'active', 'One.'])
    await become(id, 1, 'deprecated')
    await become(id, 1, 'archived')
    const { json } = await become(id, 1, 'active')
    expect(json.error.details).toEqual([{ path: 'state', message: 'Add a new version' }])
  })

  test('a reason is asked for', async () => {
    const { id } = await put('review')
    await add(id, 'One.')
    const path = `/v1/skills/${id}/versions/1/state`
    expect(await refusal('POST', path, { state: 'active' })).toEqual([
      ...[400, 'invalid_request', 'reason'],
    ])
    expect(await refusal('POST', path, { state: 'draft', reason: 'r' })).toEqual([
      ...[400, 'invalid_request', 'state'],
    ])
  })
})

describe('[SKILL4] rolling back', () => {
  const back = (id: string, version: number, credential = key) =>
    app.call('POST', `/v1/skills/${id}/rollback`, credential, { version, reason: 'it was worse' })

  test('an earlier version is current again, with who and why; again changes nothing', async () => {
    const { id } = await put('review')
    for (const text of ['One.', 'Two.', 'Three.']) await add(id, text, { activate: true })
    expect((await back(id, 1)).json).toMatchObject({ currentVersion: 1 })
    expect((await back(id, 1)).status).toBe(200)
    expect(await current(id)).toEqual([1, 'active', 'One.'])
    expect((await acts(id)).slice(3)).toEqual([['rolled-back', 1, true, 'it was worse']])
    expect((await ok('GET', `/v1/skills/${id}/versions`)).items).toHaveLength(3)
  })

  test('a deprecated one is active again; a draft, an archived, a later or a missing one is refused', async () => {
    const { id } = await put('review')
    const state = (version: number, to: string) =>
      ok('POST', `/v1/skills/${id}/versions/${version}/state`, { state: to, reason: 'r' })
    await add(id, 'Draft.')
    await add(id, 'Old.', { activate: true })
    await add(id, 'Gone.', { activate: true })
    await add(id, 'Now.', { activate: true })
    await state(2, 'deprecated')
    await state(3, 'deprecated')
    await state(3, 'archived')
    const outcomes = []
    for (const version of [1, 3, 9]) outcomes.push((await back(id, version)).status)
    expect(outcomes).toEqual([409, 409, 404])
    expect((await back(id, 2)).status).toBe(200)
    expect(await current(id)).toEqual([2, 'active', 'Old.'])
    expect((await back(id, 4)).status).toBe(409)
  })
})

describe('[SKILL5] attachments', () => {
  const at = (id: string, target: string) => `/v1/skills/${id}/attachments/${target}`

  test('to an agent, a subagent, a phase and an adapter, and off again', async () => {
    const { id } = await put('review')
    await add(id, 'One.', { activate: true })
    const targets = ['agent/coder', 'provider-adapter/opencode', 'subagent/critic']
    for (const target of targets) await ok('PUT', at(id, target))
    await ok('PUT', at(id, 'workflow-phase/sdd:apply'), { version: 1 })
    const shown = async () =>
      (await ok('GET', `/v1/skills/${id}`)).attachments.map(
        (one: { targetType: string; targetKey: string; version: number | null }) =>
          `${one.targetType}/${one.targetKey}@${one.version}`,
      )
    expect(await shown()).toEqual([
      ...targets.map((target) => `${target}@null`),
      'workflow-phase/sdd:apply@1',
    ])
    await ok('PUT', at(id, 'agent/coder'))
    expect(await rows('skill_changes', id)).toBe(5)
    await ok('PUT', at(id, 'agent/coder'), { version: 1 })
    await ok('DELETE', at(id, 'subagent/critic'))
    await ok('DELETE', at(id, 'subagent/critic'))
    expect(await shown()).toEqual([
      ...['agent/coder@1', 'provider-adapter/opencode@null', 'workflow-phase/sdd:apply@1'],
    ])
    const { items } = await ok('GET', `/v1/skills/${id}/changes?limit=2`)
    expect(items.map(({ act, target }: { act: string; target: object }) => [act, target])).toEqual([
      ['detached', { targetType: 'subagent', targetKey: 'critic' }],
      ['attached', { targetType: 'agent', targetKey: 'coder' }],
    ])
  })

  test('a wrong target or version is refused', async () => {
    const { id } = await put('review')
    expect(await refusal('PUT', at(id, 'team/coder'))).toEqual([404, 'not_found', undefined])
    expect(await refusal('PUT', at(id, 'agent/a%20b'))).toEqual([404, 'not_found', undefined])
    const missing = await refusal('PUT', at(id, 'agent/coder'), { version: 1 })
    expect(missing).toEqual([404, 'not_found', undefined])
    expect(await rows('skill_attachments', id)).toBe(0)
  })

  test('at most 200, and one that is there can still be changed', async () => {
    const { id } = await put('review')
    await add(id, 'One.')
    await libsql.db().all(
      `with recursive n(i) as (select 1 union all select i + 1 from n where i < 200)
       insert into skill_attachments select ?, 'agent', 'a' || i, null, 'key', 0 from n`,
      id,
    )
    expect(await refusal('PUT', at(id, 'agent/b'))).toEqual([409, 'wrong_state', undefined])
    app.pass(1000)
    const { attachments } = await ok('PUT', at(id, 'agent/a7'), { version: 1 })
    expect(attachments).toHaveLength(200)
    expect(attachments).toContainEqual(
      expect.objectContaining({ targetKey: 'a7', createdAt: app.deps.now(), createdBy: keyId }),
    )
    const other = await put('other')
    expect((await ok('PUT', at(other.id, 'agent/b'))).attachments).toHaveLength(1)
    expect(await refusal('PUT', at(id, 'agent/b'))).toEqual([409, 'wrong_state', undefined])
  })
})

describe('[SKILL6] who sees and changes what', () => {
  test('another organisation finds nothing, whatever it asks', async () => {
    const { id } = await put('review')
    await add(id, 'One.', { activate: true })
    const paths: [string, string, object?][] = [
      ['GET', `/v1/skills/${id}`],
      ['GET', `/v1/skills/${id}/versions`],
      ['GET', `/v1/skills/${id}/versions/1`],
      ['GET', `/v1/skills/${id}/changes`],
      ['POST', `/v1/skills/${id}/versions`, { source: inline('Theirs.') }],
      ['POST', `/v1/skills/${id}/versions/1/state`, { state: 'deprecated', reason: 'r' }],
      ['POST', `/v1/skills/${id}/rollback`, { version: 1, reason: 'r' }],
      ['PUT', `/v1/skills/${id}/attachments/agent/a`, {}],
      ['DELETE', `/v1/skills/${id}/attachments/agent/a`],
    ]
    for (const [method, path, body] of paths)
      expect([path, ...(await refusal(method, path, body, stranger))]).toEqual([
        ...[path, 404, 'not_found', undefined],
      ])
    expect(await current(id)).toEqual([1, 'active', 'One.'])
    expect((await ok('GET', '/v1/skills', undefined, stranger)).items).not.toContainEqual(
      expect.objectContaining({ id }),
    )
  })

  test('a personal skill is there for its member alone, with every key of hers', async () => {
    const [anna, bert] = await Promise.all([memberKey('anna', 'write'), memberKey('bert', 'write')])
    const { id } = await put('notes', { scope: 'personal' }, anna)
    expect((await put('notes', { scope: 'personal' }, bert)).id).not.toBe(id)
    await add(id, 'Mine.', { activate: true }, anna)
    const again = await memberKey('anna', 'read')
    expect((await ok('GET', `/v1/skills/${id}`, undefined, again)).currentVersion).toBe(1)
    for (const other of [bert, key])
      expect(await refusal('GET', `/v1/skills/${id}`, undefined, other)).toEqual([
        ...[404, 'not_found', undefined],
      ])
  })

  test('a key for some projects finds and makes skills of these alone', async () => {
    const limits = { projects: ['shop'] }
    const body = { name: 'shop', owner: 'shop', scopes: ['write', 'approve'], limits }
    const shop = (await app.call('POST', '/v1/keys', key, body)).json.secret
    const [own, other] = [await put('own', { project: 'shop' }), await put('other')]
    await add(other.id, 'Text.')
    expect((await ok('GET', '/v1/skills', undefined, shop)).items).toEqual([own])
    await add(own.id, 'Text.', { activate: true }, shop)
    expect(await refusal('GET', `/v1/skills/${other.id}`, undefined, shop)).toEqual([
      ...[404, 'not_found', undefined],
    ])
    const refused = await refusal('PUT', '/v1/skills', { name: 'x', description: 'x' }, shop)
    expect(refused).toEqual([403, 'forbidden', 'project'])
  })

  test('what a project’s agents are told is changed with scope approve; a draft needs write', async () => {
    const { id } = await put('review')
    const writer = await memberKey('anna', 'write')
    const both = await memberKey('anna', 'write', 'approve')
    await add(id, 'Draft.', {}, writer)
    const acts: [string, string, object][] = [
      ['POST', `/v1/skills/${id}/versions`, { source: inline('New.'), activate: true }],
      ['POST', `/v1/skills/${id}/versions/1/state`, { state: 'active', reason: 'r' }],
      ['POST', `/v1/skills/${id}/rollback`, { version: 1, reason: 'r' }],
      ['PUT', `/v1/skills/${id}/attachments/agent/a`, {}],
      ['DELETE', `/v1/skills/${id}/attachments/agent/a`, {}],
    ]
    for (const [method, path, body] of acts)
      expect([path, ...(await refusal(method, path, body, writer)).slice(0, 2)]).toEqual([
        ...[path, 403, 'forbidden'],
      ])
    expect(await current(id)).toEqual([null, null, null])
    await ok('POST', `/v1/skills/${id}/versions/1/state`, { state: 'active', reason: 'r' }, both)
    expect(await current(id)).toEqual([1, 'active', 'Draft.'])
  })

  test('the list is newest first, by cursor and filters, and others’ rows change nothing in it', async () => {
    const anna = await memberKey('anna', 'write')
    const made: Record<string, string> = {}
    for (const [name, more] of [
      ['one', {}],
      ['two', { project: 'shop' }],
      ['three', { scope: 'personal' }],
    ] as const) {
      made[name] = (await put(name, more)).id
      app.pass(1000)
    }
    await put('hers', { scope: 'personal' }, anna)
    await put('theirs', {}, stranger)
    await add(made['one']!, 'One.', { activate: true })
    await add(made['two']!, 'Two.')
    await add(made['three']!, 'Three.', { activate: true })
    await ok('POST', `/v1/skills/${made['three']}/versions/1/state`, {
      ...{ state: 'deprecated', reason: 'r' },
    })
    await ok('PUT', `/v1/skills/${made['two']}/attachments/agent/coder`)
    const seen = async (query = '') =>
      (await ok('GET', `/v1/skills${query}`)).items.map(({ name }: { name: string }) => name)
    expect(await seen()).toEqual(['three', 'two', 'one'])
    expect(await seen('?project=shop')).toEqual(['two'])
    expect(await seen('?scope=project')).toEqual(['two', 'one'])
    expect(await seen('?scope=personal')).toEqual(['three'])
    expect(await seen('?state=active')).toEqual(['one'])
    expect(await seen('?targetType=agent')).toEqual(['two'])
    expect(await seen('?targetKey=coder')).toEqual(['two'])
    expect(await seen('?targetType=agent&targetKey=other')).toEqual([])
    const first = await ok('GET', '/v1/skills?limit=2')
    const rest = await ok('GET', `/v1/skills?limit=2&cursor=${first.nextCursor}`)
    expect([rest.items.map(({ name }: { name: string }) => name), rest.nextCursor]).toEqual([
      ['one'],
      null,
    ])
    expect(await refusal('GET', '/v1/skills?cursor=x')).toEqual([400, 'invalid_request', 'cursor'])
  })
})
