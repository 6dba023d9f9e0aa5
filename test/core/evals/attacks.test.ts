import { describe, expect, test } from 'vitest'
import { checkEvalFiles } from '../../../src/core/evals/files/check.ts'

const caseOf = (more: object = {}) => ({
  ...{ id: 'a', expected_outcome: 'x', input_messages: [{ role: 'user', content: 'hi' }] },
  execution: { evaluators: [{ type: 'contains', value: 'x' }] },
  ...more,
})
const check = (
  suite: string,
  files: { path: string; content: string }[] = [],
  targets?: string,
  variables = {},
) =>
  checkEvalFiles({
    files: [
      { path: 'evals/s.yaml', content: suite },
      ...files,
      ...(targets === undefined ? [] : [{ path: 't.yaml', content: targets }]),
    ],
    ...{ suite: 'evals/s.yaml', targets: targets && 't.yaml', variables },
  })
const suiteOf = (...cases: object[]) => JSON.stringify({ evalcases: cases })
const told = ({ problems }: ReturnType<typeof check>) =>
  problems.map(({ location, message }) => `${location}: ${message}`)

describe('a hostile eval file', () => {
  test('[EVAL22] has no aliases, anchors, merged maps, tags or second documents', () => {
    const laugh = (level: number) => `l${level}: &l${level} [${`*l${level - 1}, `.repeat(9)}]\n`
    const bomb = `l0: &l0 [x]\n${[1, 2, 3, 4, 5, 6, 7, 8, 9].map(laugh).join('')}evalcases: *l9\n`
    const good = suiteOf(caseOf())
    for (const text of [
      bomb,
      `base: &b {id: a}\nevalcases: [{<<: *b}]`,
      `evalcases: !!set {a}`,
      `evalcases: !!js/function "x"`,
      `${good}\n---\n${good}`,
      `evalcases: []\nevalcases: []`,
    ]) {
      const started = process.threadCpuUsage().user
      const { suite, valid, problems } = check(text)
      expect([suite?.cases ?? [], valid]).toEqual([[], false])
      expect(problems.length).toBeGreaterThan(0)
      expect(process.threadCpuUsage().user - started).toBeLessThan(500_000)
    }
  })

  test('[EVAL22] is told where every field is that nobody knows, at each level', () => {
    const known = { type: 'contains', value: 'x' }
    expect(
      told(
        check(
          JSON.stringify({
            surprise: 1,
            evalcases: [
              caseOf({ surprise: 1 }),
              caseOf({ id: 'b', input_messages: [{ role: 'user', content: 'hi', surprise: 1 }] }),
              caseOf({ id: 'c', execution: { evaluators: [{ ...known, surprise: 1 }] } }),
              caseOf({ id: 'd', execution: { surprise: 1, evaluators: [known] } }),
              caseOf({ id: 'e', workspace: { surprise: 1 } }),
              caseOf({ id: 'f', workspace: { repository: { url: 'https://x.y/z', surprise: 1 } } }),
              caseOf({ id: 'g', __proto__x: 1, constructor: 1 }),
            ],
          }),
        ),
      ).map((text) => text.split(':')[0]),
    ).toEqual([
      'evalcases[0].surprise',
      'evalcases[1].input_messages[0].surprise',
      'evalcases[2].execution.evaluators[0].surprise',
      'evalcases[3].execution.surprise',
      'evalcases[4].workspace.surprise',
      'evalcases[5].workspace.repository.surprise',
      ...['evalcases[6].__proto__x', 'evalcases[6].constructor', 'surprise'],
    ])
  })

  test.each([
    '../../etc/passwd',
    '/etc/passwd',
    'file:///etc/passwd',
    '..\\..\\etc\\passwd',
    '~/x',
    'https://x.example/y',
    '%2e%2e/secret.txt',
  ])('[EVAL25] reads %s neither as a message, nor as cases, a prompt or a fixture', (path) => {
    const block = { role: 'user', content: [{ type: 'file', value: path }] }
    const judge = { type: 'llm_judge', prompt: `${path}.md` }
    for (const text of [
      suiteOf(caseOf({ input_messages: [block] })),
      JSON.stringify({ evalcases: [`${path}.jsonl`] }),
      suiteOf(caseOf({ workspace: { files: { 'x.txt': { file: path } } } })),
      ...(path.includes(' ') ? [] : [suiteOf(caseOf({ execution: { evaluators: [judge] } }))]),
    ]) {
      const { suite, problems } = check(text)
      const shown = JSON.stringify([suite, problems])
      expect(shown).not.toContain('root:')
      if (!text.includes('llm_judge'))
        expect([suite?.cases ?? [], problems.length > 0]).toEqual([[], true])
    }
  })

  test.each(['../x', '/etc/x', '.git/config', 'a/.git/hooks/x', 'a//b', 'a/./b', 'a\\b', ''])(
    '[EVAL26] a fixture is not written to %j',
    (path) => {
      const { suite, problems } = check(suiteOf(caseOf({ workspace: { files: { [path]: 'x' } } })))
      expect([suite?.cases, problems.length > 0]).toEqual([[], true])
    },
  )

  test('[EVAL29] a variable is put into targets alone, once, and never into names of settings', () => {
    const secret = 'S3CRET'
    const targets = (text: string) =>
      JSON.stringify({ targets: [{ name: 'r', provider: 'replay', ...JSON.parse(text) }] })
    const variables = { A: '${{ B }}', B: secret }
    const asked = caseOf({ input_messages: [{ role: 'user', content: '${{ B }}' }] })
    const found = check(suiteOf(asked), [], targets('{"responses": {"a": "${{ A }}"}}'), variables)
    expect(found.problems).toEqual([])
    expect(JSON.stringify([found.suite, found.targets])).not.toContain(secret)
    const named = check(
      suiteOf(caseOf()),
      [],
      targets('{"responses": {}, "${{ B }}": 1}'),
      variables,
    )
    expect(JSON.stringify(named)).not.toContain(secret)
    for (const name of ['B ', '  B']) {
      const text = targets(`{"responses": {"a": "\${{ ${name} }}"}}`)
      expect(JSON.stringify(check(suiteOf(caseOf()), [], text, variables).targets)).toContain(
        secret,
      )
    }
    for (const name of ['b', 'A.B', '__proto__', 'toString', 'PATH'])
      expect(
        check(suiteOf(caseOf()), [], targets(`{"responses": {"a": "\${{ ${name} }}"}}`), variables)
          .valid,
      ).toBe(false)
  })
})
