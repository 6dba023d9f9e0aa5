import { beforeAll, describe, expect, test } from 'vitest'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

/** What a second, equal POST does. `key`: the route takes an Idempotency-Key. Everything else says why it needs none. */
const posts: Record<string, string> = {
  '/v1/sessions': 'key',
  '/v1/sessions/:sessionId/prompts': 'key',
  '/v1/sessions/:sessionId/runs': 'key',
  '/v1/sessions/:sessionId/replace': 'key',
  '/v1/sessions/:sessionId/executions': 'key',
  '/v1/sessions/:sessionId/budget/corrections': 'key',
  '/v1/runs': 'key',
  '/v1/runs/:runId/events': 'key',
  '/v1/runs/:runId/agents': 'key',
  '/v1/runs/:runId/preflight': 'writes nothing',
  '/v1/runs/:runId/checkpoints': 'key',
  '/v1/runs/:runId/resume': 'key',
  '/v1/runs/:runId/changes/accept': 'key',
  '/v1/runs/:runId/changes/backfill': 'key',
  '/v1/runs/:runId/changes/import': 'key',
  '/v1/runs/:runId/changes/reject': 'key',
  '/v1/runs/:runId/operations': 'key',
  '/v1/budgets/corrections': 'key',
  '/v1/keys': 'key',
  '/v1/members': 'key',
  '/v1/webhooks': 'key',
  '/v1/skills/:skillId/proposals': 'key',
  '/proliferate/:sessionId/tools/:toolName': 'once per tool_call_id',
  '/v1/sessions/:sessionId/close': 'a closed session stays closed',
  '/v1/sessions/:sessionId/retry': 'while it starts it is the same start, else 409',
  '/v1/sessions/:sessionId/abort': 'what is aborted stays so',
  '/v1/sessions/:sessionId/policy': 'moves to the newest version',
  '/v1/sessions/:sessionId/env': 'a key that exists stays, or is replaced by the same value',
  '/v1/runs/:runId/finish': 'an ended run is 409',
  '/v1/abilities/:name/plan': 'reads only',
  '/v1/executions/:executionId/cancel': 'what is cancelled stays so',
  '/v1/executions/:executionId/resume': 'a step that does not ask any more is 409',
  '/v1/approvals/:approvalId/resolve': 'resolved once, each owner votes once',
  '/v1/approvals/:approvalId/revoke': 'what is revoked stays so',
  '/v1/approvals/:approvalId/resume': 'any earlier attempt is 409',
  '/v1/operations/:operationId/retries': 'a reserved attempt is 409',
  '/v1/attempts/:attemptId/execute': 'what is under way is 409',
  '/v1/attempts/:attemptId/abandon': 'what is not reserved is 409',
  '/v1/attempts/:attemptId/merge': 'joins, and is answered from the record',
  '/v1/attempts/:attemptId/discard': 'joins, and is answered from the record',
  '/v1/profiles/:profileId/archive': 'what is archived stays so',
  '/v1/agents/resolve': 'writes nothing',
  '/v1/agents/shipped': 'what is there stays as it is',
  '/v1/agents/:agentId/archive': 'what is archived stays so',
  '/v1/evals/runs': 'key',
  '/v1/evals/promotions': 'the same revision is the same promotion',
  '/v1/evals/promotions/:promotionId/resolve': 'resolved once, each member votes once',
  '/v1/evals/runs/:evalRunId/cancel': 'what is cancelled stays so',
  '/v1/memories': 'key',
  '/v1/memories/import': 'what is there already is unchanged',
  '/v1/changes/import': 'what is there already is unchanged',
  '/v1/changes/:change/phases/:phase/approvals': 'a member has one word on a revision',
  '/v1/members/:memberId/disable': 'what is disabled stays so',
  '/v1/skills/:skillId/versions': 'what the newest version says already is that version',
  '/v1/skills/:skillId/versions/:version/state': 'sets a state',
  '/v1/skills/:skillId/rollback': 'what is current stays so',
  '/v1/configurations': 'a name is taken once, else 409',
  '/v1/kill-switch': 'sets a state',
  '/v1/deployment/kill-switch': 'sets a state',
  '/v1/deployment/sleep': 'what sleeps stays so',
  '/v1/dead-letters/resend': 'what is on its way is not in the list',
  '/v1/sessions/:sessionId/dead-letters/resend': 'what is on its way is not in the list',
  '/v1/secrets/reseal': 'what is sealed by the first key stays',
  '/v1/sessions/:sessionId/tokens': 'writes nothing',
  '/v1/sessions/:sessionId/operations/plan': 'writes nothing',
  '/v1/skill-proposals/:proposalId/submit': 'what is submitted stays so',
  '/v1/skill-proposals/:proposalId/resolve': 'resolved once, each member votes once',
  '/v1/skill-proposals/:proposalId/cancel': 'what is cancelled stays so',
  '/v1/skill-proposals/:proposalId/apply': 'what is applied stays so',
  '/v1/runs/:runId/skills': 'once per skill and outcome',
  '/v1/skills/resolve': 'writes nothing',
  '/v1/skills/payload': 'writes nothing',
  '/v1/abilities/validate': 'writes nothing',
  '/v1/evals/validate': 'writes nothing',
  '/v1/evals/compare': 'writes nothing',
  '/v1/evals/from-run': 'writes nothing',
  '/v1/evidence/evaluate': 'writes nothing',
  '/v1/policies/check': 'writes nothing',
  '/v1/policies/replay': 'writes nothing',
  '/v1/providers/:name/check': 'writes nothing',
  '/v1/webhooks/:webhookId/test': 'writes nothing, and each test is sent',
  '/llm/:provider/:path{.+}': 'the vendor decides',
  '/upstreams/:host/:path{.*}': 'the host decides',
}

const libsql = useLibsql()
let app: TestApp
let key: string
beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  key = (await app.makeKey(await app.makeOrganisation(), 'admin')).secret
})

test('[API8] every POST is known to be safe to repeat, or takes an Idempotency-Key', async () => {
  const routes = new Set(
    app.app.routes.filter(({ method }) => method === 'POST').map(({ path }) => path),
  )
  expect([...routes].toSorted()).toEqual(Object.keys(posts).toSorted())
  const { paths } = (await app.call('GET', '/openapi.json')).json
  const takesKey = [...routes].filter((path) => {
    const { post } = paths[path.replaceAll(/:(\w+)(\{[^}]+\})?/g, '{$1}')]
    return post.parameters?.some(({ name }: { name: string }) => name === 'idempotency-key')
  })
  const keyed = Object.keys(posts).filter((path) => posts[path] === 'key')
  expect(takesKey.toSorted()).toEqual(keyed.toSorted())
})

const post = (path: string, body: unknown, idempotencyKey = 'k') =>
  app.call('POST', path, key, body, { 'idempotency-key': idempotencyKey })
const outcome = ({ status, json }: Awaited<ReturnType<typeof post>>) => [status, json?.error?.code]

describe('[RUN16] [API8] a repeated POST with its key', () => {
  let runId: string
  beforeAll(async () => {
    runId = (await app.call('POST', '/v1/runs', key, { intent: 'x' })).json.id
  })
  const entries = async () =>
    (await app.call('GET', `/v1/runs/${runId}/events`, key)).json.items.length as number

  test.each([
    ['events', { kind: 'memory.read', data: { id: 'm' } }, { kind: 'memory.read' }],
    ['checkpoints', { label: 'l', state: { a: 1 } }, { label: 'l', state: { a: 2 } }],
    ['resume', {}, { checkpointId: `chk_${'0'.repeat(38)}` }],
  ])(
    '%s: writes once, gives the same answer, and refuses another body',
    async (name, body, other) => {
      const path = `/v1/runs/${runId}/${name}`
      const before = await entries()
      const [one, two] = await Promise.all([post(path, body), post(path, body)])
      expect([one.status, two.status]).toEqual([name === 'resume' ? 200 : 201, one.status])
      const written = (await entries()) - before
      expect([two.json, (await post(path, body)).json]).toEqual([one.json, one.json])
      expect((await entries()) - before).toBe(written)
      expect(outcome(await post(path, other))).toEqual([409, 'key_conflict'])
      if (name === 'events') expect(written).toBe(1)
    },
  )

  test('events: after the run has ended the first answer still comes, and a new key is refused', async () => {
    const ended = (await app.call('POST', '/v1/runs', key, { intent: 'y' })).json.id
    const path = `/v1/runs/${ended}/events`
    const body = { kind: 'error.recorded', data: {} }
    const first = await post(path, body)
    await app.call('POST', `/v1/runs/${ended}/finish`, key, { status: 'completed' })
    expect((await post(path, body)).json).toEqual(first.json)
    expect(outcome(await post(path, body, 'new'))).toEqual([409, 'wrong_state'])
  })

  test('replace: one new generation', async () => {
    const { id } = (await app.call('POST', '/v1/sessions', key, {})).json
    const path = `/v1/sessions/${id}/replace`
    const generation = async (name: string) => (await post(path, {}, name)).json.sandbox.generation
    expect([await generation('a'), await generation('a'), await generation('b')]).toEqual([2, 2, 3])
    expect(outcome(await post(path, { reason: 'other' }, 'a'))).toEqual([409, 'key_conflict'])
  })

  test.each([
    ['keys', { name: 'once', scopes: ['read'] }],
    ['webhooks', { url: 'https://example.com/x', events: ['run.ended'] }],
  ])('%s: one is made; its secret was shown, and the refusal names it', async (name, body) => {
    const path = `/v1/${name}`
    const first = await post(path, body)
    expect([first.status, typeof first.json.secret]).toEqual([201, 'string'])
    const second = await post(path, body)
    expect(outcome(second)).toEqual([409, 'wrong_state'])
    expect(second.json.error.message).toContain(first.json.id)
    expect(second.text).not.toContain(first.json.secret)
    const { items } = (await app.call('GET', path, key)).json
    expect(items.filter(({ id }: { id: string }) => id === first.json.id)).toHaveLength(1)
    expect(outcome(await post(path, { ...body, project: undefined, name: 'other' }))[0]).not.toBe(
      201,
    )
    expect((await post(path, body, 'another')).status).toBe(201)
  })

  test('[BUD12] corrections: once, with admin scope, a reason and numbers that can be true', async () => {
    const { id } = (await app.call('POST', '/v1/sessions', key, {})).json
    const paths = ['/v1/budgets/corrections', `/v1/sessions/${id}/budget/corrections`]
    const body = { used: { tokens: 5, moneyUsd: 0.25 }, reason: 'counted twice' }
    for (const path of paths) {
      const one = await post(path, body)
      expect(one.json).toMatchObject({
        used: { tokens: 5, moneyUsd: 0.25 },
        correction: { reason: 'counted twice', before: { tokens: 0 }, after: { tokens: 5 } },
      })
      expect((await post(path, body)).json).toEqual(one.json)
      expect(outcome(await post(path, { ...body, reason: 'z' }))).toEqual([409, 'key_conflict'])
      for (const used of [
        {},
        { tokens: 1e300 },
        { tokens: -1 },
        { tokens: 0.5 },
        { tokens: 2e9 },
        { toolCalls: 2e9 },
      ])
        expect(outcome(await post(path, { used, reason: 'x' }, 'n'))).toEqual([
          400,
          'invalid_request',
        ])
      expect(outcome(await post(path, { used: { tokens: 1 } }, 'n'))[0]).toBe(400)
      const writer = (await post('/v1/keys', { name: 'w', scopes: ['write', 'approve'] }, path))
        .json
      const refused = await app.call('POST', path, writer.secret, body)
      expect(refused.status).toBe(403)
    }
  })

  test('[BUD12] no budget takes an absurd limit', async () => {
    for (const limits of [
      { tokens: 1e300 },
      { tokens: 2e9 },
      { toolCalls: -1 },
      { moneyUsd: 1e12 },
      { wallSeconds: 0 },
    ])
      expect((await app.call('PUT', '/v1/budgets', key, { limits })).status).toBe(400)
  })
})

describe('[RUN15] a refused change of a run', () => {
  const make = async () => (await app.call('POST', '/v1/runs', key, { intent: 'x' })).json.id
  const change = (id: string, status: string) =>
    app.call('PATCH', `/v1/runs/${id}`, key, { status })
  const allowed = (json: { error: { details?: { message: string }[] } }) =>
    json.error.details?.map(({ message }) => message.replace('Allowed next: ', '')) ?? []

  test('names what a caller may make of it next', async () => {
    const id = await make()
    await change(id, 'running')
    const { status, json } = await change(id, 'planned')
    const ends = ['completed', 'failed', 'blocked', 'cancelled']
    expect([status, json.error.code, allowed(json)]).toEqual([409, 'wrong_state', ends])
    expect(json.error.message).toBe(
      `Cannot make run "${id}" planned: it is running; it may become ${ends.join(', ')}`,
    )
  })

  test('of one that waits says for what', async () => {
    const id = await make()
    const operation = { category: 'shell', operation: 'run', command: 'npm test' }
    const asked = (await app.call('POST', `/v1/runs/${id}/operations`, key, { operation })).json
    const { json } = await change(id, 'running')
    expect(json.error.message).toContain(`goes on by itself after ${asked.approvalId}`)
    expect(allowed(json)).toEqual(['completed', 'failed', 'blocked', 'cancelled'])
  })

  test('of one that has ended says that nothing follows', async () => {
    const id = await make()
    const finish = () => app.call('POST', `/v1/runs/${id}/finish`, key, { status: 'failed' })
    await finish()
    for (const { status, json } of [await finish(), await change(id, 'running')]) {
      expect([status, json.error.code, allowed(json)]).toEqual([409, 'wrong_state', []])
      expect(json.error.message).toContain('it is failed; it has ended, create another')
    }
  })
})
