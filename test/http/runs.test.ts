import { beforeAll, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
let app: TestApp
let key: string
let reader: string
let writer: string
let approver: string
let stranger: string

beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  const organisationId = await app.makeOrganisation()
  key = (await app.makeKey(organisationId, 'admin')).secret
  const make = async (owner: string, ...scopes: string[]) => {
    const body = { name: 'k', owner, scopes }
    return (await app.call('POST', '/v1/keys', key, body)).json.secret as string
  }
  await app.call('PUT', '/v1/settings', key, { newKeysCount: true })
  reader = await make('reader', 'read')
  writer = await make('writer', 'write')
  approver = await make('approver', 'approve')
  stranger = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})

const ok = async (status: number, ...call: Parameters<TestApp['call']>) => {
  const answer = await app.call(...call)
  expect([answer.status, answer.json?.error]).toEqual([status, undefined])
  return answer.json
}
const outcome = async (...call: Parameters<TestApp['call']>) => {
  const { status, json } = await app.call(...call)
  return [status, json?.error?.code]
}
const makeRun = (intent = 'do it') => ok(201, 'POST', '/v1/runs', writer, { intent })
const read = { category: 'read', operation: 'read-file', targetPath: 'a' }
const outside = { ...read, targetPath: '/etc/passwd' }
/** Without a sandbox nothing can be enforced, so a person is asked. */
const askFor = async (runId: string) =>
  ok(201, 'POST', `/v1/runs/${runId}/operations`, writer, { operation: read })
const missing = (id: string) => id.replace(/.{8}$/, '00000000')

describe('[RUN12] runs', () => {
  test('a run without a session gets one without a sandbox', async () => {
    const run = await makeRun('count the files')
    expect(run).toMatchObject({ status: 'created', intent: 'count the files', project: 'default' })
    const session = await ok(200, 'GET', `/v1/sessions/${run.sessionId}`, reader)
    expect(session).toMatchObject({ title: 'count the files', sandbox: { provider: 'none' } })
    const record = await ok(200, 'GET', `/v1/runs/${run.id}`, reader)
    expect(record).toMatchObject({
      run,
      events: [{ kind: 'run.created', seq: 1 }],
      checkpoints: [],
      approvals: [],
      attempts: [],
      evidence: { decisions: { allow: 0, ask: 0, deny: 0 } },
    })
  })

  test('[RUN13] its key leads to the same run; another body is refused', async () => {
    const headers = { 'idempotency-key': 'one' }
    const make = (body: object) => app.call('POST', '/v1/runs', writer, body, headers)
    const [first, second] = await Promise.all([make({ intent: 'x' }), make({ intent: 'x' })])
    expect([first.status, second.status, second.json.id]).toEqual([201, 201, first.json.id])
    expect((await make({ intent: 'x', phase: 'p' })).json.error.code).toBe('key_conflict')
    expect((await make({ intent: 'y' })).json.error.code).toBe('key_conflict')
  })

  test('an intent is cut for the title between characters', async () => {
    const { sessionId, intent } = await makeRun(`${'x'.repeat(199)}🦊🦊`)
    expect(intent).toHaveLength(203)
    const { title } = await ok(200, 'GET', `/v1/sessions/${sessionId}`, reader)
    expect(title.isWellFormed()).toBe(true)
  })

  test('what does not fit is 400 with its path', async () => {
    const { id } = await makeRun()
    const wrong: [string, string, unknown, string][] = [
      ['POST', '/v1/runs', {}, 'intent'],
      ['POST', '/v1/runs', { intent: 'x', status: 'running' }, 'status'],
      ['POST', `/v1/runs/${id}/events`, { kind: 'run.stopped', data: {} }, 'kind'],
      ['PATCH', `/v1/runs/${id}`, { status: 'needs-human' }, 'status'],
      ['POST', `/v1/runs/${id}/finish`, { status: 'running' }, 'status'],
      ['POST', `/v1/runs/${id}/checkpoints`, { label: 'l' }, 'state'],
      ['POST', `/v1/runs/${id}/operations`, { operation: { ...read, x: 1 } }, 'operation.x'],
      ['PUT', `/v1/budgets`, { limits: { toolCalls: -1 } }, 'limits.toolCalls'],
      ['GET', `/v1/runs/${id}/events?cursor=x`, undefined, 'cursor'],
    ]
    for (const [method, path, body, field] of wrong) {
      const { status, json } = await app.call(method, path, key, body)
      expect([status, json.error.details?.[0]?.path], `${method} ${path}`).toEqual([400, field])
    }
  })

  test('events, checkpoints, phases and the end, by the API', async () => {
    const { id } = await makeRun()
    const at = `/v1/runs/${id}`
    await ok(200, 'PATCH', at, writer, { status: 'running', phase: 'build' })
    for (let n = 0; n < 5; n++)
      await ok(201, 'POST', `${at}/events`, writer, { kind: 'memory.read', data: { n } })
    const state = { a: [1, null, 'ü🦊'] }
    const saved = await ok(201, 'POST', `${at}/checkpoints`, writer, { label: 'l', state })
    expect(await ok(200, 'POST', `${at}/resume`, writer, {})).toMatchObject({
      checkpoint: { id: saved.id, state },
    })
    const seqs: number[] = []
    for (let cursor = ''; ;) {
      const page = await ok(200, 'GET', `${at}/events?limit=4${cursor}`, reader)
      seqs.push(...page.items.map(({ seq }: { seq: number }) => seq))
      if (page.nextCursor === null) break
      cursor = `&cursor=${page.nextCursor}`
    }
    expect(seqs).toEqual(seqs.map((_, index) => index + 1))
    const wrong = { status: 'completed', outcome: 'failed' }
    expect(await outcome('POST', `${at}/finish`, writer, wrong)).toEqual([422, 'unprocessable'])
    const finish = { status: 'completed', reason: 'done' }
    expect(await ok(200, 'POST', `${at}/finish`, writer, finish)).toMatchObject({
      outcome: 'completed',
    })
    expect(await outcome('POST', `${at}/finish`, writer, finish)).toEqual([409, 'wrong_state'])
    expect(await outcome('PATCH', at, writer, { status: 'running' })).toEqual([409, 'wrong_state'])
    await app.settle()
    const verified = await ok(200, 'GET', `${at}/verify`, reader)
    expect(verified).toMatchObject({ ok: true, problems: [], head: { seq: verified.entries } })
  })

  test('[RUN5] libSQL holds every entry with a signature, and a head that was changed there is noticed', async () => {
    const { id } = await makeRun()
    await app.settle()
    const rows = await libsql
      .db()
      .all<{ signature: string; data: string }>('select * from run_events where run_id = ?', id)
    expect(rows).toMatchObject([{ seq: 1, kind: 'run.created' }])
    expect(rows[0]?.signature.length).toBeGreaterThan(20)
    const forged = 'update run_events set hash = ? where run_id = ?'
    await libsql.db().batch([{ sql: forged, values: ['f'.repeat(64), id] }])
    const { ok: fine, problems } = await ok(200, 'GET', `/v1/runs/${id}/verify`, reader)
    expect([fine, problems.length]).toEqual([false, 1])
  })

  test('the runs of a session are listed newest first, in pages', async () => {
    const { sessionId, id } = await makeRun()
    const more = (await ok(201, 'POST', `/v1/sessions/${sessionId}/runs`, writer, { intent: 'b' }))
      .id
    const first = await ok(200, 'GET', `/v1/sessions/${sessionId}/runs?limit=1`, reader)
    expect([first.items[0].id, first.nextCursor]).toEqual([more, expect.any(String)])
    const at = `/v1/sessions/${sessionId}/runs?limit=1&cursor=${first.nextCursor}`
    const second = await ok(200, 'GET', at, reader)
    expect([second.items[0].id, second.nextCursor]).toEqual([id, null])
  })
})

describe('[APR7] approvals', () => {
  test('somebody else approves once, and the operation is resumed', async () => {
    const { id: runId } = await makeRun()
    const operation = await askFor(runId)
    const at = `/v1/approvals/${operation.approvalId}`
    expect(await ok(200, 'GET', at, reader)).toMatchObject({ state: 'pending', runId })
    const approve = { resolution: 'approved', reason: 'fine' }
    expect(await outcome('POST', `${at}/resolve`, writer, approve)).toEqual([403, 'forbidden'])
    expect(await outcome('POST', `${at}/resume`, writer)).toEqual([409, 'wrong_state'])
    expect(await ok(200, 'POST', `${at}/resolve`, approver, approve)).toMatchObject({
      state: 'approved',
      resolution: { owner: 'approver', reason: 'fine' },
    })
    expect(await outcome('POST', `${at}/resolve`, approver, approve)).toEqual([409, 'wrong_state'])
    const resumed = await ok(200, 'POST', `${at}/resume`, writer)
    expect(resumed.attempts).toMatchObject([
      { status: 'failed', report: { error: 'This session has no sandbox' } },
    ])
    expect(await outcome('POST', `${at}/resume`, writer)).toEqual([409, 'wrong_state'])
  })

  test('whoever asks cannot approve, though the key has the scope', async () => {
    const { id: runId } = await makeRun()
    const body = { operation: read }
    const operation = await ok(201, 'POST', `/v1/runs/${runId}/operations`, key, body)
    const at = `/v1/approvals/${operation.approvalId}/resolve`
    expect(await outcome('POST', at, key, { resolution: 'approved' })).toEqual([403, 'forbidden'])
    await ok(200, 'POST', at, key, { resolution: 'cancelled' })
  })

  test('the inbox of the organisation comes from libSQL, by state and in pages', async () => {
    const { id: runId, sessionId } = await makeRun()
    const ids: string[] = []
    for (let n = 0; n < 3; n++) {
      app.pass(10)
      ids.unshift((await askFor(runId)).approvalId)
    }
    await app.settle()
    const inbox = (query: string, credential = reader) =>
      ok(200, 'GET', `/v1/approvals?${query}`, credential)
    const first = await inbox('limit=2')
    expect(first.items.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 2))
    expect(first.items[0]).toMatchObject({ runId, sessionId, state: 'pending', kind: 'operation' })
    const second = await inbox(`limit=2&cursor=${first.nextCursor}`)
    expect(second.items[0].id).toBe(ids[2])
    expect((await inbox('', stranger)).items).toEqual([])
    await ok(200, 'POST', `/v1/approvals/${ids[0]}/resolve`, approver, { resolution: 'rejected' })
    await app.settle()
    expect((await inbox('limit=1')).items[0].id).toBe(ids[1])
    expect((await inbox('state=rejected&limit=1')).items).toMatchObject([{ id: ids[0] }])
    expect(await outcome('GET', '/v1/approvals?state=open', reader)).toEqual([
      400,
      'invalid_request',
    ])
    for (const at of [`/v1/runs/${runId}/approvals`, `/v1/sessions/${sessionId}/approvals`])
      expect((await ok(200, 'GET', at, reader)).items).toHaveLength(3)
  })

  test('[APR11] list, its own answer and the run name what, who, why, how long, and where to answer', async () => {
    const { id: runId, sessionId } = await makeRun('count the files')
    const operation = { category: 'shell', operation: 'run', command: 'rm -rf build' }
    const asked = await ok(201, 'POST', `/v1/runs/${runId}/operations`, writer, { operation })
    await app.settle()
    app.pass(60_000)
    const at = `/v1/approvals/${asked.approvalId}`
    const own = await ok(200, 'GET', at, reader)
    const { items } = await ok(200, 'GET', '/v1/approvals?limit=1', reader)
    const wanted = {
      id: asked.approvalId,
      sessionId,
      sessionTitle: 'count the files',
      project: 'default',
      runId,
      intent: 'count the files',
      title: 'shell: run: rm -rf build',
      details: { category: 'shell', command: 'rm -rf build', risks: ['destructive'], tool: null },
      asker: { kind: 'key', id: own.asker.id, owner: 'writer' },
      rule: 'default:shell',
      policy: { name: 'operation-default', version: 1 },
      reason: own.reason,
      operationHash: own.operationHash,
      secondsLeft: 540,
      answer: {
        method: 'POST',
        url: `${app.deps.config.publicUrl}${at}/resolve`,
        scope: 'approve',
        resolutions: ['approved', 'rejected', 'cancelled'],
        body: { resolution: 'approved', operationHash: own.operationHash },
      },
    }
    expect(own).toMatchObject(wanted)
    expect(items[0]).toMatchObject(wanted)
    const resolved = await ok(200, 'POST', `${at}/resolve`, approver, own.answer.body)
    expect(resolved).toMatchObject({ state: 'approved', secondsLeft: null, answer: null })
  })

  test('[APR11] what an earlier release has listed is still listed, without details', async () => {
    const { id: runId } = await makeRun('old')
    const { approvalId } = await askFor(runId)
    await app.settle()
    const forget =
      'update approvals set details = null, policy = null, asker_id = null where id = ?'
    await libsql.db().batch([{ sql: forget, values: [approvalId] }])
    const { items } = await ok(200, 'GET', '/v1/approvals?limit=1', reader)
    expect(items[0]).toMatchObject({
      id: approvalId,
      details: null,
      policy: null,
      asker: { kind: 'key', id: null },
      sessionTitle: 'old',
      answer: { method: 'POST' },
    })
  })

  test('a deleted session leaves nothing of its runs in libSQL', async () => {
    const { id: runId, sessionId } = await makeRun()
    const { approvalId } = await askFor(runId)
    await ok(200, 'POST', `/v1/approvals/${approvalId}/resolve`, approver, {
      resolution: 'approved',
    })
    await ok(200, 'POST', `/v1/approvals/${approvalId}/resume`, writer)
    await app.settle()
    const count = async () => {
      const tables = ['runs', 'run_events', 'approvals', 'operation_attempts']
      const counts = tables.map(async (table) => {
        const sql = `select count(*) as n from ${table} where session_id = ?`
        return (await libsql.db().all<{ n: number }>(sql, sessionId))[0]?.n
      })
      return Promise.all(counts)
    }
    expect((await count()).every((n) => (n ?? 0) > 0)).toBe(true)
    await app.call('DELETE', `/v1/sessions/${sessionId}`, key)
    await app.deps
      .session(sessionId)
      .self.view({ organisationId: '' })
      .catch(() => undefined)
    for (let n = 0; n < 3; n++) {
      await app.sessions.get(sessionId)?.runDue()
      await app.settle()
    }
    expect(await count()).toEqual([0, 0, 0, 0])
  })
})

describe('[ATT7] operations', () => {
  test('deny, plan, evaluate, retry and abandon answer with what they are', async () => {
    const { id: runId, sessionId } = await makeRun()
    const operations = `/v1/runs/${runId}/operations`
    const denied = await ok(201, 'POST', operations, writer, { operation: outside })
    expect(denied).toMatchObject({ decision: 'deny', attempts: [] })
    const plans = `/v1/sessions/${sessionId}/operations/plan`
    expect(await ok(200, 'POST', plans, reader, { operation: read })).toMatchObject({
      strategy: 'workspace',
    })
    const at = `/v1/operations/${denied.id}`
    expect(await ok(200, 'GET', `${at}?wait=5`, reader)).toMatchObject({ id: denied.id })
    expect(await ok(200, 'GET', `${at}/retry`, reader)).toMatchObject({
      allowed: true,
      policy: 'never',
    })
    // Without a policy nothing is admitted.
    expect(await outcome('POST', `${at}/retries`, writer, {})).toEqual([409, 'wrong_state'])
    const asked = await askFor(runId)
    await ok(200, 'POST', `/v1/approvals/${asked.approvalId}/resolve`, approver, {
      resolution: 'approved',
    })
    const resumed = await ok(200, 'POST', `/v1/approvals/${asked.approvalId}/resume`, writer)
    const retries = `/v1/operations/${asked.id}/retries`
    const attempt = await ok(201, 'POST', retries, writer, { policy: 'after-failure' })
    expect(attempt).toMatchObject({ sequence: 2, status: 'reserved', dispatched: false })
    const why = { reason: 'enough' }
    const abandon = `/v1/attempts/${attempt.id}/abandon`
    expect(await ok(200, 'POST', abandon, writer, why)).toMatchObject({ status: 'abandoned' })
    expect(await outcome('POST', abandon, writer, why)).toEqual([409, 'wrong_state'])
    const execute = `/v1/attempts/${attempt.id}/execute`
    expect(await outcome('POST', execute, writer)).toEqual([409, 'wrong_state'])
    const merge = `/v1/attempts/${resumed.attempts[0].id}/merge`
    expect(await outcome('POST', merge, writer)).toEqual([409, 'wrong_state'])
    const discard = `/v1/attempts/${resumed.attempts[0].id}/discard`
    expect(await outcome('POST', discard, writer)).toEqual([409, 'wrong_state'])
  })

  test('[APR8] revoking needs scope approve and something that is remembered', async () => {
    const { id: runId } = await makeRun()
    const { approvalId } = await askFor(runId)
    const at = `/v1/approvals/${approvalId}`
    await ok(200, 'POST', `${at}/resolve`, approver, {
      resolution: 'approved',
      remember: { scope: 'session' },
    })
    const why = { reason: 'no longer' }
    expect(await outcome('POST', `${at}/revoke`, writer, why)).toEqual([403, 'forbidden'])
    expect(await outcome('POST', `${at}/revoke`, approver, {})).toEqual([400, 'invalid_request'])
    expect((await ok(200, 'GET', at, reader)).remembered).toMatchObject({ scope: 'session' })
    await ok(200, 'POST', `${at}/revoke`, approver, why)
    expect(await outcome('POST', `${at}/revoke`, approver, why)).toEqual([409, 'wrong_state'])
    expect((await askFor(runId)).decision).toBe('ask')
  })

  test('[ATT23] what does not fit the link is refused, and nothing is recorded', async () => {
    const { id: runId } = await makeRun()
    const operation = {
      ...{ category: 'edit', operation: 'write-file', targetPath: 'a' },
      content: '\u0001'.repeat(200_000),
    }
    expect(await outcome('POST', `/v1/runs/${runId}/operations`, writer, { operation })).toEqual([
      413,
      'too_large',
    ])
  })

  test('the same key is the same operation', async () => {
    const { id: runId } = await makeRun()
    const headers = { 'idempotency-key': 'k' }
    const send = (operation: object) =>
      app.call('POST', `/v1/runs/${runId}/operations`, writer, { operation }, headers)
    const [one, two] = [await send(outside), await send(outside)]
    expect([one.status, two.json.id]).toEqual([201, one.json.id])
    expect((await send(read)).json.error.code).toBe('key_conflict')
  })
})

describe('[BUD7] budgets', () => {
  test('of a session: read by all, raised by who may approve', async () => {
    const { sessionId } = await makeRun()
    const at = `/v1/sessions/${sessionId}/budget`
    expect(await ok(200, 'GET', at, reader)).toMatchObject({ limits: {}, spent: [] })
    expect(await outcome('PUT', at, writer, { toolCalls: 1 })).toEqual([403, 'forbidden'])
    expect(await ok(200, 'PUT', at, approver, { toolCalls: 0 })).toMatchObject({
      limits: { toolCalls: 0 },
      spent: ["The session's budget of toolCalls is spent"],
    })
    expect(await outcome('PUT', at, approver, { moneyUsd: 1 })).toEqual([422, 'unprocessable'])
  })

  test('of the organisation and of a project: admin only', async () => {
    const put = { project: 'web', limits: { toolCalls: 7 } }
    expect(await outcome('PUT', '/v1/budgets', approver, put)).toEqual([403, 'forbidden'])
    expect(await ok(200, 'PUT', '/v1/budgets', key, put)).toMatchObject({
      project: 'web',
      limits: { toolCalls: 7 },
    })
    expect(await ok(200, 'GET', '/v1/budgets?project=web', reader)).toMatchObject({
      limits: { toolCalls: 7 },
      reserved: { toolCalls: 0 },
    })
    expect((await ok(200, 'GET', '/v1/budgets', reader)).limits).toEqual({})
    expect((await ok(200, 'GET', '/v1/budgets?project=web', stranger)).limits).toEqual({})
  })
})

test("[AUTH2] readers write nothing, and another organisation's ids are not found", async () => {
  const { id: runId, sessionId } = await makeRun()
  const { id: operationId, approvalId } = await askFor(runId)
  await ok(200, 'POST', `/v1/approvals/${approvalId}/resolve`, approver, { resolution: 'approved' })
  const resumed = await ok(200, 'POST', `/v1/approvals/${approvalId}/resume`, writer)
  const attemptId = resumed.attempts[0].id
  const writes: [string, string, unknown?][] = [
    ['POST', '/v1/runs', { intent: 'x' }],
    ['POST', `/v1/sessions/${sessionId}/runs`, { intent: 'x' }],
    ['PATCH', `/v1/runs/${runId}`, { status: 'running' }],
    ['POST', `/v1/runs/${runId}/finish`, { status: 'failed' }],
    ['POST', `/v1/runs/${runId}/events`, { kind: 'memory.read' }],
    ['POST', `/v1/runs/${runId}/checkpoints`, { label: 'l', state: 1 }],
    ['POST', `/v1/runs/${runId}/resume`, {}],
    ['POST', `/v1/runs/${runId}/operations`, { operation: read }],
    ['POST', `/v1/approvals/${approvalId}/resolve`, { resolution: 'approved' }],
    ['POST', `/v1/approvals/${approvalId}/resume`],
    ['POST', `/v1/operations/${operationId}/retries`, { policy: 'after-failure' }],
    ['POST', `/v1/attempts/${attemptId}/execute`],
    ['POST', `/v1/attempts/${attemptId}/abandon`, { reason: 'x' }],
    ['POST', `/v1/attempts/${attemptId}/merge`],
    ['POST', `/v1/attempts/${attemptId}/discard`],
    ['POST', `/v1/approvals/${approvalId}/revoke`, { reason: 'x' }],
    ['PUT', `/v1/sessions/${sessionId}/budget`, {}],
    ['POST', `/v1/sessions/${sessionId}/policy`],
  ]
  for (const [method, path, body] of writes)
    expect(await outcome(method, path, reader, body), `${method} ${path}`).toEqual([
      403,
      'forbidden',
    ])
  const reads: [string, string, unknown?][] = [
    ['GET', `/v1/runs/${runId}`],
    ['GET', `/v1/runs/${runId}/events`],
    ['GET', `/v1/runs/${runId}/verify`],
    ['GET', `/v1/runs/${runId}/approvals`],
    ['GET', `/v1/sessions/${sessionId}/runs`],
    ['GET', `/v1/sessions/${sessionId}/approvals`],
    ['GET', `/v1/sessions/${sessionId}/budget`],
    ['GET', `/v1/sessions/${sessionId}/policy`],
    ['GET', `/v1/approvals/${approvalId}`],
    ['GET', `/v1/operations/${operationId}`],
    ['GET', `/v1/operations/${operationId}/retry`],
    ['POST', `/v1/sessions/${sessionId}/operations/plan`, { operation: read }],
  ]
  for (const [method, path, body] of [...writes.slice(1), ...reads])
    expect(await outcome(method, path, stranger, body), `${method} ${path}`).toEqual([
      404,
      'not_found',
    ])
  for (const [method, path] of reads.filter(([, path]) => !path.includes('/sessions/'))) {
    const at = [runId, operationId, approvalId].reduce((p, id) => p.replace(id, missing(id)), path)
    expect(await outcome(method, at, reader), at).toEqual([404, 'not_found'])
  }
  expect(await outcome('GET', '/v1/runs/run_x', reader)).toEqual([404, 'not_found'])
})
