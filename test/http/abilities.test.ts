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

const validate = (body: object) => app.call('POST', '/v1/abilities/validate', key, body)

describe('[ABL1] [ABL2] POST /v1/abilities/validate', () => {
  test('says the order of the steps of a good one', async () => {
    const source = `
description: d
tags: [a]
steps:
  - { id: late, run: x, needs: [early] }
  - { id: early, run: x }
`
    expect((await validate({ source, path: 'deploy/ability.yaml' })).json).toMatchObject({
      valid: true,
      errors: [],
      warnings: ['Nobody reads the field "tags"'],
      ability: {
        name: 'deploy',
        order: ['early', 'late'],
        definition: { description: 'd', settings: { enforcement: 'strict' } },
      },
    })
  })

  test('names each mistake of a bad one with its place', async () => {
    const source =
      'name: x\ndescription: d\nsteps:\n  - { id: a, run: x, needs: [b], when: "inputs.y" }\n'
    const { status, json } = await validate({ source })
    expect([status, json.valid, json.ability]).toEqual([200, false, null])
    expect(json.errors).toMatchObject([
      {
        path: 'steps.0.needs.0',
        line: 4,
        code: 'MISSING_DEPENDENCY',
        message: 'There is no step "b"',
      },
      {
        path: 'steps.0.when',
        line: 4,
        code: 'INVALID_CONDITION',
        message: 'There is no input "y"',
      },
      { path: 'steps.0.when', line: 4, code: 'INVALID_CONDITION' },
    ])
  })

  test('needs a source', async () => {
    const { status, json } = await validate({})
    expect([status, json.error.code]).toEqual([400, 'invalid_request'])
  })
})

const definition = (run = 'true', name = 'deploy') =>
  `name: ${name}\ndescription: Ships it\nsteps:\n  - { id: a, run: '${run}' }\n`
const folder = (run?: string, name?: string) => [
  { path: 'ability.yaml', content: definition(run, name) },
  { path: 'scripts/go.sh', content: 'echo "go"\n' },
]
const put = (body: object, credential = key) => app.call('PUT', '/v1/abilities', credential, body)
const get = (path: string, credential = key) => app.call('GET', `/v1/abilities${path}`, credential)

describe('[ABL13] a stored ability', () => {
  test('is kept whole, in versions; the same folder again is the same version', async () => {
    const made = await put({ files: folder() })
    expect([made.status, made.json.version, made.json.warnings]).toEqual([200, 1, []])
    expect((await put({ files: folder().toReversed() })).json).toEqual(made.json)
    const next = await put({ files: folder('false') })
    expect([next.json.version, next.json.hash === made.json.hash]).toEqual([2, false])
    const changed = [folder('false')[0], { path: 'scripts/go.sh', content: 'echo "gone"\n' }]
    expect((await put({ files: changed })).json.version).toBe(3)
    const first = (await get('/deploy?version=1')).json
    expect(first).toMatchObject({ version: 1, hash: made.json.hash, files: folder() })
    expect(first.definition.steps).toMatchObject([{ id: 'a', type: 'script', run: 'true' }])
    expect((await get('/deploy')).json).toMatchObject({ version: 3, files: changed })
    const versions = (await get('/deploy/versions?limit=2')).json
    expect(versions.items.map(({ version }: { version: number }) => version)).toEqual([3, 2])
    const rest = (await get(`/deploy/versions?cursor=${versions.nextCursor}`)).json
    expect(rest.items.map(({ version }: { version: number }) => version)).toEqual([1])
  })

  test('is called by the path of its folder, with slashes', async () => {
    const files = [{ path: 'ability.yml', content: 'description: d\nsteps: [{ id: a, run: x }]\n' }]
    expect((await put({ path: 'team/release', files })).json.name).toBe('team/release')
    expect((await get('/team%2Frelease')).json).toMatchObject({ name: 'team/release', files })
    const flat = [{ path: 'lint.yaml', content: files[0]?.content }]
    expect((await put({ files: flat })).json.name).toBe('lint')
  })

  test('is refused with every mistake', async () => {
    const bad = [
      { path: 'ability.yaml', content: definition('{{inputs.x}}').replace('id: a', 'id: A') },
    ]
    const { status, json } = await put({ files: bad })
    expect([status, json.error.code]).toEqual([422, 'unprocessable'])
    expect(json.error.message).toContain('line 4, column 7 steps.0.id: SCHEMA_ERROR')
    for (const files of [
      [{ path: 'go.sh', content: 'x' }],
      [{ path: 'a/ability.yaml', content: definition() }],
      [
        { path: 'a.yaml', content: definition() },
        { path: 'b.yaml', content: definition() },
      ],
      [folder()[0], folder()[0]],
      [
        folder()[0],
        ...Array.from({ length: 9 }, (_, at) => ({ path: `f${at}`, content: 'x'.repeat(500_000) })),
      ],
    ])
      expect((await put({ files })).status).toBe(422)
    for (const path of ['../x', '/x', 'a//b', 'a\\b', './x'])
      expect((await put({ files: [folder()[0], { path, content: 'x' }] })).status).toBe(400)
    expect((await get('/a')).status).toBe(404)
  })

  test('[ABL6] that names an ability which there is not is stored with a warning', async () => {
    const content = 'name: outer\ndescription: d\nsteps: [{ id: a, workflow: inner }]\n'
    const files = [{ path: 'ability.yaml', content }]
    const nested = { project: 'nested', files }
    expect((await put(nested)).json.warnings).toEqual(['No ability "inner" is stored yet'])
    await put({ files: folder('x', 'inner') }, stranger)
    expect((await put(nested)).json.warnings).toHaveLength(1)
    await put({ files: folder('x', 'inner') })
    expect((await put(nested)).json).toMatchObject({ version: 1, warnings: [] })
  })

  test('[ABL6] [ABL44] agents and skills that nobody has are warned of: when it is put, when it is checked, and when all are', async () => {
    const project = 'named'
    const content =
      'name: names\ndescription: d\nsteps:\n  - { id: a, agent: reviewer, prompt: x }\n  - { id: b, agent: build, prompt: x }\n' +
      '  - { id: c, skill: docs }\n  - { id: d, workflow: absent }\n  - { id: e, workflow: names }\n'
    const [agent, skill, ability] = [
      'No agent "reviewer" is registered; OpenCode or the workspace must have it',
      'No skill "docs" is registered yet',
      'No ability "absent" is stored yet',
    ]
    const told = async (of: object = { project }) =>
      (await validate({ source: content, ...of })).json
    expect(await told()).toMatchObject({ valid: true, warnings: [agent, skill, ability] })
    const body = { project, files: [{ path: 'ability.yaml', content }] }
    expect((await put(body)).json.warnings).toEqual([agent, skill, ability])
    const all = async (query = `?project=${project}&validate=true`) =>
      (await get(query)).json.items.map((row: { checked?: object }) => row.checked)
    expect(await all(`?project=${project}`)).toEqual([undefined])
    expect(await all()).toEqual([{ valid: true, errors: [], warnings: [agent, skill, ability] }])

    const other = { project: 'elsewhere' }
    const reviewer = { name: 'reviewer', description: 'Reviews' }
    await app.call('PUT', '/v1/agents', key, { ...other, ...reviewer })
    await app.call('PUT', '/v1/skills', stranger, { project, name: 'docs', description: 'd' })
    await put({ ...other, files: folder('x', 'absent') })
    expect((await told()).warnings).toEqual([agent, skill, ability])
    // One of the whole organisation may run in any of its projects.
    expect((await told({})).warnings).toEqual([skill])
    expect((await app.call('PUT', '/v1/agents', key, { project, ...reviewer })).status).toBe(200)
    await app.call('PUT', '/v1/skills', key, { project, name: 'docs', description: 'd' })
    expect((await told()).warnings).toEqual([ability])
    await put({ files: folder('x', 'absent') })
    expect(await all()).toEqual([{ valid: true, errors: [], warnings: [] }])
    await app.call('DELETE', '/v1/abilities/absent', key)
    expect((await told()).warnings).toEqual([ability])
  })

  test('of three megabytes is taken and given back', async () => {
    const large = Array.from({ length: 6 }, (_, at) => ({
      path: `data/${at}`,
      content: '"'.repeat(500_000),
    }))
    const files = [{ path: 'ability.yaml', content: definition('x', 'large') }, ...large]
    expect((await put({ files })).status).toBe(200)
    expect((await get('/large')).json.files).toEqual(files)
  })

  test('is changed by one of two who know the same version', async () => {
    const [one, two] = await Promise.all([
      put({ files: folder('one', 'race'), expectedVersion: 0 }),
      put({ files: folder('two', 'race'), expectedVersion: 0 }),
    ])
    expect(new Set([one.status, two.status])).toEqual(new Set([200, 409]))
    expect(
      (await put({ files: folder('three', 'race'), expectedVersion: 0 })).json.error,
    ).toMatchObject({
      code: 'wrong_state',
      details: [{ path: 'expectedVersion', message: 'The newest is 1' }],
    })
  })
})

describe('[ABL14] lists of abilities', () => {
  test('have what counts today, by name, in pages; a removed one is gone and can come back', async () => {
    const project = 'listed'
    for (const name of ['c', 'a/z', 'a', 'b']) await put({ project, files: folder('x', name) })
    await put({ project, files: folder('y', 'b') })
    expect(
      (await app.call('DELETE', `/v1/abilities/c?project=${project}`, key)).json,
    ).toMatchObject({
      name: 'c',
      version: 2,
      removed: true,
    })
    const first = (await get(`?project=${project}&limit=2`)).json
    const second = (
      await get(`?project=${project}&limit=2&cursor=${encodeURIComponent(first.nextCursor)}`)
    ).json
    const names = [...first.items, ...second.items].map(({ name, version }) => `${name}@${version}`)
    expect([names, second.nextCursor]).toEqual([['a@1', 'a/z@1', 'b@2'], null])
    expect((await get(`/c?project=${project}`)).json.error.message).toBe('There is no ability "c"')
    expect((await get(`/c?project=${project}&version=2`)).json).toMatchObject({
      removed: true,
      files: [],
    })
    expect((await app.call('DELETE', `/v1/abilities/c?project=${project}`, key)).status).toBe(404)
    expect((await put({ project, files: folder('x', 'c') })).json.version).toBe(3)
  })

  test('are separate by organisation and project', async () => {
    await put({ project: 'mine', files: folder('x', 'apart') })
    expect((await get('/apart')).status).toBe(404)
    expect((await get('/apart?project=other')).status).toBe(404)
    expect((await get('/apart?project=mine', stranger)).status).toBe(404)
    expect((await get('?project=mine', stranger)).json.items).toEqual([])
    expect((await app.call('DELETE', '/v1/abilities/apart?project=mine', stranger)).status).toBe(
      404,
    )
    expect(
      (await put({ project: 'mine', files: folder('other', 'apart') }, stranger)).json.version,
    ).toBe(1)
  })

  test('show a key that is limited to projects only those', async () => {
    await put({ project: 'hers', files: folder('x', 'limited') })
    const limits = { projects: ['his'] }
    const made = await app.call('POST', '/v1/keys', key, { name: 'k', scopes: ['read'], limits })
    const limited = made.json.secret as string
    expect((await get('?project=hers', limited)).status).toBe(403)
    expect((await get('/limited?project=hers', limited)).status).toBe(403)
    expect((await get('?project=his', limited)).json.items).toEqual([])
    expect((await get('', limited)).status).toBe(200)
  })
})
