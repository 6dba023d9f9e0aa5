import { expect, test } from 'vitest'
import { planEvalRun } from '../../../src/core/eval-run/plan.ts'
import { checkEvalFiles } from '../../../src/core/evals/files/check.ts'
import { evalCase } from '../../support/eval-world.ts'

const replay = (name: string, more: object = {}) => ({
  ...{ name, provider: 'replay', responses: {} },
  ...more,
})
const model = { name: 'judge', provider: 'http', model: 'm' }

const plan = (
  asked: Parameters<typeof planEvalRun>[1] = {},
  {
    cases = [evalCase('a'), evalCase('b')] as object[],
    targets = [replay('r')] as object[],
    file = {},
  } = {},
) =>
  planEvalRun(
    checkEvalFiles({
      ...{ suite: 's.json', targets: 't.json', variables: {} },
      files: [
        { path: 's.json', content: JSON.stringify({ evalcases: cases, ...file }) },
        { path: 't.json', content: JSON.stringify({ targets }) },
      ],
    }),
    asked,
  )
const attemptsOf = ({ attempts }: ReturnType<typeof plan>) =>
  attempts.map(({ caseId, target, repetition }) => `${caseId} ${target} ${repetition}`)

test('[EVR1] every case as often as it or the run says, against every target that it is for', () => {
  const cases = [evalCase('a', { repetitions: 2 }), evalCase('b', { execution: { target: 's' } })]
  const targets = [replay('r'), replay('s')]
  expect(attemptsOf(plan({}, { cases, targets }))).toEqual([
    ...['a r 0', 'a r 1', 'a s 0', 'a s 1', 'b s 0'],
  ])
  expect(attemptsOf(plan({ repetitions: 1, runTargets: ['s', 's'] }, { cases, targets }))).toEqual([
    ...['a s 0', 'b s 0'],
  ])
})

test('[EVR1] the targets that are named, else that of the file, else all that do not only judge', () => {
  const targets = [replay('r', { judge_target: 'judge' }), replay('s'), model]
  expect(plan({}, { targets }).runTargets).toEqual(['r', 's'])
  expect(plan({}, { targets, file: { execution: { target: 's' } } }).runTargets).toEqual(['s'])
  expect(plan({ runTargets: ['judge'] }, { targets }).runTargets).toEqual(['judge'])
  const parts = [{ type: 'llm_judge', target: 'judge' }]
  for (const evaluators of [parts, [{ type: 'composite', evaluators: parts }]]) {
    const cases = [evalCase('a', { execution: { evaluators } })]
    expect(plan({}, { cases, targets: [replay('r'), model] }).runTargets).toEqual(['r'])
  }
  expect(plan({}, { targets }).targets.map(({ name }) => name)).toEqual(['r', 's', 'judge'])
})

test('[EVR1] the cases that are named, in the order of the file', () => {
  expect(attemptsOf(plan({ cases: ['b', 'a'] }))).toEqual(['a r 0', 'b r 0'])
  expect(attemptsOf(plan({ cases: ['b'] }))).toEqual(['b r 0'])
  expect(plan({ cases: ['b'] }).leftOut).toEqual([{ id: 'a', required: false }])
  expect(plan().leftOut).toEqual([])
})

const refusal = (run: () => unknown) => {
  try {
    run()
    return null
  } catch (error) {
    const { message, details } = error as { message: string; details: object[] }
    return [message, details]
  }
}

test('[EVR4] what cannot be run is refused, and says what is missing', () => {
  const cannot = (why: string, path: string) => [
    `Cannot run the suite: ${why}`,
    [{ path, message: why }],
  ]
  expect(refusal(() => plan({ cases: ['a', 'x', 'y'] }))).toEqual(
    cannot('there is no case "x"', 'cases'),
  )
  expect(
    refusal(() => plan({ runTargets: ['x'] }, { targets: [replay('r'), replay('s')] })),
  ).toEqual(cannot('there is no target "x"; known: "r", "s"', 'runTargets'))
  const onlyS = { cases: [evalCase('a', { execution: { target: 's' } })] }
  expect(
    refusal(() => plan({ runTargets: ['r'] }, { ...onlyS, targets: [replay('r'), replay('s')] })),
  ).toEqual(cannot('no case is for one of these targets', 'runTargets'))
  const many = Array.from({ length: 201 }, (_, n) => evalCase(`c${n}`))
  expect(refusal(() => plan({ repetitions: 100 }, { cases: many }))).toEqual(
    cannot('20100 attempts are more than 20000', 'repetitions'),
  )
  expect(plan({ repetitions: 100 }, { cases: many.slice(1) }).attempts).toHaveLength(20_000)
})

test('[EVR4] mistakes are named with file and place, or the files if there is none', () => {
  const why = 'Cannot run the suite: its files have no case or no target that can be run'
  const bad = { ...replay('r'), surprise: 1 }
  expect(refusal(() => plan({}, { targets: [bad] }))).toEqual([
    why,
    [{ path: 't.json: targets[0].surprise', message: 'There is no such field' }],
  ])
  const nothing = { suite: null, targets: [], problems: [] }
  expect(refusal(() => planEvalRun(nothing, {}))).toEqual([why, []])
  const problem = { severity: 'error', filePath: '', location: '', message: 'Name it' } as const
  expect(refusal(() => planEvalRun({ ...nothing, problems: [problem] }, {}))).toEqual([
    why,
    [{ path: 'files', message: 'Name it' }],
  ])
})
