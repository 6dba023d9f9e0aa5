import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { loadPolicyFor } from '../../src/core/registry/policies/policies.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
const path = '/v1/policies'
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

const yaml = (name: string, decision = 'ask') => `# a policy
name: ${name}
rules:
  - match: { category: shell, command: 'npm *' }
    decision: ${decision}
`
const put = (body: object, credential = key) => app.call('PUT', path, credential, body)
/** On a busy machine libSQL may be away for a moment: then the same request again is right. */
async function putUntilTaken(body: object): ReturnType<typeof put> {
  const answer = await put(body)
  return answer.status === 503 ? putUntilTaken(body) : answer
}
const outcome = async (...call: Parameters<TestApp['call']>) => {
  const { status, json } = await app.call(...call)
  return [status, json?.error?.code]
}
const load = async (project: string) => {
  const loaded = await loadPolicyFor(libsql.db(), organisationId, project)
  return loaded && `${loaded.name}@${loaded.version}`
}

describe('[POLS1] versions', () => {
  test('a policy is stored as it was sent, and a changed one is the next version', async () => {
    const first = await put({ source: yaml('careful') })
    expect([first.status, first.json]).toEqual([
      200,
      {
        project: null,
        version: 1,
        name: 'careful',
        format: 'yaml',
        extends: 'sandbox-default@2',
        removed: false,
        createdBy: keyId,
        createdAt: app.deps.now(),
        source: yaml('careful'),
        warnings: [
          'Some commands will ask a person, such as "npm test", "npm run build" (careful@1#0)',
        ],
      },
    ])
    const json = '{"name":"loose","rules":[]}'
    const second = await put({ source: json, format: 'json' })
    expect(second.json).toMatchObject({ version: 2, name: 'loose', format: 'json', source: json })
    const old = await app.call('GET', `${path}/versions/1`, key)
    const { warnings: _, ...stored } = first.json
    expect(old.json).toEqual(stored)
  })

  test('the same document again is the same version, whoever sends it', async () => {
    const first = await put({ source: yaml('careful') })
    app.pass(1000)
    const other = (await app.makeKey(organisationId, 'admin')).secret
    const again = await put({ source: yaml('careful'), expectedVersion: 0 }, other)
    expect([again.status, again.json]).toEqual([200, first.json])
    const { json } = await app.call('GET', `${path}/versions`, key)
    expect(json.items).toHaveLength(1)
  })

  test('each project counts its own, and the list shows what counts today', async () => {
    await put({ source: yaml('b1'), project: 'bank' })
    await put({ source: yaml('s1'), project: 'shop' })
    await put({ source: yaml('o1') })
    await put({ source: yaml('s2'), project: 'shop' })
    const seen = async (query = '') => {
      const { json } = await app.call('GET', `${path}${query}`, key)
      const names = json.items.map((item: { name: string }) => item.name)
      return [names, json.nextCursor] as const
    }
    expect(await seen()).toEqual([['o1', 'b1', 's2'], null])
    const [first, cursor] = await seen('?limit=1')
    const [second, next] = await seen(`?limit=1&cursor=${cursor}`)
    const [third, end] = await seen(`?limit=1&cursor=${next}`)
    expect([first, second, third, end]).toEqual([['o1'], ['b1'], ['s2'], null])
    const { json } = await app.call('GET', path, key)
    expect(json.items[0]).not.toHaveProperty('source')
    await app.call('DELETE', `${path}?project=bank`, key)
    expect(await seen()).toEqual([['o1', 's2'], null])
  })

  test('versions are listed newest first, by cursor, removals too', async () => {
    for (const name of ['one', 'two', 'three']) await put({ source: yaml(name), project: 'shop' })
    await app.call('DELETE', `${path}?project=shop`, key)
    const list = `${path}/versions?project=shop&limit=3`
    const first = await app.call('GET', list, key)
    const numbers = (items: { version: number; removed: boolean }[]) =>
      items.map(({ version, removed }) => (removed ? -version : version))
    expect(numbers(first.json.items)).toEqual([-4, 3, 2])
    const rest = await app.call('GET', `${list}&cursor=${first.json.nextCursor}`, key)
    expect([numbers(rest.json.items), rest.json.nextCursor]).toEqual([[1], null])
    expect((await app.call('GET', `${path}/versions`, key)).json.items).toEqual([])
  })

  test('a wrong cursor, project or version is refused', async () => {
    for (const query of ['?cursor=1', '?cursor=p.A', '/versions?cursor=p.', '/versions?project=A'])
      expect(await outcome('GET', `${path}${query}`, key)).toEqual([400, 'invalid_request'])
    for (const version of ['0', '-1', '1.5', 'x', '99', '99999999999'])
      expect(await outcome('GET', `${path}/versions/${version}`, key)).toEqual([404, 'not_found'])
  })
})

describe('[POLS2] two writers', () => {
  test('whoever knows an older version is refused, with the newest', async () => {
    await put({ source: yaml('one'), expectedVersion: 0 })
    await put({ source: yaml('two'), expectedVersion: 1 })
    const late = await put({ source: yaml('three'), expectedVersion: 1 })
    expect([late.status, late.json.error.code]).toEqual([409, 'wrong_state'])
    expect(late.json.error.message).toContain('its newest version is 2')
    expect(await load('any')).toBe('two@2')
  })

  test('at once: every version is one of them, none is lost, and of those who expect the same one wins', async () => {
    const sources = Array.from({ length: 6 }, (_, n) => yaml(`p${n}`))
    const answers = await Promise.all(sources.map((source) => putUntilTaken({ source })))
    expect(answers.map(({ json }) => json.source)).toEqual(sources)
    const { json } = await app.call('GET', `${path}/versions`, key)
    const versions: number[] = json.items.map(({ version }: { version: number }) => version)
    expect(versions).toEqual(versions.map((_, index) => versions.length - index))
    const given = answers.map((answer) => answer.json.version)
    expect(new Set(given).size).toBe(sources.length)

    const expectedVersion = versions.length
    const race = Array.from({ length: 6 }, (_, n) => ({ source: yaml(`q${n}`), expectedVersion }))
    const outcomes = await Promise.all(race.map(putUntilTaken))
    const statuses = outcomes.map(({ status }) => status)
    expect(statuses.filter((status) => status === 200)).toHaveLength(1)
    expect(statuses.filter((status) => status === 409)).toHaveLength(5)
  })
})

describe('[POLS3] a document that is not valid', () => {
  test('is refused with the line, the column and the field of every mistake, and nothing is stored', async () => {
    const source = `name: careful
rules:
  - match: { category: shell }
    decision: allow
  - match:
      category: nonsense
    decision: maybe
`
    const answer = await put({ source })
    expect([answer.status, answer.json.error.code]).toEqual([422, 'unprocessable'])
    const paths = answer.json.error.details.map((detail: { path: string }) => detail.path)
    expect(paths).toEqual([
      'line 6, column 7 rules[1].match.category',
      'line 7, column 5 rules[1].decision',
    ])
    expect(answer.json.error.message).toContain('line 6, column 7')
    expect((await app.call('GET', path, key)).json.items).toEqual([])
  })

  test.each([
    ['no document', '[]', 'yaml'],
    ['no name', 'rules: []', 'yaml'],
    ['a built-in name', yaml('sandbox-default'), 'yaml'],
    ['broken YAML', 'name: [', 'yaml'],
    ['YAML that is said to be JSON', 'name: x', 'json'],
    ['an unknown field', 'name: x\nsurprise: 1', 'yaml'],
    ['aliases', 'name: x\nrules: &a []\ngroups: *a', 'yaml'],
  ])('%s', async (_, source, format) => {
    const answer = await put({ source, format })
    expect([answer.status, answer.json.error.code]).toEqual([422, 'unprocessable'])
    expect(answer.json.error.details[0].path).toMatch(/^line \d+, column \d+/)
  })

  test('too large or empty is refused before it is read', async () => {
    for (const source of ['', 'x'.repeat(256 * 1024 + 1)])
      expect(await outcome('PUT', path, key, { source })).toEqual([400, 'invalid_request'])
    for (const body of [{}, { source: 1 }, { source: yaml('x'), format: 'toml' }])
      expect(await outcome('PUT', path, key, body)).toEqual([400, 'invalid_request'])
  })
})

describe('[POLS4] what counts for a session', () => {
  test("is the project's newest, else the organisation's, else none", async () => {
    expect(await load('shop')).toBeNull()
    await put({ source: yaml('whole') })
    await put({ source: yaml('own'), project: 'shop' })
    await put({ source: yaml('own', 'deny'), project: 'shop' })
    expect([await load('shop'), await load('bank')]).toEqual(['own@2', 'whole@1'])
    const removed = await app.call('DELETE', `${path}?project=shop`, key)
    expect([removed.status, removed.json]).toEqual([
      200,
      expect.objectContaining({ project: 'shop', version: 3, removed: true, source: null }),
    ])
    expect(await load('shop')).toBe('whole@1')
    await app.call('DELETE', path, key)
    expect(await load('shop')).toBeNull()
    await put({ source: yaml('own', 'deny'), project: 'shop' })
    expect(await load('shop')).toBe('own@4')
  })

  test('comes read, with its version', async () => {
    await put({ source: yaml('whole') })
    const loaded = await loadPolicyFor(libsql.db(), organisationId, 'shop')
    expect(loaded).toMatchObject({
      name: 'whole',
      version: 1,
      project: null,
      policy: { name: 'whole', version: 1, rules: [{ decision: 'ask' }] },
    })
  })

  test('a stored document that can no longer be read is refused, not skipped', async () => {
    await put({ source: yaml('whole') })
    await libsql.db().batch([
      {
        sql: `update policies set source = 'name: [' where organisation_id = ?`,
        values: [organisationId],
      },
    ])
    await expect(load('shop')).rejects.toMatchObject({ code: 'unprocessable' })
  })

  test('removing what is not there is not found', async () => {
    const remove = () => outcome('DELETE', path, key)
    expect(await remove()).toEqual([404, 'not_found'])
    await put({ source: yaml('whole') })
    expect([await remove(), await remove()]).toEqual([
      [200, undefined],
      [404, 'not_found'],
    ])
  })
})

describe('[POLS5] guards', () => {
  test('reading and trying needs read, changing needs admin', async () => {
    await put({ source: yaml('whole') })
    const reader = (await app.makeKey(organisationId, 'read')).secret
    const writer = (await app.makeKey(organisationId, 'write', 'approve')).secret
    for (const at of [path, `${path}/versions`, `${path}/versions/1`])
      expect(await outcome('GET', at, reader)).toEqual([200, undefined])
    const check = { source: yaml('x') }
    expect(await outcome('POST', `${path}/check`, reader, check)).toEqual([200, undefined])
    expect(await outcome('PUT', path, writer, check)).toEqual([403, 'forbidden'])
    expect(await outcome('DELETE', path, writer)).toEqual([403, 'forbidden'])
  })

  test('another organisation sees and changes nothing of it', async () => {
    await put({ source: yaml('whole'), project: 'shop' })
    const query = '?project=shop'
    expect((await app.call('GET', path, stranger)).json.items).toEqual([])
    expect((await app.call('GET', `${path}/versions${query}`, stranger)).json.items).toEqual([])
    expect(await outcome('GET', `${path}/versions/1${query}`, stranger)).toEqual([404, 'not_found'])
    expect(await outcome('DELETE', `${path}${query}`, stranger)).toEqual([404, 'not_found'])
    const theirs = await put({ source: yaml('theirs'), project: 'shop' }, stranger)
    expect(theirs.json.version).toBe(1)
    expect(await load('shop')).toBe('whole@1')
  })
})

describe('[POLS6] a check', () => {
  test('decides given requests and stores nothing', async () => {
    const { status, json } = await app.call('POST', `${path}/check`, key, {
      source: yaml('trial', 'deny'),
      requests: [
        { category: 'shell', command: 'npm install' },
        { category: 'shell', command: 'ls' },
        { category: 'read', paths: ['/home/user/workspace/src/../a.ts'] },
        { category: 'read', paths: ['/etc/../etc/passwd'] },
      ],
    })
    expect(status).toBe(200)
    expect(json).toMatchObject({ name: 'trial', rules: 1 })
    const decided = json.decisions.map((item: { decision: string; rule: string }) => [
      item.decision,
      item.rule,
    ])
    expect(decided).toEqual([
      ['deny', 'trial@1#0'],
      ['allow', 'sandbox-default@2#workspace'],
      ['allow', 'sandbox-default@2#workspace'],
      ['deny', 'boundary'],
    ])
    expect((await app.call('GET', path, key)).json.items).toEqual([])
  })

  test('takes overrides, and refuses what is no request or no policy', async () => {
    const check = (body: object) => app.call('POST', `${path}/check`, key, body)
    const request = { category: 'shell', command: 'ls' }
    const overridden = await check({
      source: 'name: x\nextends: none',
      requests: [request],
      overrides: { agent: { shell: 'allow' } },
    })
    expect(overridden.json.decisions[0].decision).toBe('allow')
    for (const requests of [
      [{ category: 'nonsense' }],
      [{ category: 'read', paths: ['relative'] }],
      [{ ...request, surprise: 1 }],
      Array.from({ length: 101 }, () => request),
    ])
      expect((await check({ source: 'name: x', requests })).status).toBe(400)
    expect((await check({ source: 'name: [' })).status).toBe(422)
  })
})

describe('[POL31] [POL32] the judge behind POST /v1/policies/check', () => {
  const check = (body: object) => app.call('POST', '/v1/policies/check', key, body)
  const samples = (...commands: string[]) =>
    commands.map((command) => ({ category: 'shell', tool: 'bash', command }))
  const decided = (json: { decisions: { decision: string }[] }) =>
    json.decisions.map(({ decision }) => decision)

  test('decides as a session in that enclosure would, and says which', async () => {
    const requests = samples(
      'frobnicate',
      'cat ${x:-/etc/hosts}',
      'rm -rf x',
      'n=.en; cat ${n}v',
      'git fetch https://a.example/x',
    )
    const none = await check({ source: 'name: team', requests })
    expect(decided(none.json)).toEqual(['ask', 'deny', 'ask', 'deny', 'ask'])
    expect(none.json.decisions[0].enclosure).toBe('none')
    const full = await check({ source: 'name: team', requests, enclosure: 'full' })
    expect(decided(full.json)).toEqual(['allow', 'deny', 'ask', 'deny', 'ask'])
    expect(full.json.decisions[0]).toMatchObject({
      enclosure: 'full',
      rule: 'sandbox-default@2#enclosed',
    })
    const strict = await check({
      source: 'name: team\nextends: strict',
      requests,
      enclosure: 'full',
    })
    expect(decided(strict.json)).toEqual(['ask', 'deny', 'ask', 'deny', 'ask'])
  })

  test('[POL36] more than 16 Ki characters of commands, signs or patterns without end, and too much work are refused', async () => {
    const long = `perl -e '${'open '.repeat(800)}'`
    const five = Array.from({ length: 5 }, () => long)
    const many = await check({ source: 'name: x', requests: samples(...five) })
    expect([many.status, many.json.error.code]).toEqual([400, 'invalid_request'])
    expect(JSON.stringify(many.json)).toContain('16384 characters together')
    for (const sign of ['"', ',']) {
      const signs = await check({ source: sign.repeat(250_000), requests: [] })
      expect([signs.status, JSON.stringify(signs.json)]).toEqual([
        422,
        expect.stringContaining('at most 30000'),
      ])
    }
    const one = await check({ source: 'name: x', requests: samples('x'.repeat(4097)) })
    expect([one.status, one.json.error.code]).toEqual([400, 'invalid_request'])
    const most = await check({ source: 'name: x', requests: samples(...five.slice(1)) })
    expect(decided(most.json)).toEqual(['ask', 'ask', 'ask', 'ask'])
    const patterns = (count: number) => {
      const list = (length: number) => Array.from({ length }, (_, n) => `**/q${n}`)
      const rules = Array.from({ length: count / 100 }, () => ({
        ...{ match: { path: list(100) }, decision: 'deny' },
      }))
      return JSON.stringify({ name: 'x', rules })
    }
    const tooMany = await check({ source: patterns(1100), format: 'json', requests: [] })
    expect([tooMany.status, JSON.stringify(tooMany.json)]).toEqual([
      422,
      expect.stringContaining('at most 1000 patterns in all its rules, and has 1100'),
    ])
    const paths = (length: number) => [{ category: 'read', paths: [`/${'a'.repeat(length - 1)}`] }]
    const source = patterns(1000)
    const tooMuch = await check({ source, format: 'json', requests: paths(1001) })
    expect([tooMuch.status, JSON.stringify(tooMuch.json)]).toEqual([
      422,
      expect.stringContaining('at most 1000 characters together'),
    ])
    expect((await check({ source, format: 'json', requests: paths(1000) })).status).toBe(200)
  })
})
