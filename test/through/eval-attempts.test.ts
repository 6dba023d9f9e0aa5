import { describe, expect, test } from 'vitest'
import { attemptsOn, type Item, partOf } from '../support/eval-attempts-kit.ts'
import { ChangeScene, edit } from '../support/changes-kit.ts'
import { HostSession, useHost } from '../support/host.ts'

const host = useHost()
const at = '/v1/evals/runs'
const { begin, attempts, events, sessionOf, finish, result } = attemptsOn(host)

describe('an attempt of OpenCode', () => {
  test('[EVR12] is one turn of a session of its own, whose transcript is scored and which is closed', async () => {
    const run = await begin()
    const session = await sessionOf(run.id)
    const [prompt] = session.agent.commands('prompt')
    expect(prompt!.body).toMatchObject({ text: 'Write hello', steer: false })
    expect((await session.view()).title).toBe('Eval c0 (oc)')
    const { agent, turnId } = session
    const call = { ...partOf(turnId), tool: 'write', callId: 'call_1', input: { filePath: 'a' } }
    agent.emit('tool.started', call)
    agent.emit('tool.completed', {
      ...call,
      title: 't',
      output: 'ok',
      truncated: false,
      durationMs: 1,
    })
    await finish(session)
    expect(await host().ok('GET', `${at}/${run.id}`)).toMatchObject({
      status: 'completed',
      passed: 1,
    })
    expect(await result(run.id)).toMatchObject({
      candidate_answer: 'hello',
      tool_calls: [{ tool: 'write', id: 'call_1', input: { filePath: 'a' }, output: 'ok' }],
      transcript: `/v1/sessions/${session.id}/events`,
    })
    expect((await session.view()).status).toBe('closed')
  })

  test('[EVR13] has its log published before it begins, once; switched off there is none', async () => {
    const run = await begin()
    await host().live(100)
    const [entry, ...more] = await events(run.id, 'log.published')
    expect(more).toEqual([])
    expect(entry).toMatchObject({ targetName: 'oc', evalCaseId: 'c0', attempt: 0 })
    expect(entry!['filePath']).toMatch(
      /^\.agentv\/logs\/opencode\/[\dTZ-]+_oc_c0_[0-9a-f]{8}\.log$/,
    )
    const { sessionId } = (await attempts(run.id))[0]!
    expect(entry!['url']).toMatch(new RegExp(`/v1/sessions/${sessionId}/events$`))
    host().app.restart(run.id)
    const session = await sessionOf(run.id)
    const sent = session.agent.commands('prompt')[0]!.body.attempt
    expect(sent).toEqual({ logFile: entry!['filePath'] })
    expect(await events(run.id, 'log.published')).toHaveLength(1)
    for (const off of [
      { target: { stream_logs: false } },
      { run: { streamLogs: false } },
      { run: { variables: { AGENTV_OPENCODE_STREAM_LOGS: 'off' } } },
    ]) {
      const quiet = await begin(off)
      const silent = await sessionOf(quiet.id)
      expect(silent.agent.commands('prompt')[0]!.body.attempt).toEqual({ logFile: null })
      expect(await events(quiet.id, 'log.published')).toEqual([])
      await finish(silent)
      expect(await result(quiet.id)).toMatchObject({ score: 1 })
    }
    const other = await begin({ target: { log_dir: 'logs/mine' } })
    await host().live(100)
    expect((await events(other.id, 'log.published'))[0]!['filePath']).toMatch(/^logs\/mine\//)
  })

  test('[EVR12] nobody else can have anything done in it, also not who made the run: its result is its target’s', async () => {
    await host().ok('PUT', '/v1/abilities', {
      files: [
        { path: 'a.yaml', content: '{ name: help, description: d, steps: [{ id: a, run: ls }] }' },
      ],
    })
    const run = await begin()
    const session = await sessionOf(run.id)
    const { id: runId } = (await host().ok('GET', `${session.at}/runs`)).items[0]
    const edited = {
      operation: { category: 'edit', operation: 'write-file', targetPath: 'a', content: 'b' },
    }
    const requests: [method: string, path: string, body: object][] = [
      ['POST', `${session.at}/prompts`, { text: 'Say hello' }],
      ['POST', `${session.at}/prompts`, { text: 'Say hello', steer: true }],
      ['POST', `${session.at}/executions`, { ability: 'help' }],
      ['POST', `/v1/runs/${runId}/operations`, edited],
      ['POST', `${session.at}/policy`, { policy: null }],
      ['PUT', `${session.at}/budget`, { moneyUsd: 100 }],
      ['POST', `${session.at}/env`, { values: [{ key: 'A', value: 'b' }] }],
    ]
    const refused: unknown[] = []
    for (const [method, path, body] of requests) {
      const { status, json } = await host().call(method, path, body)
      refused.push([path, status, json?.error?.message])
    }
    const message = `Cannot use it: the session is an attempt of the eval run "${run.id}"`
    expect(refused).toEqual(requests.map(([, path]) => [path, 409, message]))
    expect(session.agent.commands('prompt')).toHaveLength(1)
    await finish(session)
    expect(await result(run.id)).toMatchObject({ score: 1 })
  })

  test('[EVR14] what asks is rejected at once and recorded, and the attempt names it', async () => {
    const run = await begin()
    const session = await sessionOf(run.id)
    const { agent } = session
    const askId = await session.ask('bash', { command: 'rm -rf build' })
    expect(agent.answerTo(askId)).toMatchObject({ decision: 'deny' })
    const { items } = await host().ok('GET', `${session.at}/approvals`)
    expect(items).toMatchObject([
      { kind: 'eval', state: 'rejected', resolution: { actor: 'eval' } },
    ])
    await host().live(10_000)
    const { error, score } = await result(run.id)
    expect(score).toBe(0)
    expect(error).toContain('OpenCode permission was blocked')
    expect(error).toContain('rm -rf build')
    expect(error).toContain("Set permissions of target 'oc' to once or always")
  })

  test.each(['once', 'always'])('[EVR15] with permissions %s it goes on', async (permissions) => {
    const run = await begin({ target: { permissions } })
    const session = await sessionOf(run.id)
    for (let times = 0; times < 2; times += 1) {
      const askId = await session.ask('bash', { command: 'rm -rf build' })
      expect(session.agent.answerTo(askId)).toMatchObject({ decision: 'allow' })
    }
    const { items } = await host().ok('GET', `${session.at}/approvals`)
    expect(items.map(({ kind, state }: Item) => [kind, state])).toEqual(
      permissions === 'once'
        ? [
            ['eval', 'approved'],
            ['eval', 'approved'],
          ]
        : [['eval', 'approved']],
    )
    // What a policy denies stays denied.
    const denied = await session.ask('read', { filePath: '/etc/shadow' })
    expect(session.agent.answerTo(denied)).toMatchObject({ decision: 'deny' })
    await finish(session)
    expect(await result(run.id)).toMatchObject({ score: 1 })
  })

  test('[EVR16] OpenCode’s own question is answered in the same way, and nowhere else', async () => {
    const input = { patterns: ['/etc/*'], permission: 'external_directory' }
    for (const [permissions, decision] of [
      ['once', 'allow'],
      ['reject', 'deny'],
    ]) {
      const run = await begin({ target: { permissions } })
      const session = await sessionOf(run.id)
      const askId = await session.ask('permission', input)
      expect(session.agent.answerTo(askId)).toMatchObject({ decision })
    }
    const plain = await host().begin()
    await plain.prompt()
    const askId = await plain.ask('permission', input)
    expect(plain.agent.answerTo(askId)).toMatchObject({ decision: 'deny' })
  })

  test('[EVR17] only a time-out is tried again, in a new session; its other results are untouched', async () => {
    const run = await begin({ target: { timeout_seconds: 20, max_retries: 1 } })
    const first = await sessionOf(run.id)
    await host().live(30_000)
    expect(await events(run.id, 'attempt.retried')).toMatchObject([
      { attempt: 1, reason: 'OpenCode timed out after 20s' },
    ])
    expect((await first.view()).status).toBe('closed')
    const second = await sessionOf(run.id)
    expect(second.id).not.toBe(first.id)
    expect(await events(run.id, 'log.published')).toHaveLength(2)
    await host().live(30_000)
    expect(await result(run.id)).toMatchObject({ error: 'OpenCode timed out after 20s', score: 0 })
    const failing = await begin({ target: { max_retries: 3 } })
    const session = await sessionOf(failing.id)
    session.agent.endTurn(session.turnId, { state: 'failed', reason: 'The model is away' })
    await host().live(10_000)
    expect(await result(failing.id)).toMatchObject({
      error: 'OpenCode turn was failed: The model is away',
    })
    expect(await events(failing.id, 'attempt.retried')).toEqual([])
  })

  test('[EVR18] a sandbox that cannot start fails its own attempt alone, with what to do', async () => {
    const run = await begin({ cases: [{}, {}], target: { workers: 2 } })
    await host().live(100)
    const broken = new HostSession(host(), (await attempts(run.id))[0]!['sessionId'])
    await broken.meet({ ready: false })
    for (let tries = 0; tries < 10; tries += 1) {
      broken.agent.send({ t: 'failed', reason: 'Cannot start OpenCode: spawn /x/opencode ENOENT' })
      await host().live(30_000)
      if ((await broken.view()).sandbox.state === 'failed') break
      await broken.meet({ ready: false }).catch(() => undefined)
    }
    const session = await sessionOf(run.id, 1)
    await finish(session)
    expect(await result(run.id, 1)).toMatchObject({ score: 1 })
    await host().live(700_000)
    expect((await result(run.id))['error']).toMatch(/^OpenCode /)
  })

  test('[EVR19] gets the files of its case before it begins, the secrets that its target names, and no other', async () => {
    const configurationId = await host().configuration({})
    for (const name of ['GIVEN', 'HIDDEN'])
      await host().ok('PUT', `/v1/secrets/${name}`, { value: `value of ${name}`, configurationId })
    const workspace = { configuration_id: configurationId, files: [{ path: 'a/b.txt', text: 'B' }] }
    const run = await begin({ cases: [{ workspace }], target: { secrets: ['GIVEN'] } })
    const session = await sessionOf(run.id)
    expect(session.manifest.fixtures).toEqual([{ path: 'a/b.txt', text: 'B' }])
    const env = await host().ok('GET', `/sandbox/${session.id}/env`, undefined, session.token)
    expect(Object.keys(env.values)).toEqual(['GIVEN'])
    expect(await host().ok('GET', `${session.at}/policy`)).toMatchObject({ name: 'strict' })
  })

  test('[EVR19] the values of its secrets are in no result, event, report or log', async () => {
    const value = 'correct-horse-battery-staple'
    const configurationId = await host().configuration({})
    await host().ok('PUT', '/v1/secrets/GIVEN', { value, configurationId })
    const evaluators = [{ name: 'says', type: 'contains', value: 'hello' }]
    const workspace = { configuration_id: configurationId }
    const run = await begin({
      cases: [{ workspace, execution: { evaluators } }],
      target: { secrets: ['GIVEN'] },
      run: { verbose: true },
    })
    const session = await sessionOf(run.id)
    const tool = { ...partOf(session.turnId), callId: 'k', tool: 'bash', agent: 'build' }
    const input = { command: `echo ${value}` }
    session.agent.emit('tool.started', { ...tool, input })
    const end = { title: value, output: value, truncated: false, durationMs: 1 }
    session.agent.emit('tool.completed', { ...tool, input, ...end })
    session.agent.emit('agent.notice', { message: `It is ${value}` })
    await finish(session, `hello ${value}`)
    const row = await result(run.id)
    expect(row).toMatchObject({ score: 1, tool_calls: [{ tool: 'bash' }] })
    const told = await host().ok('GET', `/v1/evals/runs/${run.id}/events?limit=500`)
    const report = await host().app.app.request(`/v1/evals/runs/${run.id}/report`, {
      headers: { authorization: `Bearer ${host().key}` },
    })
    const all = [JSON.stringify([row, told, host().app.logs]), await report.text()]
    expect(all.map((text) => text.includes(value))).toEqual([false, false])
  })

  test('[EVR20] what is denied often does not hide what is denied once', async () => {
    const evaluators = [{ name: 'kept', type: 'policy', allow_denied: ['read'] }]
    const run = await begin({ cases: [{ execution: { evaluators } }] })
    const session = await sessionOf(run.id)
    for (let times = 0; times < 201; times += 1)
      await session.ask('read', { filePath: `/etc/shadow${times}` })
    await session.ask('edit', { filePath: '/etc/shadow' })
    await finish(session)
    expect((await result(run.id)).misses).toEqual([expect.stringMatching(/^edit was denied: /)])
  })

  test('[EVR20] its evaluators look into its sandbox: a command, files, what changed, what was denied', async () => {
    const evaluators = [
      { name: 'tests', type: 'command', command: 'ls' },
      { name: 'file', type: 'file_matches', path: 'a.txt', contains: 'hello' },
      { name: 'scope', type: 'diff_scope', allow: ['a.txt'] },
      { name: 'kept', type: 'policy' },
    ]
    const run = await begin({ cases: [{ execution: { evaluators } }] })
    const session = await sessionOf(run.id)
    const { agent } = session
    agent.emit('message.text', { ...partOf(session.turnId), text: 'hello', reasoning: false })
    agent.endTurn(session.turnId, { text: 'hello' })
    await host().live(5000)
    for (let looks = 0; looks < 20 && (await result(run.id)) === null; looks += 1) {
      for (const { id, body } of agent.commands('execute')) {
        const isRead = body.operation.operation === 'read-file'
        agent.result(id, reportOf(isRead ? 'say hello' : 'a.txt', isRead ? null : 0))
      }
      for (const { id } of agent.commands('diff'))
        agent.result(id, { patch: '', files: [changed('b.txt')], truncated: false })
      await host().live(1000)
    }
    const { evaluator_results: scored } = await result(run.id)
    expect(scored.map(({ name, score }: Item) => [name, score])).toEqual([
      ['tests', 1],
      ['file', 1],
      ['scope', 0],
      ['kept', 1],
    ])
  })
})

describe('whether the changes of an attempt are proven', () => {
  const evaluators = [{ name: 'proof', type: 'evidence' }]
  const steps = [edit('a.txt', 'one\n', 'one', 'two')]

  /** Its tools have run and its turn has ended; the agent is asked for what it has found. */
  async function worked(): Promise<{ runId: string; scene: ChangeScene }> {
    const run = await begin({ cases: [{ execution: { evaluators } }] })
    const session = await sessionOf(run.id, 0, { opencodeSessionId: 'ses_oc' })
    const turn = await host().ok('GET', `/v1/turns/${session.turnId}`)
    const scene = await new ChangeScene(session, turn, steps).tell()
    await host().live(5000)
    return { runId: run.id, scene }
  }

  async function judged(runId: string, scene: ChangeScene, paths: string[]): Promise<Item> {
    for (let looks = 0; looks < 20 && (await result(runId)) === null; looks += 1) {
      for (const { id } of scene.session.agent.commands('diff'))
        scene.session.agent.result(id, { patch: '', files: paths.map(changed), truncated: false })
      await host().live(1000)
    }
    return result(runId)
  }

  test('[EVR25] it is scored once they are collected: all are proven', async () => {
    const { runId, scene } = await worked()
    expect(await result(runId)).toBeNull()
    await scene.collect()
    expect(await judged(runId, scene, ['a.txt'])).toMatchObject({
      score: 1,
      hits: ['a.txt is proven'],
    })
  })

  test('[EVR25] a file that no tool is known to have changed, and one without proof, are misses', async () => {
    const { runId, scene } = await worked()
    await scene.collect(scene.bundle({ files: [], windows: [], reads: [] }))
    const { score, misses } = await judged(runId, scene, ['a.txt', 'b.txt'])
    expect(score).toBe(0)
    expect(misses).toEqual([
      expect.stringMatching(/^a\.txt is not proven: ./),
      'b.txt is not proven: No tool is known to have changed it',
    ])
  })
})

describe('an attempt of a command', () => {
  test('[EVR21] is run in a sandbox with the question in a file, and what it prints is the answer', async () => {
    const run = await begin({ target: { provider: 'cli', command: 'cat "$EVAL_PROMPT_FILE"' } })
    await host().live(100)
    const session = new HostSession(host(), (await attempts(run.id))[0]!['sessionId'])
    await session.meet()
    expect(session.manifest.fixtures).toEqual([{ path: '.agentv/cli/prompt', text: 'Write hello' }])
    for (let looks = 0; looks < 20 && (await result(run.id)) === null; looks += 1) {
      for (const { id, body } of session.agent.commands('execute')) {
        const isRead = body.operation.operation === 'read-file'
        session.agent.result(
          id,
          isRead
            ? { ...reportOf('', null), status: 'failed', error: 'No such file' }
            : reportOf('hello', 0),
        )
      }
      await host().live(1000)
    }
    expect(await result(run.id)).toMatchObject({ candidate_answer: 'hello', score: 1 })
  })
})

const changed = (path: string) => ({ path, status: 'added', additions: 1, deletions: 0 })

const reportOf = (output: string, exitCode: number | null) => ({
  ...{ status: 'succeeded', output, truncated: false, exitCode, error: null, durationMs: 1 },
  ...{ branch: null, files: [], enforced: [] },
})
