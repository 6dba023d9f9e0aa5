import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { PermissionRequest } from '../../src/contract/permission.ts'
import type { PermissionRecord } from '../../src/contract/permission-record.ts'
import type { Policy } from '../../src/contract/policy.ts'
import { mustParsePolicy } from '../../src/core/registry/policies/policies.ts'
import { evaluatePermission, withGateRules } from '../../src/core/policy/evaluate.ts'
import {
  policyOrBuiltin,
  operationDefault,
  policyFromBuiltin,
  sandboxDefault,
} from '../../src/core/policy/builtin-policy.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let organisationId: string
let key: string

beforeAll(() => {
  app = createTestApp({ db: libsql.db })
})
beforeEach(async () => {
  organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
})

const sessionId = `ses_${'s'.repeat(30)}`
let runs = 0
const newRun = () => `run_${String(++runs).padStart(38, '0')}`

const source = `name: team
extends: none
rules:
  - match: { category: [read, edit] }
    decision: allow
  - match: { category: shell, command: 'npm *' }
    decision: allow
  - match: { path: 'secret/**' }
    decision: deny
  - match: { mode: automation, category: network }
    decision: deny
overrides:
  agents: { build: { git: allow } }
  subagents: { explore: { edit: deny } }
`
const strict = source.replace(`'npm *' }\n    decision: allow`, `'npm *' }\n    decision: ask`)
const documentOf = (text: string): Policy => policyFromBuiltin(mustParsePolicy(text, 'yaml'), 1)

const sample = (more: Partial<PermissionRequest>): PermissionRequest => ({
  category: 'shell',
  operation: 'run',
  tool: 'bash',
  agent: 'build',
  subagent: null,
  mode: 'coding',
  workspaceRoot: '/w',
  sessionPaths: ['/tmp/env.json'],
  paths: [],
  command: null,
  hosts: [],
  risks: [],
  ...more,
})
const shell = (command: string) => sample({ command, cwd: '/w', home: '/home/u' })
const file = (category: 'read' | 'edit', path: string, more: Partial<PermissionRequest> = {}) =>
  sample({ category, tool: category, operation: 'file', paths: [path], ...more })

const requests = [
  ...['npm test', 'npm', 'ls', 'ls | xargs rm -rf', 'echo $(curl x.y)', 'rm -rf /', 'git push -f'],
  ...[
    'npm test && sudo id',
    'cat .env',
    'find . -exec rm {} +',
    'if',
    'npm\u00a0test',
    'cd .. && ls',
  ],
].map(shell)
requests.push(
  ...[file('read', '/w/a.ts'), file('read', '/w/.env'), file('read', '/etc/passwd')],
  ...[file('edit', '/w/secret/x'), file('edit', '/w/b', { subagent: 'explore' })],
  sample({ category: 'network', tool: 'webfetch', hosts: ['example.com'], mode: 'automation' }),
  sample({ category: 'git', tool: null, operation: 'git', command: "'git' 'status'" }),
  sample({ category: 'provider-tool', tool: 'verify', operation: 'contract-tool' }),
  sample({ category: 'provider-tool', tool: 'mystery', risks: ['external'] }),
)
const gates: PermissionRecord['gate'][] = [
  null,
  { deny: [], ask: [] },
  { deny: ['webfetch'], ask: ['bash'] },
  { deny: ['edit', 'verify'], ask: [] },
]
const overrides: PermissionRecord['overrides'][] = [
  null,
  { agent: { shell: 'allow', secrets: 'allow' }, subagent: { read: 'ask' } },
]

/** As a session records it: what was evaluated, with everything that went into it. */
function recordOf(
  request: PermissionRequest,
  policy: Policy,
  more: Partial<PermissionRecord> = {},
): PermissionRecord {
  const { gate = null, overrides: given = null } = more
  const tightened = gate ? withGateRules(policy, { ...gate, askTimeoutSeconds: 600 }) : policy
  return {
    by: 'policy',
    request,
    overrides: given,
    gate,
    ...evaluatePermission(request, tightened, { overrides: given }),
    grant: null,
    latencyMs: 1,
    askId: `ask_${'0'.repeat(20)}` as NonNullable<PermissionRecord['askId']>,
    operationId: null,
    ...more,
  }
}
const history = (policy: Policy) =>
  requests.flatMap((request) =>
    gates.flatMap((gate) =>
      overrides.map((given) => recordOf(request, policy, { gate, overrides: given })),
    ),
  )

interface StoredAt {
  runId?: string
  organisation?: string
  at?: (index: number) => number
}

async function store(
  records: (PermissionRecord | string)[],
  { runId = newRun(), organisation = organisationId, at = (index) => index }: StoredAt = {},
): Promise<string> {
  const rows = records.map((record, index) => ({
    seq: index + 1,
    at: at(index),
    data: typeof record === 'string' ? record : JSON.stringify(record),
  }))
  await libsql.db().batch([
    {
      sql: `insert into run_events (run_id, seq, organisation_id, session_id, at, kind, data, previous_hash, hash, signature, outbox_seq)
            select ?1, value ->> 'seq', ?2, ?3, value ->> 'at', 'permission-decision', value ->> 'data', '', '', '', 1
            from json_each(?4)`,
      values: [runId, organisation, sessionId, JSON.stringify(rows)],
    },
  ])
  return runId
}

const replay = async (body: object, credential = key) => {
  const answer = await app.call('POST', '/v1/policies/replay', credential, body)
  return { status: answer.status, ...answer.json }
}

describe('[POLS7] replaying a policy over its own history', () => {
  test('shows zero differences, whatever gate lists and overrides there were', async () => {
    const records = history(documentOf(source))
    expect(new Set(records.map(({ decision }) => decision)).size).toBe(3)
    const runId = await store(records)
    await app.call('PUT', '/v1/policies', key, { source, project: 'shop' })
    const wanted = {
      status: 200,
      policy: { name: 'team', version: 1 },
      total: records.length,
      same: records.length,
      changed: {},
      rows: [],
      skipped: { grant: 0, state: 0, unreadable: 0 },
      truncated: false,
      lastAt: records.length - 1,
    }
    const stored = { project: 'shop', version: 1 }
    expect(await replay({ ...stored, runIds: [runId] })).toEqual(wanted)
    expect(await replay({ ...stored, from: 0 })).toEqual(wanted)
    expect(await replay({ source, project: 'shop', from: 0 })).toEqual({
      ...wanted,
      policy: { name: 'team', version: 2 },
    })
  })

  test('so does the built-in one, for questions of the gate and for operations', async () => {
    const operationId = `opr_${'0'.repeat(38)}` as NonNullable<PermissionRecord['operationId']>
    const operations = requests.flatMap((request) =>
      gates.map((gate) => recordOf(request, operationDefault, { gate, askId: null, operationId })),
    )
    const records = [...history(sandboxDefault), ...operations]
    await store(records)
    const replayed = await replay({ builtin: true, from: 0 })
    expect(replayed).toMatchObject({ total: records.length, same: records.length, changed: {} })
  })
})

describe('[POLS11] a document that extends the built-in one', () => {
  const extending = source.replace('extends: none\n', '')
  test('[POLS7] replays as it decided, in the gate and on operations', async () => {
    const policy = documentOf(extending)
    const operationId = `opr_${'0'.repeat(38)}` as NonNullable<PermissionRecord['operationId']>
    const operations = requests.map((request) =>
      recordOf(request, policyOrBuiltin(policy, 'operation'), { askId: null, operationId }),
    )
    const records = [...history(policy), ...operations]
    expect(records.map(({ rule }) => rule)).toContain('sandbox-default@2#workspace')
    expect(operations.map(({ rule }) => rule)).not.toContain('sandbox-default@2#workspace')
    const runId = await store(records)
    await app.call('PUT', '/v1/policies', key, { source: extending, project: 'shop' })
    const replayed = await replay({ project: 'shop', version: 1, runIds: [runId] })
    expect(replayed).toMatchObject({ total: records.length, same: records.length, changed: {} })
  })
})

describe('[POLS8] changing one rule', () => {
  test('changes exactly the rows that it decided', async () => {
    const commands = ['npm test', 'ls', 'npm run x', 'npm i && npm t', 'rm -rf /']
    const runId = await store([
      ...commands.map((command) => recordOf(shell(command), documentOf(source))),
      recordOf(file('read', '/w/a'), documentOf(source)),
    ])
    const replayed = await replay({ source: strict, runIds: [runId] })
    expect(replayed).toMatchObject({ total: 6, same: 3, changed: { 'allow->ask': 3 } })
    expect(replayed.rows.map(({ seq }: { seq: number }) => seq)).toEqual([1, 3, 4])
    expect(replayed.rows[0]).toEqual({
      runId,
      sessionId,
      seq: 1,
      at: 0,
      tool: 'bash',
      category: 'shell',
      before: 'allow',
      after: 'ask',
      ruleBefore: 'team@1#1',
      ruleAfter: 'team@1#1',
      reasonAfter: expect.stringContaining('npm test'),
    })
  })

  test('every change is counted by its kind', async () => {
    const loose =
      'name: loose\nextends: none\nrules: [{ match: { category: [shell, edit] }, decision: allow }]'
    const runId = await store([
      recordOf(shell('ls'), documentOf(source)),
      recordOf(file('edit', '/w/secret/x'), documentOf(source)),
      recordOf(file('read', '/w/secret/x'), documentOf(source)),
    ])
    const replayed = await replay({ source: loose, runIds: [runId] })
    expect(replayed.changed).toEqual({ 'ask->allow': 1, 'deny->allow': 2 })
  })
})

describe('[POLS9] what is replayed', () => {
  const record = recordOf(shell('npm test'), documentOf(source))
  const one = () => record
  const total = async (selection: object) => (await replay({ source, ...selection })).total

  test('is chosen by runs or by time, within the organisation', async () => {
    const [a, b] = [await store([one(), one()]), await store([one()], { at: () => 100 })]
    const foreign = await store([one()], { organisation: await app.makeOrganisation() })
    await libsql.db().batch([
      {
        sql: `insert into run_events (run_id, seq, organisation_id, session_id, at, kind, data, previous_hash, hash, signature, outbox_seq)
              values (?, 9, ?, ?, 1, 'run.started', '{}', '', '', '', 1)`,
        values: [a, organisationId, sessionId],
      },
    ])
    expect(await total({ runIds: [a] })).toBe(2)
    expect(await total({ runIds: [a, b, a] })).toBe(3)
    expect(await total({ runIds: [foreign] })).toBe(0)
    expect(await total({ from: 0 })).toBe(3)
    expect(await total({ from: 1 })).toBe(2)
    expect(await total({ from: 0, to: 1 })).toBe(1)
    expect(await total({ from: 0, to: 100 })).toBe(2)
    expect(await total({ from: 100, to: 101 })).toBe(1)
    expect(await total({ from: 101 })).toBe(0)
  })

  test('is read page by page, also where many have the same time; the limit is kept and said', async () => {
    const records = Array.from({ length: 700 }, one)
    const times = { at: (index: number) => Math.floor(index / 400) }
    const [a, b] = [await store(records, times), await store(records, times)]
    const whole = { total: 1400, truncated: false, lastAt: 1 }
    expect(await replay({ source, from: 0 })).toMatchObject(whole)
    expect(await replay({ source, runIds: [a, b] })).toMatchObject(whole)
    expect(await replay({ source, from: 0, limit: 1400 })).toMatchObject(whole)
    const part = await replay({ source, from: 0, limit: 750 })
    expect(part).toMatchObject({ total: 750, truncated: true, lastAt: 0 })
    expect(await replay({ source, from: 0, limit: 1399 })).toMatchObject({
      total: 1399,
      truncated: true,
    })
  })

  test('of what differs the first 1000 rows are shown and all are counted', async () => {
    await store(Array.from({ length: 1203 }, one))
    const { rows, changed } = await replay({ source: strict, from: 0 })
    expect([rows.length, changed]).toEqual([1000, { 'allow->ask': 1203 }])
    expect(rows.at(-1).seq).toBe(1000)
  })
})

test('[POLS10] what no policy decided is skipped and counted', async () => {
  const record = recordOf(shell('npm test'), documentOf(source))
  const grant = `apr_${'0'.repeat(38)}` as NonNullable<PermissionRecord['grant']>
  await store([
    record,
    { ...record, by: 'grant', grant, decision: 'allow', rule: `grant:${grant}` },
    { ...record, by: 'state', decision: 'deny', rule: 'state' },
    { ...record, by: 'state', decision: 'deny', rule: 'state' },
    '{}',
    'not JSON',
  ])
  expect(await replay({ source, from: 0 })).toMatchObject({
    total: 1,
    same: 1,
    changed: {},
    skipped: { grant: 1, state: 2, unreadable: 2 },
    lastAt: 5,
  })
})

describe('[POLS9] a replay that cannot be', () => {
  test('without exactly one policy, or without a selection, is refused with the field', async () => {
    const runIds = [newRun()]
    for (const [path, body] of [
      ['source', { runIds }],
      ['source', { runIds, source, version: 1 }],
      ['source', { runIds, version: 1, builtin: true }],
      ['runIds', { source }],
      ['runIds', { source, runIds, from: 0 }],
      ['to', { source, runIds, to: 5 }],
      ['to', { source, from: 6, to: 5 }],
      ['limit', { source, runIds, limit: 50_001 }],
      ['runIds', { source, runIds: [] }],
      ['runIds', { source, runIds: Array.from({ length: 101 }, newRun) }],
      ['runIds.0', { source, runIds: ['run_x'] }],
    ] as const) {
      const { status, error } = await replay(body)
      expect([status, error.details[0].path]).toEqual([400, path])
    }
  })

  test('with a document that is not valid is 422, with a version that is not there or removed 404', async () => {
    expect((await replay({ source: 'name: [', from: 0 })).status).toBe(422)
    await app.call('PUT', '/v1/policies', key, { source })
    await app.call('DELETE', '/v1/policies', key)
    for (const version of [2, 3]) expect((await replay({ version, from: 0 })).status).toBe(404)
    expect((await replay({ version: 1, from: 0 })).status).toBe(200)
    expect((await replay({ version: 1, project: 'shop', from: 0 })).status).toBe(404)
    const stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
    expect((await replay({ version: 1, from: 0 }, stranger)).status).toBe(404)
  })
})
