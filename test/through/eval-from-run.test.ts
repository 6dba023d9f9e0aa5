import { describe, expect, test } from 'vitest'
import { ChangeScene, edit } from '../support/changes-kit.ts'
import { useHost } from '../support/host.ts'

const host = useHost()
const at = '/v1/evals/from-run'
const commit = 'a'.repeat(40)
const steps = [
  edit('a.txt', 'hello world\n', 'world', 'moon'),
  edit('a.txt', 'hello moon\n', 'moon', 'sun'),
]

/** A run with one turn that changed a file, and that has ended. */
async function ended(body: object = {}): Promise<ChangeScene> {
  const scene = await ChangeScene.begin(host(), steps, body)
  await scene.tell()
  await scene.collect()
  return scene
}

/** The file as the validation reads it: it has no mistake. */
async function read({ path, content }: { path: string; content: string }) {
  const checked = await host().ok('POST', '/v1/evals/validate', {
    files: [{ path, content }],
    suite: path,
  })
  expect(checked.problems).toEqual([])
  return checked.suite.cases[0]
}

describe('a case of a run', () => {
  test('[EVR26] asks its prompts in its repository and expects what it has left and verified', async () => {
    const repository = { url: 'https://git.example/x.git', ref: 'main' }
    const scene = await ChangeScene.begin(host(), steps, { repository })
    const { runId } = scene.turn
    for (const [command, passed] of [
      ['npm test', true],
      ['npm run broken', false],
    ])
      await host().ok('POST', `/v1/runs/${runId}/events`, {
        kind: 'verification.ended',
        data: { command, passed },
      })
    await scene.tell()
    await scene.collect()
    const made = await host().ok('POST', at, { runId, commit, commands: ['npm run lint'] })
    expect(made).toMatchObject({ path: `${runId}.yaml`, problems: [], notes: [] })
    expect(await read(made)).toMatchObject({
      id: runId,
      inputMessages: [{ role: 'user', content: 'go' }],
      workspace: { repository: { url: repository.url, ref: commit }, files: [] },
      evaluators: [
        { type: 'diff_scope', allow: ['a.txt'], changesRequired: true },
        { type: 'file_matches', path: 'a.txt', equals: 'hello sun\n' },
        { type: 'command', command: 'npm run lint', exitCode: 0 },
        { type: 'command', command: 'npm test', exitCode: 0 },
      ],
    })
    const branch = await host().ok('POST', at, { runId, files: false, scope: false, caseId: 'x' })
    expect(branch.notes).toEqual([expect.stringContaining('else the case follows main')])
    expect(await read(branch)).toMatchObject({
      id: 'x',
      workspace: { repository: { ref: 'main' } },
      evaluators: [{ type: 'command', command: 'npm test' }],
    })
  })

  test('[EVR26] is at the commit that its workspace began at, unless the session has begun anew since', async () => {
    const repository = { url: 'https://git.example/x.git', ref: 'main' }
    const scene = await ChangeScene.begin(host(), steps, { repository })
    const { agent } = scene.session
    const [base, other] = ['b'.repeat(40), 'c'.repeat(40)]
    const diff = { patch: '', files: [], truncated: false, base }
    const patch = { base, tree: 'd'.repeat(40), files: 1, bytes: 0, text: '', checksum: 0 }
    await scene.tellTools()
    agent.endTurn(scene.turn.id, { diff: { ...diff, commit }, patch })
    await host().live()
    const { runId } = scene.turn
    const refOf = async (body: object = {}) =>
      (await read(await host().ok('POST', at, { runId, ...body }))).workspace.repository.ref
    expect((await host().ok('POST', at, { runId })).notes).not.toContainEqual(
      expect.stringContaining('commit'),
    )
    expect(await refOf()).toBe(commit)
    expect(await refOf({ commit: 'e'.repeat(40) })).toBe('e'.repeat(40))
    const before = expect.stringContaining('what earlier runs changed')
    expect((await host().ok('POST', at, { runId })).notes).not.toContainEqual(before)
    // A sandbox that goes on with the session's files does not tell it again.
    const next = await scene.session.prompt()
    agent.endTurn(next.id, { diff, patch: { ...patch, tree: 'f'.repeat(40) } })
    await host().live()
    expect(await refOf()).toBe(commit)
    const second = await host().ok('POST', at, { runId: next.runId })
    expect([second.notes, (await read(second)).workspace.repository.ref]).toEqual([
      expect.arrayContaining([before]),
      commit,
    ])
    const last = await scene.session.prompt()
    agent.endTurn(last.id, {
      diff: { ...diff, base: other, commit: other },
      patch: { ...patch, base: other },
    })
    await host().live()
    expect(await refOf()).toBe('main')
  })

  test('[EVR26] of a workspace without a repository begins with the files as they were', async () => {
    const scene = await ended()
    const made = await host().ok('POST', at, { runId: scene.turn.runId })
    expect((await read(made)).workspace).toEqual({
      files: [{ path: 'a.txt', text: 'hello world\n' }],
    })
  })

  test('[EVR27] a run that has not ended is refused, with what to do', async () => {
    const session = await host().begin()
    const { runId } = await session.prompt()
    const { status, json } = await host().call('POST', at, { runId })
    expect([status, json.error.code]).toEqual([409, 'wrong_state'])
    expect(json.error.message).toContain(`it is running. Wait until it has ended, or end it by`)
  })

  test('[EVR27] strangers, limited keys and made-up ids find no run', async () => {
    const { turn } = await ended({ project: 'alpha' })
    const stranger = (await host().app.makeKey(await host().app.makeOrganisation(), 'admin')).secret
    const limits = { scopes: ['read'], limits: { projects: ['beta'] } }
    const { secret } = await host().ok('POST', '/v1/keys', { name: 'b', ...limits })
    const own = { scopes: ['read'], limits: { projects: ['alpha'] } }
    const allowed = await host().ok('POST', '/v1/keys', { name: 'a', ...own })
    const body = { runId: turn.runId }
    for (const key of [stranger, secret])
      expect(await host().refusal('POST', at, body, key)).toEqual([404, 'not_found'])
    await host().ok('POST', at, body, allowed.secret)
    const madeUp = { runId: `run_${'0'.repeat(38)}` }
    expect(await host().refusal('POST', at, madeUp)).toEqual([404, 'not_found'])
    const missing = { runId: `${turn.runId.slice(0, -8)}00000000` }
    expect(await host().refusal('POST', at, missing)).toEqual([404, 'not_found'])
  })

  test('[EVR27] nothing secret is in it: neither in messages nor in files', async () => {
    const token = `ghp_${'A1b2C3d4E5'.repeat(4).slice(0, 36)}`
    const session = await host().begin()
    const run = await host().ok('POST', `${session.at}/runs`, { intent: 'both' })
    const turn = await session.prompt({ text: `use ${token}` })
    session.agent.endTurn(turn.id)
    await host().live()
    const file = edit('b.txt', 'empty\n', 'empty', token)
    const scene = await ChangeScene.in(session, [file])
    await scene.tell()
    await scene.collect()
    await host().ok('POST', `/v1/runs/${run.id}/finish`, { status: 'completed' })
    const made = await host().ok('POST', at, { runId: run.id })
    expect(JSON.stringify(made)).not.toContain(token)
    const { inputMessages, evaluators } = await read(made)
    expect(inputMessages).toMatchObject([
      { content: expect.stringMatching(/^use \S+/) },
      { content: 'go' },
    ])
    expect(evaluators).toMatchObject([{ type: 'diff_scope', allow: ['b.txt'] }])
    expect(made.notes).toContainEqual(expect.stringContaining('The text of b.txt is not stored'))
  })
})
