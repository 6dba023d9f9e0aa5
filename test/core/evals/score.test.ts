import { describe, expect, test } from 'vitest'
import { EvaluatorConfig } from '../../../src/contract/eval-evaluator.ts'
import { ResultRow } from '../../../src/contract/eval-result.ts'
import { scoreRequests, scoreCase } from '../../../src/core/evals/evaluators/score.ts'
import { scoredVerdict } from '../../../src/core/evals/evaluators/scored.ts'
import { errorResultRow, scoredResultRow } from '../../../src/core/evals/results/rows.ts'
import { answered, caseWith } from './subject.ts'

const contains = (name: string, value: string[], rest: object = {}) =>
  EvaluatorConfig.parse({ type: 'contains', name, value, ...rest })
const score = (evaluators: EvaluatorConfig[], answer = 'abc') =>
  scoreCase({ case: caseWith(evaluators), response: answered(answer) }, {})

test.each([
  [1, 'pass'],
  [0.8, 'pass'],
  [0.799999999, 'borderline'],
  [0.6, 'borderline'],
  [0.599999999, 'fail'],
  [0, 'fail'],
])('[EVAL17] %d is %s', (given, verdict) => expect(scoredVerdict(given)).toBe(verdict))

describe('[EVAL17] the score of a case', () => {
  test('is the weighted mean of its evaluators, whose sentences say whose they are', () => {
    const evaluators = [
      contains('good', ['a']),
      contains('bad', ['x'], { weight: 3 }),
      contains('unweighted', ['y'], { weight: 0 }),
    ]
    expect(score(evaluators)).toMatchObject({
      score: 0.25,
      hits: ['good: The answer contains "a"'],
      misses: [
        'bad: The answer does not contain "x"',
        'unweighted: The answer does not contain "y"',
      ],
    })
    expect(score([contains('none', ['a'], { weight: 0 })])).toMatchObject({
      score: 0,
      misses: ['No evaluator has a weight'],
    })
  })

  test('does not miss a threshold by the last bit of a sum', () => {
    // 0.1 * 8 + 0 * 2 added in tenths is 0.7999999999999999.
    const tenths = Array.from({ length: 10 }, (_, at) =>
      contains(`e${at}`, [at < 8 ? 'a' : 'x'], { weight: 0.1 }),
    )
    expect(scoredVerdict(score(tenths).score)).toBe('pass')
  })

  test('is 0 if a required evaluator does not pass', () => {
    const evaluators = [
      contains('good', ['a'], { weight: 100 }),
      contains('must', ['a', 'b', 'c', 'x'], { required: true }),
    ]
    expect(score(evaluators)).toMatchObject({ score: 0 })
    expect(score(evaluators).misses[0]).toBe('Required evaluator "must" did not pass: 0.75')
    expect(score(evaluators, 'abcx').score).toBe(1)
  })
})

test('[EVAL18] an evaluator that throws scores 0 and says so; the others count', () => {
  const broken = { type: 'regex', name: 'broken', pattern: null } as unknown as EvaluatorConfig
  const evaluators = [
    { ...broken, weight: 1, required: false } as EvaluatorConfig,
    contains('good', ['a']),
  ]
  const response = answered('abc')
  const scored = scoreCase({ case: { ...caseWith([]), evaluators }, response }, {})
  expect(scored.score).toBe(0.5)
  expect(scored.results.map((result) => result.score)).toEqual([0, 1])
  expect(scored.misses[0]).toMatch('broken: Evaluator "broken" failed: ')
})

describe('[EVAL19] a composite', () => {
  const composite = (rest: object = {}) =>
    EvaluatorConfig.parse({
      type: 'composite',
      name: 'all',
      evaluators: [
        contains('one', ['a'], { weight: 3 }),
        contains('two', ['x'], rest),
        EvaluatorConfig.parse({ type: 'command', name: 'tests', command: 'npm test', weight: 0 }),
      ],
    })
  const ended = { kind: 'command', exitCode: 0, timedOut: false, stdout: '', stderr: '' } as const

  test('is the weighted mean of its parts, which are shown', () => {
    const subject = { case: caseWith([composite()]), response: answered('abc') }
    expect(scoreRequests(subject).map(({ id }) => id)).toEqual(['all/tests'])
    const [result] = scoreCase(subject, { 'all/tests': ended }).results
    expect(result).toMatchObject({ name: 'all', type: 'composite', score: 0.75 })
    expect(result?.evaluator_results?.map((part) => [part.name, part.score])).toEqual([
      ['one', 1],
      ['two', 0],
      ['tests', 1],
    ])
    expect(result?.misses).toEqual(['two: The answer does not contain "x"'])
  })

  test('is 0 if a required part does not pass', () => {
    const [result] = score([composite({ required: true })]).results
    expect(result).toMatchObject({ score: 0, verdict: 'fail' })
    expect(result?.misses[0]).toBe('Required evaluator "two" did not pass: 0')
  })
})

describe('[EVAL20] result rows', () => {
  const attempted = {
    case: caseWith([contains('c', ['a'])], { conversationId: 'conv' }),
    dataset: 'set',
    target: 'agent',
    attempt: 0,
    timestamp: '2026-11-18T00:00:00.000Z',
    transcript: '/v1/sessions/ses_1/events',
  }

  test('of an answer', () => {
    const response = answered('abc', [{ tool: 'knowledgeSearch', input: { maxResults: 3 } }])
    const row = scoredResultRow(attempted, response, {})
    expect(ResultRow.parse(row)).toEqual(row)
    expect(row).toMatchObject({
      eval_id: 'case',
      dataset: 'set',
      conversation_id: 'conv',
      target: 'agent',
      attempt: 0,
      transcript: '/v1/sessions/ses_1/events',
      score: 1,
      verdict: 'pass',
      candidate_answer: 'abc',
      trace_summary: {
        tool_names: ['knowledgeSearch'],
        tool_calls_by_name: { knowledgeSearch: 1 },
      },
      tool_calls: [{ tool: 'knowledgeSearch', input: { maxResults: 3 } }],
    })
    expect(row.error).toBeUndefined()
  })

  test('of an error', () => {
    const row = errorResultRow(attempted, 'OpenCode timed out after 600s')
    expect(ResultRow.parse(row)).toEqual(row)
    expect(row).toMatchObject({
      score: 0,
      verdict: 'fail',
      hits: [],
      misses: ['Error: OpenCode timed out after 600s'],
      error: 'OpenCode timed out after 600s',
      evaluator_results: [],
      candidate_answer: '',
    })
  })
})
