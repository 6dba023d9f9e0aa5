import { describe, expect, test } from 'vitest'
import { folderHashText } from '../../src/contract/ability-folder.ts'
import { sha256 } from '../support/changes-kit.ts'
import { type HostSession, useHost } from '../support/host.ts'

// What an agent may do while an ability runs, as the sandbox is told it.

const host = useHost()

const store = (yaml: string, more: { path: string; content: string }[] = []) =>
  host().ok('PUT', '/v1/abilities', { files: [{ path: 'ability.yaml', content: yaml }, ...more] })

async function execute(session: HostSession, ability: string, inputs: object = {}) {
  const body = { ability, inputs }
  const { status, json } = await host().call('POST', `${session.at}/executions`, body)
  expect([ability, status]).toEqual([ability, 201])
  await host().live()
  return json
}

const answerOf = async (session: HostSession, ...asked: Parameters<HostSession['ask']>) =>
  session.agent.answerTo(await session.ask(...asked))

const decide = async (session: HostSession, tool: string, input: unknown = {}, from: object = {}) =>
  (await answerOf(session, tool, input, from))?.decision ?? 'waits'

const write = { content: 'a', filePath: 'a.txt' }

describe('while a script step runs', () => {
  const script = (name: string, level: string) =>
    store(
      `{ name: ${name}, description: d, settings: { enforcement: ${level} }, steps: [{ id: build, run: make }, { id: more, run: make }] }`,
    )

  test('[ABX7] the agent, its subagents and every tool of others are held to it before any policy is asked', async () => {
    await script('strict-one', 'strict')
    const session = await host().begin()
    const turn = await session.prompt()
    const ls = { command: 'ls' }
    expect(await decide(session, 'bash', ls)).toBe('allow')
    const { id } = await execute(session, 'strict-one')
    const sub = { agent: 'build', subagent: 'helper' }
    const tools = [
      'write',
      'bash',
      'task',
      'webfetch',
      'github_merge',
      'nobody_knows',
      'ability_run',
    ]
    for (const tool of tools) {
      expect([tool, await decide(session, tool, write)]).toEqual([tool, 'deny'])
      expect([tool, await decide(session, tool, write, sub)]).toEqual([tool, 'deny'])
    }
    for (const tool of ['read', 'lsp'])
      expect([tool, await decide(session, tool, { filePath: 'a.txt' })]).toEqual([tool, 'allow'])
    expect(await decide(session, 'todoread')).toBe('allow')
    // It can only narrow: what it lets through is still the policy's to decide.
    expect(await decide(session, 'read', { filePath: '/etc/passwd' })).toBe('deny')
    expect(await answerOf(session, 'write', write)).toMatchObject({
      reason:
        'The ability "strict-one" is at step "build" (script), 0/2 steps done: only reading and status tools work until it is over. End your turn or look with ability_status; ability_cancel asks a person to end it',
    })
    const events = await host().ok('GET', `/v1/runs/${turn.runId}/events?limit=200`)
    const records = events.items.filter(
      ({ kind, data }: { kind: string; data: { rule: string } }) =>
        kind === 'permission-decision' && data.rule === 'ability',
    )
    expect(records.length).toBe(tools.length * 2 + 1)
    expect(records[0].data).toMatchObject({ by: 'state', decision: 'deny' })

    await session.agent.execute({ output: 'done', exitCode: 0 })
    await host().live()
    expect(await decide(session, 'bash', ls)).toBe('deny')
    await session.agent.execute({ output: 'done', exitCode: 0 })
    await host().live()
    expect((await host().call('GET', `/v1/executions/${id}`)).json.status).toBe('completed')
    expect(await decide(session, 'bash', ls)).toBe('allow')
  })

  test('[ABX7] normal lets pass what destroys nothing, and loose all that the policy allows', async () => {
    await script('normal-one', 'normal')
    await script('loose-one', 'loose')
    const session = await host().begin()
    await session.prompt()
    const normal = await execute(session, 'normal-one')
    expect(await decide(session, 'todowrite')).toBe('allow')
    expect(await decide(session, 'bash', { command: 'ls' })).toBe('deny')
    expect(await decide(session, 'write', write)).toBe('deny')
    await host().call('POST', `/v1/executions/${normal.id}/cancel`, {})
    await execute(session, 'loose-one')
    expect(await decide(session, 'bash', { command: 'ls' })).toBe('allow')
    expect(await decide(session, 'bash', { command: 'sudo ls' })).toBe('waits')
  })
})

describe('the folder of an ability', () => {
  test('[ABX6] is given to the sandbox of a session that runs it, to no other, and is what began', async () => {
    const yaml = '{ name: with-script, description: d, steps: [{ id: a, run: ./scripts/a.sh }] }'
    const script = { path: 'scripts/a.sh', content: 'echo "$ABILITY_DIR"' }
    const { hash } = await store(yaml, [script])
    const session = await host().begin()
    const other = await host().begin()
    const get = (from: HostSession, of: string = from.id, what = hash) =>
      host().call('GET', `/sandbox/${of}/abilities/${what}`, undefined, from.token)
    expect((await get(session)).status).toBe(404)
    await execute(session, 'with-script')
    await store(yaml, [{ path: 'scripts/a.sh', content: 'echo changed' }])
    const { operation } = (await session.agent.command('execute')).body
    expect(operation.ability).toBe(hash)
    const { files } = (await get(session)).json
    expect(files).toEqual([{ path: 'ability.yaml', content: yaml }, script])
    const hashed = files.map(({ path, content }: { path: string; content: string }) => ({
      ...{ path, sha256: sha256(content) },
    }))
    expect(sha256(folderHashText(hashed))).toBe(hash)
    expect((await get(other)).status).toBe(404)
    expect((await get(other, session.id)).status).toBe(403)
    expect((await host().call('GET', `/sandbox/${session.id}/abilities/${hash}`)).status).toBe(403)
    expect((await get(session, session.id, 'x')).status).toBe(404)
  })
})
