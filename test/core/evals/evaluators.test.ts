import { describe, expect, test } from 'vitest'
import type { EvaluatorAnswer } from '../../../src/contract/eval-request.ts'
import { LeafEvaluator } from '../../../src/contract/eval-evaluator.ts'
import { jsonSchemaMistakes } from '../../../src/core/evals/evaluators/json-schema.ts'
import { scoreRequests } from '../../../src/core/evals/evaluators/score.ts'
import { answered, caseWith, scoreOf } from './subject.ts'

const hit = (...hits: string[]) => ({ score: 1, hits, misses: [] })
const miss = (...misses: string[]) => ({ score: 0, hits: [], misses })

describe('[EVAL8] field_accuracy', () => {
  const type = 'field_accuracy'
  const expectedMessages = [
    {
      role: 'assistant',
      content: { vendor: 'ACME', lines: [{ amount: 10 }], total: 0.3, day: '2026-03-09' },
    },
  ]
  const score = (answer: unknown, fields: object[], rest: object = {}) =>
    scoreOf({ type, fields, ...rest }, answered(answer), {}, { expectedMessages })

  test('compares fields by path, with weights', () => {
    const fields = [{ path: 'vendor', weight: 3 }, { path: 'lines[0].amount' }]
    expect(score({ vendor: 'ACME', lines: [{ amount: 11 }] }, fields)).toEqual({
      score: 0.75,
      hits: ['vendor: "ACME"'],
      misses: ['lines[0].amount: expected 10, got 11'],
    })
    expect(score('```json\n{"vendor": "ACME"}\n```', fields.slice(0, 1)).score).toBe(1)
  })

  test('all or nothing', () => {
    const fields = [{ path: 'vendor' }, { path: 'total' }]
    expect(score({ vendor: 'ACME' }, fields, { aggregation: 'all_or_nothing' })).toMatchObject({
      score: 0,
      hits: ['vendor: "ACME"'],
      misses: ['total: expected 0.3, the answer has no such field'],
    })
  })

  test('a field that is not required may be absent, not wrong', () => {
    const fields = [{ path: 'vendor' }, { path: 'total', required: false }]
    expect(score({ vendor: 'ACME' }, fields).score).toBe(1)
    expect(score({ vendor: 'ACME', total: 1 }, fields).score).toBe(0.5)
    expect(score({}, fields.slice(1))).toEqual(miss('No field could be compared'))
  })

  test.each([
    ['total', { match: 'numeric_tolerance' }, 0.1 + 0.2, true],
    ['total', { match: 'numeric_tolerance', tolerance: 0.05 }, '0.35', true],
    ['total', { match: 'numeric_tolerance', tolerance: 0.05 }, 0.36, false],
    ['total', { match: 'numeric_tolerance', tolerance: 0.5, relative: true }, 0.44, true],
    ['total', { match: 'numeric_tolerance', tolerance: 0.5, relative: true }, 0.46, false],
    ['total', { match: 'numeric_tolerance', tolerance: 9 }, 'about 0.3', false],
    ['total', { match: 'numeric_tolerance', tolerance: 9 }, null, false],
    ['day', { match: 'date' }, '9 March 2026', true],
    ['day', { match: 'date' }, '09-MAR-2026', true],
    ['day', { match: 'date' }, '2026-03-09T23:00:00Z', true],
    ['day', { match: 'date' }, '2026-03-10', false],
    ['day', { match: 'date' }, '3/9/2026', false],
    ['day', { match: 'date' }, '2026-02-31', false],
    ['day', { match: 'date' }, ' 2026-03-09 ', true],
    ['day', { match: 'numeric_tolerance', tolerance: 9 }, 3, false],
    ['day', {}, '9 March 2026', false],
  ])('%s by %j: %j is %s', (path, match, given, fits) => {
    expect(score({ [path]: given }, [{ path, ...match }]).score).toBe(fits ? 1 : 0)
  })

  test('a day that there is not is no day, and null is not nothing', () => {
    const expected = [{ role: 'assistant', content: { day: '2026-02-31', none: null } }]
    const of = (given: object, field: object) =>
      scoreOf({ type, fields: [field] }, answered(given), {}, { expectedMessages: expected }).score
    expect(of({ day: '2026-02-31' }, { path: 'day', match: 'date' })).toBe(0)
    expect(of({ none: null }, { path: 'none' })).toBe(1)
    expect(of({}, { path: 'none' })).toBe(0)
  })

  test('names what is missing', () => {
    expect(score('Sure!', [{ path: 'a' }])).toEqual(miss('The answer is no JSON object'))
    expect(scoreOf({ type, fields: [{ path: 'a' }] }, answered({ a: 1 }))).toEqual(
      miss('No expected data: the last of expected_messages has no object'),
    )
    expect(score({ other: 1 }, [{ path: 'other' }])).toEqual(
      miss('other: the expected data has no such field'),
    )
    // What every object has is no field of the answer.
    expect(score({}, [{ path: 'vendor.constructor' }]).score).toBe(0)
  })
})

describe('[EVAL9] latency, cost and token_usage are all or nothing', () => {
  const at = (rest: object) => answered('x', [], rest)
  test.each([
    [{ type: 'latency', threshold: 100 }, { durationMs: 100 }, hit('Took 100 ms, at most 100 ms')],
    [
      { type: 'latency', threshold: 100 },
      { durationMs: 101 },
      miss('Took 101 ms, more than 100 ms'),
    ],
    [{ type: 'latency', threshold: 100 }, {}, miss('No duration available for evaluation')],
    [{ type: 'cost', budget: 0.5 }, { costUsd: 0.5 }, hit('Cost $0.5000, at most $0.5000')],
    [{ type: 'cost', budget: 0.5 }, { costUsd: 0.6 }, miss('Cost $0.6000, more than $0.5000')],
    [{ type: 'cost', budget: 0.5 }, {}, miss('No cost available for evaluation')],
    [
      { type: 'token_usage', maxTotal: 5 },
      { tokenUsage: { input: 2, output: 2, cached: 1 } },
      hit('Total: 5 tokens, at most 5'),
    ],
    [
      { type: 'token_usage', maxTotal: 5, maxInput: 2, maxOutput: 1 },
      { tokenUsage: { input: 2, output: 2, cached: 2 } },
      {
        score: 0,
        hits: ['Input: 2 tokens, at most 2'],
        misses: ['Total: 6 tokens, more than 5', 'Output: 2 tokens, more than 1'],
      },
    ],
    [{ type: 'token_usage', maxTotal: 5 }, {}, miss('No token usage available for evaluation')],
  ])('%j of %j', (config, rest, expected) => {
    expect(scoreOf(config, at(rest))).toEqual(expected)
  })
})

describe('[EVAL10] texts of the answer', () => {
  test.each([
    [
      { type: 'contains', value: ['42', 'Paris'] },
      'It is 42',
      {
        score: 0.5,
        hits: ['The answer contains "42"'],
        misses: ['The answer does not contain "Paris"'],
      },
    ],
    [
      { type: 'contains', value: ['paris'], ignoreCase: true },
      'PARIS',
      hit('The answer contains "paris"'),
    ],
    [{ type: 'equals', value: '42' }, ' 42\n', hit('The answer is "42"')],
    [{ type: 'equals', value: '42' }, '43', miss('Expected "42", the answer is "43"')],
    [{ type: 'equals', value: 'A', ignoreCase: true }, 'a', hit('The answer is "A"')],
    [
      { type: 'equals', value: { a: 1, b: [2] } },
      '{"b":[2],"a":1}',
      hit('The answer is {"a":1,"b":[2]}'),
    ],
    [{ type: 'equals', value: 42 }, 'forty-two', miss('Expected 42, the answer is "forty-two"')],
    [{ type: 'regex', pattern: '^a+b$' }, 'aab', hit('The answer matches "^a+b$"')],
    [{ type: 'regex', pattern: '^a+b$' }, 'aac', miss('The answer does not match "^a+b$"')],
    [{ type: 'regex', pattern: 'A', ignoreCase: true }, 'a', hit('The answer matches "A"')],
  ])('%j', (config, answer, expected) => {
    expect(scoreOf(config, answered(answer))).toEqual(expected)
  })

  test('a hostile pattern takes no longer than others', () => {
    const before = process.threadCpuUsage()
    expect(
      scoreOf({ type: 'regex', pattern: '(a+)+$' }, answered(`${'a'.repeat(50_000)}b`)).score,
    ).toBe(0)
    expect(process.threadCpuUsage(before).user / 1000).toBeLessThan(5000)
    expect(scoreOf({ type: 'regex', pattern: '(?=a)' }, answered('a')).misses[0]).toMatch(
      'Not a pattern in RE2 syntax',
    )
  })
})

describe('[EVAL11] json_schema', () => {
  const fits = (schema: object, answer: unknown) =>
    scoreOf({ type: 'json_schema', schema }, answered(JSON.stringify(answer)))
  test.each([
    [{ type: 'object', required: ['a'] }, {}, 'answer: has no a'],
    [{ properties: { a: { type: 'integer' } } }, { a: 1.5 }, 'answer.a: 1.5 is not integer'],
    [{ type: ['string', 'null'] }, 1, 'answer: 1 is not string or null'],
    [{ items: { type: 'string' } }, ['a', 1], 'answer[1]: 1 is not string'],
    [{ properties: { a: {} }, additionalProperties: false }, { b: 1 }, 'answer: must not have b'],
    [{ additionalProperties: { type: 'number' } }, { b: 'x' }, 'answer.b: "x" is not number'],
    [{ enum: [1, { a: 2 }] }, { a: 3 }, 'answer: {"a":3} is none of [1,{"a":2}]'],
    [{ const: null }, 0, 'answer: 0 is not null'],
    [{ minimum: 3 }, 2, 'answer: 2 is not at least 3'],
    [{ maximum: 3 }, 4, 'answer: 4 is not at most 3'],
    [{ exclusiveMinimum: 3 }, 3, 'answer: 3 is not more than 3'],
    [{ exclusiveMaximum: 3 }, 3, 'answer: 3 is not less than 3'],
    [{ multipleOf: 0.1 }, 0.25, 'answer: 0.25 is not a multiple of 0.1'],
    [{ minLength: 2 }, '😀', 'answer: has 1, at least 2'],
    [{ maxItems: 1 }, [1, 2], 'answer: has 2, at most 1'],
    [{ minProperties: 1 }, {}, 'answer: has 0, at least 1'],
    [{ pattern: '^a' }, 'b', 'answer: "b" does not match "^a"'],
    [{ uniqueItems: true }, [{ a: 1 }, { a: 1 }], 'answer: has the same item twice'],
    [{ allOf: [{ minimum: 1 }, { maximum: 2 }] }, 3, 'answer: 3 is not at most 2'],
    [{ anyOf: [{ type: 'string' }, { minimum: 5 }] }, 3, 'answer: fits none of anyOf'],
    [{ oneOf: [{ minimum: 1 }, { minimum: 2 }] }, 3, 'answer: fits 2 of oneOf'],
    [{ not: { type: 'null' } }, null, 'answer: fits what it must not'],
    [{ properties: { a: false } }, { a: 1 }, 'answer.a: must not be there'],
  ])('%j refuses %j', (schema, answer, message) => {
    expect(fits(schema, answer)).toEqual(miss(message))
    expect(jsonSchemaMistakes(schema)).toEqual([])
  })

  test.each([
    [{ type: 'object', properties: { a: { type: 'string' } } }, { b: 1 }],
    [{ minimum: 3, minLength: 9, minItems: 9, required: ['x'] }, 'text-text'],
    [{ multipleOf: 0.1 }, 0.3],
    [{ oneOf: [{ minimum: 5 }, { minimum: 2 }] }, 3],
    [{ type: ['string', 'null'], pattern: '^a' }, null],
    [{ minimum: 3, maximum: 3 }, 3],
    [{ exclusiveMinimum: 2, exclusiveMaximum: 4 }, 3],
    [{ minLength: 2, maxLength: 2 }, 'ab'],
    [{ minItems: 2, maxItems: 2, uniqueItems: true }, [1, 2]],
    [{ uniqueItems: false, title: 'T', description: 'D', $schema: 'S', default: 1 }, [1, 1]],
    [{ type: 'boolean', properties: { a: {} }, additionalProperties: false }, true],
    [{ uniqueItems: true }, 'aa'],
    [{ minLength: 3, minProperties: 1 }, [1]],
    [true, 'x'],
  ])('%j takes %j', (schema, answer) => {
    if (typeof schema === 'object')
      expect(fits(schema, answer)).toEqual(hit('The answer fits the schema'))
  })

  test('an answer that is no JSON does not fit', () => {
    expect(scoreOf({ type: 'json_schema', schema: {} }, answered('Hello'))).toEqual(
      miss('The answer is no JSON'),
    )
  })

  test.each([
    [{ $ref: '#/x' }, ['$ref']],
    [{ format: 'date' }, ['format']],
    [{ properties: { a: { typ: 'string' } } }, ['properties', 'a', 'typ']],
    [{ anyOf: [{}, 3] }, ['anyOf', 1]],
    [{ type: 'text' }, ['type']],
    [{ type: ['string', 'text'] }, ['type']],
    [{ not: { kind: 1 } }, ['not', 'kind']],
    [{ items: { kind: 1 } }, ['items', 'kind']],
    [{ minLength: -1 }, ['minLength']],
    [{ pattern: '(' }, ['pattern']],
    [{ required: 'a' }, ['required']],
    [{ items: [{}] }, ['items']],
  ])('what is not understood is named: %j', (schema, path) => {
    expect(jsonSchemaMistakes(schema).map((mistake) => mistake.path)).toEqual([path])
  })
})

describe('[EVAL12] what was found out in the workspace', () => {
  const score = (config: object, answer: EvaluatorAnswer) =>
    scoreOf(config, answered('x'), { e: answer })
  const files = (...given: [string, string | null, boolean?][]): EvaluatorAnswer => ({
    kind: 'files',
    files: given.map(([path, text, exists = true]) => ({ path, exists, text })),
  })
  const ended = (exitCode: number | null, rest: object = {}): EvaluatorAnswer => ({
    kind: 'command',
    exitCode,
    timedOut: false,
    stdout: '',
    stderr: '',
    ...rest,
  })
  const changes = (...paths: string[]): EvaluatorAnswer => ({ kind: 'changes', paths })
  const npmTest = { type: 'command', command: 'npm test', timeoutSeconds: 9 }

  test.each([
    [
      { type: 'file_exists', paths: ['a', 'b'] },
      files(['a', ''], ['b', null, false]),
      { score: 0.5, hits: ['a exists'], misses: ['b does not exist'] },
    ],
    [{ type: 'file_matches', path: 'a', pattern: 'x+' }, files(['a', 'xx']), hit('a matches "x+"')],
    [
      { type: 'file_matches', path: 'a', pattern: 'x+', contains: 'y', equals: 'xy' },
      files(['a', 'xy\n']),
      hit('a matches "x+"', 'a contains "y"', 'a is as expected'),
    ],
    [
      { type: 'file_matches', path: 'a', contains: 'y' },
      files(['a', 'x']),
      miss('a does not contain "y"'),
    ],
    [
      { type: 'file_matches', path: 'a', equals: 'y' },
      files(['a', 'x']),
      miss('a is not as expected: "x"'),
    ],
    [{ type: 'file_matches', path: 'a', equals: 'y' }, files(), miss('a does not exist')],
    [
      { type: 'file_matches', path: 'a', equals: 'y' },
      files(['a', null]),
      miss('a could not be read as text'),
    ],
    [npmTest, ended(0), hit('"npm test" exited with code 0')],
    [
      npmTest,
      ended(1, { stderr: 'a\nb\nc\nd\ne\nf\n' }),
      miss('"npm test" exited with code 1, expected 0: b\nc\nd\ne\nf'),
    ],
    [npmTest, ended(null), miss('"npm test" was ended, expected 0')],
    [npmTest, ended(0, { timedOut: true }), miss('"npm test" timed out after 9s')],
    [{ ...npmTest, exitCode: 3 }, ended(3), hit('"npm test" exited with code 3')],
    [
      npmTest,
      { kind: 'failed', message: 'denied by policy' },
      miss('Evaluator "e" failed: denied by policy'),
    ],
    [npmTest, changes(), miss('Evaluator "e" failed: Got changes instead of command')],
    [{ type: 'diff_scope', allow: ['src/**'] }, changes('src/a.ts'), hit('src/a.ts was changed')],
    [
      { type: 'diff_scope', allow: ['src/**', '*.md'], deny: ['src/secret/**'] },
      changes('README.md', 'src/secret/x', 'docs/a.md'),
      {
        score: 0,
        hits: ['README.md was changed'],
        misses: [
          'src/secret/x was changed, denied by src/secret/**',
          'docs/a.md was changed, outside of what is allowed',
        ],
      },
    ],
    [{ type: 'diff_scope', deny: ['x'] }, changes('y'), hit('y was changed')],
    [{ type: 'diff_scope' }, changes(), hit('Nothing was changed')],
    [{ type: 'diff_scope', changesRequired: true }, changes(), miss('Nothing was changed')],
    [
      { type: 'policy' },
      { kind: 'policy', denied: [], bypassed: [] },
      hit('No operation was denied or bypassed the gate'),
    ],
    [
      { type: 'policy', allowDenied: ['webfetch'] },
      {
        kind: 'policy',
        denied: [
          { tool: 'webfetch', reason: 'network' },
          { tool: 'bash', reason: 'rm -rf' },
        ],
        bypassed: [{ tool: 'edit', reason: 'no decision' }],
      },
      miss('edit ran past the gate: no decision', 'bash was denied: rm -rf'),
    ],
    [
      { type: 'evidence' },
      {
        kind: 'evidence',
        changes: [
          { path: 'a', proven: true },
          { path: 'b', proven: false, reason: 'no-window' },
        ],
      },
      { score: 0, hits: ['a is proven'], misses: ['b is not proven: no-window'] },
    ],
    [{ type: 'evidence' }, { kind: 'evidence', changes: [] }, hit('Nothing was changed')],
  ] as [object, EvaluatorAnswer, object][])('%j', (config, answer, expected) => {
    expect(score(config, answer)).toEqual(expected)
  })

  test.each([
    [
      { type: 'file_exists', paths: ['a', 'b'] },
      { kind: 'files', paths: ['a', 'b'], texts: false },
    ],
    [
      { type: 'file_matches', path: 'a', contains: 'x' },
      { kind: 'files', paths: ['a'], texts: true },
    ],
    [npmTest, { kind: 'command', command: 'npm test', timeoutSeconds: 9 }],
    [
      { ...npmTest, cwd: 'web' },
      { kind: 'command', command: 'npm test', timeoutSeconds: 9, cwd: 'web' },
    ],
    [{ type: 'diff_scope' }, { kind: 'changes' }],
    [{ type: 'policy' }, { kind: 'policy' }],
    [{ type: 'evidence' }, { kind: 'evidence' }],
  ])('%j asks for %j, under its name', (config, request) => {
    const evaluator = LeafEvaluator.parse({ name: 'e', ...config })
    expect(scoreRequests({ case: caseWith([evaluator]), response: answered('x') })).toEqual([
      { id: 'e', ...request },
    ])
  })

  test.each(['latency', 'contains', 'tool_trajectory'])('%s asks for nothing', (type) => {
    const rest = { threshold: 1, value: ['a'], mode: 'exact' }
    const keys = { latency: ['threshold'], contains: ['value'], tool_trajectory: ['mode'] }[type]
    const config = Object.fromEntries(Object.entries(rest).filter(([key]) => keys?.includes(key)))
    const evaluator = LeafEvaluator.parse({ name: 'e', type, ...config })
    expect(scoreRequests({ case: caseWith([evaluator]), response: answered('x') })).toEqual([])
  })

  test('patterns of files tell capitals apart, and long values are shown in part', () => {
    const config = { type: 'file_matches', path: 'a', pattern: 'X' }
    expect(score(config, files(['a', 'x'])).score).toBe(0)
    const [miss = ''] = score(
      { ...config, pattern: undefined, equals: 'y' },
      files(['a', 'x'.repeat(500)]),
    ).misses
    expect(miss).toMatch(/x…$/)
    expect(miss.length).toBeLessThan(200)
  })

  test('what was never found out scores 0 and says so', () => {
    expect(scoreOf(npmTest, answered('x'))).toEqual(
      miss('Evaluator "e" failed: What it needs was not found out'),
    )
  })
})
