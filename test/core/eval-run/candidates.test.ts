import { describe, expect, test } from 'vitest'
import { diffOfSubmodule, maxDiffFiles } from '../../../src/contract/diff.ts'
import { evalCase, evalReport, EvalWorld } from '../../support/eval-world.ts'

// What a candidate could do for its score beside working on its task.

async function answered(evaluators: object[], more: object = {}) {
  const world = new EvalWorld()
  const asked = evalCase('a', { execution: { evaluators }, ...more })
  await world.create([asked], [{ name: 'oc', provider: 'opencode' }])
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
  test('[EVR20] runs only after all that is looked at, so that it puts nothing away', async () => {
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
  ])('[EVR20] [EVR25] is not taken for nothing if %s', async (_, told, why) => {
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

  test('[EVR20] [EVR25] counts as changed where it could not be compared', async () => {
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
