import { beforeAll, describe, expect, test } from 'vitest'
import type { FoundAbilities } from '../../src/contract/ability-folder.ts'
import { folderHashText } from '../../src/contract/ability-folder.ts'
import { sha256 } from '../support/changes-kit.ts'
import { type HostSession, useHost } from '../support/host.ts'

// What a session offers to its model: tools for abilities, stored ones, and those of the workspace.

const host = useHost()
let approver: string
beforeAll(async () => {
  approver = await host().newApprover()
})

let projects = 0
const newProject = () => `offers-${++projects}`

const yamlOf = (name: string, more = '') =>
  `name: ${name}\ndescription: Does ${name}\n${more}steps:\n  - id: one\n    run: ./scripts/one.sh\n`

const store = (project: string, name: string, more = '') =>
  host().ok('PUT', '/v1/abilities', {
    ...{ project, files: [{ path: 'ability.yaml', content: yamlOf(name, more) }] },
  })

/** As the sandbox finds it. */
function found(path: string, source: string, script = 'echo one', hooks: string[] = []) {
  const files = [
    { path: 'ability.yaml', content: source },
    ...hooks.map((hook) => ({ path: hook, content: 'true' })),
    { path: 'scripts/one.sh', content: script },
  ]
  const hashed = files.map((file) => ({ path: file.path, sha256: sha256(file.content) }))
  const hash = sha256(folderHashText(hashed))
  return { files, one: { path, main: 'ability.yaml', source, hash } }
}

const tell = (session: HostSession, told: FoundAbilities) =>
  host().ok('PUT', `/sandbox/${session.id}/abilities`, told, session.token)

const offered = async (session: HostSession) =>
  (await host().ok('GET', `${session.at}/abilities`)).items as {
    name: string
    source: string
    runnable: boolean
    needsApproval: boolean
    problems: string[]
  }[]

const names = async (session: HostSession) => (await offered(session)).map(({ name }) => name)

interface ToolAnswer {
  success: boolean
  result: string
  data: { execution: { id: string }; approvalId: string; agent: string }
}

async function tool(session: HostSession, name: string, args: object = {}) {
  const { status, json } = await session.callback(name, args)
  expect([name, status]).toEqual([name, 200])
  await host().live()
  return json as ToolAnswer
}

const abilityTools = ['list', 'run', 'status', 'cancel', 'agent', 'validate'].map(
  (name) => `ability_${name}`,
)

describe('the tools', () => {
  test('[ABX9] are there if the session, or its agent, names abilities, and else nowhere', async () => {
    const project = newProject()
    await store(project, 'deploy')
    const toolFiles = (session: HostSession) =>
      abilityTools.filter((name) =>
        session.manifest.files.some(({ path }) => path.includes(`/${name}.`)),
      )
    const plain = await host().begin({ project })
    expect(toolFiles(plain)).toEqual([])
    expect((await tool(plain, 'ability_list')).result).toContain('created without')
    const all = await host().begin({ project, abilities: true })
    expect(toolFiles(all)).toEqual(abilityTools)
    expect((await all.view()).pins).toMatchObject([
      { kind: 'ability', name: 'deploy', revision: 1 },
    ])
    await host().ok('PUT', '/v1/agents', { project, name: 'ops', abilities: ['deploy'] })
    const byAgent = await host().begin({ project, agent: { name: 'ops' } })
    expect(toolFiles(byAgent)).toEqual(abilityTools)
    // By the dotted name, too.
    expect((await tool(all, 'ability.list')).result).toContain('- deploy: Does deploy')
  })

  test('[ABX9] list and validate change nothing; a mistake is told with its place', async () => {
    const session = await host().begin({ project: newProject(), abilities: true })
    expect((await tool(session, 'ability_list')).result).toBe(
      'There are no abilities in this session',
    )
    const good = await tool(session, 'ability_validate', { source: yamlOf('x') })
    expect([good.success, good.result]).toEqual([true, '"x" can run: one'])
    const bad = await tool(session, 'ability_validate', { source: 'name: x\nsteps: []\n' })
    expect(bad.success).toBe(false)
    expect(bad.result).toContain('SCHEMA_ERROR')
    expect((await tool(session, 'ability_status')).result).toBe('No ability runs in this session')
  })

  test('[ABX10] ability_run answers at once with the execution, once per call, and runs the version that the session has pinned', async () => {
    const project = newProject()
    await store(project, 'deploy')
    const session = await host().begin({ project, abilities: true })
    await store(project, 'deploy', 'version: "2"\n')
    const args = { name: 'deploy', input: 'please' }
    const first = await session.callback('ability_run', args, 'same')
    const again = await session.callback('ability_run', args, 'same')
    expect(again.json).toEqual(first.json)
    const { execution } = first.json.data
    expect(first.json.result).toContain(`Started "deploy" as ${execution.id}`)
    expect(execution).toMatchObject({ ability: 'deploy', version: 1, status: 'running' })
    await host().live()
    const { operation } = (await session.agent.command('execute')).body
    expect(operation.ability).toBe(execution.hash)
    const second = await tool(session, 'ability_run', { name: 'deploy' })
    expect([second.success, second.result]).toEqual([
      false,
      expect.stringContaining('Already executing ability: deploy'),
    ])
    expect((await tool(session, 'ability_status')).result).toContain('- one (script): running')
    const unknown = await tool(session, 'ability_run', { name: 'none' })
    expect(unknown.result).toBe('There is no ability "none" in this session; there are: deploy')
    const wrong = await tool(session, 'ability_run', { name: 'deploy', inputs: { x: 1 } })
    expect(wrong.success).toBe(false)
  })
})

describe('ability_cancel', () => {
  const begin = async (level: string) => {
    const project = newProject()
    await store(project, 'deploy', `settings: { enforcement: ${level} }\n`)
    const session = await host().begin({ project, abilities: true })
    await session.prompt()
    const { data } = await tool(session, 'ability_run', { name: 'deploy' })
    const id = data.execution.id
    const status = async () => (await host().call('GET', `/v1/executions/${id}`)).json
    return { session, id, status }
  }

  test.each(['normal', 'loose'])(
    '[ABX11] ends a %s ability, and that is on record',
    async (level) => {
      const { session, status } = await begin(level)
      const { success, result } = await tool(session, 'ability_cancel', { reason: 'wrong target' })
      expect([success, result]).toEqual([true, 'Cancelled "deploy". It is on record that you did.'])
      expect(await status()).toMatchObject({
        status: 'cancelled',
        error: 'Cancelled by the agent: wrong target',
      })
      expect((await tool(session, 'ability_cancel', { reason: 'again' })).success).toBe(false)
    },
  )

  test('[ABX11] asks a person about a strict one, which goes on until they agree', async () => {
    const { session, status, id } = await begin('strict')
    const { success, result, data } = await tool(session, 'ability_cancel', { reason: 'tired' })
    expect(success).toBe(false)
    expect(result).toContain('is strict: a person was asked to end it')
    // Asked again, it is the same approval.
    const more = await tool(session, 'ability_cancel', { reason: 'still tired', execution_id: id })
    expect(more.data.approvalId).toBe(data.approvalId)
    expect((await status()).status).toBe('running')
    expect(
      session.agent.answerTo(await session.ask('write', { content: 'a', filePath: 'a' }))?.decision,
    ).toBe('deny')
    await host().ok(
      ...(['POST', `/v1/approvals/${data.approvalId}/resolve`] as const),
      ...([{ resolution: 'approved' }, approver] as const),
    )
    await host().live()
    expect(await status()).toMatchObject({ status: 'cancelled' })
    expect(session.agent.commands('cancel')).toHaveLength(1)
  })

  test('[ABX11] a person who says no leaves it as it is', async () => {
    const { session, status } = await begin('strict')
    const { data } = await tool(session, 'ability_cancel', { reason: 'tired' })
    await host().ok(
      ...(['POST', `/v1/approvals/${data.approvalId}/resolve`] as const),
      ...([{ resolution: 'rejected' }, approver] as const),
    )
    await host().live()
    expect((await status()).status).toBe('running')
    await session.agent.execute({ output: 'done', exitCode: 0 })
    await host().live()
    expect((await status()).status).toBe('completed')
  })
})

describe('abilities of the workspace', () => {
  test('[ABX8] are validated one by one and listed; a stored one of the name counts before them', async () => {
    const project = newProject()
    await store(project, 'deploy')
    const session = await host().begin({ project, abilities: true })
    await tell(session, {
      found: [
        found('deploy', yamlOf('deploy')).one,
        found('tools/test', yamlOf('test')).one,
        { ...found('x', yamlOf('test')).one, path: 'test.yaml', main: 'test.yaml' },
        found('broken', 'steps: []').one,
      ],
      problems: [{ path: 'huge', message: 'It has more than 256 files' }],
    })
    expect(
      (await offered(session)).map(({ name, source, runnable, problems }) =>
        [name, source, runnable, problems.length].join(' '),
      ),
    ).toEqual([
      'deploy stored true 0',
      'broken workspace false 2',
      'workspace:deploy workspace true 0',
      'huge workspace false 1',
      'test workspace true 0',
      'test workspace false 1',
    ])
    // What is told next replaces it.
    await tell(session, { found: [], problems: [] })
    expect(await names(session)).toEqual(['deploy'])
    const other = await host().begin({ project: newProject(), abilities: ['workspace:b'] })
    const both = [found('a', yamlOf('a')).one, found('b', yamlOf('b')).one]
    await tell(other, { found: both, problems: [] })
    expect(await names(other)).toEqual(['b'])
  })

  test('[ABX8] one runs only after a person has approved its exact files, and then the copy runs', async () => {
    const session = await host().begin({ project: newProject(), abilities: true })
    const { one, files } = found('deploy', yamlOf('deploy'))
    await tell(session, { found: [one], problems: [] })
    const running = session.callback('ability_run', { name: 'deploy' })
    const { id, body } = await session.agent.command('ability')
    expect(body).toEqual({ path: 'deploy', hash: one.hash })
    const send = (given: object[], hash = one.hash) =>
      host().call(
        'PUT',
        `/sandbox/${session.id}/abilities/${hash}`,
        { files: given },
        session.token,
      )
    expect((await send([{ path: 'ability.yaml', content: 'other' }])).status).toBe(422)
    expect((await send(files, sha256('nobody asked'))).status).toBe(404)
    expect((await send(files)).status).toBe(200)
    session.agent.result(id)
    const { json } = await running
    expect(json.result).toContain('It waits for a person')
    await host().live()
    expect(session.agent.commands('execute')).toEqual([])
    const { execution } = json.data
    const waiting = (await host().call('GET', `/v1/executions/${execution.id}`)).json
    const { approvalId } = waiting.waitsFor[0]
    const approval = await host().ok('GET', `/v1/approvals/${approvalId}`)
    expect(JSON.stringify(approval.operation)).toContain(one.hash)
    // While nobody has approved it, it blocks nobody.
    await session.prompt()
    expect(session.agent.answerTo(await session.ask('bash', { command: 'ls' }))?.decision).toBe(
      'allow',
    )
    // The file changes in the meantime: what was looked at is what runs.
    await tell(session, {
      found: [found('deploy', yamlOf('deploy'), 'rm -rf /').one],
      problems: [],
    })
    await host().ok(
      ...(['POST', `/v1/approvals/${approvalId}/resolve`] as const),
      ...([{ resolution: 'approved' }, approver] as const),
    )
    await host().live()
    const { operation } = (await session.agent.command('execute')).body
    expect(operation.ability).toBe(one.hash)
    const folder = await host().ok(
      ...(['GET', `/sandbox/${session.id}/abilities/${one.hash}`] as const),
      ...([undefined, session.token] as const),
    )
    expect(folder.files).toEqual(files)
  })

  test('[ABX8] [ABL37] with trust in the repository it counts first and needs nobody; files of its hooks run', async () => {
    const project = newProject()
    await store(project, 'deploy')
    const session = await host().begin({ project, abilities: true, trustProjectConfig: true })
    const { one, files } = found('deploy', yamlOf('deploy'), 'echo one', ['hooks/before/a.sh'])
    await tell(session, { found: [one], problems: [] })
    expect(await offered(session)).toMatchObject([
      { name: 'deploy', source: 'workspace', needsApproval: false },
    ])
    const running = host().call('POST', `${session.at}/executions`, { ability: 'deploy' })
    const { id } = await session.agent.command('ability')
    await host().ok(
      ...(['PUT', `/sandbox/${session.id}/abilities/${one.hash}`] as const),
      ...([{ files }, session.token] as const),
    )
    session.agent.result(id)
    expect((await running).json).toMatchObject({ version: null, hash: one.hash, waitsFor: [] })
    await host().live()
    const { operation } = await session.agent.execute({ exitCode: 0 })
    expect(operation.command).toMatch(/^sh .*\/hooks\/before\/a\.sh$/)
    await host().live()
    const [, step] = session.agent.commands('execute')
    expect(step?.body.operation.command).toMatch(/\/scripts\/one\.sh$/)
  })

  test.each([
    ['steps', yamlOf('deploy'), yamlOf('deploy').replace('one.sh', 'other.sh')],
    ['name', yamlOf('deploy'), yamlOf('destroy')],
    ['agent', yamlOf('deploy'), yamlOf('deploy', 'exclusive_agent: ops\n')],
  ])(
    '[ABX8] one whose files have another definition (%s) than the sandbox told does not run',
    async (_, told, own) => {
      const session = await host().begin({ project: newProject(), abilities: true })
      const { one, files } = found('deploy', own)
      await tell(session, { found: [{ ...one, source: told }], problems: [] })
      const running = session.callback('ability_run', { name: 'deploy' })
      const { id } = await session.agent.command('ability')
      await host().ok(
        ...(['PUT', `/sandbox/${session.id}/abilities/${one.hash}`] as const),
        ...([{ files }, session.token] as const),
      )
      session.agent.result(id)
      const { json } = await running
      expect(json.success).not.toBe(true)
      expect(JSON.stringify(json)).toContain('is not what was told of it')
      expect((await host().ok('GET', `${session.at}/executions`)).items).toEqual([])
      // Told as it is, it waits for a person like any other.
      await tell(session, { found: [one], problems: [] })
      const name = own.includes('destroy') ? 'destroy' : 'deploy'
      const again = await host().call('POST', `${session.at}/executions`, { ability: name })
      expect(again.json.hash).toBe(one.hash)
    },
  )

  test('[ABX8] a folder that has a file twice is refused', async () => {
    const session = await host().begin({ project: newProject(), abilities: true })
    const { files } = found('deploy', yamlOf('deploy'))
    const twice = [...files, { path: 'scripts/one.sh', content: 'rm -rf /' }]
    const hash = sha256(
      folderHashText(twice.map((file) => ({ path: file.path, sha256: sha256(file.content) }))),
    )
    const one = { path: 'deploy', main: 'ability.yaml', source: yamlOf('deploy'), hash }
    await tell(session, { found: [one], problems: [] })
    const running = session.callback('ability_run', { name: 'deploy' })
    const { id } = await session.agent.command('ability')
    const sent = await host().call(
      ...(['PUT', `/sandbox/${session.id}/abilities/${hash}`] as const),
      ...([{ files: twice }, session.token] as const),
    )
    expect(sent.status).toBe(422)
    session.agent.result(id)
    expect((await running).json.success).not.toBe(true)
  })

  test.each(['test', 'tools/test'])(
    '[ABX8] [ABL5] the flat file %s.yaml is called by its path, and runs',
    async (name) => {
      const session = await host().begin({
        ...{ project: newProject(), abilities: true, trustProjectConfig: true },
      })
      const source = yamlOf('x').replace('name: x\n', '')
      const files = [{ path: 'test.yaml', content: source }]
      const hash = sha256(folderHashText([{ path: 'test.yaml', sha256: sha256(source) }]))
      const one = { path: `${name}.yaml`, main: 'test.yaml', source, hash }
      await tell(session, { found: [one], problems: [] })
      expect(await names(session)).toEqual([name])
      const running = host().call('POST', `${session.at}/executions`, { ability: name })
      const { id } = await session.agent.command('ability')
      await host().ok(
        ...(['PUT', `/sandbox/${session.id}/abilities/${hash}`] as const),
        ...([{ files }, session.token] as const),
      )
      session.agent.result(id)
      expect((await running).json).toMatchObject({ ability: name, hash })
    },
  )

  test('[ABX8] one that changes before it is copied is refused', async () => {
    const session = await host().begin({ project: newProject(), abilities: true })
    await tell(session, { found: [found('deploy', yamlOf('deploy')).one], problems: [] })
    const running = session.callback('ability_run', { name: 'deploy' })
    const { id } = await session.agent.command('ability')
    session.agent.fail(id, 'it has changed or is gone')
    expect((await running).json.success).not.toBe(true)
    expect((await tool(session, 'ability_status')).result).toBe('No ability runs in this session')
  })
})

describe('a message', () => {
  const triggered = 'triggers: { keywords: [deploy], patterns: ["ship +it"] }\n'

  test('[ABX12] that speaks of an ability brings a proposal with it, once in ten seconds, and starts nothing', async () => {
    const project = newProject()
    await store(project, 'deploy', triggered)
    const session = await host().begin({ project, abilities: true })
    const noticeOf = async (text: string) => {
      const turn = await session.prompt({ text })
      session.agent.endTurn(turn.id)
      await host().live()
      return session.agent.commands('prompt').find(({ id }) => id === turn.id)?.body.notice ?? ''
    }
    expect(await noticeOf('hello')).toBe('')
    const notice = await noticeOf('please DEPLOY this')
    expect(notice).toContain('- deploy: Does deploy')
    expect(notice).toContain('ability_run')
    expect(await noticeOf('deploy again')).toBe('')
    await host().live(10_000)
    expect(await noticeOf('Ship  it')).toContain('- deploy')
    expect(await session.events('ability.proposed')).toHaveLength(2)
    expect((await host().ok('GET', `${session.at}/executions`)).items).toEqual([])
    const plain = await host().begin({ project })
    const turn = await plain.prompt({ text: 'deploy' })
    const sent = plain.agent.commands('prompt').find(({ id }) => id === turn.id)
    expect(sent?.body.notice).toBeUndefined()
  })

  test('[ABX4] neither lists as runnable nor proposes what is for another agent, and refuses to run it', async () => {
    const project = newProject()
    await store(project, 'deploy', `${triggered}exclusive_agent: ops\n`)
    await store(project, 'test')
    const session = await host().begin({ project, abilities: true })
    const turn = await session.prompt({ text: 'deploy' })
    const sent = session.agent.commands('prompt').find(({ id }) => id === turn.id)
    expect(sent?.body.notice).toBeUndefined()
    const run = await tool(session, 'ability_run', { name: 'deploy' })
    expect(run).toMatchObject({
      success: false,
      result: 'Cannot run "deploy": The ability "deploy" is for the agent "ops" alone',
    })
    const own = await tool(session, 'ability_agent')
    expect(own.data.agent).toBe('default')
    expect(own.result).toBe('- test: Does test')
    await host().ok('PUT', '/v1/agents', { project, name: 'ops' })
    const ops = await host().begin({ project, abilities: true, agent: { name: 'ops' } })
    expect((await tool(ops, 'ability_run', { name: 'deploy' })).success).toBe(true)
    await host().ok('PUT', '/v1/agents', { project, name: 'qa', abilities: ['test'] })
    const qa = await host().begin({ project, agent: { name: 'qa' } })
    expect((await tool(qa, 'ability_agent')).result).toBe('- test: Does test')
  })
})
