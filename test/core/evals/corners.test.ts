import { describe, expect, test } from 'vitest'
import { jsonSchemaMistakes } from '../../../src/core/evals/evaluators/json-schema.ts'
import { checkEvalFiles } from '../../../src/core/evals/files/check.ts'
import { compareSides } from '../../../src/core/evals/compare/compare.ts'
import { summarise } from '../../../src/core/evals/compare/sides.ts'
import { responseOfOpencodeEvents } from '../../../src/core/evals/response/opencode.ts'
import { responseOfOpencodeMessages } from '../../../src/core/evals/response/opencode.ts'
import { renderHtmlReport } from '../../../src/core/evals/reports/html.ts'
import { renderMarkdownReport } from '../../../src/core/evals/reports/markdown.ts'
import { rowOf, sideOf } from './rows.ts'
import { answered, scoreOf } from './subject.ts'

const suiteOf = (text: string) =>
  checkEvalFiles({ files: [{ path: 's.yaml', content: text }], suite: 's.yaml', variables: {} })
const evaluatorOf = (text: string, top = '') =>
  suiteOf(`${top}evalcases:\n  - {id: a, expected_outcome: o, input_messages: i, ${text}}`)

describe('other names of settings', () => {
  test.each([
    ['{type: regex, value: "^a"}', { type: 'regex', pattern: '^a' }],
    ['{type: diff_scope, allowed: [a], denied: [b]}', { allow: ['a'], deny: ['b'] }],
    [`{type: code_judge, script: [sh, "it's"]}`, { type: 'code_judge', command: `sh 'it'\\''s'` }],
  ])('[EVAL24] %s', (text, config) => {
    const { suite, problems } = evaluatorOf(`evaluators: [${text}]`)
    expect([problems, suite?.cases[0]?.evaluators]).toEqual([[], [expect.objectContaining(config)]])
  })

  test.each(['assert', 'assertions', 'graders'])(
    '[EVAL24] %s of a file are its evaluators',
    (name) => {
      const { suite } = evaluatorOf('required: true', `${name}: [{type: contains, value: x}]\n`)
      expect(suite?.cases[0]?.evaluators.map(({ type }) => type)).toEqual(['contains'])
    },
  )
})

describe('[EVAL28] a targets file', () => {
  const told = (targets: string) =>
    checkEvalFiles({
      ...{ files: [{ path: 't.yaml', content: targets }], targets: 't.yaml', variables: {} },
    }).problems.map(({ location, message }) => [location, message])

  test('that is no map, and a setting of another provider, are mistakes', () => {
    expect(told('- a')).toEqual([['', 'Must be a map']])
    expect(told('targets: [{name: a, provider: opencode, trace: x.jsonl}]')).toEqual([
      ['targets[0].trace', 'There is no such field'],
    ])
  })
})

test('[EVAL11] the number of fields, a multiple of nothing, and what only describes', () => {
  const fits = (schema: object, answer: unknown) =>
    scoreOf({ type: 'json_schema', schema }, answered(JSON.stringify(answer))).misses
  expect(fits({ minProperties: 1 }, { a: 1 })).toEqual([])
  expect(fits({ maxProperties: 1 }, { a: 1, b: 2 })).toEqual(['answer: has 2, at most 1'])
  expect(jsonSchemaMistakes({ multipleOf: 0 }).map(({ path }) => path)).toEqual([['multipleOf']])
  const words = { $schema: 's', $id: 'i', $comment: 'c', title: 't', description: 'd' }
  expect(jsonSchemaMistakes({ ...words, default: 1, examples: [] })).toEqual([])
})

test('[EVAL8] two blocks of code are no JSON, whichever was meant', () => {
  const block = (json: string) => `\`\`\`json\n${json}\n\`\`\``
  const score = (text: string) => scoreOf({ type: 'equals', value: { a: 1 } }, answered(text)).score
  expect([score(block('{"a":1}')), score(`${block('{"a":1}')}\n${block('{"a":2}')}`)]).toEqual([
    1, 0,
  ])
})

test('[EVAL1] [EVAL2] a step without tokens counts none; a failure without words says so', () => {
  const part = { id: 'p', type: 'step-finish' }
  const step = responseOfOpencodeMessages([{ info: { id: 'm', role: 'assistant' }, parts: [part] }])
  expect(step).toMatchObject({ tokenUsage: { input: 0, output: 0, cached: 0 }, costUsd: 0 })
  const data = { sessionId: 's', messageId: 'm', partId: 'p', tool: 'read', callId: 'c' }
  const { outputMessages } = responseOfOpencodeEvents([{ kind: 'tool.failed', data }])
  expect(outputMessages[0]?.toolCalls?.[0]?.error).toEqual({
    ...{ kind: 'error', message: 'The tool failed' },
  })
})

describe('several cases and repetitions', () => {
  const cases = ['c0', 'c1'].map((id) => ({ id, repetitions: 2, required: false }))
  const rows = [
    rowOf('c0', 1, { attempt: 0 }),
    rowOf('c0', 1, { attempt: 1 }),
    rowOf('c1', 1, { attempt: 0 }),
    rowOf('c1', 0, { attempt: 1 }),
  ]
  const side = sideOf('b', [1, 1], { cases, rows })

  test('[EVAL34] [EVAL35] count each with its share', () => {
    expect(summarise(side)).toMatchObject({ passAtK: [0.75, 1], passPowK: [0.75, 0.5] })
    const compared = compareSides(side, side)
    expect(compared).toMatchObject({ evaluators: [{ baseline: 0.75, candidate: 0.75 }] })
  })

  test('[EVAL37] a case without a result says that there is none', () => {
    const compared = compareSides(sideOf('a', [1]), sideOf('b', [1], { rows: [] }))
    expect(compared).toMatchObject({ cases: [{ misses: ['There is no result'] }] })
  })
})

describe('reports', () => {
  test('[EVAL42] count errors and what is missing together, and say why nothing is compared', () => {
    const side = sideOf('b', [1, 0, 0])
    side.rows = [side.rows[0]!, rowOf('c1', 0, { error: 'x' })]
    const comparison = { comparable: false, reason: 'Because' } as const
    const html = renderHtmlReport({ dataset: 'd', sides: [side], comparison })
    expect(html).toContain('<td>2</td>')
    expect(html).toContain('Not compared. Because.')
    const compared = compareSides(sideOf('a', [1, 1]), sideOf('b', [1, 0]))
    expect(renderHtmlReport({ dataset: 'd', sides: [side], comparison: compared })).toContain(
      '<caption>By evaluator</caption>',
    )
  })

  test('[EVAL41] say how many more did not pass', () => {
    const many = sideOf(
      'b',
      Array.from({ length: 53 }, () => 0),
    )
    expect(renderMarkdownReport({ dataset: 'd', sides: [many] })).toContain('| … and 3 more |')
  })
})
