import { describe, expect, test } from 'vitest'
import type { FileReview } from '../../../src/contract/change-ledger.ts'
import { EvalFromRun } from '../../../src/contract/eval-from-run.ts'
import { checkEvalFiles } from '../../../src/core/evals/files/check.ts'
import { type CaseParts, evalCaseFromRun } from '../../../src/core/evals/files/from-run.ts'

const runId = `run_${'1'.repeat(38)}`
const commit = 'a'.repeat(40)
const repository = { url: 'https://git.example/x.git', ref: 'main' }

const file = (path: string, more: object = {}) =>
  ({
    ...{ path, operation: 'modify', before: { sha256: `${path} before` } },
    ...{ after: { sha256: `${path} after` }, ...more },
  }) as unknown as FileReview

const texts = new Map(
  ['a.txt', 'b.txt'].flatMap((path) => [
    [`${path} before`, `old ${path}`],
    [`${path} after`, `new ${path}`],
  ]),
)

function made({ asked = {}, history = {}, run = {}, ...more }: Record<string, object> = {}) {
  const parts = {
    asked: EvalFromRun.parse({ runId, ...asked }),
    run: { id: runId, status: 'completed', intent: 'Do it', project: 'p', ...run },
    history: {
      ...{ prompts: ['Go', 'On'], answer: ' Done ', commands: ['npm test'] },
      ...{ commit, isFirst: true, ...history },
    },
    ...{ files: [file('a.txt')], texts, repository, configurationId: null, ...more },
  } as unknown as CaseParts
  const { content, notes } = evalCaseFromRun(parts)
  const checked = checkEvalFiles({
    ...{ files: [{ path: 'x.yaml', content }], suite: 'x.yaml', variables: {} },
  })
  expect(checked.problems).toEqual([])
  return { notes, suite: checked.suite!, one: checked.suite!.cases[0]! }
}
const typesOf = ({ one }: ReturnType<typeof made>) => one.evaluators.map(({ type }) => type)

describe('a case of a run', () => {
  test('[EVR26] has its prompts, its answer, its repository at the commit, and what is expected', () => {
    const { notes, suite, one } = made()
    expect([notes, suite.dataset]).toEqual([[], 'p'])
    expect(one).toMatchObject({
      ...{ id: runId, expectedOutcome: 'Done' },
      inputMessages: [
        { role: 'user', content: 'Go' },
        { role: 'user', content: 'On' },
      ],
      workspace: { repository: { url: repository.url, ref: commit }, files: [] },
      evaluators: [
        { name: 'scope', type: 'diff_scope', allow: ['a.txt'], changesRequired: true },
        { name: 'a.txt', type: 'file_matches', path: 'a.txt', equals: 'new a.txt' },
        { name: 'command-1', type: 'command', command: 'npm test' },
      ],
    })
  })

  test('[EVR26] takes the names, the commit and the commands of the request, each command once', () => {
    const asked = {
      caseId: 'mine',
      dataset: 'd',
      commit: 'b'.repeat(40),
      commands: ['npm test', 'x'],
    }
    const { suite, one } = made({ asked })
    expect([suite.dataset, one.id, one.workspace?.repository?.ref]).toEqual([
      'd',
      'mine',
      'b'.repeat(40),
    ])
    expect(one.evaluators.flatMap((each) => ('command' in each ? each.command : []))).toEqual([
      'npm test',
      'x',
    ])
  })

  test('[EVR26] without a prompt asks what the run was for, and without an answer says how it ended', () => {
    const { notes, one } = made({
      history: { prompts: [], answer: null },
      run: { status: 'failed' },
    })
    expect(one.inputMessages).toEqual([{ role: 'user', content: 'Do it' }])
    expect(one.expectedOutcome).toBe(`What ${runId} has done: failed`)
    expect(notes).toEqual(['The run ended as failed: look whether what it left is what you expect'])
  })

  test.each([
    [{ scope: false }, ['file_matches', 'command']],
    [{ files: false }, ['diff_scope', 'command']],
    [{ files: false, scope: false }, ['command']],
  ])('[EVR26] with %j expects only %j', (asked, expected) => {
    expect(typesOf(made({ asked }))).toEqual(expected)
  })

  test('[EVR26] of which nothing is known is judged by a model, and says so', () => {
    const nothing = made({ files: [], history: { commands: [] } })
    expect(typesOf(nothing)).toEqual(['llm_judge'])
    expect(nothing.notes).toEqual([
      'No change of the run is recorded: its final tree is not expected',
      'Nothing but the expected outcome scores it: a model judges. Add evaluators',
    ])
  })

  test('[EVR26] says which files it does not hold', () => {
    const many = Array.from({ length: 26 }, (_, at) => file(`f${at}`))
    const { notes, one } = made({
      files: [file('a.txt'), file('gone', { operation: 'delete' }), ...many],
    })
    expect(notes).toContain('Of 27 changed files the first 25 are expected')
    expect(notes).toContain(
      'The text of f0 is not stored, too long or has something secret: not expected',
    )
    expect(one.evaluators[0]).toMatchObject({ allow: expect.arrayContaining(['gone', 'f25']) })
    expect(one.evaluators.filter(({ type }) => type === 'file_matches')).toHaveLength(1)
    const more = made({ files: Array.from({ length: 101 }, (_, at) => file(`f${at}`)) })
    expect(more.notes).toContain('The run changed 101 paths, more than 100: add a diff_scope')
    const back = made({ files: [file('a.txt', { operation: 'none' })] })
    expect(back.notes).toContain('No change of the run is recorded: its final tree is not expected')
  })

  test('[EVR26] a text that is too long is not in it, and all together have a limit', () => {
    const long = new Map([['a.txt after', 'x'.repeat(100_001)]])
    expect(made({ texts: long }).notes).toEqual([
      expect.stringContaining('The text of a.txt is not'),
    ])
    const fits = new Map([['a.txt after', 'x'.repeat(100_000)]])
    expect(made({ texts: fits }).notes).toEqual([])
    const files = ['1', '2', '3'].map((path) => file(path))
    const three = new Map(files.map(({ path }) => [`${path} after`, 'x'.repeat(100_000)]))
    expect(made({ files, texts: three }).notes).toEqual([
      expect.stringContaining('The text of 3 is not'),
    ])
  })
})

describe('where it begins', () => {
  test('[EVR26] at the ref if no commit is known, with a note', () => {
    const { notes, one } = made({ history: { commit: null } })
    expect(one.workspace?.repository?.ref).toBe('main')
    expect(notes).toEqual([expect.stringContaining('else the case follows main')])
    const none = made({ history: { commit: null }, repository: { ...repository, ref: null } })
    expect(none.one.workspace?.repository).toEqual({ url: repository.url })
    expect(none.notes).toEqual([
      expect.stringContaining('else the case follows the default branch'),
    ])
  })

  test('[EVR26] in a session that had worked before, with the files as they were and a note', () => {
    const { notes, one } = made({
      history: { isFirst: false },
      files: [file('a.txt'), file('new', { before: null }), file('c')],
    })
    expect(one.workspace?.files).toEqual([{ path: 'a.txt', text: 'old a.txt' }])
    expect(notes).toContainEqual(expect.stringContaining('what earlier runs changed'))
    expect(notes).toContain('c as it was before is not in the case: add it to files')
  })

  test('[EVR26] with the configuration, or with nothing but the files', () => {
    const configured = made({ repository: null, configurationId: 'cfg_1' } as never)
    expect(configured.one.workspace).toEqual({
      configurationId: 'cfg_1',
      files: [{ path: 'a.txt', text: 'old a.txt' }],
    })
    const bare = made({ repository: null, files: [file('n', { before: null })] } as never)
    expect(bare.one.workspace).toBeUndefined()
  })
})

test('[EVR26] a case that is longer than an eval file may be is refused', () => {
  expect(() => made({ history: { prompts: ['x'.repeat(1024 * 1024)] } })).toThrow(
    `Cannot make a case of ${runId}: with its prompts it is longer`,
  )
})
