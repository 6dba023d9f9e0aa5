import { beforeAll, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let key: string
let stranger: string
beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  key = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})

const call = (method: string, path: string, body?: unknown, credential = key) =>
  app.call(method, path, credential, body)
const put = (body: object, credential = key) => call('PUT', '/v1/agents', body, credential)
const stored = async (body: object, credential = key) => {
  const { status, json } = await put(body, credential)
  expect([status, json.error]).toEqual([200, undefined])
  return json
}
const get = async (path: string, credential = key) =>
  (await call('GET', path, undefined, credential)).json
const names = async (query: string, credential = key) =>
  (await get(`/v1/agents?${query}`, credential)).items.map(({ name }: { name: string }) => name)
const refused = ({ status, json }: Awaited<ReturnType<typeof call>>) => [
  ...[status, json?.error?.code, json?.error?.details?.[0]?.path],
]
const colleague = async (...scopes: string[]) =>
  (await call('POST', '/v1/keys', { name: 'k', owner: `m${Math.random()}`, scopes })).json.secret

const reviewer = {
  name: 'code-reviewer',
  description: 'Reviews code for bugs',
  instructions: { kind: 'inline', value: 'Look twice.' },
  capabilities: ['code-review', 'security-review'],
  workflows: ['sdd:verify'],
  permissions: { read: 'allow', edit: 'deny', shell: 'ask' },
  memory: { scopes: ['project', 'personal'] },
  skills: ['code-review', { name: 'secure-coding', version: '1.2.0' }],
  adapters: { opencode: { model: 'x/y', nested: [{ any: null }] }, 'claude-code': {} },
}

test('[AGT2] [AGT3] the parent is the one of the same scope, whichever else has its name', async () => {
  const place = { project: 'agt2-scopes' }
  const shared = await stored({ ...place, name: 'lead' })
  const own = await stored({ ...place, name: 'lead', scope: 'personal' })
  const helper = { ...place, name: 'helper', mode: 'subagent', parent: 'lead' }
  expect((await stored({ ...helper, scope: 'personal' })).parentId).toBe(own.id)
  expect((await stored(helper)).parentId).toBe(shared.id)
  const children = async (id: string) =>
    (await get(`/v1/agents/${id}/subagents`)).items.map(({ scope }: { scope: string }) => scope)
  expect([await children(shared.id), await children(own.id)]).toEqual([['project'], ['personal']])
})

describe('[AGT1] storing by project, scope and name', () => {
  test('gives a stable id, and back what was stored', async () => {
    const made = await stored({ project: 'agt1', ...reviewer })
    expect(made).toMatchObject({
      ...reviewer,
      id: expect.stringMatching(/^agt_[0-9a-z]{20}$/),
      skills: [
        { name: 'code-review', version: null },
        { name: 'secure-coding', version: '1.2.0' },
      ],
      ...{ project: 'agt1', scope: 'project', mode: 'agent', parent: null, parentId: null },
      ...{ revision: 1, model: null, archivedAt: null },
    })
    expect(await get(`/v1/agents/${made.id}`)).toEqual(made)
    expect(await get('/v1/agents/by-name/code-reviewer?project=agt1')).toEqual(made)
  })

  test('the same again is the same revision, whatever the order of its fields', async () => {
    const made = await stored({ project: 'agt1b', ...reviewer })
    app.pass(1000)
    const turned = Object.fromEntries(
      Object.entries({ project: 'agt1b', ...reviewer }).toReversed(),
    )
    expect(await stored(turned)).toEqual(made)
    expect((await get(`/v1/agents/${made.id}/revisions`)).items).toHaveLength(1)
  })

  test('a change is the next revision under the same id, and each stays readable', async () => {
    const made = await stored({ project: 'agt1c', name: 'a', description: 'first' })
    app.pass(1000)
    const next = await stored({ project: 'agt1c', name: 'a', description: 'second' })
    expect([next.id, next.revision, next.createdAt]).toEqual([made.id, 2, made.createdAt])
    expect(next.updatedAt).toBe(made.updatedAt + 1000)
    const back = await stored({ project: 'agt1c', name: 'a', description: 'first' })
    expect([back.revision, back.sha256]).toEqual([3, made.sha256])
    const at = `/v1/agents/${made.id}/revisions`
    expect(await get(`${at}/1`)).toMatchObject({ revision: 1, description: 'first' })
    expect(await get(`${at}/2`)).toMatchObject({ description: 'second', sha256: next.sha256 })
    expect(refused(await call('GET', `${at}/4`)).slice(0, 2)).toEqual([404, 'not_found'])
    const first = await get(`${at}?limit=1`)
    const rest = await get(`${at}?limit=2&cursor=${first.nextCursor}`)
    const revisions = [...first.items, ...rest.items].map(({ revision }) => revision)
    expect([revisions, rest.nextCursor]).toEqual([[1, 2, 3], null])
    const other = await stored({ project: 'agt1c', name: 'b', description: 'of another' })
    expect(await get(`/v1/agents/${other.id}/revisions/1`)).toMatchObject({
      description: 'of another',
    })
    expect(await get(`${at}/1`)).toMatchObject({ description: 'first' })
    expect(Object.keys(first.items[0]).toSorted()).toEqual([
      ...['createdAt', 'createdBy', 'revision', 'sha256'],
    ])
  })

  test('twenty at once of one name are one agent, and every definition is a revision', async () => {
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        put({ project: 'agt1d', name: 'busy', description: `${at}` }),
      ),
    )
    expect(all.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200))
    expect(new Set(all.map(({ json }) => json.id)).size).toBe(1)
    const { id } = await get('/v1/agents/by-name/busy?project=agt1d')
    const { items } = await get(`/v1/agents/${id}/revisions`)
    expect(items.map(({ revision }: { revision: number }) => revision)).toEqual(
      Array.from({ length: 20 }, (_, at) => at + 1),
    )
    expect(new Set(items.map(({ sha256 }: { sha256: string }) => sha256)).size).toBe(20)
  })

  test.each([
    ['name', { name: 'Upper' }],
    ['name', { name: 'build' }],
    ['name', { name: 'a.b' }],
    ['project', { project: 'Upper' }],
    ['scope', { scope: 'global' }],
    ['instructions.value', { instructions: { kind: 'inline', value: '' } }],
    ['instructions.value', { instructions: { kind: 'path', value: '../secret.md' } }],
    ['instructions.value', { instructions: { kind: 'path', value: '/etc/passwd' } }],
    ['capabilities', { capabilities: ['a', 'a'] }],
    ['workflows.0', { workflows: ['a:b:c'] }],
    ['permissions.shell', { permissions: { shell: 'maybe' } }],
    ['permissions.anything', { permissions: { anything: 'ask' } }],
    ['adapters', { adapters: { opencode: { text: 'x'.repeat(32_768) } } }],
    ['adapters', { adapters: { deep: { a: JSON.parse('['.repeat(40) + ']'.repeat(40)) } } }],
    ['provider', { provider: 'opencode' }],
  ])('refuses a wrong %s: %j', async (path, wrong) => {
    expect(refused(await put({ name: 'a', ...wrong }))).toEqual([400, 'invalid_request', path])
  })

  test('adapters as deep as twenty are kept as they are', async () => {
    const deep = { a: JSON.parse('['.repeat(18) + ']'.repeat(18)) }
    const made = await stored({ project: 'agt1e', name: 'a', adapters: { deep } })
    expect(made.adapters).toEqual({ deep })
  })

  test('the model is stored by its id, and one that is not served is refused', async () => {
    const made = await stored({ project: 'agt1f', name: 'a', model: 'Claude-Sonnet-4-6' })
    expect(made.model).toBe('claude-sonnet-4.6')
    expect(refused(await put({ name: 'a', model: 'nonsense' }))).toEqual([
      ...[422, 'unprocessable', 'model'],
    ])
  })
})

describe('[AGT2] a subagent', () => {
  const sub = { project: 'agt2', name: 'helper', mode: 'subagent', parent: 'boss' }

  test('has a parent of its project and scope, and is listed by it', async () => {
    const boss = await stored({ project: 'agt2', name: 'boss' })
    const helper = await stored(sub)
    expect(helper).toMatchObject({ mode: 'subagent', parent: 'boss', parentId: boss.id })
    await stored({ ...sub, name: 'another' })
    const page = await get(`/v1/agents/${boss.id}/subagents?limit=1`)
    expect([page.items[0].name, typeof page.nextCursor]).toEqual(['another', 'string'])
    const next = await get(`/v1/agents/${boss.id}/subagents?limit=1&cursor=${page.nextCursor}`)
    expect([next.items[0].name, next.nextCursor]).toEqual(['helper', null])
  })

  test.each([
    ['no parent', { parent: null }, [400, 'invalid_request', 'parent']],
    ['an agent with one', { mode: 'agent' }, [400, 'invalid_request', 'parent']],
    ['one that is not there', { parent: 'nobody' }, [422, 'unprocessable', 'parent']],
    ['one of another project', { project: 'agt2-other' }, [422, 'unprocessable', 'parent']],
    ['one of another scope', { scope: 'personal' }, [422, 'unprocessable', 'parent']],
    ['a subagent as parent', { name: 'x', parent: 'helper' }, [422, 'unprocessable', 'parent']],
    ['itself', { name: 'self', parent: 'self' }, [422, 'unprocessable', 'parent']],
  ])('is refused with %s', async (_, wrong, expected) => {
    await stored({ project: 'agt2', name: 'boss' })
    await stored(sub)
    expect(refused(await put({ ...sub, ...wrong }))).toEqual(expected)
  })

  test('stays a subagent, and an agent an agent', async () => {
    await stored({ project: 'agt2c', name: 'boss' })
    await stored({ ...sub, project: 'agt2c' })
    const turned = { project: 'agt2c', name: 'helper', mode: 'agent' }
    expect(refused(await put(turned))).toEqual([409, 'wrong_state', 'mode'])
  })

  test('may move to another parent', async () => {
    await stored({ project: 'agt2d', name: 'boss' })
    await stored({ ...sub, project: 'agt2d' })
    const other = await stored({ project: 'agt2d', name: 'other' })
    const moved = await stored({ ...sub, project: 'agt2d', parent: 'other' })
    expect([moved.parentId, moved.revision]).toEqual([other.id, 2])
  })
})

describe('[AGT3] whose agents they are', () => {
  test("one name in both scopes is two agents, and a personal one is its member's alone", async () => {
    const shared = await stored({ project: 'agt3', name: 'twin', description: 'shared' })
    const own = await stored({
      project: 'agt3',
      name: 'twin',
      scope: 'personal',
      description: 'own',
    })
    expect(own.id).not.toBe(shared.id)
    const other = await colleague('write')
    expect(await names('project=agt3')).toEqual(['twin', 'twin'])
    expect(await names('project=agt3', other)).toEqual(['twin'])
    expect(await names('project=agt3&scope=personal', other)).toEqual([])
    const at = `/v1/agents/${own.id}`
    for (const path of [at, `${at}/subagents`, `${at}/revisions`, `${at}/revisions/1`])
      expect(refused(await call('GET', path, undefined, other))[0]).toBe(404)
    expect(refused(await call('POST', `${at}/archive`, undefined, other))[0]).toBe(404)
    const byName = '/v1/agents/by-name/twin?project=agt3&scope=personal'
    expect(refused(await call('GET', byName, undefined, other))[0]).toBe(404)
    const theirs = await stored({ project: 'agt3', name: 'twin', scope: 'personal' }, other)
    expect(theirs.id).not.toBe(own.id)
    expect((await get(byName)).description).toBe('own')
  })

  test('another organisation sees nothing of it, and has the same names', async () => {
    const own = await stored({ project: 'agt3b', name: 'a' })
    expect(await names('project=agt3b', stranger)).toEqual([])
    expect(refused(await call('GET', `/v1/agents/${own.id}`, undefined, stranger))[0]).toBe(404)
    expect(
      refused(await call('POST', `/v1/agents/${own.id}/archive`, undefined, stranger))[0],
    ).toBe(404)
    const theirs = await stored({ project: 'agt3b', name: 'a', description: 'theirs' }, stranger)
    expect(theirs).toMatchObject({ revision: 1 })
    expect((await get(`/v1/agents/${own.id}`)).description).toBe('')
  })

  test('a key for other projects sees and stores nothing in this one', async () => {
    const own = await stored({ project: 'agt3c', name: 'a' })
    await stored({ project: 'agt3d', name: 'b' })
    const limits = { projects: ['agt3d'] }
    const made = await call('POST', '/v1/keys', { name: 'k', scopes: ['write'], limits })
    const limited = made.json.secret
    expect(refused(await call('GET', `/v1/agents/${own.id}`, undefined, limited))[0]).toBe(404)
    expect(await names('', limited)).toEqual(['b'])
    const at = '/v1/agents/by-name/a?project=agt3c'
    expect(refused(await call('GET', at, undefined, limited))[0]).toBe(404)
    expect(refused(await put({ project: 'agt3c', name: 'x' }, limited))[0]).toBe(403)
    expect((await put({ project: 'agt3d', name: 'x' }, limited)).status).toBe(200)
  })
})

describe('[AGT4] lists', () => {
  beforeAll(async () => {
    await stored({ project: 'agt4', name: 'boss', capabilities: ['plan'], workflows: ['sdd'] })
    const helper = { project: 'agt4', mode: 'subagent', parent: 'boss' }
    await stored({ ...helper, name: 'alpha', capabilities: ['plan', 'code'] })
    await stored({ ...helper, name: 'omega', workflows: ['sdd:apply'] })
    await stored({ project: 'agt4', name: 'mine', scope: 'personal', capabilities: ['code'] })
  })

  test.each([
    ['', ['alpha', 'boss', 'mine', 'omega']],
    ['scope=project', ['alpha', 'boss', 'omega']],
    ['mode=subagent', ['alpha', 'omega']],
    ['mode=agent&scope=personal', ['mine']],
    ['capability=code', ['alpha', 'mine']],
    ['capability=cod', []],
    ['workflow=sdd:apply', ['omega']],
    ['archived=true', []],
  ])('by name, filtered by "%s"', async (query, expected) => {
    expect(await names(`project=agt4&${query}`)).toEqual(expected)
  })

  test('in pages, without what may be long', async () => {
    const seen: string[] = []
    let cursor = ''
    do {
      const page = await get(`/v1/agents?project=agt4&limit=3${cursor && `&cursor=${cursor}`}`)
      seen.push(...page.items.map(({ name }: { name: string }) => name))
      expect(page.items[0]).not.toHaveProperty('instructions')
      expect(page.items[0]).not.toHaveProperty('adapters')
      cursor = page.nextCursor ?? ''
    } while (cursor !== '')
    expect(seen).toEqual(['alpha', 'boss', 'mine', 'omega'])
    const wrong = await call('GET', '/v1/agents?cursor=nonsense')
    expect(refused(wrong)).toEqual([400, 'invalid_request', 'cursor'])
  })
})

describe('[AGT5] an archived agent', () => {
  test('goes with its subagents, stays readable, and storing it brings it back under its id', async () => {
    const boss = await stored({ project: 'agt5', name: 'boss' })
    const sub = { project: 'agt5', name: 'helper', mode: 'subagent', parent: 'boss' }
    const helper = await stored(sub)
    await stored({ project: 'agt5', name: 'other' })
    const at = `/v1/agents/${boss.id}/archive`
    const archived = (await call('POST', at)).json
    expect(archived.archivedAt).toBe(app.deps.now())
    app.pass(1000)
    expect((await call('POST', at)).json).toEqual(archived)
    expect(await names('project=agt5')).toEqual(['other'])
    expect(await names('project=agt5&archived=true')).toEqual(['boss', 'helper'])
    expect((await get(`/v1/agents/${helper.id}`)).archivedAt).not.toBeNull()
    expect(refused(await put(sub))).toEqual([422, 'unprocessable', 'parent'])
    const back = await stored({ project: 'agt5', name: 'boss' })
    expect(back).toMatchObject({ id: boss.id, revision: 2, archivedAt: null })
    expect(await stored({ project: 'agt5', name: 'boss' })).toEqual(back)
    expect(await names('project=agt5')).toEqual(['boss', 'other'])
  })
})

describe('[AGT6] what is refused', () => {
  test.each([
    ['instructions', { instructions: { kind: 'inline', value: `use ghp_${'a'.repeat(36)}` } }],
    ['adapters', { adapters: { opencode: { apiKey: `sk-ant-${'a'.repeat(30)}` } } }],
    ['description', { description: `AKIA${'A'.repeat(16)}` }],
    ['adapters', { adapters: { opencode: { [`sk-ant-${'a'.repeat(30)}`]: [true, null, 1] } } }],
    ['adapters', { adapters: { opencode: { list: [{ key: [`sk-ant\\-${'a'.repeat(30)}`] }] } } }],
  ])('a secret in the %s', async (path, wrong) => {
    const answer = await put({ project: 'agt6', name: 'leaky', ...wrong })
    expect(refused(answer)).toEqual([422, 'unprocessable', path])
    expect(JSON.stringify(answer.json)).not.toMatch(/ghp_a|sk-ant-a|AKIAA/)
    expect(await names('project=agt6')).toEqual([])
  })

  test.each([
    [{ network: 'allow' }, 403],
    [{ edit: 'allow' }, 403],
    [{ secrets: 'ask' }, 403],
    [{ read: 'allow', edit: 'ask', secrets: 'deny', network: 'deny' }, 200],
  ])('permissions %j by a key that may not loosen policies: %i', async (permissions, status) => {
    const writer = await colleague('write')
    const body = { project: 'agt6b', name: 'a', permissions }
    const answer = await put(body, writer)
    expect(answer.status).toBe(status)
    if (status === 403) expect(refused(answer)[2]).toMatch(/^permissions\./)
    expect((await put(body)).status).toBe(200)
  })

  test('a subagent may say allow, since it only tightens', async () => {
    const writer = await colleague('write')
    await stored({ project: 'agt6c', name: 'boss' }, writer)
    const sub = { project: 'agt6c', name: 'helper', mode: 'subagent', parent: 'boss' }
    await stored({ ...sub, permissions: { edit: 'allow' } }, writer)
  })

  test('more than 500 names in one project and scope', async () => {
    const { id } = await stored({ project: 'agt6d', name: 'a0' })
    // The others as they would be stored, without 499 requests.
    const numbers = `with recursive n(at) as (select 1 union all select at + 1 from n where at < 499)`
    const others = {
      agents: `id || at, organisation_id, project, scope, member_id, 'a' || at, mode, parent_id, revision, created_at, updated_at, archived_at`,
      agent_revisions: `agent_id || at, revision, definition, sha256, created_by, created_at`,
    }
    for (const [table, columns] of Object.entries(others)) {
      const key = table === 'agents' ? 'id' : 'agent_id'
      const sql = `insert into ${table} ${numbers} select ${columns} from ${table}, n where ${key} = ?`
      await libsql.db().all(sql, id)
    }
    expect(refused(await put({ project: 'agt6d', name: 'more' })).slice(0, 2)).toEqual([
      ...[422, 'unprocessable'],
    ])
    expect((await put({ project: 'agt6d', name: 'a7', description: 'x' })).status).toBe(200)
    expect((await put({ project: 'agt6d', name: 'more', scope: 'personal' })).status).toBe(200)
  })
})

describe('[AGT17] what a release brings', () => {
  const shipped = async () => (await get('/v1/agents/shipped')).items
  const ship = async (project: string) => await call('POST', '/v1/agents/shipped', { project })

  test('[AGT17] are for their phases alone, and only the one that applies may edit', async () => {
    const [manager, ...phases] = await shipped()
    expect(manager).toMatchObject({
      ...{ mode: 'agent', parent: null, workflows: ['sdd'], permissions: { edit: 'ask' } },
      ...{ capabilities: ['orchestration', 'planning'] },
      memory: { scopes: ['project', 'personal'] },
    })
    for (const { name, ...own } of phases) {
      const phase = name.replace('gantry-sdd-', '')
      expect([name, own]).toMatchObject([
        name,
        {
          ...{ mode: 'subagent', parent: 'gantry-manager', workflows: [`sdd:${phase}`] },
          ...{ capabilities: [phase], memory: { scopes: ['project'] } },
        },
      ])
      expect([name, own.permissions]).toEqual([name, phase === 'apply' ? {} : { edit: 'deny' }])
    }
  })

  test('is the manager and one subagent for each phase, and only apply may edit', async () => {
    const all = await shipped()
    const phases = [
      ...['explore', 'proposal', 'spec', 'design', 'tasks', 'apply', 'verify', 'archive'],
    ]
    expect(all.map(({ name }: { name: string }) => name)).toEqual([
      ...['gantry-manager', ...phases.map((phase) => `gantry-sdd-${phase}`)],
    ])
    const [manager, ...others] = all
    expect(manager).toMatchObject({ mode: 'agent', workflows: ['sdd'] })
    for (const one of others) {
      const phase = one.name.slice('gantry-sdd-'.length)
      expect(one).toMatchObject({
        ...{ mode: 'subagent', parent: 'gantry-manager', workflows: [`sdd:${phase}`] },
        permissions: phase === 'apply' ? {} : { edit: 'deny' },
      })
      expect(one.instructions.value.length).toBeGreaterThan(200)
    }
  })

  test('is stored as agents of a project on request, once, and what the project changed stays', async () => {
    const first = await ship('agt17')
    expect(first.json.items).toMatchObject(await shipped())
    expect(first.json.items.every(({ revision }: { revision: number }) => revision === 1)).toBe(
      true,
    )
    expect((await ship('agt17')).json).toEqual(first.json)
    await stored({ project: 'agt17', name: 'gantry-manager', description: 'Ours' })
    const again = (await ship('agt17')).json.items
    expect(again[0]).toMatchObject({ description: 'Ours', revision: 2 })
    expect(again.slice(1)).toEqual(first.json.items.slice(1))
    expect(await names('project=agt17-other')).toEqual([])
  })

  test('is all or nothing: with the name of the manager taken otherwise, nothing is stored', async () => {
    const own = await stored({ project: 'agt17b', name: 'gantry-manager' })
    await call('POST', `/v1/agents/${own.id}/archive`)
    expect(refused(await ship('agt17b')).slice(0, 2)).toEqual([409, 'wrong_state'])
    expect(await names('project=agt17b')).toEqual([])
  })

  test('the phase of a task leads to its subagent', async () => {
    await ship('agt17c')
    const body = { project: 'agt17c', workflow: 'sdd', phase: 'apply-progress', mode: 'subagent' }
    const { json } = await call('POST', '/v1/agents/resolve', body)
    expect(json.candidates.map(({ agent }: { agent: { name: string } }) => agent.name)).toEqual([
      'gantry-sdd-apply',
    ])
  })
})
