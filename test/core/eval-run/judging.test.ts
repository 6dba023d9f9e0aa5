import { describe, expect, test } from 'vitest'
import { evalCaller, evalCase, evalReport, EvalWorld } from '../../support/eval-world.ts'

const oc = { name: 'oc', provider: 'opencode' }
const judgedBy = (...evaluators: object[]) => evalCase('a', { execution: { evaluators } })

/** An attempt that has answered, before it is judged. */
async function answered(evaluators: object[], more: object = {}, targets: object[] = [oc]) {
  const world = new EvalWorld()
  await world.create([{ ...judgedBy(...evaluators), ...more }], targets)
  await world.live(100)
  const session = world.sessions[0]!
  session.answer('hello')
  return { world, session }
}
/** As the agent tells of a command that takes too long. */
const late = evalReport({
  ...{ status: 'failed', exitCode: null, timedOut: true, stderr: 'half' },
  error: 'It had not ended after 60000 ms',
})
const rowOf = async (world: EvalWorld) => {
  await world.live(60_000)
  return (await world.results())[0]!
}

describe('what an evaluator must know', () => {
  test('[EVR20] is found out by a command, once, in the folder and time that it names', async () => {
    const command = { type: 'command', command: 'npm test', cwd: 'sub', timeout_seconds: 7 }
    const { world, session } = await answered([command, { ...command, name: 'b', exit_code: 2 }])
    session.carryOut = ({ cwd }) =>
      session.carried.length === 1 ? evalReport() : evalReport({ exitCode: cwd ? 2 : 3 })
    const row = await rowOf(world)
    expect(row.hits).toEqual([
      'command: "npm test" exited with code 0',
      'b: "npm test" exited with code 2',
    ])
    expect(session.carried).toEqual([
      {
        operation: { command: 'npm test', cwd: 'sub', timeoutMs: 7000 },
        key: 'eval evl_1 1.0 command',
      },
      { operation: expect.objectContaining({ cwd: 'sub' }), key: 'eval evl_1 1.0 b' },
    ])
  })

  test.each([
    [
      evalReport({ exitCode: 1, error: 'Exit code 1', stderr: 'at /w/x', output: 'said' }),
      'exited with code 1, expected 0: at $WORKSPACE/x',
    ],
    [
      evalReport({ exitCode: 1, error: 'Exit code 1', stderr: ' \n', output: 'said' }),
      'exited with code 1, expected 0: said',
    ],
    [
      evalReport({ exitCode: 126, error: 'Exit code 126: cd: no such folder', stderr: '' }),
      'exited with code 126, expected 0: cd: no such folder',
    ],
    [late, '"x" timed out after 60s'],
    // What a command says of time is no time-out.
    [
      evalReport({ exitCode: 1, error: 'Exit code 1', stderr: '3 tests timed out' }),
      'exited with code 1, expected 0: 3 tests timed out',
    ],
    [evalReport({ exitCode: null, error: 'Killed' }), 'Evaluator "command" failed: Killed'],
    [evalReport({ exitCode: null }), 'Evaluator "command" failed: It was ended'],
    ['policy says no', 'Evaluator "command" failed: Refused: policy says no'],
  ])('[EVR20] a command that comes to %j is a miss that says so', async (ended, miss) => {
    const { world, session } = await answered([{ type: 'command', command: 'x' }])
    session.carryOut = () => ended
    const { misses, score } = await rowOf(world)
    expect([misses, score]).toEqual([[expect.stringContaining(miss)], 0])
  })

  test('[EVR20] is waited for while it moves, and not asked for again after a death', async () => {
    const files = { name: 'there', type: 'file_exists', paths: ['one', 'two', 'three'] }
    const known = { name: 'known', type: 'file_exists', paths: ['zero'] }
    const { world, session } = await answered([known, files])
    session.carryOut = ({ read }) => (read === 'three' ? null : evalReport({ output: 'text' }))
    await world.live(5000)
    expect((await world.attempts())[0]!.state).toBe('judging')
    const before = session.carried.length
    world.restart()
    session.carryOut = ({ read }) => {
      if (read === 'zero') throw new Error('It was asked for again')
      return evalReport(read === 'two' ? { status: 'failed' } : {})
    }
    const row = await rowOf(world)
    expect([row.score, row.misses]).toEqual([0.833333333, ['there: two does not exist']])
    // The first file was known; one look each goes on under the same key.
    expect(session.carried).toHaveLength(before)
    expect(new Set(session.carried.map(({ key }) => key)).size).toBe(before)
  })

  test('[EVR20] a file is read by its path; one that is cut has no text', async () => {
    const { world, session } = await answered([
      { name: 'a', type: 'file_matches', path: 'a.txt', equals: 'hello' },
      { name: 'b', type: 'file_matches', path: 'b.txt', equals: 'hello' },
    ])
    session.carryOut = ({ read }) => evalReport({ output: 'hello\n', truncated: read === 'b.txt' })
    expect(await rowOf(world)).toMatchObject({
      hits: ['a: a.txt is as expected'],
      misses: ['b: b.txt could not be read as text'],
    })
  })

  test('[EVR20] what changed and what was denied or bypassed is looked at', async () => {
    const { world, session } = await answered([
      { type: 'diff_scope', allow: ['src/**'] },
      { type: 'policy', allow_denied: ['grep'] },
    ])
    session.diff = ['src/a.ts', 'b.ts']
    session.facts = {
      ...session.facts,
      denied: [
        { tool: 'bash', reason: 'no' },
        { tool: 'grep', reason: 'no' },
      ],
      bypassed: [{ tool: 'write', reason: 'unasked' }],
    }
    expect((await rowOf(world)).misses).toEqual([
      'diff_scope: b.ts was changed, outside of what is allowed',
      'policy: write ran past the gate: unasked',
      'policy: bash was denied: no',
    ])
  })

  test('[EVR25] proofs are waited for, page by page; what no tool changed is not proven', async () => {
    const { world, session } = await answered([{ type: 'evidence' }])
    const review = (path: string, rejectable: boolean, reasons: string[] = []) => ({
      ...{ path, rejectable, reasons },
    })
    session.turn = { ...session.turn, runId: 'run_1' }
    session.changes = { files: [], collects: [{ state: 'asked' }], nextCursor: null }
    await world.live(3000)
    expect((await world.attempts())[0]!.state).toBe('judging')
    session.changes = {
      files: [review('a', true), review('b', false, ['old', 'odd'])],
      ...{ collects: [{ state: 'done' }], nextCursor: null },
    }
    session.diff = ['a', 'c']
    expect(await rowOf(world)).toMatchObject({
      hits: ['a is proven'],
      misses: ['b is not proven: old; odd', 'c is not proven: No tool is known to have changed it'],
    })
    const without = await answered([{ type: 'evidence' }])
    expect((await rowOf(without.world)).misses).toEqual([
      'Evaluator "evidence" failed: The attempt has no run',
    ])
  })

  test('[EVR20] what the session refuses is a miss', async () => {
    const { world, session } = await answered([{ type: 'command', command: 'x' }])
    session.carryOut = () => {
      throw Object.assign(new Error('It is closed'), { code: 'wrong_state' })
    }
    expect((await rowOf(world)).misses).toEqual(['Evaluator "command" failed: It is closed'])
  })

  test('[EVR20] an evaluator may be called like a prototype', async () => {
    const { world, session } = await answered([
      { name: '__proto__', type: 'file_exists', paths: ['x'] },
      { name: 'constructor', type: 'command', command: 'x' },
    ])
    session.carryOut = () => evalReport()
    expect(await rowOf(world)).toMatchObject({ score: 1, misses: [] })
  })

  test('[EVR20] without a sandbox there is nothing to look into', async () => {
    const world = new EvalWorld()
    const replay = { name: 'r', provider: 'replay', responses: { a: 'hello' } }
    await world.create(
      [judgedBy({ type: 'command', command: 'x' }, { type: 'contains', value: 'hello' })],
      [replay],
    )
    expect(await rowOf(world)).toMatchObject({
      score: 0.5,
      misses: [
        'command: Evaluator "command" failed: A target of provider "replay" has no sandbox to look into',
      ],
    })
  })
})

describe('a program that judges', () => {
  const judge = { type: 'code_judge', command: 'python "./tools/judge.py"' }
  const files = { workspace: { files: { 'tools/judge.py': 'print(1)', 'other.py': 'x' } } }

  test('[EVR20] gets its input in a variable that its program does not have', async () => {
    const { world, session } = await answered([{ ...judge, command: 'score' }])
    session.carryOut = () => evalReport({ output: '{"score": 0.9}' })
    expect(await rowOf(world)).toMatchObject({ score: 0.9 })
    const [{ operation } = { operation: null }] = session.carried
    expect(operation.command).toBe(`printf '%s' "$EVAL_INPUT" | { unset EVAL_INPUT\nscore\n}`)
    expect(JSON.parse(operation.environment.EVAL_INPUT)).toMatchObject({
      ...{ eval_id: 'a', candidate_answer: 'hello', expected_outcome: 'done' },
    })
  })

  test.each([
    ['print(1)', 0.9, []],
    [
      'print(2)',
      0,
      [
        'Evaluator "code_judge" failed: "tools/judge.py", which judges, is not as the case has it any more',
      ],
    ],
  ])('[EVR20] whose file reads %s', async (text, score, misses) => {
    const { world, session } = await answered([judge], files)
    session.carryOut = ({ read }) => evalReport({ output: read ? text : '{"score": 0.9}' })
    expect(await rowOf(world)).toMatchObject({ score, misses })
    const reads = session.carried.flatMap(({ operation, key }) =>
      operation.read ? [[operation.read, key]] : [],
    )
    expect(reads).toEqual([['tools/judge.py', 'eval evl_1 1.0 code_judge program 0']])
  })

  test('[EVR20] is waited for while its file is read', async () => {
    const { world, session } = await answered([judge], files)
    session.carryOut = () => null
    await world.live(3000)
    session.carryOut = ({ read }) => evalReport({ output: read ? 'print(1)' : '{"score": 1}' })
    expect(await rowOf(world)).toMatchObject({ score: 1 })
  })
})

describe('a model that judges', () => {
  const model = { name: 'm', provider: 'http', model: 'claude-opus-4.6' }
  const judge = { type: 'llm_judge' }
  const said =
    (text: string, costMicros = 3) =>
    async () =>
      ({ kind: 'answered', text, tokens: { input: 1, output: 1, cached: 0 }, costMicros }) as const

  test('[EVR29] is the one of the target, or the one that the evaluator names; what it costs counts', async () => {
    const targets = [
      { ...oc, judge_target: 'm' },
      model,
      { ...model, name: 'n', system_prompt: 'unused', temperature: 0.5, max_output_tokens: 9 },
    ]
    const { world } = await answered([judge, { ...judge, name: 'b', target: 'n' }], {}, targets)
    world.answerModel = said('{"score": 0.9}')
    expect(await rowOf(world)).toMatchObject({ score: 0.9 })
    expect(world.asked).toMatchObject([
      {
        model: 'claude-opus-4.6',
        maxOutputTokens: 4096,
        timeoutMs: 600_000,
        temperature: undefined,
      },
      { maxOutputTokens: 9, temperature: 0.5 },
    ])
    expect(world.asked[0]!.prompt).toContain('"hello"')
    expect((await world.view()).costUsd).toBe(0.000006)
  })

  test.each([
    [[oc], judge, 'Target "oc" has no judge: name an http target as judge_target'],
    [
      [oc, { name: 'r', provider: 'replay', responses: {} }],
      { ...judge, target: 'r' },
      'The judge "r" is no http target',
    ],
  ])('[EVR29] %j is refused', async (targets, evaluator, miss) => {
    const { world } = await answered([evaluator], {}, targets)
    expect((await rowOf(world)).misses[0]).toContain(miss)
    expect(world.asked).toEqual([])
  })

  test('[EVR29] does not judge itself', async () => {
    const world = new EvalWorld()
    await world.create([judgedBy({ ...judge, target: 'm' })], [model], { runTargets: ['m'] })
    world.answerModel = said('hello')
    expect((await rowOf(world)).misses[0]).toContain('Target "m" cannot judge itself')
    expect(world.asked).toHaveLength(1)
  })

  test('[EVR20] [EVR29] what it said is stored: after a death it is not asked again', async () => {
    const targets = [{ ...oc, judge_target: 'm' }, model]
    const { world, session } = await answered(
      [judge, { type: 'command', command: 'x' }],
      {},
      targets,
    )
    world.answerModel = said('{"score": 0.6}')
    session.carryOut = () => null
    await world.live(6000)
    world.restart()
    session.carryOut = () => evalReport()
    expect(await rowOf(world)).toMatchObject({ score: 0.8 })
    expect(world.asked).toHaveLength(1)
  })

  test('[EVR29] that fails is a miss, and a slow one is asked once', async () => {
    const { world } = await answered([judge], {}, [{ ...oc, judge_target: 'm' }, model])
    let end: (answer: object) => void = () => {}
    world.answerModel = () => new Promise((resolve) => (end = resolve as typeof end))
    await world.live(20_000)
    expect([world.asked.length, (await world.attempts())[0]!.state]).toEqual([1, 'judging'])
    end({ kind: 'failed', error: 'no answer', isTimeout: false, costMicros: 0 })
    expect((await rowOf(world)).misses).toEqual([
      'Evaluator "llm_judge" failed: The judge "m" failed: no answer',
    ])
    expect(world.asked).toHaveLength(1)
  })
})

describe('a model that is asked', () => {
  const target = { name: 'm', provider: 'http', model: 'claude-opus-4.6', timeout_seconds: 9 }
  const begun = async (more: object = {}, asked: object = {}) => {
    const world = new EvalWorld()
    await world.create([evalCase('a')], [{ ...target, ...more }], asked)
    return world
  }

  test('[EVR28] its answer is scored, with tokens, money and time', async () => {
    const world = await begun({ system_prompt: 'Be brief' })
    world.answerModel = async () => ({
      kind: 'answered',
      text: 'hello',
      tokens: { input: 5, output: 2, cached: 1 },
      costMicros: 250_000,
    })
    expect(await rowOf(world)).toMatchObject({
      score: 1,
      trace_summary: {
        ...{ token_usage: { input: 5, output: 2, cached: 1 }, cost_usd: 0.25, duration_ms: 0 },
      },
    })
    expect(world.asked).toMatchObject([{ system: 'Be brief', prompt: 'Do a', timeoutMs: 9000 }])
    expect(await world.view()).toMatchObject({ costUsd: 0.25 })
    const plain = await begun()
    await plain.live(100)
    expect(plain.asked).toMatchObject([{ system: null }])
  })

  test('[EVR28] [EVR17] a time-out says so and is tried again; another failure is not', async () => {
    const world = await begun({ max_retries: 1 })
    world.answerModel = async () => ({
      kind: 'failed',
      error: 'slow',
      isTimeout: true,
      costMicros: null,
    })
    expect(await rowOf(world)).toMatchObject({
      error: 'Model "claude-opus-4.6" timed out after 9s',
    })
    expect(world.asked).toHaveLength(2)
    // What nobody knows counts as the most.
    expect((await world.view()).costUsd).toBeGreaterThan(0.2)
    const other = await begun({ max_retries: 1 })
    other.answerModel = async () => ({
      kind: 'failed',
      error: 'refused',
      isTimeout: false,
      costMicros: 0,
    })
    expect(await rowOf(other)).toMatchObject({ error: 'refused' })
    expect([other.asked.length, (await other.view()).costUsd]).toEqual([1, 0])
  })

  test('[EVR30] a call that may cost more than is left is not made; one that may not is', async () => {
    const world = await begun({}, { budget: { moneyUsd: 0.01 } })
    expect((await rowOf(world)).error).toMatch(
      /^The run's budget does not allow a call to "claude-opus-4.6": it may cost \$0\.\d+, and \$0.01 are left for this attempt$/,
    )
    expect(world.asked).toEqual([])
    const rich = await begun({}, { budget: { moneyUsd: 1 } })
    await rich.live(100)
    expect(rich.asked).toHaveLength(1)
    expect((await rich.view()).costUsd).toBeGreaterThan(0.05)
  })

  test('[EVR30] a call of an attempt that was given up is charged no more', async () => {
    const world = await begun()
    let end: (answer: object) => void = () => {}
    world.answerModel = () => new Promise((resolve) => (end = resolve as typeof end))
    await world.live(100)
    await world.actor.api.runs.cancel(evalCaller, 'Enough')
    await world.live(10_000)
    const { costUsd } = await world.view()
    end({
      kind: 'answered',
      text: 'x',
      tokens: { input: 1, output: 1, cached: 0 },
      costMicros: 9e6,
    })
    await world.live(10_000)
    expect((await world.view()).costUsd).toBe(costUsd)
  })

  test('[EVR6] after a death it is asked anew, and what may have been spent stays counted', async () => {
    const world = await begun()
    await world.live(100)
    const { costUsd } = await world.view()
    world.restart()
    world.answerModel = async () => ({
      kind: 'answered',
      text: 'hello',
      tokens: { input: 1, output: 1, cached: 0 },
      costMicros: 0,
    })
    expect(await rowOf(world)).toMatchObject({ score: 1 })
    expect([world.asked.length, (await world.view()).costUsd]).toEqual([2, costUsd])
  })
})

describe('a command as the target', () => {
  const target = { name: 'c', provider: 'cli', command: 'answer', cwd: 'sub', timeout_seconds: 900 }
  const begun = async (more: object = {}) => {
    const world = new EvalWorld()
    world.whenMade = (session) => void (session.carryOut = () => null)
    await world.create([evalCase('a')], [{ ...target, ...more }])
    await world.live()
    return { world, session: world.sessions[0]! }
  }

  test('[EVR21] is run once with the question in a file, at most ten minutes', async () => {
    const { world, session } = await begun()
    expect(session.terms).toMatchObject({
      ...{ permissions: 'once', logFile: null, policy: null },
      files: [{ path: '.agentv/cli/prompt', text: 'Do a' }],
    })
    session.carryOut = ({ read }) =>
      read ? evalReport({ status: 'failed', exitCode: null }) : evalReport({ output: ' hello\n' })
    expect(await rowOf(world)).toMatchObject({ candidate_answer: 'hello', score: 1 })
    expect(session.carried).toEqual([
      {
        key: 'eval evl_1 1.0 cli',
        operation: {
          ...{ command: 'answer', cwd: 'sub', timeoutMs: 600_000 },
          environment: {
            ...{ EVAL_PROMPT_FILE: '.agentv/cli/prompt', EVAL_OUTPUT_FILE: '.agentv/cli/output' },
          },
        },
      },
      { key: 'eval evl_1 1.0 cli output 0', operation: { read: '.agentv/cli/output' } },
    ])
  })

  test('[EVR21] its sandbox and its file are waited for', async () => {
    const world = new EvalWorld()
    world.whenMade = (session) => {
      session.sandbox = { ...session.sandbox, state: 'starting' }
      session.carryOut = ({ read }) => (read ? null : evalReport({ output: 'hello' }))
    }
    await world.create([evalCase('a')], [target])
    await world.live(2000)
    const [session] = world.sessions
    expect(session!.carried).toEqual([])
    session!.sandbox = { ...session!.sandbox, state: 'ready' }
    await world.live(2000)
    expect((await world.attempts())[0]!.state).not.toBe('done')
    session!.carryOut = ({ read }) => evalReport({ output: read ? ' hello from the file ' : 'x' })
    expect(await rowOf(world)).toMatchObject({ candidate_answer: 'hello from the file' })
  })

  test.each([
    [
      evalReport({ exitCode: 3, error: 'Exit code 3', stderr: 'it broke', output: 'out' }),
      'CLI exited with code 3: it broke',
    ],
    [
      evalReport({ exitCode: 3, error: 'Exit code 3', stderr: '', output: 'out' }),
      'CLI exited with code 3: out',
    ],
    // An operation takes no longer than ten minutes, whatever the target says.
    [late, 'CLI timed out after 600s'],
    [
      evalReport({ exitCode: 3, error: 'Exit code 3', stderr: 'timed out' }),
      'CLI exited with code 3: timed out',
    ],
    ['not allowed', 'CLI could not be run: Refused: not allowed'],
  ])('[EVR21] that comes to %j is an error', async (ended, error) => {
    const { world, session } = await begun()
    session.carryOut = () => ended
    expect(await rowOf(world)).toMatchObject({ error, score: 0 })
  })

  test.each(['failed', 'lost'])('[EVR18] whose sandbox %s says why', async (state) => {
    const { world, session } = await begun()
    session.sandbox = { state, reason: 'no room', provider: 'local' }
    expect((await rowOf(world)).error).toContain('could not be started: no room')
  })
})

describe('recorded answers', () => {
  test('[EVAL30] the n-th repetition gets the n-th answer, later ones the last; names may be any', async () => {
    const world = new EvalWorld()
    const responses = { a: ['hello', 'no'], b: 'hello' }
    const cases = [evalCase('a'), evalCase('b'), evalCase('constructor')]
    const target = { name: 'r', provider: 'replay', responses, workers: 9 }
    await world.create(cases, [target], { repetitions: 3, workers: 9 })
    await world.live(1000)
    const results = await world.results()
    expect(results.map((row) => row?.candidate_answer)).toEqual([
      ...['hello', 'no', 'no', 'hello', 'hello', 'hello', '', '', ''],
    ])
    expect(results.at(-1)?.error).toBe(
      "Replay has no recorded answer for case 'constructor'. Add it to responses of target 'r'.",
    )
  })
})
