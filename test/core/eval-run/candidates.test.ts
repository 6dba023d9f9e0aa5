import { describe, expect, test } from 'vitest'
import { diffOfSubmodule, maxDiffFiles } from '../../../src/contract/diff.ts'
import type { ResultRow } from '../../../src/contract/eval-result.ts'
import { EvalCase } from '../../../src/contract/eval-suite.ts'
import { Target } from '../../../src/contract/eval-target.ts'
import { planEvalRun } from '../../../src/core/eval-run/plan.ts'
import { responseResultWithin, responseWithin } from '../../../src/core/evals/response/within.ts'
import { evalCase, evalReport, EvalWorld } from '../../support/eval-world.ts'

// What a candidate could do for its score beside working on its task.

const oc = { name: 'oc', provider: 'opencode' }

async function answered(evaluators: object[], more: object = {}) {
  const world = new EvalWorld()
  const asked = evalCase('a', { execution: { evaluators }, ...more })
  await world.create([asked], [oc])
  await world.live(100)
  const session = world.sessions[0]!
  session.answer('hello')
  return { world, session }
}
const rowOf = async (world: EvalWorld) => {
  await world.live(60_000)
  return (await world.results())[0]!
}

describe('what it has left', () => {
  test('[EVR32] runs only after all that is looked at, so that it puts nothing away', async () => {
    const { world, session } = await answered([
      { name: 'tests', type: 'command', command: 'npm test' },
      { name: 'judge', type: 'code_judge', command: 'score' },
      { name: 'scope', type: 'diff_scope', allow: ['src/**'] },
      { name: 'made', type: 'file_exists', paths: ['made.txt'] },
      { type: 'composite', name: 'both', evaluators: [{ type: 'diff_scope', deny: ['ci.yml'] }] },
    ])
    session.diff = ['src/a.ts', 'ci.yml']
    const order: string[] = []
    session.carryOut = ({ read, command }) => {
      order.push(read ?? (command === 'npm test' ? 'tests' : 'judge'))
      if (read !== undefined) return evalReport({ status: 'failed' })
      // Its own code: it takes back what it must not have changed.
      session.diff = ['src/a.ts']
      return evalReport({ output: '{"score": 1}' })
    }
    const { evaluator_results: results } = await rowOf(world)
    expect(results.map(({ name, score }) => [name, score])).toEqual([
      ['tests', 1],
      ['judge', 1],
      ['scope', 0],
      ['made', 0],
      ['both', 0],
    ])
    expect(order).toEqual(['made.txt', 'judge', 'tests'])
  })

  test.each([
    ['nobody has told', { at: null }, 'Nobody has told what was changed'],
    [
      'the list is not whole',
      { truncated: true, files: Array.from({ length: maxDiffFiles }, (_, n) => file(`a${n}`)) },
      'More than 500 files were changed, and no others are compared',
    ],
  ])('[EVR32] [EVR25] is not taken for nothing if %s', async (_, told, why) => {
    const evaluators = [{ type: 'diff_scope', deny: ['z'] }, { type: 'evidence' }]
    const { world, session } = await answered(evaluators)
    session.turn = { ...session.turn, runId: 'run_1' }
    session.diffMore = told
    expect(await rowOf(world)).toMatchObject({
      score: 0,
      misses: [
        `diff_scope: Evaluator "diff_scope" failed: ${why}`,
        `evidence: Evaluator "evidence" failed: ${why}`,
      ],
    })
  })

  test('[EVR32] [EVR25] counts as changed where it could not be compared', async () => {
    const evaluators = [{ type: 'diff_scope', allow: ['a'] }, { type: 'evidence' }]
    const { world, session } = await answered(evaluators)
    session.turn = { ...session.turn, runId: 'run_1' }
    session.diffMore = {
      // A patch that is too long, and a list that is whole.
      ...{ truncated: true, files: [file('a')] },
      leftOut: [
        { path: 'hidden', reason: 'It cannot be read' },
        { path: 'lib', reason: diffOfSubmodule },
      ],
    }
    expect((await rowOf(world)).misses).toEqual([
      'diff_scope: hidden was changed, outside of what is allowed',
      'evidence: a is not proven: No tool is known to have changed it',
      'evidence: hidden is not proven: No tool is known to have changed it',
    ])
  })

  test.each([
    ['tools/lib.py', 0],
    ['tools/deep/data.json', 0],
    ['other.py', 1],
  ])(
    '[EVR20] beside a program that judges, such as %s, is as the case has it',
    async (path, score) => {
      const files = { 'tools/judge.py': 'a', 'tools/lib.py': 'a', 'other.py': 'a' }
      const { world, session } = await answered(
        [{ type: 'code_judge', command: 'python tools/judge.py' }],
        {
          workspace: { files: { ...files, 'tools/deep/data.json': 'a' } },
        },
      )
      session.carryOut = ({ read }) =>
        evalReport({ output: read === undefined ? '{"score": 1}' : read === path ? 'b' : 'a' })
      const row = await rowOf(world)
      expect(row.score).toBe(score)
      if (score === 0)
        expect(row.misses[0]).toContain(`"${path}", which judges, is not as the case`)
    },
  )

  test('[EVR20] beside a judge in the root may change', async () => {
    const { world, session } = await answered([{ type: 'code_judge', command: 'sh judge.sh' }], {
      workspace: { files: { 'judge.sh': 'a', 'work.txt': 'a' } },
    })
    session.carryOut = ({ read }) =>
      evalReport({ output: read === undefined ? '{"score": 1}' : read === 'judge.sh' ? 'a' : 'b' })
    expect(await rowOf(world)).toMatchObject({ score: 1 })
  })

  test('[EVR20] is no module of a judge in Python', async () => {
    const { world, session } = await answered([{ type: 'code_judge', command: 'python judge.py' }])
    await rowOf(world)
    expect(session.carried[0]!.operation.environment).toMatchObject({
      ...{ PYTHONSAFEPATH: '1', PYTHONNOUSERSITE: '1' },
    })
  })
})

describe('names of evaluators', () => {
  test('[EVAL19] [EVR20] with a slash are not those of parts', async () => {
    const { world, session } = await answered([
      { name: 'a/b', type: 'command', command: 'good' },
      {
        name: 'a',
        type: 'composite',
        evaluators: [{ name: 'b', type: 'command', command: 'bad' }],
      },
      { name: 'a%2Fb', type: 'command', command: 'bad' },
    ])
    session.carryOut = ({ command }) => evalReport({ exitCode: command === 'good' ? 0 : 1 })
    const { evaluator_results: results } = await rowOf(world)
    expect(results.map(({ score }) => score)).toEqual([1, 0, 0])
  })

  test('[EVR20] that are long and begin alike are found out apart', async () => {
    const long = 'x'.repeat(95)
    const part = (name: string) => ({ name: long + name, type: 'command', command: name })
    const { world, session } = await answered([
      { name: long, type: 'composite', evaluators: [part('good'), part('bad')] },
    ])
    session.carryOut = ({ command }) => evalReport({ exitCode: command === 'good' ? 0 : 1 })
    expect((await rowOf(world)).score).toBe(0.5)
    const keys = session.carried.map(({ key }) => key)
    expect([new Set(keys).size, keys.every((key) => key.length <= 200)]).toEqual([2, true])
  })
})

test('[PROM3] [PROM7] an attempt that could not begin anew has tried nothing', async () => {
  const revision = (letter: string) =>
    ({ kind: 'agent', name: 'x', sha256: letter.repeat(64) }) as const
  const world = new EvalWorld()
  const target = {
    name: 'oc',
    provider: 'opencode',
    timeout_seconds: 5,
    max_retries: 1,
    workers: 1,
  }
  world.tried = [revision('b')]
  await world.create([evalCase('a'), evalCase('b')], [target])
  await world.live(100)
  world.beforeSession = () => {
    if (world.sessions.length === 1 && world.tried[0]?.sha256[0] === 'b')
      throw Object.assign(new Error('No such agent'), { code: 'unprocessable' })
  }
  const [first] = world.sessions
  first!.turn = { ...first!.turn, state: 'running', startedAt: world.now }
  await world.live(20_000)
  expect((await world.attempts())[0]).toMatchObject({ state: 'done', sessionId: null, tried: [] })
})

const file = (path: string) => ({ path })

describe('what is very long', () => {
  const call = (n: number, text: string) => ({
    ...{ sessionId: 'oc', messageId: 'm', partId: `p${n}`, tool: 'read', callId: `c${n}` },
    ...{ input: { text }, output: text },
  })

  test('[EVR31] is cut until it can be stored; the score is of all that is left', async () => {
    const world = new EvalWorld()
    const evaluators = [
      { type: 'contains', value: 'hello' },
      { type: 'tool_trajectory', mode: 'any_order', minimums: { read: 400 } },
    ]
    await world.create([evalCase('a', { execution: { evaluators } })], [oc])
    await world.live(100)
    const session = world.sessions[0]!
    for (let n = 0; n < 450; n += 1) session.emit('tool.completed', call(n, 'é'.repeat(19_000)))
    session.answer(`hello ${'x'.repeat(2_000_000)}`)
    const row = await rowOf(world)
    expect([row.score, row.error, row.tool_calls?.length]).toEqual([1, undefined, 450])
    expect(JSON.stringify(row).length).toBeLessThan(501_000)
    expect(row.tool_calls?.[0]?.input).toMatchObject({
      text: expect.stringMatching(/^é+\n… \d+ characters left out …\né+$/),
    })
  })

  test('[EVR31] is as many texts as there may be: then there are none, and the score stays', () => {
    const hits = Array.from({ length: 60_000 }, (_, n) => `hit ${n}`)
    const row = resultRow({ hits, misses: ['why'], candidate_answer: 'hello' })
    expect(responseResultWithin(row)).toEqual({ ...row, hits: [] })
    const calls = Array.from({ length: 60_000 }, (_, n) => ({ tool: `t${n}` }))
    const messages = [
      { role: 'assistant', content: 'hello', toolCalls: calls },
      { role: 'tool', content: 'done' },
    ]
    const kept = responseWithin({ outputMessages: messages, costUsd: 1 })
    expect(kept).toMatchObject({
      outputMessages: [{ role: 'assistant', content: 'hello' }],
      cutCalls: { event_count: 60_000, error_count: 0 },
      costUsd: 1,
    })
    expect(kept.outputMessages[0]).not.toHaveProperty('toolCalls')
    expect(kept.cutCalls?.tool_names).toHaveLength(1000)
    expect(JSON.stringify(kept).length).toBeLessThan(100_000)
    const trace = { event_count: 60_000, tool_names: ['t'], tool_calls_by_name: { t: 60_000 } }
    const traced = resultRow({ tool_calls: calls, trace_summary: { ...trace, error_count: 0 } })
    const { tool_calls: gone, trace_summary: summary } = responseResultWithin(traced)
    expect([gone, summary]).toEqual([undefined, { ...trace, error_count: 0, cut: true }])
  })

  test.each([500, 6000])(
    '[EVAL5] [EVR31] calls that are too many to be kept are not taken for none (%i with long inputs)',
    async (count) => {
      const world = new EvalWorld()
      const evaluators = [
        { name: 'none', type: 'tool_trajectory', mode: 'exact', expected: [] },
        {
          ...{ name: 'exact', type: 'tool_trajectory', mode: 'exact' },
          expected: Array.from({ length: 500 }, () => ({ tool: 'read' })),
        },
      ]
      await world.create([evalCase('a', { execution: { evaluators } })], [oc])
      await world.live(100)
      const session = world.sessions[0]!
      for (let n = 0; n <= count; n += 1) session.emit('tool.completed', call(n, 'long'.repeat(9)))
      session.answer('hello')
      const { evaluator_results: results, ...row } = await rowOf(world)
      expect([row.score, results.map(({ score }) => score < 1)]).toEqual([
        expect.any(Number),
        [true, true],
      ])
      expect(results[0]?.score).toBe(0)
      expect(row.trace_summary).toMatchObject({
        event_count: count + 1,
        tool_calls_by_name: { read: count + 1 },
      })
      if (count === 6000) {
        expect(row).not.toHaveProperty('tool_calls')
        expect(row.trace_summary?.cut).toBe(true)
        expect(results.flatMap(({ misses }) => misses)).toEqual(
          Array(2).fill('No trace available for evaluation: 6001 calls are too many to be kept'),
        )
      } else expect(row.tool_calls).toHaveLength(501)
    },
  )

  test('[EVR31] is found out as far as it can be kept', async () => {
    const { world, session } = await answered([
      { name: 'there', type: 'file_exists', paths: ['a', 'b', 'c', 'd'] },
      { name: 'one', type: 'file_matches', path: 'a', contains: 'x' },
      { name: 'two', type: 'file_matches', path: 'b', contains: 'x' },
      { name: 'three', type: 'file_matches', path: 'c', contains: 'x' },
      { name: 'tests', type: 'command', command: 'npm test', exit_code: 1 },
    ])
    session.carryOut = ({ read }) =>
      read === undefined
        ? evalReport({ exitCode: 1, stderr: 'e'.repeat(600_000), output: 'o'.repeat(600_000) })
        : evalReport({ output: 'x'.repeat(530_000) })
    const row = await rowOf(world)
    expect(row.evaluator_results.map(({ name, score }) => [name, score])).toEqual([
      ['there', 1],
      ['one', 1],
      ['two', 1],
      ['three', 0],
      ['tests', 1],
    ])
    expect(row.misses).toEqual([
      'three: Evaluator "three" failed: With what else was found out it is too long to be kept',
    ])
  })

  test.each(['case', 'target'])('[EVR4] is refused as a %s, which could not be stored', (kind) => {
    const large = 'é'.repeat(800_000)
    const files = kind === 'case' ? [{ path: 'a', text: large }] : []
    const asked = EvalCase.parse({
      ...{ id: 'a', expectedOutcome: 'o', evaluators: [], workspace: { files } },
      inputMessages: [{ role: 'user', content: 'x' }],
    })
    const responses = { a: [{ outputMessages: [{ role: 'assistant', content: large }] }] }
    const target = Target.parse({
      ...{ name: 'oc', provider: 'replay' },
      responses: kind === 'target' ? responses : { a: [{}] },
    })
    const suite = { dataset: 'd', cases: [asked] }
    expect(() => planEvalRun({ suite, targets: [target], problems: [] }, {})).toThrow(
      `the ${kind} "${kind === 'case' ? 'a' : 'oc'}" with its files is larger than 1536 KiB`,
    )
  })
})

const resultRow = (more: Partial<ResultRow>): ResultRow => ({
  ...{ timestamp: '2026-11-18T00:00:00.000Z', eval_id: 'a', dataset: 'd', target: 'oc' },
  ...{ attempt: 0, score: 0.7, verdict: 'borderline', hits: [], misses: [] },
  ...{ candidate_answer: '', evaluator_results: [], ...more },
})
