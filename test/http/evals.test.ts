import { beforeAll, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'
import { rowOf, sideOf } from '../core/evals/rows.ts'

const libsql = useLibsql()
let app: TestApp
let key: string
beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  key = (await app.makeKey(await app.makeOrganisation(), 'read')).secret
})

describe('[EVAL31] POST /v1/evals/validate', () => {
  const validate = (body: object) => app.call('POST', '/v1/evals/validate', key, body)

  test('answers with suite, digest and targets of good files', async () => {
    const { status, json } = await validate({
      files: [
        { path: 'a.yaml', content: 'evalcases:\n  - { id: a, expected_outcome: o, input: i }\n' },
        {
          path: 't.yaml',
          content: 'targets:\n  - { name: t, provider: opencode, model: "${{ M }}" }\n',
        },
      ],
      suite: 'a.yaml',
      targets: 't.yaml',
      variables: { M: 'scripted' },
    })
    expect([status, json.valid, json.problems]).toEqual([200, true, []])
    expect(json.suite).toMatchObject({ dataset: 'a', cases: [{ id: 'a' }] })
    expect(json.digest).toMatch(/^[0-9a-f]{64}$/)
    expect(json.targets).toMatchObject([{ name: 't', model: 'scripted', permissions: 'reject' }])
  })

  test('answers 200 with every mistake of bad ones, and with what is good of them', async () => {
    const content =
      'evalcases:\n  - { id: a, expected_outcome: o, input: i, colour: red }\n  - { id: b, outcome: o, input: i }\n'
    const { status, json } = await validate({
      files: [{ path: 'x/a.yaml', content }],
      suite: 'x/a.yaml',
    })
    expect([status, json.valid]).toEqual([200, false])
    expect(json.problems).toEqual([
      {
        severity: 'error',
        filePath: 'x/a.yaml',
        location: 'evalcases[0].colour',
        message: 'There is no such field',
        line: 2,
        column: expect.any(Number),
      },
    ])
    expect(json.suite.cases.map(({ id }: { id: string }) => id)).toEqual(['b'])
  })

  test('says which file must be named', async () => {
    const { json } = await validate({ files: [{ path: 'a.yaml', content: '' }] })
    expect(json.problems[0].message).toBe(
      'Name the eval file (suite), the targets file (targets), or both',
    )
    expect((await validate({ files: [] })).status).toBe(400)
  })
})

describe('[EVAL43] POST /v1/evals/compare', () => {
  const compare = (body: object) => app.call('POST', '/v1/evals/compare', key, body)
  const baseline = sideOf('a', Array(20).fill(1))
  const candidate = sideOf('b', [...Array(12).fill(1), ...Array(8).fill(0)])

  test('says what differs, and what a rule makes of it', async () => {
    const { status, json } = await compare({ baseline, candidate, rule: {} })
    expect(status).toBe(200)
    expect(json.comparison).toMatchObject({
      comparable: true,
      score: { difference: -0.4, verdict: 'worse', losses: 8 },
      passes: { onlyBaseline: 8, verdict: 'worse' },
      cases: expect.arrayContaining([expect.objectContaining({ change: 'regression' })]),
    })
    expect(json.gate.outcome).toBe('fail')
  })

  test('without a rule there is no decision; with the same seed it is the same answer', async () => {
    const many = (runId: string) =>
      sideOf(
        runId,
        Array.from({ length: 40 }, (_, at) => (at % 3) / 2),
      )
    const body = {
      baseline: many('a'),
      candidate: { ...many('b'), rows: [rowOf('c0', 1)] },
      seed: 7,
    }
    const first = await compare(body)
    expect(first.json.gate).toBeNull()
    expect((await compare(body)).json).toEqual(first.json)
  })

  test('takes at most a thousand names of evaluators', async () => {
    const named = (runId: string, first: number, count: number) => ({
      ...sideOf(runId, [1]),
      rows: [
        rowOf('c0', 1, {
          evaluator_results: Array.from({ length: count }, (_, n) => ({
            ...{ name: `e${first + n}`, type: 'contains', score: 1, weight: 1, required: false },
            ...{ verdict: 'pass' as const, hits: [], misses: [] },
          })),
        }),
      ],
    })
    const most = await compare({ baseline: named('a', 0, 600), candidate: named('b', 500, 500) })
    expect([most.status, most.json.comparison?.evaluators.length]).toEqual([200, 1000])
    const { status, json } = await compare({
      baseline: named('a', 0, 600),
      candidate: named('b', 501, 500),
    })
    expect([status, json.error.details[0].path]).toEqual([400, 'candidate.rows'])
  })

  test('refuses what is no result', async () => {
    const { status, json } = await compare({
      baseline,
      candidate: { ...candidate, rows: [{ eval_id: 'a', score: 2 }] },
    })
    expect(status).toBe(400)
    expect(JSON.stringify(json)).toMatch('candidate.rows.0')
  })
})
