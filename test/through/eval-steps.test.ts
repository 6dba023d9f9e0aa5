import { afterEach, describe, expect, test } from 'vitest'
import { attemptsOn, type Item, partOf } from '../support/eval-attempts-kit.ts'
import { HostSession, useHost } from '../support/host.ts'

const host = useHost()
const at = '/v1/evals/runs'
const { begin, attempts, events, sessionOf, finish, result } = attemptsOn(host)
const view = (id: string) => host().ok('GET', `${at}/${id}`)

const report = (more: object = {}) => ({
  ...{ status: 'succeeded', output: '', truncated: false, exitCode: 0, error: null },
  ...{ durationMs: 1, branch: null, files: [], enforced: [], ...more },
})

/** Answers what the sandbox is asked to do, until the first attempt has its result. */
async function carryOut(runId: string, session: HostSession, answer: (body: Item) => Item) {
  for (let looks = 0; looks < 30 && (await result(runId)) === null; looks += 1) {
    for (const { id, body } of session.agent.commands('execute'))
      session.agent.result(id, answer(body))
    await host().live(1000)
  }
  return result(runId)
}
const isRead = ({ operation }: Item) => operation.operation === 'read-file'

describe('a command as the target', () => {
  const begun = async (more: object = {}) => {
    const run = await begin({ target: { provider: 'cli', command: 'answer', ...more } })
    await host().live(100)
    const session = new HostSession(host(), (await attempts(run.id))[0]!['sessionId'])
    await session.meet()
    return { run, session }
  }
  const missing = report({ status: 'failed', exitCode: null, error: 'No such file' })

  test('[EVR21] what it writes to the file is the answer, before what it prints', async () => {
    const { run, session } = await begun({ cwd: 'sub' })
    const asked: Item[] = []
    const row = await carryOut(run.id, session, (body) => {
      asked.push(body.operation)
      return report(
        isRead(body) ? { output: ' hello from the file \n', exitCode: null } : { output: 'x' },
      )
    })
    expect(row).toMatchObject({ candidate_answer: 'hello from the file', score: 1 })
    expect(asked.at(-1)).toMatchObject({ targetPath: '.agentv/cli/output' })
  })

  test('[EVR21] another exit code is an error with the end of what it said', async () => {
    const { run, session } = await begun()
    const said = { output: 'out', stderr: 'it broke', error: 'Exit code 3' }
    const failed = { status: 'failed', exitCode: 3, ...said }
    const row = await carryOut(run.id, session, (body) => (isRead(body) ? missing : report(failed)))
    expect(row).toMatchObject({ score: 0, error: 'CLI exited with code 3: it broke' })
  })

  test('[EVR17] [EVR21] a time-out says so and is tried again in another sandbox with its own name', async () => {
    const { run, session } = await begun({ max_retries: 1, timeout_seconds: 5 })
    const error = 'It had not ended after 5000 ms'
    const late = { status: 'failed', exitCode: null, timedOut: true, stderr: '', error }
    for (let looks = 0; looks < 20; looks += 1) {
      for (const { id } of session.agent.commands('execute')) session.agent.result(id, report(late))
      await host().live(500)
      if ((await events(run.id, 'attempt.retried')).length > 0) break
    }
    expect(await events(run.id, 'attempt.retried')).toMatchObject([
      { attempt: 1, reason: 'CLI timed out after 5s' },
    ])
    await host().live(500)
    const [again] = await attempts(run.id)
    expect(again!['sessionId']).not.toBe(session.id)
    expect(again).toMatchObject({ attempt: 1 })
  })
})

describe('what is planned', () => {
  test('[EVR1] only the cases that the request names; an unknown one is refused', async () => {
    const run = await begin({ cases: [{}, {}, {}], run: { cases: ['c2', 'c0'] } })
    expect((await attempts(run.id)).map(({ evalCaseId }) => evalCaseId)).toEqual(['c0', 'c2'])
    await host().ok('POST', `${at}/${run.id}/cancel`, { reason: 'Enough' })
    await expect(begin({ run: { cases: ['c9'] } })).rejects.toThrow()
  })

  test('[EVR4] at most twenty mistakes are named, and no warning among them', async () => {
    const bad = Array.from({ length: 30 }, (_, n) => ({ id: `b${n}`, surprise: n }))
    const marked = { input_messages: [{ role: 'user', content: '@[User]: hi' }], surprise: 1 }
    const files = [
      { path: 's.json', content: JSON.stringify({ evalcases: [marked, ...bad] }) },
      { path: 't.json', content: '{"targets":[{"name":"r","provider":"replay","responses":{}}]}' },
    ]
    const { status, json } = await host().call('POST', at, {
      ...{ suite: 's.json', targets: 't.json', files },
    })
    expect([status, json.error.details.length]).toEqual([422, 20])
    expect(JSON.stringify(json.error.details)).not.toContain('role marker')
  })

  test('[EVR1] attempts come page by page in their order', async () => {
    const run = await begin({ cases: [{}, {}, {}] })
    const first = await host().ok('GET', `${at}/${run.id}/attempts?limit=2`)
    const second = await host().ok('GET', `${at}/${run.id}/attempts?cursor=${first.nextCursor}`)
    const numbers = [...first.items, ...second.items].map(({ n }: Item) => n)
    expect([numbers, second.nextCursor]).toEqual([[1, 2, 3], null])
    await host().ok('POST', `${at}/${run.id}/cancel`, {})
  })
})

describe('what an attempt is asked', () => {
  const promptOf = async (input_messages: Item[], files: Item[] = []) => {
    const { id } = await host().ok('POST', at, {
      ...{ suite: 's.json', targets: 't.json' },
      files: [
        ...files,
        {
          path: 's.json',
          content: JSON.stringify({
            evalcases: [
              {
                id: 'c0',
                expected_outcome: 'x',
                input_messages,
                execution: { evaluators: [says] },
              },
            ],
          }),
        },
        { path: 't.json', content: '{"targets":[{"name":"oc","provider":"opencode"}]}' },
      ],
    })
    const session = await sessionOf(id)
    return { id, session, text: session.agent.commands('prompt')[0]!.body.text }
  }
  const says = { name: 'says', type: 'contains', value: 'hello' }

  test('[EVR12] files are in it with their paths, and a conversation says who speaks', async () => {
    const content = [
      { type: 'text', value: 'Add:' },
      { type: 'file', value: 'n.txt' },
    ]
    const lone = await promptOf([{ role: 'user', content }], [{ path: 'n.txt', content: '1\n2' }])
    expect(lone.text).toBe('Add:\n\n<file path="n.txt">\n1\n2\n</file>')
    const told = await promptOf([
      { role: 'system', content: 'Be brief' },
      { role: 'user', content: { a: 1 } },
    ])
    expect(told.text).toBe('@[system]:\nBe brief\n\n@[user]:\n{"a":1}')
  })

  test('[EVR12] what it did is in its result: the time of its turn, at most 500 calls, long outputs cut', async () => {
    const { id, session } = await promptOf([{ role: 'user', content: 'Go' }])
    const { agent, turnId } = session
    const call = { ...partOf(turnId), tool: 'bash', callId: 'c', input: {} }
    agent.emit('tool.started', call)
    await host().live(2500)
    const ended = { title: 't', output: 'x'.repeat(30_000), truncated: false, durationMs: 1 }
    agent.emit('tool.completed', { ...call, ...ended })
    await finish(session)
    const row = await result(id)
    expect(row.tool_calls[0].output).toHaveLength(20_001)
    expect(row.trace_summary.duration_ms).toBeGreaterThanOrEqual(2500)
    expect(row.trace_summary.duration_ms).toBeLessThan(20_000)
  })
})

describe('what a verbose run tells', () => {
  test('[EVR22] notices of the agent are events once, and of no other run', async () => {
    for (const verbose of [true, false]) {
      const run = await begin({ run: { verbose } })
      const session = await sessionOf(run.id)
      session.agent.emit('agent.notice', { message: 'Cannot write the log' })
      await finish(session)
      expect((await events(run.id, 'attempt.warned')).map(({ message }) => message)).toEqual(
        verbose ? ['Cannot write the log'] : [],
      )
    }
  })
})

describe('a judging program', () => {
  test('[EVR20] gets case and answer on its standard input, and its answer is the score', async () => {
    const evaluators = [{ name: 'code', type: 'code_judge', command: 'python3 judge.py' }]
    const target = { permissions: 'once' }
    const run = await begin({ cases: [{ execution: { evaluators } }], target })
    const session = await sessionOf(run.id)
    const { agent, turnId } = session
    agent.emit('message.text', { ...partOf(turnId), text: `'"$(id)`, reasoning: false })
    agent.endTurn(turnId, { text: `'"$(id)` })
    await host().live(3000)
    const asked: Item[] = []
    const said = { score: 0.7, hits: ['a'], misses: [], reasoning: 'r' }
    const row = await carryOut(run.id, session, (body) => {
      asked.push(body)
      return report({ output: JSON.stringify(said) })
    })
    expect([row.evaluator_results[0].misses, row.evaluator_results[0].score]).toEqual([[], 0.7])
    const [{ operation }] = asked as [Item]
    // What the candidate wrote is in the environment, never in the text of the command.
    expect(operation.command).toBe(
      `printf '%s' "$EVAL_INPUT" | { unset EVAL_INPUT\npython3 judge.py\n}`,
    )
    expect(JSON.stringify(asked[0])).toContain('EVAL_INPUT')
  })

  test.each([
    ['print(1)', 0.7, []],
    [
      'print({"score": 1})',
      0,
      [
        'Evaluator "code" failed: "tools/judge.py", which judges, is not as the case has it any more',
      ],
    ],
  ])(
    '[EVR20] a program that is a file of the case judges only as the case has it: %s',
    async (found, score, misses) => {
      const evaluators = [
        { name: 'code', type: 'code_judge', command: "python3 './tools/judge.py' --strict" },
      ]
      const workspace = { files: { 'tools/judge.py': 'print(1)', 'other.py': 'x' } }
      const target = { permissions: 'once' }
      const run = await begin({ cases: [{ workspace, execution: { evaluators } }], target })
      const session = await sessionOf(run.id)
      await finish(session)
      const read: string[] = []
      const row = await carryOut(run.id, session, ({ operation }) => {
        if (operation.operation === 'run') return report({ output: '{"score": 0.7}' })
        read.push(operation.targetPath)
        return report({ output: found })
      })
      expect([...new Set(read)]).toEqual(['tools/judge.py'])
      expect([row.score, row.misses]).toEqual([score, misses])
    },
  )
})

describe('a run that is cancelled while a step is under way', () => {
  afterEach(() => void (host().app.evalLag.ms = 0))

  test.each([0, 3])('[EVR1] [EVR7] has one result, with max_retries: %i', async (retries) => {
    const { id } = await begin({ target: { timeout_seconds: 5, max_retries: retries } })
    const session = await sessionOf(id)
    host().app.evalLag.ms = 2000
    await host().live(7000)
    // The attempt has timed out, and its end waits for what it has spent.
    expect(await view(id)).toMatchObject({ done: 0, running: 1 })
    await host().ok('POST', `${at}/${id}/cancel`, { reason: 'Enough' })
    await host().live(60_000)
    expect(await view(id)).toMatchObject({ status: 'cancelled', done: 1, pending: 0, running: 0 })
    expect(await events(id, 'attempt.ended')).toHaveLength(1)
    expect(await events(id, 'attempt.retried')).toEqual([])
    expect(await events(id, 'run.ended')).toHaveLength(1)
    expect((await session.view()).status).toBe('closed')
  })

  test('[EVR7] closes a session that was being made', async () => {
    host().app.evalLag.ms = 2000
    const before = new Set((await sessions()).map((one: Item) => one.id))
    const { id } = await begin()
    await host().live(100)
    await host().ok('POST', `${at}/${id}/cancel`, { reason: 'Enough' })
    await host().live(60_000)
    expect((await result(id)).error).toBe('Enough')
    const made = (await sessions()).filter((one: Item) => !before.has(one.id))
    expect(made.map(({ status }: Item) => status)).toEqual(['closed'])
  })
})

const sessions = async (): Promise<Item[]> =>
  (await host().ok('GET', '/v1/sessions?limit=100')).items

describe('who may delete a run', () => {
  test('[EVR7] [EVR9] its member or an admin; what works ends with it, and then it is gone for all', async () => {
    const somebody = { name: 'other', owner: 'other', scopes: ['write'] }
    const writer = (await host().ok('POST', '/v1/keys', somebody)).secret
    const { id } = await begin()
    const session = await sessionOf(id)
    expect((await host().call('POST', `${at}/${id}/cancel`, {}, writer)).status).toBe(403)
    expect((await host().call('DELETE', `${at}/${id}`, undefined, writer)).status).toBe(403)
    expect((await host().ok('GET', `${at}/${id}`)).status).toBe('running')
    expect((await host().call('DELETE', `${at}/${id}`)).status).toBe(204)
    await host().live(60_000)
    expect((await host().call('GET', `${at}/${id}`)).status).toBe(404)
    expect((await host().call('GET', session.at)).status).toBe(404)
    const own = await host().ok(
      'POST',
      at,
      {
        ...{ suite: 's.json', targets: 't.json' },
        files: [
          {
            path: 's.json',
            content: JSON.stringify({
              evalcases: [
                {
                  id: 'a',
                  expected_outcome: 'x',
                  input: 'hi',
                  assert: [{ type: 'contains', value: 'x' }],
                },
              ],
            }),
          },
          {
            path: 't.json',
            content: '{"targets":[{"name":"r","provider":"replay","responses":{"a":"x"}}]}',
          },
        ],
      },
      writer,
    )
    await host().live(1000)
    expect(await view(own.id)).toMatchObject({ status: 'completed', passed: 1 })
    // The admin did not make it.
    expect((await host().call('DELETE', `${at}/${own.id}`)).status).toBe(204)
  })
})
