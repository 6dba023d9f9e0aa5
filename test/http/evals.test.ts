import { beforeAll, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

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
