import { describe, expect, test } from 'vitest'
import { type HostSession, useHost } from '../support/host.ts'

const host = useHost()
let projects = 0

const opus = 'claude-opus-4.6'
const sonnet = 'claude-sonnet-4.6'
const gpt = 'gpt-5.2'

/** An agent with subagents for two phases, and a profile of its name. */
async function team(profile: object | null, own: object = {}) {
  const project = `profiles-${++projects}`
  const put = (body: object) => host().ok('PUT', '/v1/agents', { project, ...body })
  await put({ name: 'lead', ...own })
  const sub = { mode: 'subagent', parent: 'lead' }
  await put({ ...sub, name: 'applier', workflows: ['sdd:apply'] })
  await put({ ...sub, name: 'checker', workflows: ['verify'] })
  await put({ ...sub, name: 'fixed', workflows: ['sdd:apply'], model: opus })
  if (profile) await host().ok('PUT', '/v1/profiles', { project, name: 'lead', ...profile })
  return project
}
const begin = (project: string, body: object = {}) =>
  host().begin({ project, agent: { name: 'lead' }, ...body })

interface Config {
  model: string
  agent: Record<string, { model?: string }>
}
function modelsOf({ manifest }: HostSession) {
  const path = `${manifest.layout.configDir}/opencode.json`
  const text = manifest.files.find((file) => file.path === path)?.content ?? '{}'
  const { agent } = JSON.parse(text) as Config
  return Object.fromEntries(Object.entries(agent).map(([name, { model }]) => [name, model]))
}

describe('[PROF2] the model of a session', () => {
  test.each<[string, object | null, object, object, string]>([
    ['without a profile', null, {}, {}, 'scripted'],
    ['by orchestrator', { orchestrator: gpt }, {}, {}, gpt],
    ['by agent before orchestrator', { orchestrator: gpt, agents: { lead: opus } }, {}, {}, opus],
    ['another agent’s', { agents: { other: opus } }, {}, {}, 'scripted'],
    ['the agent’s own first', { orchestrator: gpt }, { model: opus }, {}, opus],
    [
      'the caller’s first of all',
      { orchestrator: gpt },
      { model: opus },
      { model: sonnet },
      sonnet,
    ],
  ])('%s', async (_, profile, own, body, expected) => {
    const project = await team(profile, own)
    const session = await begin(project, body)
    expect((await session.view()).model).toBe(expected)
  })

  test('the configuration’s counts behind the profile', async () => {
    const project = await team({ orchestrator: gpt })
    const configurationId = await host().configuration({ project, defaultModel: opus })
    const body = { configurationId, agent: { name: 'lead' } }
    expect((await (await host().create(body)).view()).model).toBe(gpt)
  })

  test('subagents: their own, then by name, then by phase, else the session’s', async () => {
    const project = await team({
      subagents: { checker: gpt },
      phases: { apply: sonnet, verify: opus },
    })
    expect(modelsOf(await begin(project))).toEqual({
      ...{ lead: undefined, applier: 'anthropic/claude-sonnet-4-6' },
      ...{ checker: 'litellm/gpt-5.2', fixed: 'anthropic/claude-opus-4-6' },
    })
    const named = await team({ subagents: { applier: gpt }, phases: { apply: sonnet } })
    expect(modelsOf(await begin(named))['applier']).toBe('litellm/gpt-5.2')
    const other = await team({ phases: { 'apply-progress': gpt } })
    expect(modelsOf(await begin(other))).toMatchObject({ applier: 'litellm/gpt-5.2' })
    expect(modelsOf(await begin(other))['checker']).toBeUndefined()
  })

  test('no name is taken for something that every object has', async () => {
    const project = await team({ phases: { apply: sonnet } })
    const sub = { mode: 'subagent', parent: 'lead', workflows: ['constructor'] }
    await host().ok('PUT', '/v1/agents', { project, name: 'constructor', ...sub })
    expect(modelsOf(await begin(project))['constructor']).toBeUndefined()
  })

  test('models of subagents by profile may be called, and no other', async () => {
    const project = await team({ phases: { apply: sonnet } })
    const session = await begin(project)
    await session.prompt()
    const call = async (model: string) => {
      const body = { model, messages: [], max_tokens: 10 }
      const answer = await host().call('POST', '/llm/anthropic/v1/messages', body, session.token)
      return answer.json?.error?.code
    }
    expect(await call('claude-sonnet-4-6')).not.toBe('model_refused')
    // That of the subagent whose own it is.
    expect(await call('claude-opus-4-6')).not.toBe('model_refused')
    expect(await call('claude-haiku-4-5')).toBe('model_refused')
  })
})

describe('[PROF3] which profile counts', () => {
  test('the one that is named, also without an agent', async () => {
    const project = await team({ orchestrator: gpt })
    await host().ok('PUT', '/v1/profiles', { project, name: 'cheap', orchestrator: sonnet })
    const profile = { name: 'cheap' }
    const session = await begin(project, { profile })
    expect(await session.view()).toMatchObject({ model: sonnet })
    expect((await session.view()).pins.at(-1)).toMatchObject({
      kind: 'profile',
      name: 'cheap',
      revision: 1,
    })
    expect(await (await host().create({ project, profile })).view()).toMatchObject({
      model: sonnet,
    })
    expect((await (await host().create({ project })).view()).model).toBe('scripted')
  })

  test('one that is not there, is archived or is another scope’s is refused', async () => {
    const project = await team(null)
    const made = await host().ok('PUT', '/v1/profiles', { project, name: 'gone' })
    await host().ok('PUT', '/v1/profiles', { project, name: 'own', scope: 'personal' })
    await host().ok('POST', `/v1/profiles/${made.id}/archive`)
    for (const name of ['nobody', 'gone', 'own']) {
      const { status, json } = await host().call('POST', '/v1/sessions', {
        project,
        profile: { name },
      })
      expect([status, json.error.details[0].path]).toEqual([422, 'profile.name'])
    }
    const own = { project, profile: { name: 'own', scope: 'personal' } }
    expect((await host().call('POST', '/v1/sessions', own)).status).toBe(201)
  })

  test('a member’s own profile does not change the project’s agent', async () => {
    const project = await team(null)
    const own = { project, name: 'lead', scope: 'personal', orchestrator: gpt }
    await host().ok('PUT', '/v1/profiles', own)
    expect((await (await begin(project)).view()).model).toBe('scripted')
  })

  test('[PIN5] a change of the profile is for later sessions', async () => {
    const project = await team({ orchestrator: gpt, phases: { apply: sonnet } })
    const session = await begin(project)
    await host().ok('PUT', '/v1/profiles', { project, name: 'lead', orchestrator: opus })
    await host().ok('POST', `${session.at}/replace`)
    await host().live(60_000)
    await session.meet()
    expect(modelsOf(session)['applier']).toBe('anthropic/claude-sonnet-4-6')
    expect((await session.view()).model).toBe(gpt)
    expect((await (await begin(project)).view()).model).toBe(opus)
  })
})
