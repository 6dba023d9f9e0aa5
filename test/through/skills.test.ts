import { beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { type HostSession, useHost } from '../support/host.ts'

const host = useHost()
const ok = (...request: Parameters<ReturnType<typeof host>['ok']>) => host().ok(...request)
const part = { sessionId: 's', messageId: 'm', partId: 'p' }

async function register(name: string, content: string, more: object = {}): Promise<string> {
  const { id } = await ok('PUT', '/v1/skills', {
    name,
    description: `About "${name}": yes`,
    ...more,
  })
  await activate(id, content)
  return id
}
const activate = (id: string, content: string, more: object = {}) =>
  ok('POST', `/v1/skills/${id}/versions`, {
    ...{ source: { kind: 'inline', content }, activate: true },
    ...more,
  })
const skillFiles = ({ manifest }: HostSession) =>
  manifest.files.filter(({ path }) => path.endsWith('/SKILL.md'))
const toolIds = ({ manifest }: HostSession) => manifest.toolIds

let review: string
let notes: string
beforeAll(async () => {
  review = await register('review', 'Read it.')
  notes = await register('notes', 'Write it down.', { scope: 'personal' })
})

/** OpenCode's own tool is used. */
async function use(session: HostSession, name: string, { fails = false } = {}) {
  const { id: turnId, runId } = await session.prompt()
  const call = { ...part, turnId, tool: 'skill', callId: `c-${name}`, input: { name } }
  session.agent.emit('tool.started', call)
  const output = { title: `Loaded skill: ${name}`, output: 'text', truncated: false, durationMs: 1 }
  if (fails) session.agent.emit('tool.failed', { ...call, error: 'no', durationMs: 1 })
  else session.agent.emit('tool.completed', { ...call, ...output })
  await host().live()
  return { turnId, runId }
}
const uses = async (skillId: string, runId: string) =>
  (await ok('GET', `/v1/skills/${skillId}/usage`)).items
    .filter((one: { runId: string }) => one.runId === runId)
    .map(({ outcome, version, actor }: Record<string, unknown>) => [outcome, version, actor])
    .toSorted()

describe('[SKILL14] a session with skills', () => {
  test('pins their versions, and its manifest has them where OpenCode looks', async () => {
    const session = await host().begin({ skills: ['review', 'personal:notes'] })
    const { pins } = await session.view()
    expect(pins).toEqual([
      { kind: 'skill', name: 'review', id: review, revision: 1, sha256: expect.any(String) },
      { kind: 'skill', name: 'notes', id: notes, revision: 1, sha256: expect.any(String) },
    ])
    const { configDir } = session.manifest.layout
    expect(skillFiles(session).map(({ path, keep }) => [path, keep])).toEqual([
      [`${configDir}/skill/review/SKILL.md`, 'own'],
      [`${configDir}/skill/notes/SKILL.md`, 'own'],
    ])
    const [, front = '', body] = session.file('review/SKILL.md').split('---\n')
    expect([parse(front), body]).toEqual([
      { name: 'review', description: 'About "review": yes' },
      'Read it.\n',
    ])
  })

  test('without any it has no file, no tool and no pin, whatever is attached', async () => {
    const id = await register('everywhere', 'Always.')
    await ok('PUT', `/v1/skills/${id}/attachments/provider-adapter/opencode`)
    const session = await host().begin()
    expect([skillFiles(session), (await session.view()).pins]).toEqual([[], []])
    expect(toolIds(session)).not.toContain('skill_propose')
    expect(session.file('proliferate.mjs')).not.toContain('tool.execute.after')
    const named = await host().begin({ skills: [] })
    expect((await named.view()).pins).toMatchObject([{ name: 'everywhere' }])
    expect(toolIds(named)).toContain('skill_propose')
    await ok('DELETE', `/v1/skills/${id}/attachments/provider-adapter/opencode`)
  })

  test('a later version is for later sessions; what runs, and its replacement, keep theirs', async () => {
    const id = await register('moving', 'First.')
    const old = await host().begin({ skills: ['moving'] })
    await activate(id, 'Second.', { compatibility: 'git' })
    const fresh = await host().begin({ skills: ['moving'] })
    expect((await fresh.view()).pins).toMatchObject([{ revision: 2 }])
    expect(fresh.file('moving/SKILL.md')).toContain('compatibility: "git"\n---\nSecond.')
    const again = await ok('GET', `/sandbox/${old.id}/manifest`, undefined, old.token)
    expect(again).toEqual(old.manifest)
    await ok('POST', `${old.at}/replace`)
    await host().live(30_000)
    await old.meet()
    expect(old.file('moving/SKILL.md')).toContain('First.')
    const first = await host().begin({ skills: ['moving@1'] })
    expect(first.file('moving/SKILL.md')).toContain('First.')
  })

  test('with an agent it has the skills of the agent and its subagents, and what is attached to them', async () => {
    const names = ['defined', 'attached', 'of-helper', 'for-all', 'unused', 'asked', 'drafted']
    const ids: Record<string, string> = {}
    for (const name of names) ids[name] = await register(name, `${name}.`, { project: 'team' })
    const attach = (name: string, target: string) =>
      ok('PUT', `/v1/skills/${ids[name]}/attachments/${target}`)
    await attach('attached', 'agent/lead')
    await attach('unused', 'agent/other')
    await attach('of-helper', 'subagent/helper')
    await attach('for-all', 'provider-adapter/opencode')
    await ok('POST', `/v1/skills/${ids['drafted']}/versions/1/state`, {
      ...{ state: 'deprecated', reason: 'old' },
    })
    await activate(ids['defined']!, 'defined again.')
    const skills = ['drafted', { name: 'defined', version: '1' }, { name: 'nobody', version: 'x' }]
    await ok('PUT', '/v1/agents', { project: 'team', name: 'lead', skills })
    const helper = { name: 'helper', mode: 'subagent', parent: 'lead', skills: ['defined'] }
    await ok('PUT', '/v1/agents', { project: 'team', ...helper })
    const body = { project: 'team', agent: { name: 'lead' } }
    const pinned = async (more: object = {}) => {
      const { pins } = await (await host().begin({ ...body, ...more })).view()
      return pins
        .filter(({ kind }: { kind: string }) => kind === 'skill')
        .map(({ name, revision }: { name: string; revision: number }) => `${name}@${revision}`)
    }
    const all = ['defined@1', 'attached@1', 'of-helper@1', 'for-all@1']
    expect(await pinned()).toEqual(all)
    expect(await pinned({ skills: ['asked'] })).toEqual(['asked@1', ...all])
    await ok('PUT', '/v1/agents', { project: 'team', scope: 'personal', name: 'lead' })
    const agent = { name: 'lead', scope: 'personal' }
    expect(await pinned({ agent })).toEqual(['for-all@1'])
  })

  test('with an agent it has what is attached to the phases that agent and subagents are for, and to the phase that was asked for', async () => {
    const project = 'phased'
    const attached = {
      ...{ 'for-apply': 'sdd:apply-progress', 'for-verify': 'verify', 'for-spec': 'sdd:spec' },
      ...{ 'for-other': 'other:apply', 'for-asked': 'build:review', 'for-all': '' },
    }
    for (const [name, phase] of Object.entries(attached)) {
      const id = await register(name, `${name}.`, { project })
      const target = phase ? `workflow-phase/${phase}` : 'provider-adapter/opencode'
      await ok('PUT', `/v1/skills/${id}/attachments/${target}`)
    }
    await ok('PUT', '/v1/agents', {
      project,
      name: 'lead',
      workflows: ['sdd:apply', 'build:review'],
    })
    const helper = { name: 'helper', mode: 'subagent', parent: 'lead', workflows: ['sdd:verify'] }
    await ok('PUT', '/v1/agents', { project, ...helper })
    await ok('PUT', '/v1/agents', { project, name: 'free', capabilities: ['review'] })
    const pinned = async (agent: object) =>
      (await (await host().begin({ project, agent })).view()).pins
        .filter(({ kind }: { kind: string }) => kind === 'skill')
        .map(({ name }: { name: string }) => name)
    const own = ['for-apply', 'for-asked', 'for-verify', 'for-all']
    expect(await pinned({ name: 'lead' })).toEqual(own)
    expect(await pinned({ name: 'free' })).toEqual(['for-all'])
    const capabilities = ['review']
    for (const asked of [{ workflow: 'build', phase: 'review' }, { workflow: 'build:review' }])
      expect(await pinned({ resolve: { ...asked, capabilities } })).toEqual([
        'for-asked',
        'for-all',
      ])
    expect(await pinned({ resolve: { workflow: 'sdd', phase: 'apply-progress' } })).toEqual(own)
  })

  test('what it names and cannot have is refused with its place and reason, and nothing is created', async () => {
    const { id } = await ok('PUT', '/v1/skills', { name: 'far', description: 'd' })
    const source = { kind: 'url', url: 'https://example.com/SKILL.md' }
    await ok('POST', `/v1/skills/${id}/versions`, { source, activate: true })
    const skills = ['review', 'nobody', 'far', 'review@9', 'notes']
    const { status, json } = await host().call('POST', '/v1/sessions', { skills })
    expect([status, json.error.code]).toEqual([422, 'unprocessable'])
    expect(json.error.details).toEqual([
      { path: 'skills.1', message: 'Cannot be given: skill_missing' },
      { path: 'skills.3', message: 'Cannot be given: version_missing' },
      { path: 'skills.4', message: 'Cannot be given: skill_missing' },
      { path: 'skills.2', message: 'Cannot be given: url_fetch_disabled' },
    ])
    const body = { skills: ['../x'] }
    expect(await host().refusal('POST', '/v1/sessions', body)).toEqual([400, 'invalid_request'])
  })

  test('a file of the workspace cannot pass for one: the plugin knows each folder', async () => {
    const session = await host().begin({ skills: ['review'] })
    const text = session.file('proliferate.mjs')
    const url = `data:text/javascript,${encodeURIComponent(text)}`
    const { default: plugin } = (await import(url)) as {
      default: () => Promise<Record<string, (input: object, output: object) => Promise<void>>>
    }
    const after = (await plugin())['tool.execute.after']!
    const folder = `${session.manifest.layout.configDir}/skill/review`
    const loaded = (name: string, dir: string, tool = 'skill') =>
      after({ tool, args: { name } }, { metadata: { dir } })
    await loaded('review', folder)
    await loaded('other', '/workspace/.agents/skills/other')
    await loaded('constructor', '/workspace/.agents/skills/constructor')
    await loaded('review', '/elsewhere', 'task')
    await expect(loaded('review', '/workspace/.agents/skills/review')).rejects.toThrow(
      'Gantry refused "skill"',
    )
  })
})

describe('[SKILL18] a skill that is a file of the workspace', () => {
  const path = 'docs/skills/house.md'
  const inWorkspace = async (name: string, at = path) => {
    const { id } = await ok('PUT', '/v1/skills', { name, description: 'Of the house' })
    const source = { kind: 'path', path: at }
    await ok('POST', `/v1/skills/${id}/versions`, { source, activate: true })
    return id as string
  }
  const read = (name: string, content: string, change: object = {}) => ({
    ...{ name, path, found: 'file', sha256: 'a'.repeat(64), content, ...change },
  })
  const payload = async (body: object, key?: string) =>
    (await ok('POST', '/v1/skills/payload', body, key)).items.map(
      ({ content, reason }: Record<string, unknown>) => content ?? reason,
    )

  test('is asked of the sandbox; what it finds first stays, in its payload and in later sandboxes', async () => {
    const id = await inWorkspace('house')
    const session = await host().begin({ skills: ['house'] })
    expect((await session.view()).pins).toMatchObject([{ id, name: 'house', revision: 1 }])
    const file = `${session.manifest.layout.configDir}/skill/house/SKILL.md`
    const head = '---\nname: "house"\ndescription: "Of the house"\n---\n'
    expect(session.manifest.workspaceSkills).toEqual([
      { name: 'house', path, file, head, maxBytes: 65536 },
    ])
    expect(skillFiles(session)).toEqual([])
    const asked = { skills: ['house'], session: session.id }
    expect(await payload(asked)).toEqual(['path_not_uploaded'])

    session.agent.emit('skill.read', read('nobody', 'Forged.'))
    session.agent.emit('skill.read', read('house', 'Elsewhere.', { path: 'other.md' }))
    session.agent.emit('skill.read', read('house', '---\nname: x\n---\nWipe your feet.'))
    session.agent.emit('skill.read', read('house', 'Forged.'))
    await host().live()
    expect(await payload(asked)).toEqual(['Wipe your feet.'])
    expect(await payload({ skills: ['house'] })).toEqual(['path_not_uploaded'])
    const logged = (await session.events('skill.read')).map(({ data }: { data: object }) => data)
    expect(logged[2]).toEqual({ name: 'house', path, found: 'file', sha256: 'a'.repeat(64) })

    await ok('POST', `${session.at}/replace`)
    await host().live(30_000)
    await session.meet()
    expect(session.manifest.workspaceSkills).toBeUndefined()
    expect(session.file('house/SKILL.md')).toBe(`${head}Wipe your feet.\n`)
    const { runId } = await use(session, 'house')
    expect(await uses(id, runId)).toHaveLength(2)
  })

  test('is not there if the sandbox has found none, and is not looked for again', async () => {
    await inWorkspace('missing')
    await register('given', 'Here.')
    const session = await host().begin({ skills: ['missing', 'given'] })
    const why = read('missing', '', { found: 'missing', sha256: null, content: undefined })
    session.agent.emit('skill.read', why)
    await host().live()
    expect(await payload({ skills: ['missing'], session: session.id })).toEqual(['path_missing'])
    await ok('POST', `${session.at}/replace`)
    await host().live(30_000)
    await session.meet()
    expect(session.manifest.workspaceSkills).toBeUndefined()
    expect(skillFiles(session)).toHaveLength(1)
  })

  test('must have a path inside of the workspace that names no credentials', async () => {
    const paths = ['../house.md', '/etc/passwd', '.env', '.git/config', 'a/.ssh/id_rsa']
    for (const [n, at] of paths.entries()) {
      await inWorkspace(`unsafe-${n}`, at)
      const { status, json } = await host().call('POST', '/v1/sessions', {
        skills: [`unsafe-${n}`],
      })
      expect([status, json.error.details]).toEqual([
        422,
        [{ path: 'skills.0', message: 'Cannot be given: path_unsafe' }],
      ])
    }
  })

  test('its text is kept without what looks like a key, and is nobody else’s to see', async () => {
    await inWorkspace('keyed')
    const session = await host().begin({ skills: ['keyed'] })
    const token = `ghp_${'a1B2'.repeat(9)}`
    session.agent.emit('skill.read', read('keyed', `Use ${token} here`))
    await host().live()
    const body = { skills: ['keyed'], session: session.id }
    const [text] = await payload(body)
    expect(text).toMatch(/^Use .* here$/)
    expect(text).not.toContain(token)
    const limits = { ownSessions: true }
    const key = { name: 'o', owner: 'somebody', scopes: ['read'], limits }
    const own = (await ok('POST', '/v1/keys', key)).secret
    const seen = await host().refusal('POST', '/v1/skills/payload', body, own)
    expect(seen).toEqual([404, 'not_found'])
    const unknown = { ...body, session: session.id.replace(/.{8}$/, '00000000') }
    const none = await host().refusal('POST', '/v1/skills/payload', unknown)
    expect(none).toEqual([404, 'not_found'])
  })
})

describe('[SKILL15] what came of a skill', () => {
  test('that OpenCode was asked for it and has loaded it is recorded once per run', async () => {
    const session = await host().begin({ skills: ['review'] })
    const { runId } = await use(session, 'review')
    await host().live()
    expect(await uses(review, runId)).toEqual([
      ['injected', 1, 'sandbox'],
      ['selected', 1, 'sandbox'],
    ])
    const events = await session.events('skill.used')
    expect(events.map(({ data }: { data: object }) => data)).toEqual([
      { skillId: review, name: 'review', version: 1, runId, outcome: 'selected' },
      { skillId: review, name: 'review', version: 1, runId, outcome: 'injected' },
    ])
    const { items } = await ok('GET', `/v1/runs/${runId}/events`)
    const entries = items.filter(({ kind }: { kind: string }) => kind === 'skill.injected')
    expect(entries).toMatchObject([{ data: { skillId: review, name: 'review', version: 1 } }])
    const call = { ...part, turnId: session.agent && null, tool: 'skill', callId: 'again' }
    session.agent.emit('tool.started', { ...call, input: { name: 'review' } })
    await host().live()
    expect(await session.events('skill.used')).toHaveLength(2)
  })

  test('one that failed to load was selected only; one of the repository is not counted', async () => {
    const session = await host().begin({ skills: ['review'] })
    const failed = await use(session, 'review', { fails: true })
    expect(await uses(review, failed.runId)).toEqual([['selected', 1, 'sandbox']])
    session.agent.endTurn(failed.turnId)
    await host().live()
    const own = await use(session, 'of-the-repository')
    expect(await session.events('skill.used')).toHaveLength(1)
    const told = await session.events('tool.completed')
    expect(told.map(({ data }: { data: { callId: string } }) => data.callId)).toEqual([
      'c-of-the-repository',
    ])
    session.agent.endTurn(own.turnId)
    await host().live()
    const { runId } = await use(session, 'review')
    expect(await uses(review, runId)).toEqual([
      ['injected', 1, 'sandbox'],
      ['selected', 1, 'sandbox'],
    ])
  })

  test('two of one run are told apart, each without a note', async () => {
    const plain = await register('plain', 'Say it plainly.')
    const session = await host().begin({ skills: ['review', 'plain'] })
    const { runId, turnId } = await use(session, 'review')
    const call = { ...part, turnId, tool: 'skill', callId: 'c-plain', input: { name: 'plain' } }
    session.agent.emit('tool.started', call)
    await host().live()
    expect(await uses(plain, runId)).toEqual([['selected', 1, 'sandbox']])
    const { items } = await ok('GET', `/v1/skills/${review}/usage`)
    const noted = items.filter((one: { runId: string }) => one.runId === runId)
    expect(noted.map(({ note }: { note: string }) => note)).toEqual(['', ''])
  })

  test('a person says with the run whether it helped, once per outcome', async () => {
    const session = await host().begin({ skills: ['review'] })
    const { runId } = await session.prompt()
    const path = `/v1/runs/${runId}/skills`
    const verdict = { skillId: review, outcome: 'helped', note: 'it found the fault' }
    const first = await ok('POST', path, verdict)
    expect(first).toMatchObject({ ...verdict, runId, sessionId: session.id, version: 1 })
    expect(await ok('POST', path, { ...verdict, note: 'again' })).toEqual(first)
    await ok('POST', path, { skillId: review, outcome: 'failed' })
    await host().live()
    expect((await uses(review, runId)).map(([outcome]: string[]) => outcome)).toEqual([
      ...['failed', 'helped'],
    ])
    const refused: [object, [number, string]][] = [
      [{ skillId: notes, outcome: 'helped' }, [422, 'unprocessable']],
      [{ skillId: review, outcome: 'injected' }, [400, 'invalid_request']],
      [{ skillId: review }, [400, 'invalid_request']],
    ]
    for (const [body, wanted] of refused)
      expect(await host().refusal('POST', path, body)).toEqual(wanted)
    const { json: unknown } = await host().call('POST', path, { skillId: notes, outcome: 'helped' })
    expect(unknown.error.details).toMatchObject([{ path: 'skillId' }])
    const other = runId.replace(/.{8}$/, '00000000')
    const missing = await host().refusal('POST', `/v1/runs/${other}/skills`, verdict)
    expect(missing).toEqual([404, 'not_found'])
  })

  test('it is gone with its session, and a key for own sessions sees its own', async () => {
    const id = await register('leaving', 'Go.')
    const session = await host().begin({ skills: ['leaving'] })
    const { runId } = await use(session, 'leaving')
    await host().live()
    expect(await uses(id, runId)).toHaveLength(2)
    const limits = { ownSessions: true }
    const body = { name: 'own', owner: 'own', scopes: ['write'], limits }
    const own = (await ok('POST', '/v1/keys', body)).secret
    const seen = async () => (await ok('GET', `/v1/skills/${id}/usage`, undefined, own)).items
    expect(await seen()).toEqual([])
    const hers = await host().begin({ skills: ['leaving'] }, own)
    await use(hers, 'leaving')
    await host().live()
    const sessions = (await seen()).map(({ sessionId }: { sessionId: string }) => sessionId)
    expect(sessions).toEqual([hers.id, hers.id])
    await host().call('DELETE', hers.at)
    await host().call('DELETE', session.at)
    await host().live(60_000)
    expect(await host().rows('select 1 from skill_usage where skill_id = ?', id)).toEqual([])
  })
})

describe('[SKILL16] the agent proposes', () => {
  const change = { skill: 'review', content: 'Read it twice.', rationale: 'Once was not enough' }
  const proposals = async (sessionId: string) =>
    await host().rows('select * from skill_proposals where asker_id = ?', sessionId)

  test('a change of a skill that it has, once, and nothing else changes', async () => {
    const session = await host().begin({ skills: ['review'] })
    const first = await session.callback('skill_propose', change, 'p1')
    expect(first.json).toMatchObject({ success: true })
    const { proposalId } = first.json.data
    expect((await session.callback('skill_propose', change, 'p1')).json).toEqual(first.json)
    const proposal = await ok('GET', `/v1/skill-proposals/${proposalId}`)
    expect(proposal).toMatchObject({
      ...{
        skillId: review,
        state: 'submitted',
        baseVersion: 1,
        description: 'About "review": yes',
      },
      ...{ source: { kind: 'inline', content: 'Read it twice.' }, rationale: change.rationale },
      ...{ signal: { kind: 'trace', reference: session.id } },
      asker: { kind: 'sandbox', id: session.id },
    })
    expect(await proposals(session.id)).toHaveLength(1)
    expect((await ok('GET', `/v1/skills/${review}`)).currentVersion).toBe(1)
    expect(JSON.stringify(await session.view())).not.toContain('Read it twice')
  })

  test('a process that dies after the proposal and before the answer makes no second one', async () => {
    const session = await host().begin({ skills: ['review'] })
    const sent = { ...change, content: 'Read it before it is sent.' }
    const { json } = await session.callback('skill_propose', sent, 'p2')
    const sql = host().app.databaseOf(session.id)
    sql.run(
      `update calls set state = 'pending', response = null, settled_at = null where tool_call_id = 'p2'`,
    )
    host().app.restart(session.id)
    expect((await session.callback('skill_propose', sent, 'p2')).json).toEqual(json)
    expect(await proposals(session.id)).toHaveLength(1)
  })

  test('what looks like a credential does not get into a proposal', async () => {
    const session = await host().begin({ skills: ['review'] })
    const token = `ghp_${'a1B2'.repeat(9)}`
    await session.callback('skill_propose', {
      ...change,
      content: `Use ${token}`,
      rationale: token,
    })
    const [row] = await proposals(session.id)
    expect(row).toMatchObject({ state: 'submitted' })
    expect(JSON.stringify(row)).not.toContain(token)
  })

  test('not of one that it does not have, of an older version, or in a session without', async () => {
    const id = await register('older', 'One.')
    const session = await host().begin({ skills: ['review', 'older'] })
    const answer = async (args: object, at = session) => {
      const { json } = await at.callback('skill_propose', { ...change, ...args })
      return [json.success, json.result]
    }
    expect(await answer({ skill: 'notes' })).toEqual([
      false,
      'This session has no skill "notes": it has review, older',
    ])
    await activate(id, 'Two.')
    expect((await answer({ skill: 'older' }))[1]).toContain('the current one is 2')
    expect((await answer({ content: 'Read it.' }))[1]).toContain('says the same')
    expect((await answer({ content: '' }))[1]).toContain('content')
    const plain = await host().begin()
    expect((await answer({}, plain))[1]).toContain('is for sessions with skills')
    expect([...(await proposals(session.id)), ...(await proposals(plain.id))]).toEqual([])
  })

  test('at most twenty that wait for people', async () => {
    const session = await host().begin({ skills: ['review'] })
    const results = []
    for (let n = 0; n <= 20; n++) {
      const sent = { ...change, content: `Read it ${n} times.` }
      results.push((await session.callback('skill_propose', sent)).json.success)
    }
    expect(results.filter(Boolean)).toHaveLength(20)
    expect(results.at(-1)).toBe(false)
    const [row] = await proposals(session.id)
    await ok('POST', `/v1/skill-proposals/${String(row?.['id'])}/cancel`, { reason: 'r' })
    const sent = { ...change, content: 'Read it once more.' }
    expect((await session.callback('skill_propose', sent)).json.success).toBe(true)
  })
})
