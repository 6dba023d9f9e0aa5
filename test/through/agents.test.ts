import { describe, expect, test } from 'vitest'
import { type HostSession, useHost } from '../support/host.ts'

const host = useHost()
let projects = 0
const newProject = () => `agents-${++projects}`

const put = (body: object) => host().ok('PUT', '/v1/agents', body)
/** An agent with two subagents, in a project of its own. */
async function team(own: object = {}, helper: object = {}) {
  const project = newProject()
  const lead = await put({
    ...{ project, name: 'lead', instructions: { kind: 'inline', value: 'Lead well.' }, ...own },
  })
  const sub = { project, mode: 'subagent', parent: 'lead' }
  const instructions = { kind: 'inline', value: 'Help well.' }
  await put({ ...sub, name: 'helper', description: 'Helps', instructions, ...helper })
  await put({ ...sub, name: 'critic' })
  return { project, lead }
}

interface Entry {
  mode: string
  prompt?: string
  description: string
  model?: string
  permission: Record<string, unknown>
}
interface Config {
  model: string
  default_agent?: string
  agent?: Record<string, Entry>
}
const fileIn = ({ manifest }: HostSession, folder: 'configDir' | 'workspace', name: string) =>
  manifest.files.find(({ path }) => path === `${manifest.layout[folder]}/${name}`)
const configText = (session: HostSession): string =>
  fileIn(session, 'configDir', 'opencode.json')?.content ?? ''
const configOf = (session: HostSession): Config => JSON.parse(configText(session))
const refusal = async (body: object) => {
  const { status, json } = await host().call('POST', '/v1/sessions', body)
  return [status, json.error.code, json.error.details[0].path]
}

describe('[AGT12] a session with a registered agent', () => {
  test('its sandbox is told who works in it, what it is told, and whom it may send', async () => {
    const { project, lead } = await team()
    const session = await host().begin({ project, agent: { name: 'lead' } })
    expect(configOf(session)).toMatchObject({
      default_agent: 'lead',
      agent: {
        lead: {
          ...{ mode: 'primary', prompt: 'Lead well.' },
          permission: { task: { '*': 'deny', critic: 'allow', helper: 'allow' } },
        },
        helper: {
          ...{ mode: 'subagent', description: 'Helps', prompt: 'Help well.' },
          permission: { task: 'deny' },
        },
        critic: { mode: 'subagent', description: 'critic' },
      },
    })
    expect(configOf(session).agent?.['critic']).not.toHaveProperty('prompt')
    expect(session.manifest.agent).toBe('lead')
    // The mode's prompt stays where it was.
    expect(fileIn(session, 'configDir', 'instructions.md')?.content).not.toContain('Lead well.')
    const { pins } = await session.view()
    expect(pins).toMatchObject([
      { kind: 'agent', name: 'lead', id: lead.id, revision: 1, sha256: lead.sha256 },
      { kind: 'subagent', name: 'critic' },
      { kind: 'subagent', name: 'helper' },
    ])
  })

  test('the copy in the workspace names no agents, and a plain session none at all', async () => {
    const { project } = await team()
    const session = await host().begin({ project, agent: { name: 'lead' } })
    const copy = fileIn(session, 'workspace', 'opencode.json')
    expect(copy?.keep).toBe('copy')
    expect(JSON.parse(copy?.content ?? '')).not.toHaveProperty('agent')
    const plain = await host().begin({ project })
    expect(configOf(plain)).not.toHaveProperty('agent')
    expect(configOf(plain)).not.toHaveProperty('default_agent')
    expect(plain.manifest).not.toHaveProperty('agent')
    expect((await plain.view()).pins).toEqual([])
  })

  test('what OpenCode would put in for {env:…} and {file:…} stays as it was written', async () => {
    const value = 'Print {env:SANDBOX_MCP_AUTH_TOKEN} and {file:/etc/passwd}, not {other}.'
    const own = { instructions: { kind: 'inline', value }, description: '{env:HOME}' }
    const { project } = await team(own)
    const session = await host().begin({ project, agent: { name: 'lead' } })
    const text = configText(session)
    expect(text.match(/\{env:(SANDBOX_MCP_AUTH_TOKEN|HOME)\}|\{file:/g)).toEqual([
      // Of the two providers.
      ...['{env:SANDBOX_MCP_AUTH_TOKEN}', '{env:SANDBOX_MCP_AUTH_TOKEN}'],
    ])
    expect(configOf(session).agent?.['lead']).toMatchObject({
      prompt: value,
      description: '{env:HOME}',
    })
  })

  test('instructions in a file of the workspace are for the agent to read', async () => {
    const { project } = await team({ instructions: { kind: 'path', value: 'prompts/lead.md' } })
    const session = await host().begin({ project, agent: { name: 'lead' } })
    expect(configOf(session).agent?.['lead']?.prompt).toContain('the file "prompts/lead.md"')
  })

  test('a personal agent is started by its member alone', async () => {
    const project = newProject()
    await put({ project, name: 'own', scope: 'personal' })
    const body = { project, agent: { name: 'own', scope: 'personal' } }
    expect((await host().create(body)).id).toMatch(/^ses_/)
    expect(await refusal({ project, agent: { name: 'own' } })).toEqual([
      ...[422, 'unprocessable', 'agent.name'],
    ])
    const { secret } = await host().ok('POST', '/v1/keys', {
      ...{ name: 'k', owner: `other ${project}`, scopes: ['write'] },
    })
    const answer = await host().call('POST', '/v1/sessions', body, secret)
    expect([answer.status, answer.json.error.code]).toEqual([422, 'unprocessable'])
  })

  test('who is not there, is archived, or is a subagent, is refused', async () => {
    const { project, lead } = await team()
    const by = (name: string, of = project) => refusal({ project: of, agent: { name } })
    const expected = [422, 'unprocessable', 'agent.name']
    expect(await by('nobody')).toEqual(expected)
    expect(await by('helper')).toEqual(expected)
    expect(await by('lead', 'default')).toEqual(expected)
    await host().ok('POST', `/v1/agents/${lead.id}/archive`)
    expect(await by('lead')).toEqual(expected)
    const wrong = await host().call('POST', '/v1/sessions', { agent: 'lead' })
    expect(wrong.status).toBe(400)
  })
})

describe('[AGT13] a session whose agent is resolved', () => {
  test('has the best one for which something speaks, and never a subagent', async () => {
    const { project } = await team({ capabilities: ['plan'] }, { capabilities: ['code'] })
    await put({ project, name: 'coder', capabilities: ['code'], workflows: ['sdd:apply'] })
    const start = async (resolve: object) =>
      (await (await host().create({ project, agent: { resolve } })).view()).pins[0].name
    expect(await start({ capabilities: ['code'] })).toBe('coder')
    expect(await start({ task: 'lead the way' })).toBe('lead')
    expect(await start({ workflow: 'sdd', phase: 'apply' })).toBe('coder')
  })

  test('is refused if nobody fits, or nothing speaks for anybody, and says what to do', async () => {
    const { project } = await team()
    for (const resolve of [{}, { task: 'something else' }, { capabilities: ['none'] }]) {
      const body = { project, agent: { resolve } }
      expect(await refusal(body)).toEqual([422, 'unprocessable', 'agent.resolve'])
      const { json } = await host().call('POST', '/v1/sessions', body)
      expect(json.error.message).toContain('POST /v1/agents/resolve')
    }
  })
})

describe('[AGT14] its model', () => {
  const modelOf = async (body: object) => (await (await host().create(body)).view()).model

  test('is the caller’s, else the agent’s, else the configuration’s', async () => {
    const { project } = await team({ model: 'claude-opus-4.6' })
    const configurationId = await host().configuration({ project, defaultModel: 'gpt-5.2' })
    const agent = { name: 'lead' }
    expect(await modelOf({ configurationId })).toBe('gpt-5.2')
    expect(await modelOf({ configurationId, agent })).toBe('claude-opus-4.6')
    expect(await modelOf({ configurationId, agent, model: 'scripted' })).toBe('scripted')
    await put({ project, name: 'plain' })
    expect(await modelOf({ configurationId, agent: { name: 'plain' } })).toBe('gpt-5.2')
  })

  test('a subagent has its own in the sandbox, and both may be called', async () => {
    const { project } = await team({ model: 'scripted' }, { model: 'claude-sonnet-4.6' })
    const session = await host().begin({ project, agent: { name: 'lead' } })
    expect(configOf(session).agent?.['helper']?.model).toBe('anthropic/claude-sonnet-4-6')
    expect(configOf(session).agent?.['critic']).not.toHaveProperty('model')
    await session.prompt()
    const call = (vendor: string, path: string, model: string) =>
      host().call(
        'POST',
        `/llm/${vendor}/${path}`,
        { model, messages: [], max_tokens: 10 },
        session.token,
      )
    const refused = await call('anthropic', 'v1/messages', 'claude-opus-4-6')
    expect([refused.status, refused.json.error.code]).toEqual([403, 'model_refused'])
    expect(refused.json.error.message).toMatch(
      /"scripted" of "litellm", ".*sonnet.*" of "anthropic"/,
    )
    const other = await call('anthropic', 'v1/messages', 'claude-sonnet-4-6')
    expect(other.json?.error?.code).not.toBe('model_refused')
  })

  test('a budget in money needs the price of each', async () => {
    const { project } = await team({ model: 'claude-sonnet-4.6' }, { model: 'scripted' })
    const body = { project, agent: { name: 'lead' }, sandbox: 'none' }
    expect(await refusal({ ...body, budget: { moneyUsd: 1 } })).toEqual([
      ...[422, 'unprocessable', 'budget.moneyUsd'],
    ])
    const { id } = await host().ok('POST', '/v1/sessions', body)
    const set = await host().call('PUT', `/v1/sessions/${id}/budget`, { limits: { moneyUsd: 1 } })
    expect(set.status).toBeGreaterThanOrEqual(400)
  })
})

describe('[AGT15] what it may do', () => {
  const begin = async (own: object, helper: object = {}) => {
    const { project } = await team({ permissions: own }, { permissions: helper })
    const session = await host().begin({ project, agent: { name: 'lead' } })
    return { session, turn: await session.prompt() }
  }
  const decisionOn = async (session: HostSession, ...asked: Parameters<HostSession['ask']>) =>
    session.agent.answerTo(await session.ask(...asked))?.decision ?? 'waits'
  const outside = { filePath: '/etc/hosts' }
  const secret = { filePath: '.env' }
  const fetching = { url: 'https://example.com/' }

  test('an override tightens what the policy allows', async () => {
    const { session, turn } = await begin({ shell: 'deny', edit: 'ask' })
    expect(await decisionOn(session, 'bash', { command: 'ls' })).toBe('deny')
    expect(await decisionOn(session, 'write', { content: '', filePath: 'a' })).toBe('waits')
    expect(await decisionOn(session, 'read', { filePath: 'a' })).toBe('allow')
    const events = await host().ok('GET', `/v1/runs/${turn.runId}/events?limit=200`)
    const decided = events.items.find(
      ({ kind }: { kind: string }) => kind === 'permission-decision',
    )
    expect(decided.data).toMatchObject({
      ...{ rule: 'override:lead', request: { agent: 'lead' } },
      overrides: { agent: { shell: 'deny', edit: 'ask' }, subagent: null },
    })
  })

  test('[POL] it opens a default, but no risk, no boundary, and secrets only as far as asking', async () => {
    const all = {
      network: 'allow',
      shell: 'allow',
      'external-directory': 'allow',
      secrets: 'allow',
    }
    const { session } = await begin(all)
    expect(await decisionOn(session, 'webfetch', fetching)).toBe('allow')
    expect(await decisionOn(session, 'bash', { command: 'sudo ls' })).toBe('waits')
    expect(await decisionOn(session, 'bash', { command: 'rm -rf src' })).toBe('waits')
    expect(await decisionOn(session, 'bash', { command: '$(cat x) y' })).toBe('waits')
    expect(await decisionOn(session, 'read', outside)).toBe('deny')
    expect(await decisionOn(session, 'read', secret)).toBe('waits')
    const plain = await host().begin({})
    await plain.prompt()
    expect(await decisionOn(plain, 'webfetch', fetching)).toBe('waits')
    expect(await decisionOn(plain, 'read', secret)).toBe('deny')
  })

  test('a subagent only tightens, and one that is not told yet is held to what holds any', async () => {
    const helper = { shell: 'deny', network: 'allow' }
    const { session } = await begin({ network: 'ask' }, helper)
    const by = { agent: 'lead', subagent: 'helper' }
    expect(await decisionOn(session, 'bash', { command: 'ls' })).toBe('allow')
    expect(await decisionOn(session, 'bash', { command: 'ls' }, by)).toBe('deny')
    expect(
      await decisionOn(session, 'bash', { command: 'ls' }, { ...by, subagent: 'unknown' }),
    ).toBe('deny')
    expect(
      await decisionOn(session, 'bash', { command: 'ls' }, { ...by, subagent: 'critic' }),
    ).toBe('allow')
    expect(await decisionOn(session, 'webfetch', fetching, by)).toBe('waits')
  })

  test('the agent counts whatever the sandbox calls it', async () => {
    const { session } = await begin({ shell: 'deny' })
    for (const agent of ['build', 'helper', undefined])
      expect(await decisionOn(session, 'bash', { command: 'ls' }, agent ? { agent } : {})).toBe(
        'deny',
      )
  })

  test('what is denied altogether is hidden from the model too', async () => {
    const own = { edit: 'deny', shell: 'deny', git: 'deny', network: 'deny' }
    const { session } = await begin(own, { shell: 'deny', edit: 'ask' })
    const { lead, helper } = configOf(session).agent ?? {}
    expect(lead?.permission).toMatchObject({ edit: 'deny', bash: 'deny', webfetch: 'deny' })
    expect(helper?.permission).toEqual({ task: 'deny' })
  })
})

describe('[AGT16] delegation', () => {
  const begin = async () => {
    const { project } = await team()
    const session = await host().begin({ project, agent: { name: 'lead' } })
    await session.prompt()
    return session
  }
  const send = async (session: HostSession, to: unknown, by: object = { agent: 'lead' }) => {
    const input = { description: 'd', prompt: 'p', subagent_type: to }
    const askId = await session.ask('task', input, by)
    const answer = session.agent.answerTo(askId)
    return [answer?.decision, answer?.reason]
  }

  test('is to its own subagents and nobody else, and the refusal says to whom', async () => {
    const session = await begin()
    expect((await send(session, 'helper'))[0]).toBe('allow')
    const only = 'Agent "lead" may delegate to "critic", "helper" only'
    for (const to of ['general', 'explore', 'lead', '', undefined, ['helper'], 'HELPER'])
      expect(await send(session, to)).toEqual(['deny', only])
  })

  test('a subagent sends nobody, and who is no subagent of the session may do nothing', async () => {
    const session = await begin()
    const by = (subagent: string) => ({ agent: 'lead', subagent })
    expect((await send(session, 'critic', by('helper')))[0]).toBe('deny')
    expect((await send(session, 'critic', by('unknown')))[0]).toBe('deny')
    const askId = await session.ask('read', { filePath: 'a' }, by('general'))
    expect(session.agent.answerTo(askId)).toMatchObject({
      ...{ decision: 'deny', reason: '"general" is no subagent of "lead"' },
    })
  })

  test('of an agent without subagents is denied, and of a plain session left to the policy', async () => {
    const project = newProject()
    await put({ project, name: 'alone' })
    const alone = await host().begin({ project, agent: { name: 'alone' } })
    await alone.prompt()
    expect(await send(alone, 'general')).toEqual(['deny', 'Agent "alone" may delegate to nobody'])
    expect((await send(alone, 'x', { subagent: 'unknown' }))[0]).toBe('deny')
    const plain = await host().begin({})
    await plain.prompt()
    expect((await send(plain, 'general'))[0]).toBe('allow')
  })
})

test('[AGT19] the timeline of each run names who works in it, and whom it has sent', async () => {
  const { project, lead } = await team()
  const session = await host().begin({ project, agent: { name: 'lead' } })
  const invoked = async (runId: string) =>
    (await host().ok('GET', `/v1/runs/${runId}/events`)).items
      .filter(({ kind }: { kind: string }) => kind === 'agent.invoked')
      .map(({ data }: { data: object }) => data)
  const { id: turnId, runId } = await session.prompt()
  const [{ sha256 }] = (await session.view()).pins
  const who = { mode: 'agent', agentId: lead.id, name: 'lead', revision: 1, sha256 }
  expect(await invoked(runId)).toEqual([who])
  const call = { sessionId: 's', messageId: 'm', partId: 'p', turnId, tool: 'task', callId: 'c' }
  for (const to of ['helper', 'general'])
    session.agent.emit('tool.started', { ...call, input: { subagent_type: to } })
  await host().live()
  expect(await invoked(runId)).toMatchObject([who, { mode: 'subagent', name: 'helper' }])
  const plain = await host().begin()
  expect(await invoked((await plain.prompt()).runId)).toEqual([])
})

describe('[AGT20] choosing who does a task of a run', () => {
  const lone = async (project: string, key?: string) =>
    (await host().ok('POST', '/v1/runs', { project, intent: 'i' }, key)).id as string
  const events = async (runId: string) =>
    (await host().ok('GET', `/v1/runs/${runId}/events`)).items.filter(
      ({ kind }: { kind: string }) => kind === 'agent.invoked',
    )

  test('gives the best with its skills, once on the timeline, and runs nothing', async () => {
    const { project } = await team({ capabilities: ['build'] }, { capabilities: ['review'] })
    const skill = async (name: string) => {
      const { id } = await host().ok('PUT', '/v1/skills', { project, name, description: 'd' })
      const source = { kind: 'inline', content: `${name}.` }
      await host().ok('POST', `/v1/skills/${id}/versions`, { source, activate: true })
      return id
    }
    const skillId = await skill('careful')
    await host().ok('PUT', `/v1/skills/${skillId}/attachments/subagent/helper`)
    const runId = await lone(project)
    const choose = () =>
      host().ok('POST', `/v1/runs/${runId}/agents`, { capabilities: ['review'] }, undefined, {
        'idempotency-key': `choose ${project}`,
      })
    const chosen = await choose()
    expect(chosen).toMatchObject({
      agent: { name: 'helper', mode: 'subagent', revision: 1 },
      score: 10,
      instructions: { value: 'Help well.' },
      skills: { items: [{ skillId, content: 'careful.' }], skipped: [] },
      event: { kind: 'agent.invoked' },
    })
    expect(await choose()).toEqual(chosen)
    const [entry, ...more] = await events(runId)
    expect([entry.data, more]).toMatchObject([
      { agentId: chosen.agent.id, revision: 1, score: 10, skills: [{ skillId, version: 1 }] },
      [],
    ])
    expect((await host().ok('GET', `/v1/skills/${skillId}/usage`)).items).toEqual([])
    expect((await host().ok('GET', `/v1/runs/${runId}`)).run.status).toBe('created')
  })

  test('is refused where nothing speaks for anybody, in an ended run, and to strangers', async () => {
    const { project } = await team({ capabilities: ['build'] })
    const runId = await lone(project)
    const at = `/v1/runs/${runId}/agents`
    const refused = (body: object, key?: string) => host().refusal('POST', at, body, key)
    expect(await refused({ capabilities: ['cook'] })).toEqual([422, 'unprocessable'])
    expect(await refused({ project })).toEqual([400, 'invalid_request'])
    const limited = { name: 'l', owner: 'l', scopes: ['write'], limits: { projects: ['other'] } }
    const { secret } = await host().ok('POST', '/v1/keys', limited)
    expect(await refused({ capabilities: ['build'] }, secret)).toEqual([404, 'not_found'])
    await host().ok('POST', `/v1/runs/${runId}/finish`, { status: 'cancelled' })
    expect(await refused({ capabilities: ['build'] })).toEqual([409, 'wrong_state'])
    expect(await events(runId)).toEqual([])
  })
})

test('[AGT21] a preflight says what would be decided and how it would be held, and writes nothing', async () => {
  const session = await host().begin()
  const { runId } = await session.prompt()
  const ask = (operation: object, path = 'preflight') =>
    host().ok('POST', `/v1/runs/${runId}/${path}`, { operation })
  const before = await host().ok('GET', `/v1/runs/${runId}`)
  const read = { category: 'read', operation: 'read-file', targetPath: 'a' }
  expect(await ask(read)).toMatchObject({ decision: 'allow', plan: { strategy: 'workspace' } })
  const outside = await ask({ ...read, targetPath: '../../etc/passwd' })
  expect(outside.decision).toBe('deny')
  const shell = { category: 'shell', operation: 'run', command: 'make' }
  const wanted = await ask(shell)
  expect(wanted).toMatchObject({ decision: 'ask', plan: { strategy: 'process-sandbox' } })
  expect(await host().ok('GET', `/v1/runs/${runId}`)).toEqual(before)
  expect(await ask(shell, 'operations')).toMatchObject({
    ...{ decision: wanted.decision, reason: wanted.reason },
  })
})

test('[PIN5] [PIN1] a change of the registry changes nothing for the session, also not in its next sandbox', async () => {
  const { project, lead } = await team({ permissions: { shell: 'deny' } })
  const session = await host().begin({ project, agent: { name: 'lead' } })
  const before = configOf(session)
  const { pins } = await session.view()
  await put({ project, name: 'lead', instructions: { kind: 'inline', value: 'Another.' } })
  await put({ project, name: 'third', mode: 'subagent', parent: 'lead' })
  await host().ok('POST', `/v1/agents/${lead.id}/archive`)
  await host().ok('POST', `${session.at}/replace`)
  await host().live(60_000)
  await session.meet()
  expect(configOf(session).agent).toEqual(before.agent)
  expect((await session.view()).pins).toEqual(pins)
  await session.prompt()
  const askId = await session.ask('bash', { command: 'ls' })
  expect(session.agent.answerTo(askId)?.decision).toBe('deny')
  await put({ project, name: 'lead', instructions: { kind: 'inline', value: 'Another.' } })
  const next = await host().begin({ project, agent: { name: 'lead' } })
  expect(configOf(next).agent?.['lead']?.prompt).toBe('Another.')
  expect((await next.view()).pins[0].revision).toBe(3)
})

test('[AGT12] the same creation again is the same session, though the agent has changed', async () => {
  const { project } = await team()
  const create = () =>
    host().ok('POST', '/v1/sessions', { project, agent: { name: 'lead' } }, undefined, {
      'idempotency-key': `same ${project}`,
    })
  const first = await create()
  await put({ project, name: 'lead', description: 'changed' })
  expect((await create()).pins).toEqual(first.pins)
})

test('[AGT17] [AGT16] the manager that a release brings sends the subagents of the phases and nobody else', async () => {
  const project = newProject()
  const agent = { name: 'gantry-manager' }
  const early = await host().call('POST', '/v1/sessions', { project, agent })
  expect(early.json.error.message).toContain('POST /v1/agents/shipped')
  await host().ok('POST', '/v1/agents/shipped', { project })
  const session = await host().begin({ project, agent })
  await session.prompt()
  const send = async (to: string) => {
    const askId = await session.ask('task', { description: 'd', prompt: 'p', subagent_type: to })
    return session.agent.answerTo(askId)?.decision
  }
  const { permission } = configOf(session).agent?.['gantry-manager'] ?? {}
  const named = Object.keys(permission?.['task'] ?? {})
  expect(named).toHaveLength(9)
  for (const name of named) expect(await send(name)).toBe(name === '*' ? 'deny' : 'allow')
  for (const name of ['general', 'gantry-sdd-', 'gantry-manager', 'gantry-sdd-apply ']) {
    expect(await send(name)).toBe('deny')
  }
  const by = { agent: 'gantry-manager', subagent: 'gantry-sdd-verify' }
  const askId = await session.ask('write', { content: '', filePath: 'a' }, by)
  expect(session.agent.answerTo(askId)?.decision).toBe('deny')
})
