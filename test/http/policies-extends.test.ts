import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { loadPolicyFor } from '../../src/core/registry/policies/policies.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
const path = '/v1/policies'
const workspace = '/home/user/workspace'
let app: TestApp
let organisationId: string
let key: string

beforeAll(() => {
  app = createTestApp({ db: libsql.db })
})
beforeEach(async () => {
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
})

const own = `name: team
rules:
  - { match: { command: npm publish* }, decision: deny }
`
const put = (body: object) => app.call('PUT', path, key, body)
const check = (body: object) => app.call('POST', `${path}/check`, key, body)
const edit = { category: 'edit', tool: 'edit', paths: [`${workspace}/src/a.ts`] }
const shell = (command: string) => ({ category: 'shell', tool: 'bash', command })

interface Decided {
  decision: string
  rule: string
}
const decide = async (source: string, ...requests: object[]) =>
  (await check({ source, requests })).json.decisions.map(({ decision, rule }: Decided) => [
    decision,
    rule,
  ])

/** As a release before documents extended anything has stored it. */
const storeOld = (source: string, name: string) =>
  libsql.db().batch([
    {
      sql: `insert into policies (organisation_id, project, version, name, format, source, created_by, created_at)
            values (?, '', 1, ?, 'yaml', ?, 'key_old', 1)`,
      values: [organisationId, name, source],
    },
  ])

describe('[POLS11] a document extends sandbox-default', () => {
  test('unless it says otherwise; its own rules come first', async () => {
    expect(await decide(own, edit, shell('npm test'), shell('npm publish'))).toEqual([
      ['allow', 'sandbox-default@2#workspace'],
      ['allow', 'sandbox-default@2#workspace'],
      ['deny', 'team@1#0'],
    ])
    expect(await decide(`extends: none\n${own}`, edit, shell('npm test'))).toEqual([
      ['ask', 'default:edit'],
      ['ask', 'default:shell'],
    ])
    expect(await decide(`extends: strict\n${own}`, edit)).toEqual([['allow', 'strict@1#workspace']])
    const asks = 'name: team\nrules: [{ match: { category: edit }, decision: ask }]'
    expect(await decide(asks, edit)).toEqual([['ask', 'team@1#0']])
  })

  test('what it extends is stored with its version, and is part of what is the same', async () => {
    const first = await put({ source: own })
    expect(first.json).toMatchObject({ version: 1, extends: 'sandbox-default@2' })
    const alone = await put({ source: `extends: none\n${own}` })
    expect(alone.json).toMatchObject({ version: 2, extends: 'none' })
    const { json } = await app.call('GET', `${path}/versions`, key)
    expect(json.items.map((item: { extends: string }) => item.extends)).toEqual([
      'none',
      'sandbox-default@2',
    ])
  })

  test('something else to extend is refused with its line', async () => {
    const answer = await put({ source: 'name: team\nextends: operation-default\n' })
    expect([answer.status, answer.json.error.details[0].path]).toEqual([
      422,
      'line 2, column 1 extends',
    ])
  })

  test('a folder is where it leads to, however it is written', async () => {
    const at = (cwd: string) => ({ ...shell('ls'), cwd })
    const [inside] = await decide(own, at(`${workspace}/src/../lib`))
    const [outside, same] = await decide(own, at(`${workspace}/../../etc`), at('/etc'))
    expect([inside?.[0], outside?.[0]]).toEqual(['allow', 'deny'])
    expect(outside).toEqual(same)
  })
})

describe('[POLS12] a document that was stored before', () => {
  test('counts as extends: none, and check warns what storing it again would mean', async () => {
    await storeOld(own, 'team')
    const loaded = await loadPolicyFor(libsql.db(), organisationId, 'any')
    expect(loaded?.policy.builtin).toBeUndefined()
    expect((await app.call('GET', path, key)).json.items).toMatchObject([{ extends: 'none' }])
    const { json } = await check({ source: own })
    expect(json.extends).toBe('sandbox-default@2')
    expect(json.warnings).toEqual([
      expect.stringContaining('Version 1 of this policy counts as "extends: none"'),
    ])
    expect((await check({ source: own, project: 'other' })).json.warnings).toEqual([])
    const kept = await check({ source: `extends: none\n${own}` })
    expect(kept.json.warnings[0]).toMatch(/^Every edit will ask/)
  })

  test('and removed since: there is nothing to stay without, and nothing to warn of', async () => {
    await storeOld(own, 'team')
    await app.call('DELETE', path, key)
    expect((await check({ source: own })).json.warnings).toEqual([])
    expect((await put({ source: own })).json.warnings).toEqual([])
  })

  test('stored again it extends sandbox-default, as the next version, with that warning', async () => {
    await storeOld(own, 'team')
    const again = await put({ source: own })
    expect(again.json).toMatchObject({ version: 2, extends: 'sandbox-default@2' })
    expect(again.json.warnings).toEqual([expect.stringContaining('"extends: none"')])
    expect((await put({ source: own })).json).toMatchObject({ version: 2, warnings: [] })
  })

  test('its name may have been taken since', async () => {
    await storeOld('name: strict\nrules: []', 'strict')
    const loaded = await loadPolicyFor(libsql.db(), organisationId, 'any')
    expect(loaded).toMatchObject({ name: 'strict', version: 1 })
  })
})

describe('[POLS13] warnings', () => {
  const warnings = async (source: string) => (await put({ source })).json.warnings
  test('name everyday work that asks or is denied though the built-in policy allows it', async () => {
    expect(await warnings(own)).toEqual([])
    const rules = (list: string) => `name: team\nrules: [${list}]`
    expect(await warnings(rules('{ match: { category: edit }, decision: ask }'))).toEqual([
      'Every edit will ask a person (team@2#0)',
    ])
    expect(await warnings(rules('{ match: { command: git commit* }, decision: deny }'))).toEqual([
      'Some git commands will be denied, such as "git commit -m work" (team@3#0)',
    ])
    const alone = await warnings('name: team\nextends: none\nrules: []')
    expect(alone).toContain('Every edit will ask a person (default:edit)')
    expect(alone).toContain('Every command will ask a person (default:shell)')
    expect(alone).not.toContainEqual(expect.stringContaining('Every read'))
  })

  test('check says the same as put, and stores nothing', async () => {
    const source = 'name: team\nextends: none'
    const checked = await check({ source })
    expect((await app.call('GET', path, key)).json.items).toEqual([])
    expect((await put({ source })).json.warnings).toEqual(checked.json.warnings)
  })
})

describe('[POLS14] the built-in documents', () => {
  const read = (name: string) => app.call('GET', `${path}/${name}`, key)
  test.each(['sandbox-default', 'strict', 'operation-default'])(
    '%s can be read as YAML, and under another name means the same',
    async (name) => {
      const { status, text, headers } = await read(name)
      expect([status, headers.get('content-type')]).toEqual([
        200,
        'application/yaml; charset=utf-8',
      ])
      const copy = text.replace(`name: ${name}`, 'name: copy')
      expect((await check({ source: text })).json.error.message).toContain(`"${name}" is built in`)
      const samples = [edit, shell('npm test'), shell('rm -rf x'), shell('curl localhost:1')]
      const base = name === 'operation-default' ? 'none' : name
      const wanted = await decide(`name: team\nextends: ${base}`, ...samples)
      const decided: [string, string][] = await decide(copy, ...samples)
      expect(decided.map(([decision]) => decision)).toEqual(
        wanted.map(([decision]: [string, string]) => decision),
      )
    },
  )

  test('others are not found, and a key is needed', async () => {
    expect((await read('team')).status).toBe(404)
    expect((await app.call('GET', `${path}/strict`, 'gk_nothing')).status).toBe(401)
  })
})

describe('[POL30] a request that does not say where it reads or writes', () => {
  test.each(['read', 'edit'])('%s asks', async (category) => {
    for (const source of ['name: team', 'name: team\nextends: none'])
      expect((await decide(source, { category }))[0][0]).toBe('ask')
    const allowed = `name: team\nrules: [{ match: { category: ${category} }, decision: allow }]`
    expect((await decide(allowed, { category }))[0][0]).toBe('ask')
  })
})
