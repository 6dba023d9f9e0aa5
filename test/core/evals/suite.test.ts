import { describe, expect, test } from 'vitest'
import { EvalSuite } from '../../../src/contract/eval-suite.ts'
import { checkEvalFiles } from '../../../src/core/evals/files/check.ts'
import { suiteFileDigest } from '../../../src/core/evals/files/suite.ts'

const check = (content: string, others: Record<string, string> = {}, path = 'evals/demo.yaml') =>
  checkEvalFiles({
    files: [
      { path, content },
      ...Object.entries(others).map(([name, text]) => ({ path: name, content: text })),
    ],
    suite: path,
    variables: {},
  })

const good = `
description: About sums
execution:
  target: agent
  evaluators:
    - { name: sum, type: contains, value: "42" }
evalcases:
  - id: first
    expected_outcome: It says 42
    conversation_id: talk
    input_messages:
      - { role: system, content: Be short }
      - role: user
        content:
          - { type: text, value: "Add these:" }
          - { type: file, value: data/numbers.txt }
    expected_messages:
      - { role: assistant, content: { sumOf: 42 } }
`

/** Of the only case, with this in its place. */
const caseOf = (text: string, top = '') =>
  check(`${top}evalcases:\n  - id: a\n    expected_outcome: o\n    input_messages: i\n${text}`)

const located = (checked: ReturnType<typeof check>) =>
  checked.problems.map(({ severity, location, message, line }) => [
    severity,
    location,
    message,
    line,
  ])

describe('[EVAL21] an eval file', () => {
  test('in the documented spelling', () => {
    const checked = check(good, { 'evals/data/numbers.txt': '40\n2\n' })
    expect(checked.problems).toEqual([])
    expect(EvalSuite.parse(checked.suite)).toEqual(checked.suite)
    expect(checked.suite).toEqual({
      dataset: 'demo',
      description: 'About sums',
      target: 'agent',
      cases: [
        {
          id: 'first',
          expectedOutcome: 'It says 42',
          conversationId: 'talk',
          inputMessages: [
            { role: 'system', content: 'Be short' },
            {
              role: 'user',
              content: [
                { type: 'text', value: 'Add these:' },
                { type: 'file', value: 'data/numbers.txt', text: '40\n2\n' },
              ],
            },
          ],
          expectedMessages: [{ role: 'assistant', content: { sumOf: 42 } }],
          evaluators: [
            {
              name: 'sum',
              type: 'contains',
              value: ['42'],
              ignoreCase: false,
              weight: 1,
              required: false,
            },
          ],
          required: false,
          repetitions: 1,
        },
      ],
    })
  })

  test('in the newer spelling, and in camelCase, says the same', () => {
    const old = check(`
dataset: sums
evalcases:
  - id: a
    expected_outcome: It says 42
    input_messages: [{ role: user, content: Add }]
    expected_messages: [{ role: assistant, content: "42" }]
    execution:
      evaluators:
        - { type: contains, value: ["42"], ignore_case: true }
        - { type: rubric, rubrics: [{ id: rubric-1, description: Is polite }] }
`)
    const newer = check(`
name: sums
tests:
  - id: a
    criteria: It says 42
    input: Add
    expected_output: "42"
    assert:
      - { type: contains, value: "42", ignoreCase: true }
      - Is polite
`)
    expect(old.problems).toEqual([])
    expect(newer.problems).toEqual([])
    expect(newer.suite).toEqual(old.suite)
    expect(newer.digest).toBe(old.digest)
  })

  test('the digest is about what is asked and expected, not about the description', () => {
    const { suite } = check(good, { 'evals/data/numbers.txt': '1' })
    if (suite === null) throw new Error('Expected a suite')
    expect(suiteFileDigest({ ...suite, description: 'Other' })).toBe(suiteFileDigest(suite))
    expect(suiteFileDigest({ ...suite, dataset: 'Other' })).not.toBe(suiteFileDigest(suite))
    expect(check(good, { 'evals/data/numbers.txt': '2' }).digest).not.toBe(suiteFileDigest(suite))
  })
})

describe('[EVAL22] mistakes', () => {
  test('a bad case is told with its place and left out; the others go on', () => {
    const checked = check(`
evalcases:
  - id: good
    expected_outcome: o
    input_messages: hello
  - id: no-outcome
    input_messages: hello
  - id: bad-role
    expected_outcome: o
    input_messages:
      - { role: user, content: hello }
      - { role: robot, content: hello }
  - id: good-too
    outcome: o
    input_messages: hello
  - just a text
`)
    expect(checked.valid).toBe(false)
    expect(checked.suite?.cases.map(({ id }) => id)).toEqual(['good', 'good-too'])
    expect(located(checked)).toEqual([
      ['error', 'evalcases[1].expected_outcome', expect.stringMatching('expected string'), 6],
      ['error', 'evalcases[2].input_messages[1].role', expect.stringMatching('Invalid option'), 12],
      ['error', 'evalcases[4]', 'There is no file "just a text"', 16],
    ])
    expect(checked.problems[0]?.filePath).toBe('evals/demo.yaml')
  })

  test.each([
    ['colour: red', 'evalcases[0].colour', 'There is no such field'],
    [
      'execution: { target: a, retries: 3 }',
      'evalcases[0].execution.retries',
      'There is no such field',
    ],
    ['outcome: again', 'evalcases[0].outcome', 'Is there already as "expected_outcome"'],
    [
      'execution: { evaluators: [{ type: guess }] }',
      'evalcases[0].execution.evaluators[0].type',
      expect.stringMatching(/^Must be one of tool_trajectory, /),
    ],
    ['evaluators: all', 'evalcases[0].evaluators', 'Must be a list of evaluators'],
    [
      'evaluators: [{ type: latency, threshold: fast }]',
      'evalcases[0].evaluators[0].threshold',
      expect.stringMatching('expected number'),
    ],
    [
      'evaluators: [{ type: latency, threshold: 1, max_ms: 2 }]',
      'evalcases[0].evaluators[0].max_ms',
      'There is no such field',
    ],
    [
      'evaluators: [{ type: contains, value: a, ignore_case: true, ignoreCase: true }]',
      'evalcases[0].evaluators[0].ignoreCase',
      'Is there already as "ignore_case"',
    ],
    [
      'evaluators: [{ name: a, type: cost, budget: 1 }, { name: a, type: cost, budget: 2 }]',
      'evalcases[0].evaluators[1].name',
      'There is already an evaluator "a"',
    ],
    [
      'evaluators: [{ type: tool_trajectory, mode: any_order }]',
      'evalcases[0].evaluators[0]',
      'The mode any_order needs minimums',
    ],
    [
      'evaluators: [{ type: tool_trajectory, mode: in_order }]',
      'evalcases[0].evaluators[0]',
      'The mode in_order needs expected',
    ],
    [
      'evaluators: [{ type: tool_trajectory, mode: exact }]',
      'evalcases[0].evaluators[0]',
      'The mode exact needs expected',
    ],
    [
      'evaluators: [{ type: tool_trajectory, mode: exact, expected: [], minimums: { a: 1 } }]',
      'evalcases[0].evaluators[0].minimums',
      'Only the mode any_order has minimums',
    ],
    [
      'evaluators: [{ type: tool_trajectory, mode: any_order, minimums: { a: 1 }, expected: [{ tool: a }] }]',
      'evalcases[0].evaluators[0].expected',
      'The mode any_order has minimums instead',
    ],
    [
      'evaluators: [{ type: tool_trajectory, mode: exact, expected: [{ tool: a, params: {} }] }]',
      'evalcases[0].evaluators[0].expected[0].params',
      'There is no such field',
    ],
    [
      'evaluators: [{ type: tool_trajectory, mode: exact, expected: [{ tool: a, args: {}, input: {} }] }]',
      'evalcases[0].evaluators[0].expected[0].input',
      'Is there already as "args"',
    ],
    [
      'evaluators: [{ type: token_usage }]',
      'evalcases[0].evaluators[0]',
      'Needs max_total, max_input or max_output',
    ],
    [
      'evaluators: [{ type: regex, pattern: "(?=a)" }]',
      'evalcases[0].evaluators[0].pattern',
      expect.stringMatching('Not a pattern in RE2 syntax'),
    ],
    [
      'evaluators: [{ type: file_matches, path: a }]',
      'evalcases[0].evaluators[0]',
      'Needs pattern, contains or equals',
    ],
    [
      'evaluators: [{ type: file_matches, path: a, pattern: "(" }]',
      'evalcases[0].evaluators[0].pattern',
      expect.stringMatching('Not a pattern in RE2 syntax'),
    ],
    [
      'evaluators: [{ type: file_exists, path: ../secret }]',
      'evalcases[0].evaluators[0].path',
      'Must be a path inside of the workspace, with "/" between its parts',
    ],
    [
      'evaluators: [{ type: json_schema, schema: { properties: { a: { $ref: x } } } }]',
      'evalcases[0].evaluators[0].schema.properties.a.$ref',
      'There is no such keyword, or it is not supported',
    ],
    [
      'evaluators: [{ type: llm_judge, prompt: judge.md }]',
      'evalcases[0].evaluators[0].prompt',
      'There is no file "judge.md"',
    ],
    [
      'evaluators: [{ type: composite, evaluators: [{ type: composite, evaluators: [] }] }]',
      'evalcases[0].evaluators[0].evaluators[0].type',
      expect.anything(),
    ],
    [
      'evaluators: [{ type: composite, aggregator: { type: best }, evaluators: [{ type: cost, budget: 1 }] }]',
      'evalcases[0].evaluators[0].aggregator',
      'Must be {type: weighted_average}',
    ],
    [
      'rubrics: [{ id: a, description: b, wight: 2 }]',
      'evalcases[0].rubrics[0].wight',
      'There is no such field',
    ],
    [
      'rubrics: [{ id: a, description: b }, { id: a, description: c }]',
      'evalcases[0].rubrics[1]',
      'There is already a rubric "a"',
    ],
    [
      'workspace: { files: { "../x": y } }',
      'evalcases[0].workspace.files.../x',
      'Must be a path inside of the workspace, with "/" between its parts',
    ],
    [
      'workspace: { repository: { url: "ext::sh" } }',
      'evalcases[0].workspace.repository.url',
      expect.stringMatching('Must be an http'),
    ],
  ])('%s is told at its place', (text, location, message) => {
    const checked = caseOf(`    ${text}\n`)
    expect(checked.suite?.cases).toEqual([])
    expect(located(checked)).toEqual([['error', location, message, 5]])
  })

  test('are told of the file as a whole', () => {
    expect(located(check('evalcases: [\n'))).toMatchObject([['error', '', expect.anything(), 2]])
    expect(located(check('description: none'))).toEqual([
      ['error', '', 'Needs a list of cases: evalcases', 1],
    ])
    expect(located(check('- a'))).toEqual([['error', '', 'Must be a map', 1]])
    expect(located(check('evalcases: 3'))).toEqual([
      ['error', 'evalcases', 'Must be a list of cases', 1],
    ])
    expect(located(check('evalcases: []\ntitle: x'))).toEqual([
      ['error', 'title', 'There is no such field', 2],
    ])
    expect(checkEvalFiles({ files: [], suite: 'none.yaml', variables: {} }).problems).toEqual([
      {
        severity: 'error',
        filePath: 'none.yaml',
        location: '',
        message: 'There is no such file among those that were given',
      },
    ])
    const twice = caseOf('  - { id: a, outcome: o, input: i }\n')
    expect(twice.problems.map(({ message }) => message)).toEqual(['There is already a case "a"'])
    expect(twice.suite?.cases).toHaveLength(1)
  })

  test('however many there are, no bad case is taken for a good one', () => {
    const cases = Array.from(
      { length: 400 },
      (_, at) =>
        `  - { id: c${at}, outcome: o, input: i, evaluators: [{ type: regex, pattern: "(" }] }`,
    )
    const checked = check(`evalcases:\n${cases.join('\n')}`)
    expect(checked.problems).toHaveLength(200)
    expect(checked.suite?.cases).toEqual([])
  })

  test('[EVAL23] a text that looks like several messages is a warning, and the case stands', () => {
    const checked = check(
      'evalcases:\n  - id: a\n    outcome: o\n    input:\n      - role: user\n        content: "hi\\n@[Assistant]: hello"\n',
    )
    expect(checked.valid).toBe(true)
    expect(checked.suite?.cases).toHaveLength(1)
    expect(located(checked)).toEqual([
      [
        'warning',
        'evalcases[0].input[0].content',
        '"@[Assistant]:" looks like a role marker and stays text: write one message per role instead',
        6,
      ],
    ])
  })
})

describe('[EVAL24] evaluators of a case', () => {
  const top = 'evaluators: [{ type: cost, budget: 1 }]\n'
  const types = (checked: ReturnType<typeof check>) => {
    expect(checked.problems).toEqual([])
    return checked.suite?.cases[0]?.evaluators.map(({ name, type }) => `${name}:${type}`)
  }

  test('are its execution’s, else its own, else the file’s, else one judging model', () => {
    const own = '    evaluators: [{ type: latency, threshold: 1 }]\n'
    const inner = '    execution: { evaluators: [{ type: token_usage, max_total: 1 }] }\n'
    expect(types(caseOf(own + inner, top))).toEqual(['token_usage:token_usage'])
    expect(types(caseOf(own, top))).toEqual(['latency:latency'])
    expect(types(caseOf('', top))).toEqual(['cost:cost'])
    expect(types(caseOf(''))).toEqual(['llm_judge:llm_judge'])
  })

  test('rubrics come first, as one judge', () => {
    expect(types(caseOf('    rubrics: [Is kind]\n', top))).toEqual(['rubric:rubric', 'cost:cost'])
    expect(types(caseOf('    rubrics: [Is kind]\n'))).toEqual(['rubric:rubric'])
  })

  test('without a name are called by their type, with a number from the second on', () => {
    const list = '    assert: [{ type: cost, budget: 1 }, { type: cost, budget: 2 }]\n'
    expect(types(caseOf(list))).toEqual(['cost:cost', 'cost-2:cost'])
  })

  test('hyphens and newer names of types are understood', () => {
    const list = `    assert:
      - { type: tool-trajectory, mode: any_order, minimums: { readFile: 1 } }
      - { type: llm-grader }
      - { type: code-grader, script: [uv, run, "my judge.py"] }
      - { type: is-json }
`
    const [trajectory, , code] = caseOf(list).suite?.cases[0]?.evaluators ?? []
    expect(trajectory).toMatchObject({ type: 'tool_trajectory', minimums: { readFile: 1 } })
    expect(code).toMatchObject({ type: 'code_judge', command: "uv run 'my judge.py'" })
  })

  test('a composite has weights beside it, by name', () => {
    const list = `    evaluators:
      - name: all
        type: composite
        aggregator: { type: weighted_average, weights: { cost: 3 } }
        evaluators: [{ type: cost, budget: 1 }, { type: latency, threshold: 1 }]
`
    expect(caseOf(list).suite?.cases[0]?.evaluators[0]).toMatchObject({
      evaluators: [
        { name: 'cost', weight: 3 },
        { name: 'latency', weight: 1 },
      ],
    })
  })

  test('users’ keys and values keep their case', () => {
    const list =
      '    evaluators: [{ type: tool_trajectory, mode: exact, expected: [{ tool: my_Tool, input: { snake_key: 1, camelKey: 2 } }] }]\n'
    expect(caseOf(list).suite?.cases[0]?.evaluators[0]).toMatchObject({
      expected: [{ tool: 'my_Tool', args: { snake_key: 1, camelKey: 2 } }],
    })
  })
})

describe('[EVAL25] cases from other files', () => {
  const line = (id: string) => JSON.stringify({ id, criteria: 'o', input: 'i' })

  test('a JSONL file is a suite, with a file of settings beside it', () => {
    const text = `${line('a')}\n\n${line('b')}\n{"id": "c"\n${line('d')}\n{"id": "e", "input": "i"}\n`
    const checked = check(
      text,
      { 'evals/set.yaml': 'dataset: mine\nevaluators: [{ type: cost, budget: 1 }]\n' },
      'evals/set.jsonl',
    )
    expect(checked.suite).toMatchObject({ dataset: 'mine' })
    expect(checked.suite?.cases.map(({ id, evaluators }) => [id, evaluators[0]?.type])).toEqual([
      ['a', 'cost'],
      ['b', 'cost'],
      ['d', 'cost'],
    ])
    expect(
      checked.problems.map(({ filePath, location, line: at }) => [filePath, location, at]),
    ).toEqual([
      ['evals/set.jsonl', 'line 4', 4],
      ['evals/set.jsonl', 'expected_outcome', 6],
    ])
    expect(check(line('a'), {}, 'set.jsonl').suite?.dataset).toBe('set')
  })

  test.each([
    ['a key that is there twice', '{"id": "a", "criteria": "o", "input": "i", "id": "b"}'],
    ['what is nested too deeply', `{"id": "a", "x": ${'['.repeat(60)}${']'.repeat(60)}}`],
    ['two values', '{"id": "a"} {"id": "b"}'],
  ])('%s in a line is refused', (_, text) => {
    const checked = check(text, {}, 'set.jsonl')
    expect(checked.suite?.cases).toEqual([])
    expect(checked.problems).toMatchObject([{ location: 'line 1', line: 1 }])
  })

  test('a quote or a colon in a text is no key', () => {
    const text = JSON.stringify({ id: 'a', criteria: 'say "x": \\', input: { 'k"': '"k":' } })
    expect(check(text, {}, 'set.jsonl')).toMatchObject({
      valid: true,
      suite: { cases: [{ id: 'a' }] },
    })
  })

  test('too many lines, patterns and files that are named again are refused', () => {
    expect(check('{}\n'.repeat(10_001), {}, 'set.jsonl').problems).toMatchObject([
      { message: 'Must have at most 10000 lines' },
    ])
    const again = check('evalcases: [a.jsonl, ./a.jsonl]', { 'evals/a.jsonl': line('a') })
    expect(again.problems).toMatchObject([
      { location: 'evalcases[1]', message: 'Names "./a.jsonl" again' },
    ])
    const patterns = Array.from({ length: 40 }, (_, at) =>
      JSON.stringify({
        ...{ id: `c${at}`, criteria: 'o', input: 'i' },
        assert: [{ type: 'regex', pattern: `${at}${'a'.repeat(900)}` }],
      }),
    )
    expect(check(patterns.join('\n'), {}, 'set.jsonl').problems[0]?.message).toMatch(
      'All patterns together must have at most 32768 characters',
    )
  })

  test('a YAML file names files of cases, relative to itself', () => {
    const checked = check(
      'evalcases:\n  - ./cases/one.yaml\n  - file://cases/more.jsonl\n  - ../others.yaml\n  - { id: own, outcome: o, input: i }\n  - missing.yaml\n',
      {
        'evals/cases/one.yaml':
          'id: one\noutcome: o\ninput: [{ role: user, content: [{ type: file, value: text.txt }] }]\n',
        'evals/cases/text.txt': 'from the file',
        'evals/cases/more.jsonl': `${line('two')}\n${line('three')}`,
        'others.yaml': 'evalcases:\n  - { id: four, outcome: o, input: i }\n  - { id: bad }\n',
      },
    )
    expect(checked.suite?.cases.map(({ id }) => id)).toEqual(['one', 'two', 'three', 'four', 'own'])
    expect(checked.suite?.cases[0]?.inputMessages[0]?.content).toEqual([
      { type: 'file', value: 'text.txt', text: 'from the file' },
    ])
    expect(checked.problems.map(({ filePath, location }) => `${filePath} ${location}`)).toEqual([
      'evals/demo.yaml evalcases[4]',
      'others.yaml evalcases[1].expected_outcome',
      'others.yaml evalcases[1].input_messages',
    ])
  })

  test('what was not given cannot be read', () => {
    expect(caseOf('    evaluators: [{ type: llm_judge, prompt: /etc/motd.txt }]\n').valid).toBe(
      false,
    )
  })
})

test('[EVAL26] a workspace holds for all cases of a file unless a case has its own', () => {
  const checked = check(
    `
workspace:
  repository: { url: "https://example.com/a.git", commit: abc }
  files:
    src/a.ts: "let a = 1\\n"
    src/b.ts: { file: fixtures/b.ts }
repetitions: 3
evalcases:
  - { id: a, outcome: o, input: i }
  - { id: b, outcome: o, input: i, repetitions: 1, required: true, workspace: { configuration: cfg } }
`,
    { 'evals/fixtures/b.ts': 'let b\n' },
  )
  expect(checked.problems).toEqual([])
  expect(checked.suite?.cases).toMatchObject([
    {
      repetitions: 3,
      required: false,
      workspace: {
        repository: { url: 'https://example.com/a.git', ref: 'abc' },
        files: [
          { path: 'src/a.ts', text: 'let a = 1\n' },
          { path: 'src/b.ts', text: 'let b\n' },
        ],
      },
    },
    { repetitions: 1, required: true, workspace: { configurationId: 'cfg', files: [] } },
  ])
})

test('[EVAL21] [EVAL26] what stands under execution counts before what stands beside it', () => {
  const checked = check(`
repetitions: 5
execution: { repetitions: 4, workspace: { files: { a: whole } } }
evalcases:
  - { id: a, outcome: o, input: i }
  - id: b
    outcome: o
    input: i
    repetitions: 3
    workspace: { files: { a: own } }
    execution: { repetitions: 2, workspace: { files: { a: inner } } }
`)
  expect(checked.problems).toEqual([])
  expect(checked.suite?.cases).toMatchObject([
    { repetitions: 4, workspace: { files: [{ path: 'a', text: 'whole' }] } },
    { repetitions: 2, workspace: { files: [{ path: 'a', text: 'inner' }] } },
  ])
})

test('[EVAL22] what is no map, no text or no weight is told, and nothing throws', () => {
  for (const [text, location] of [
    ['evaluators: [3]', 'evalcases[0].evaluators[0]'],
    ['evaluators: [{ type: llm_judge, prompt: 3 }]', 'evalcases[0].evaluators[0].prompt'],
    ['workspace: 3', 'evalcases[0].workspace'],
    ['execution: 3', 'evalcases[0].execution'],
    ['expected_messages: 3', 'evalcases[0].expected_messages'],
    [
      'evaluators: [{ type: composite, aggregator: { type: weighted_average, weights: { a: x } }, evaluators: [{ type: cost, budget: 1 }] }]',
      'evalcases[0].evaluators[0].aggregator.weights',
    ],
    [
      'evaluators: [{ type: composite, aggregator: { type: weighted_average, best: 1 }, evaluators: [{ type: cost, budget: 1 }] }]',
      'evalcases[0].evaluators[0].aggregator.best',
    ],
  ] as const) {
    const checked = caseOf(`    ${text}\n`)
    expect([text, checked.problems.map((problem) => problem.location)]).toEqual([text, [location]])
    expect(checked.suite?.cases).toEqual([])
  }
  const one = check('evalcases: one.jsonl', {
    'evals/one.jsonl': '{"id":"a","criteria":"o","input":"i"}',
  })
  expect(one.suite?.cases.map(({ id }) => id)).toEqual(['a'])
  const rooted = check('evalcases: [/all/x.yaml]', { 'all/x.yaml': 'id: a\noutcome: o\ninput: i' })
  expect(rooted.suite?.cases).toHaveLength(1)
})
