import { describe, expect, test } from 'vitest'
import { Target } from '../../../src/contract/eval-target.ts'
import { checkEvalFiles } from '../../../src/core/evals/files/check.ts'
import { camelCase } from '../../../src/core/evals/files/reading.ts'

const check = (
  content: string,
  variables: Record<string, string> = {},
  others: Record<string, string> = {},
) =>
  checkEvalFiles({
    files: [
      { path: 'evals/targets.yaml', content },
      ...Object.entries(others).map(([path, text]) => ({ path, content: text })),
    ],
    targets: 'evals/targets.yaml',
    variables,
  })

const one = (settings: object) => check(JSON.stringify({ targets: [settings] }))
const told = ({ problems }: ReturnType<typeof check>) =>
  problems.map(({ location, message }) => [location, message])

/** Every setting of every kind, with a value that is not its default if there is another. */
const all = {
  opencode: {
    judge_target: 'judge',
    workers: 4,
    timeout_seconds: 5,
    max_retries: 2,
    sandbox: 'local',
    secrets: ['NPM_TOKEN'],
    model: 'm',
    reasoning_effort: 'deep',
    agent: 'reviewer',
    profile: 'cheap',
    system_prompt: 'Be kind',
    policy: 'rules: []',
    skills: ['review'],
    ability: 'deploy',
    permissions: 'always',
    stream_logs: false,
    log_dir: 'logs',
    log_format: 'json',
  },
  cli: { command: 'run', sandbox: 'local', secrets: ['A'], cwd: 'a' },
  http: { model: 'm', system_prompt: 's', temperature: 0.5, max_output_tokens: 10 },
  replay: { responses: { a: [{ outputMessages: [] }] } },
} as const
const settings = Object.entries(all).flatMap(([provider, given]) =>
  Object.entries(given)
    .filter(([key]) => key !== 'judge_target')
    .map(([key, value]) => [provider, key, value] as const),
)
const needed = {
  opencode: {},
  cli: { command: 'x' },
  http: { model: 'x' },
  replay: { responses: {} },
}

describe('[EVAL27] a setting of a target', () => {
  test.each(settings)('%s: %s is the same in both spellings', (provider, key, value) => {
    const rest = { name: 't', provider, ...needed[provider as keyof typeof needed] }
    const snake = one({ ...rest, [key]: value })
    const camel = one({ ...rest, [camelCase(key)]: value })
    const inner = one({
      name: 't',
      provider,
      settings: { ...needed[provider as keyof typeof needed], [key]: value },
    })
    expect(snake.problems).toEqual([])
    expect(snake.targets[0]).toMatchObject({ [camelCase(key)]: value })
    expect(camel.targets).toEqual(snake.targets)
    expect(inner.targets).toEqual(snake.targets)
  })

  test('every one that there is stands in this table', () => {
    const known = Target.options.flatMap((option) =>
      Object.keys(option.shape)
        .filter((key) => !['name', 'provider'].includes(key))
        .map((key) => `${option.shape.provider.value}.${key}`),
    )
    const shared = ['judgeTarget', 'workers', 'timeoutSeconds', 'maxRetries']
    const shown = Object.entries(all).flatMap(([provider, given]) =>
      [...Object.keys(given).map(camelCase), ...shared].map((key) => `${provider}.${key}`),
    )
    expect([...new Set(shown)].toSorted()).toEqual([...new Set(known)].toSorted())
  })

  test('has a default', () => {
    expect(one({ name: 't', provider: 'opencode' }).targets).toEqual([
      {
        name: 't',
        provider: 'opencode',
        workers: 1,
        timeoutSeconds: 600,
        maxRetries: 0,
        secrets: [],
        permissions: 'reject',
        streamLogs: true,
        logDir: '.agentv/logs/opencode',
        logFormat: 'json',
      },
    ])
  })

  test.each([
    [true, 'once'],
    [false, 'reject'],
    ['always', 'always'],
  ])('auto_approve: %s is permissions: %s', (given, permissions) => {
    expect(one({ name: 't', provider: 'opencode', auto_approve: given }).targets[0]).toMatchObject({
      permissions,
    })
  })
})

describe('[EVAL28] a targets file', () => {
  test.each([
    [{ colour: 1 }, 'targets[0].colour', 'There is no such field'],
    [{ settings: { log_dri: 'x' } }, 'targets[0].settings.log_dri', 'There is no such field'],
    [{ log_dir: 'a', logDir: 'b' }, 'targets[0].logDir', 'Is there already as "log_dir"'],
    [
      { workers: 2, settings: { workers: 3 } },
      'targets[0].settings.workers',
      'Is there already outside of "settings"',
    ],
    [{ settings: 3 }, 'targets[0].settings', 'Must be a map'],
    [{ workers: 0 }, 'targets[0].workers', expect.stringMatching('Too small')],
    [{ permissions: 'maybe' }, 'targets[0].permissions', expect.stringMatching('Invalid option')],
    [{ provider: 'codex' }, 'targets[0].provider', 'Must be one of opencode, cli, http, replay'],
    [
      { isolation: 'directory' },
      'targets[0].isolation',
      'Cannot be set: every attempt has a sandbox and a workspace of its own',
    ],
    [
      { settings: { cwd: 'packages/a' } },
      'targets[0].settings.cwd',
      expect.stringMatching('^Only a cli target has it. OpenCode works in the root'),
    ],
    [
      { log_format: 'summary' },
      'targets[0].log_format',
      'Must be json: the log of OpenCode is its events, one on each line',
    ],
    [
      { provider: 'cli', command: 'x', cwd: 'a/../..' },
      'targets[0].cwd',
      'Must be a path inside of the workspace, with "/" between its parts',
    ],
    [{ judge_target: 'none' }, 'targets[0].judge_target', 'There is no target "none"'],
    [{ judgeTarget: 't' }, 'targets[0].judgeTarget', 'A target must not judge itself'],
  ])('refuses %j at %s', (given, location, message) => {
    expect(told(one({ name: 't', provider: 'opencode', ...given }))).toEqual([[location, message]])
  })

  test('goes on with the other targets', () => {
    const checked = check(
      'targets:\n  - { name: a, provider: opencode, bad: 1 }\n  - { name: b, provider: opencode }\n  - { name: b, provider: opencode }\n  - { name: c, provider: opencode, judge_target: b }\n',
    )
    expect(checked.targets.map(({ name }) => name)).toEqual(['b', 'c'])
    expect(
      checked.problems.map(({ location, message, line }) => [location, message, line]),
    ).toEqual([
      ['targets[0].bad', 'There is no such field', 2],
      ['targets[2].name', 'There is already a target "b"', 4],
      ['targets[3].judge_target', 'A judge must be a target of provider http', 5],
    ])
  })

  test('is a list of targets and nothing else', () => {
    expect(told(check('targets: 3'))).toEqual([['targets', 'Needs a list of targets']])
    expect(told(check('targets: []\nother: 1'))).toEqual([['other', 'There is no such field']])
    expect(check('providers:\n  - { name: a, provider: opencode }').targets).toHaveLength(1)
    expect(told(check('targets:\n  - text'))).toEqual([['targets[0]', 'Must be a map']])
  })

  test('names of targets in the eval file must be there', () => {
    const { problems } = checkEvalFiles({
      files: [
        { path: 't.yaml', content: 'targets: [{ name: a, provider: opencode }]' },
        {
          path: 's.yaml',
          content:
            'execution: { target: b }\nevalcases:\n  - { id: x, outcome: o, input: i, execution: { target: c }, evaluators: [{ type: llm_judge, target: d }, { name: all, type: composite, evaluators: [{ type: rubric, rubrics: [r], target: e }] }] }',
        },
      ],
      suite: 's.yaml',
      targets: 't.yaml',
      variables: {},
    })
    expect(problems.map(({ message }) => message)).toEqual([
      'The file names the target "b", which there is not',
      'The case "x" names the target "c", which there is not',
      'The evaluator "llm_judge" of the case "x" names the target "d", which there is not',
      'The evaluator "all" of the case "x" names the target "e", which there is not',
    ])
  })
})

describe('[EVAL29] ${{ NAME }}', () => {
  const text = (value: string) =>
    `targets:\n  - name: t\n    provider: opencode\n    system_prompt: "${value}"\n    workers: \${{ COUNT }}\n    stream_logs: \${{ LOGS }}\n`

  test('is the variable that was given, also inside of a text and for numbers and switches', () => {
    const checked = check(text('a ${{ WHO }} ${{WHO}} b'), {
      WHO: '${{ COUNT }}',
      COUNT: '3',
      LOGS: 'false',
    })
    expect(checked.problems).toEqual([])
    // What a variable holds is not looked into again.
    expect(checked.targets[0]).toMatchObject({
      systemPrompt: 'a ${{ COUNT }} ${{ COUNT }} b',
      workers: 3,
      streamLogs: false,
    })
  })

  test.each(['HOME', 'constructor', 'WHO}} ${{ X', ''])(
    '%s, which was not given, is refused',
    (name) => {
      const checked = check(text(`\${{ ${name} }}`), { COUNT: '1', LOGS: 'true' })
      expect(checked.targets).toEqual([])
      expect(checked.problems[0]).toMatchObject({
        location: 'targets[0].system_prompt',
        line: 4,
        message: expect.stringMatching('only those that are given by name can be used'),
      })
    },
  )
})

describe('[EVAL30] recorded answers', () => {
  const replay = (settings: string, others: Record<string, string> = {}) =>
    check(`targets:\n  - name: t\n    provider: replay\n${settings}`, {}, others)

  test('stand in the file by case: a text, a response, or one per attempt', () => {
    const checked = replay(`    responses:
      a: "42"
      b:
        - { content: first, tool_calls: [read, { tool: grep, input: { snake_key: 1 } }], cost_usd: 0.5 }
        - output_messages: [{ role: assistant, content: second, tool_calls: [] }]
          token_usage: { input: 1, output: 2 }
          duration_ms: 7
`)
    expect(checked.problems).toEqual([])
    expect(checked.targets[0]).toMatchObject({
      responses: {
        a: [{ outputMessages: [{ role: 'assistant', content: '42' }] }],
        b: [
          {
            outputMessages: [
              {
                content: 'first',
                toolCalls: [{ tool: 'read' }, { tool: 'grep', input: { snake_key: 1 } }],
              },
            ],
            costUsd: 0.5,
          },
          {
            outputMessages: [{ content: 'second' }],
            tokenUsage: { input: 1, output: 2 },
            durationMs: 7,
          },
        ],
      },
    })
  })

  test('an answer without calls says nothing of them, and an empty list that there was none', () => {
    const checked = replay(
      '    responses: { a: "42", b: { content: "42" }, c: { content: "42", tool_calls: [] } }\n',
    )
    const [target] = checked.targets
    if (target?.provider !== 'replay') throw new Error('Expected a replay target')
    const callsOf = (id: string) => target.responses[id]?.[0]?.outputMessages[0]?.toolCalls
    expect(['a', 'b', 'c'].map(callsOf)).toEqual([undefined, undefined, []])
  })

  test('or in the results of an earlier run, in the order of their attempts', () => {
    const row = (attempt: number) =>
      JSON.stringify({
        eval_id: 'a',
        attempt,
        candidate_answer: `try ${attempt}`,
        tool_calls: [{ tool: 'x', id: 'c1' }],
        trace_summary: { duration_ms: attempt, tool_calls_by_name: { x: 1 } },
        score: 1,
      })
    const checked = replay('    trace: results.jsonl\n', {
      'evals/results.jsonl': `${row(1)}\n${row(0)}\n`,
    })
    expect(checked.problems).toEqual([])
    expect(checked.targets[0]).toMatchObject({
      responses: {
        a: [
          {
            outputMessages: [{ content: 'try 0', toolCalls: [{ tool: 'x', id: 'c1' }] }],
            durationMs: 0,
          },
          { outputMessages: [{ content: 'try 1' }], durationMs: 1 },
        ],
      },
    })
  })

  test('a switch is only read where one is meant', () => {
    expect(
      one({ name: 't', provider: 'opencode', model: 'true', agent: '12' }).targets[0],
    ).toMatchObject({
      model: 'true',
      agent: '12',
    })
    const lines = '{"evalId": "a", "content": "x"}\n'
    expect(replay('    trace: r.jsonl\n', { 'evals/r.jsonl': lines }).targets[0]).toMatchObject({
      responses: { a: [{ outputMessages: [{ content: 'x' }] }] },
    })
  })

  test('mistakes in them are told with their line', () => {
    const checked = replay('    trace: results.jsonl\n', {
      'evals/results.jsonl': '{"eval_id": "a", "content": "x"}\n{}\nnot json\n',
    })
    expect(checked.targets).toEqual([])
    expect(told(checked)).toEqual([
      ['targets[0].trace', expect.stringMatching(/^results\.jsonl, line 3: /)],
      ['targets[0].trace', 'results.jsonl, line 2: Needs the id of a case'],
    ])
    expect(told(replay('    trace: none.jsonl\n'))).toEqual([
      ['targets[0].trace', 'There is no file "none.jsonl"'],
    ])
    expect(told(replay('    responses: { a: { token_usage: 3 } }\n'))).toEqual([
      [expect.stringMatching(/^targets\[0\]\.responses\.a/), expect.anything()],
    ])
    expect(replay('    responses: {}\n    trace: a.jsonl\n').targets).toEqual([])
  })
})
