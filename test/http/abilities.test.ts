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

const validate = (body: object) => app.call('POST', '/v1/abilities/validate', key, body)

describe('[ABL1] [ABL2] POST /v1/abilities/validate', () => {
  test('says the order of the steps of a good one', async () => {
    const source = `
description: d
tags: [a]
steps:
  - { id: late, run: x, needs: [early] }
  - { id: early, run: x }
`
    expect((await validate({ source, path: 'deploy/ability.yaml' })).json).toMatchObject({
      valid: true,
      errors: [],
      warnings: ['Nobody reads the field "tags"'],
      ability: {
        name: 'deploy',
        order: ['early', 'late'],
        definition: { description: 'd', settings: { enforcement: 'strict' } },
      },
    })
  })

  test('names each mistake of a bad one with its place', async () => {
    const source =
      'name: x\ndescription: d\nsteps:\n  - { id: a, run: x, needs: [b], when: "inputs.y" }\n'
    const { status, json } = await validate({ source })
    expect([status, json.valid, json.ability]).toEqual([200, false, null])
    expect(json.errors).toMatchObject([
      {
        path: 'steps.0.needs.0',
        line: 4,
        code: 'MISSING_DEPENDENCY',
        message: 'There is no step "b"',
      },
      {
        path: 'steps.0.when',
        line: 4,
        code: 'INVALID_CONDITION',
        message: 'There is no input "y"',
      },
      { path: 'steps.0.when', line: 4, code: 'INVALID_CONDITION' },
    ])
  })

  test('needs a source', async () => {
    const { status, json } = await validate({})
    expect([status, json.error.code]).toEqual([400, 'invalid_request'])
  })
})
