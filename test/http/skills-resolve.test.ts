import { beforeAll, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let key: string
let stranger: string
let colleague: string

async function ok(method: string, path: string, body?: unknown, credential = key) {
  const { status, json } = await app.call(method, path, credential, body)
  expect([path, status, json?.error]).toEqual([path, 200, undefined])
  return json
}
async function register(
  name: string,
  { to = [], text = `Do ${name}.`, ...more }: { to?: string[]; text?: string; scope?: string } = {},
  credential = key,
): Promise<string> {
  const { id } = await ok('PUT', '/v1/skills', { name, description: name, ...more }, credential)
  const source = { kind: 'inline', content: text }
  await ok('POST', `/v1/skills/${id}/versions`, { source, activate: true }, credential)
  for (const target of to) await ok('PUT', `/v1/skills/${id}/attachments/${target}`, {}, credential)
  return id
}
const writes = async () => {
  const tables = ['skills', 'skill_versions', 'skill_attachments', 'skill_changes']
  const counts = tables.map((table) => `(select count(*) from ${table})`).join(' || ')
  return (await libsql.db().all(`select ${counts} as counts`))[0]
}
const everything = {
  skills: ['personal:own', 'review@1', 'nobody', 'review@9'],
  agent: { name: 'coder', skills: ['defined'] },
  workflow: 'sdd',
  phase: 'apply',
  adapter: 'opencode',
}

beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  const organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
  stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
  const body = { name: 'colleague', owner: 'colleague', scopes: ['write', 'approve'] }
  colleague = (await app.call('POST', '/v1/keys', key, body)).json.secret
  await register('review', { to: ['provider-adapter/opencode'] })
  await register('own', { scope: 'personal' })
  await register('defined', { to: ['agent/coder'] })
  await register('phase', { to: ['workflow-phase/sdd:apply', 'workflow-phase/apply'] })
})

test('[SKILL8] [SKILL9] by HTTP: order, sources and reasons, and others’ rows change nothing', async () => {
  const before = await writes()
  const answer = await ok('POST', '/v1/skills/resolve', everything)
  expect(await writes()).toEqual(before)
  type One = { name: string; version: number; sources: { kind: string }[] }
  expect(
    answer.skills.map(({ name, sources }: One) => [name, ...sources.map((one) => one.kind)]),
  ).toEqual([
    ['own', 'request'],
    ['review', 'request', 'provider-adapter'],
    ['defined', 'definition', 'agent'],
    ['phase', 'workflow-phase', 'workflow-phase'],
  ])
  expect(answer.skipped).toEqual([
    {
      ...{ name: 'nobody', scope: 'project', version: null, reason: 'skill_missing' },
      source: { kind: 'request', key: '', version: null },
    },
    {
      ...{ name: 'review', scope: 'project', version: 9, reason: 'version_missing' },
      source: { kind: 'request', key: '', version: 9 },
    },
  ])
  for (const name of ['nobody', 'a-first', 'own', 'review'])
    await register(name, { to: ['agent/coder', 'provider-adapter/opencode'] }, stranger)
  for (const name of ['nobody', 'a-first', 'own'])
    await register(name, { to: ['provider-adapter/opencode'], scope: 'personal' }, colleague)
  expect(await ok('POST', '/v1/skills/resolve', everything)).toEqual(answer)
})

test('[SKILL10] by HTTP: texts in their order, or why there is none; nothing is written', async () => {
  const path = await register('from-path')
  const source = { kind: 'path', path: 'docs/SKILL.md' }
  await ok('POST', `/v1/skills/${path}/versions`, { source, activate: true })
  const url = await register('from-url')
  const far = { kind: 'url', url: 'https://example.com/SKILL.md' }
  await ok('POST', `/v1/skills/${url}/versions`, { source: far, activate: true })
  const before = await writes()
  const skills = ['from-url', 'from-path', 'review']
  const { items, skipped } = await ok('POST', '/v1/skills/payload', { skills })
  type Item = { name: string; order: number; content: string | null; reason: string | null }
  expect(
    items.map(({ name, order, content, reason }: Item) => [name, order, content, reason]),
  ).toEqual([
    ['from-url', 0, null, 'url_fetch_disabled'],
    ['from-path', 1, null, 'path_not_uploaded'],
    ['review', 2, 'Do review.', null],
  ])
  expect([skipped, await writes()]).toEqual([[], before])
})

test('[SKILL8] apply and apply-progress are one phase, the spelling that was asked for first', async () => {
  for (const [name, target] of [
    ['by-apply', 'two:apply'],
    ['by-progress', 'two:apply-progress'],
    ['any-apply', 'apply-progress'],
  ] as const)
    await register(name, { to: [`workflow-phase/${target}`] })
  const names = async (phase: string) =>
    (await ok('POST', '/v1/skills/resolve', { workflow: 'two', phase })).skills.map(
      ({ name }: { name: string }) => name,
    )
  expect(await names('apply')).toEqual(['by-apply', 'by-progress', 'phase', 'any-apply'])
  expect(await names('apply-progress')).toEqual(['by-progress', 'by-apply', 'any-apply', 'phase'])
  expect(await names('verify')).toEqual([])
})

test('[SKILL8] what is named is there, however much is attached; of that the first 200 by name', async () => {
  const project = 'crowded'
  const { id } = await ok('PUT', '/v1/skills', { project, name: 'zz-named', description: 'd' })
  const source = { kind: 'inline', content: 'Named.' }
  await ok('POST', `/v1/skills/${id}/versions`, { source, activate: true })
  await libsql.db().batch(
    Array.from({ length: 210 }, (_, n) =>
      [
        `insert into skills select 'skl_a' || ?1, organisation_id, project, scope, member_id, 'a-' || ?1, description,
         current_version, created_by, created_at, updated_at from skills where id = ?2`,
        `insert into skill_versions select 'skl_a' || ?1, version, state, description, compatibility, source, sha256,
         created_by, created_at from skill_versions where skill_id = ?2`,
        `insert into skill_attachments (skill_id, target_type, target_key, version, created_by, created_at)
         select 'skl_a' || ?1, 'provider-adapter', 'crowd', null, ?2, 1`,
      ].map((sql) => ({ sql, values: [String(n).padStart(3, '0'), id] })),
    ).flat(),
  )
  const asked = { project, skills: ['zz-named'], adapter: 'crowd' }
  const { skills, skipped } = await ok('POST', '/v1/skills/resolve', asked)
  const names = skills.map(({ name }: { name: string }) => name)
  expect([names.length, skipped]).toEqual([200, []])
  expect([names[0], names[1], names.at(-1)]).toEqual(['zz-named', 'a-000', 'a-198'])
})

test.each([
  ['skills.0.name', { skills: ['Not A Name'] }],
  ['skills.0', { skills: ['team:review'] }],
  ['skills.0', { skills: ['review@0'] }],
  ['skills.0', { skills: [7] }],
  ['agent.name', { agent: {} }],
  ['phase', { phase: 'a b' }],
])('[SKILL8] what cannot be asked is refused: %s', async (path, body) => {
  const { status, json } = await app.call('POST', '/v1/skills/resolve', key, body)
  expect([status, json.error.code, json.error.details[0].path]).toEqual([
    ...[400, 'invalid_request', path],
  ])
})
