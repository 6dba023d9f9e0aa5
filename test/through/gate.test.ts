import { beforeAll, describe, expect, test } from 'vitest'
import { type HostSession, useHost } from '../support/host.ts'

const host = useHost()
let approver: string
beforeAll(async () => {
  approver = await host().newApprover()
})

let projects = 0
/** A session that works, under these rules of its own project. */
async function begin(rules: object[] = [], body: object = {}, terms: object = {}) {
  const project = `gate-${++projects}`
  const name = 'p'
  const put = (next: object[]) =>
    host().ok('PUT', '/v1/policies', {
      project,
      format: 'json',
      source: JSON.stringify({ name, rules: next, ...terms }),
    })
  if (rules.length > 0) await put(rules)
  const session = await host().begin({ project, ...body })
  const turn = await session.prompt()
  return { session, turn, put, project }
}
const decisionOn = async (session: HostSession, ...asked: Parameters<HostSession['ask']>) =>
  session.agent.answerTo(await session.ask(...asked))?.decision ?? 'waits'
const resolve = (id: string, resolution = 'approved', more: object = {}) =>
  host().call('POST', `/v1/approvals/${id}/resolve`, { resolution, ...more }, approver)
const decisions = async (runId: string) =>
  (await host().ok('GET', `/v1/runs/${runId}/events?limit=200`)).items
    .filter(({ kind }: { kind: string }) => kind === 'permission-decision')
    .map(({ data }: { data: object }) => data)

describe('a question', () => {
  test('[GATE2] [POL1] [POL2] is decided by the built-in policy if there is no other', async () => {
    const { session, turn } = await begin()
    expect(await decisionOn(session, 'bash', { command: 'npm test' })).toBe('allow')
    expect(await decisionOn(session, 'read', { filePath: '/etc/passwd' })).toBe('deny')
    expect(await decisionOn(session, 'bash', { command: 'sudo ls' })).toBe('waits')
    expect(await decisions(turn.runId)).toMatchObject([
      { decision: 'allow', rule: 'sandbox-default@2#workspace' },
      { decision: 'deny', rule: 'boundary' },
      { decision: 'ask' },
    ])
    expect(await session.events('gate.decided')).toMatchObject([
      { data: { tool: 'bash', decision: 'allow', actor: 'rule' } },
      { data: { tool: 'read', decision: 'deny' } },
    ])
  })

  test('[GATE8] [POL5] is decided for the agent and sub-agent that ask', async () => {
    const rules = [
      { id: 'lead', match: { category: 'shell', agent: 'lead' }, decision: 'deny' },
      { id: 'sub', match: { category: 'shell', subagent: 'helper' }, decision: 'deny' },
    ]
    const { session, turn } = await begin(rules)
    const command = { command: 'ls' }
    expect(await decisionOn(session, 'bash', command, { agent: 'build' })).toBe('allow')
    expect(await decisionOn(session, 'bash', command, { agent: 'lead' })).toBe('deny')
    const sub = { agent: 'build', subagent: 'helper' }
    expect(await decisionOn(session, 'bash', command, sub)).toBe('deny')
    expect(await decisions(turn.runId)).toMatchObject([
      { request: { agent: 'build', subagent: null } },
      { rule: 'p@1#lead', request: { agent: 'lead' } },
      { rule: 'p@1#sub', request: { agent: 'build', subagent: 'helper', mode: 'scratch' } },
    ])
  })

  test('[GATE2] is held to the session’s own lists', async () => {
    const { session } = await begin([], { gate: { deny: ['webfetch'], ask: ['read'] } })
    expect(await decisionOn(session, 'webfetch')).toBe('deny')
    expect(await decisionOn(session, 'read')).toBe('waits')
    expect(await decisionOn(session, 'bash')).toBe('allow')
  })

  test('[GATE9] is held to where its paths really lead, and to what it does not show', async () => {
    const { session } = await begin()
    const input = { filePath: 'a.txt' }
    expect(await decisionOn(session, 'read', input, { realPaths: ['/w/a.txt'] })).toBe('allow')
    expect(await decisionOn(session, 'read', input, { realPaths: ['/etc/passwd'] })).toBe('deny')
    expect(await decisionOn(session, 'read', input, { shortened: true })).toBe('waits')
  })

  test('[GATE3] asked again after the policy has changed gets the answer that is on record', async () => {
    const { session, put } = await begin()
    const askId = await session.ask('bash', { command: 'ls' })
    await put([{ match: { category: 'shell' }, decision: 'deny' }])
    await host().ok('POST', `${session.at}/policy`)
    expect(await decisionOn(session, 'bash', { command: 'pwd' })).toBe('deny')
    const before = session.agent.messages.length
    await session.ask('bash', { command: 'ls' }, { askId: askId as never })
    expect(session.agent.messages.slice(before)).toMatchObject([{ t: 'answer', decision: 'allow' }])
    expect(await session.events('gate.decided')).toHaveLength(2)
    expect((await host().ok('GET', `${session.at}/budget`)).used.toolCalls).toBe(1)
  })

  test('[GATE11] without a turn, or of another one, is denied', async () => {
    const session = await host().begin()
    expect(await decisionOn(session, 'bash')).toBe('deny')
    const turn = await session.prompt()
    expect(await decisionOn(session, 'bash', undefined, { turnId: 'turn_of_before' })).toBe('deny')
    expect(await decisionOn(session, 'bash', undefined, { turnId: turn.id })).toBe('allow')
    await host().ok('POST', `${session.at}/abort`, {})
    expect(await decisionOn(session, 'bash', undefined, { turnId: turn.id })).toBe('deny')
  })

  test('[GATE6] [RUN11] a tool that ran without one stops the turn and blocks the run', async () => {
    const { session, turn } = await begin()
    const part = { turnId: turn.id, sessionId: 's', messageId: 'm', partId: 'p' }
    session.agent.emit('gate.bypassed', { ...part, tool: 'bash', callId: 'c', input: {} })
    await host().live()
    expect((await host().ok('GET', `/v1/runs/${turn.runId}`)).run).toMatchObject({
      status: 'blocked',
      reason: 'Tool "bash" ran without a decision',
    })
    expect(session.agent.commands('abort')).toHaveLength(1)
  })
})

describe('an approval', () => {
  const asking = { gate: { ask: ['bash'], askTimeoutSeconds: 600 } }

  test('[GATE2] [APR3] what a person says is what the tool gets, once', async () => {
    const { session, turn } = await begin([], asking)
    const [yes, no] = [await session.ask('bash'), await session.ask('bash', { command: 'pwd' })]
    expect((await host().ok('GET', `/v1/runs/${turn.runId}`)).run).toMatchObject({
      status: 'needs-human',
      waitsFor: [session.approvalOf(yes), session.approvalOf(no)],
    })
    await resolve(session.approvalOf(yes))
    await resolve(session.approvalOf(no), 'rejected', { reason: 'not here' })
    await host().live()
    expect(session.agent.answerTo(yes)?.decision).toBe('allow')
    expect(session.agent.answerTo(no)).toMatchObject({ decision: 'deny', reason: 'not here' })
    expect((await resolve(session.approvalOf(yes), 'rejected')).status).toBe(409)
    expect((await host().ok('GET', `/v1/runs/${turn.runId}`)).run.status).toBe('running')
    const rows = await host().rows(
      'select state, actor, resolution_reason from approvals where session_id = ? order by id',
      session.id,
    )
    expect(rows).toMatchObject([
      { state: 'approved' },
      { state: 'rejected', resolution_reason: 'not here' },
    ])
  })

  test('[APR3] [APR10] nobody answers: its deadline denies the tool', async () => {
    const { session } = await begin([], { gate: { ask: ['bash'], askTimeoutSeconds: 30 } })
    const askId = await session.ask('bash')
    await host().live(29_000)
    expect(session.agent.answerTo(askId)).toBe(null)
    await host().live(1000)
    expect(session.agent.answerTo(askId)?.decision).toBe('deny')
    const approval = await host().ok('GET', `/v1/approvals/${session.approvalOf(askId)}`)
    expect(approval).toMatchObject({ state: 'rejected', resolution: { actor: 'deadline' } })
  })

  test('[APR4] quorum, group and escalation of the rule count', async () => {
    const rule = {
      match: { category: 'shell' },
      decision: 'ask',
      approval: { quorum: 2, timeoutSeconds: 500 },
    }
    const { session } = await begin([rule])
    const askId = await session.ask('bash')
    const id = session.approvalOf(askId)
    const view = await host().ok('GET', `/v1/approvals/${id}`)
    expect(view).toMatchObject({ quorum: 2, deadlineAt: view.createdAt + 500_000 })
    expect((await resolve(id)).json.state).toBe('pending')
    const second = await host().newApprover('another')
    const body = { resolution: 'approved' }
    await host().ok('POST', `/v1/approvals/${id}/resolve`, body, second)
    await host().live()
    expect(session.agent.answerTo(askId)?.decision).toBe('allow')
  })

  test('[APR6] [APR8] a remembered one spares the same question until it is revoked', async () => {
    const { session, turn } = await begin([], asking)
    const first = await session.ask('bash', { command: 'ls' })
    const id = session.approvalOf(first)
    await resolve(id, 'approved', { remember: { scope: 'session' } })
    expect(await decisionOn(session, 'bash', { command: 'ls' })).toBe('allow')
    expect(await decisionOn(session, 'bash', { command: 'pwd' })).toBe('waits')
    expect((await decisions(turn.runId))[1]).toMatchObject({ by: 'grant', rule: `grant:${id}` })
    await host().ok('POST', `/v1/approvals/${id}/revoke`, { reason: 'enough' }, approver)
    expect(await decisionOn(session, 'bash', { command: 'ls' })).toBe('waits')
  })

  test('[APR5] [GATE4] abort denies the tool first; who approves later is refused', async () => {
    const { session } = await begin([], asking)
    const askId = await session.ask('bash')
    await host().ok('POST', `${session.at}/abort`, { reason: 'wrong door' })
    const told = session.agent.messages.map((sent) => (sent.t === 'command' ? sent.kind : sent.t))
    expect(told.slice(-2)).toEqual(['answer', 'abort'])
    expect(session.agent.answerTo(askId)?.decision).toBe('deny')
    expect((await resolve(session.approvalOf(askId))).status).toBe(409)
  })
})

describe('a budget', () => {
  test('[BUD1] [BUD3] [BUD4] so many tools run; the next waits for a raise', async () => {
    const { session, turn } = await begin([], { budget: { toolCalls: 2 } })
    for (let calls = 0; calls < 2; calls += 1)
      expect(await decisionOn(session, 'bash')).toBe('allow')
    const third = await session.ask('bash')
    expect(session.agent.answerTo(third)).toBe(null)
    expect((await host().ok('GET', `/v1/runs/${turn.runId}`)).run).toMatchObject({
      status: 'needs-human',
      reason: 'budget',
    })
    expect(await host().refusal('POST', `${session.at}/prompts`, { text: 'x' })).toEqual([
      409,
      'budget_spent',
    ])
    await host().ok('PUT', `${session.at}/budget`, { toolCalls: 3 })
    await host().live()
    expect(session.agent.answerTo(third)?.decision).toBe('allow')
    const told = (await host().ok('GET', `/v1/runs/${turn.runId}/events?limit=200`)).items
      .filter(({ kind }: { kind: string }) => kind.startsWith('budget'))
      .map(({ kind, data }: { kind: string; data: { limits?: object } }) => [kind, data.limits])
    expect(told).toEqual([
      ['budget.warned', undefined],
      ['budget.spent', undefined],
      ['budget.raised', { toolCalls: 3 }],
      ['budget.warned', undefined],
      ['budget.spent', undefined],
    ])
    const fourth = await session.ask('bash')
    await host().live(600_000)
    expect(session.agent.answerTo(fourth)?.decision).toBe('deny')
  })

  test('[BUD6] tokens that the agent reports are used, priced, and stop what comes next', async () => {
    const { session, turn } = await begin([], {
      model: 'claude-opus-4.6',
      budget: { tokens: 100, moneyUsd: 1 },
    })
    session.agent.usedTokens(turn.id, { input: 40, output: 20, reasoning: 10, cacheRead: 30 })
    await host().live()
    const { used } = await host().ok('GET', `${session.at}/budget`)
    expect(used.tokens).toBe(100)
    expect(used.moneyUsd).toBeGreaterThan(0)
    expect(await decisionOn(session, 'bash')).toBe('waits')
    session.agent.endTurn(turn.id)
    const rows = await host().rows(
      'select input_tokens, output_tokens from turns where id = ?',
      turn.id,
    )
    expect(rows).toEqual([{ input_tokens: 40, output_tokens: 20 }])
  })

  test('[BUD5] the time of a turn is used while it runs, and its alarm tells', async () => {
    const { session, turn } = await begin([], { budget: { wallSeconds: 100 } })
    await host().live(81_000)
    expect(await session.events('budget.warned')).toMatchObject([{ data: { limit: 100 } }])
    await host().live(20_000)
    expect((await host().ok('GET', `/v1/runs/${turn.runId}`)).run.reason).toBe('budget')
    expect((await host().ok('GET', `${session.at}/budget`)).used.wallSeconds).toBe(100)
  })

  test.each([
    ['POST', '/close'],
    ['DELETE', ''],
  ])(
    '[BUD8] [BUD9] sessions of a project share its limit; after %s one gives its rest back',
    async (method, path) => {
      const { session, project } = await begin()
      await host().ok('PUT', '/v1/budgets', { project, limits: { toolCalls: 3 } })
      expect(await decisionOn(session, 'bash')).toBe('allow')
      expect((await host().call(method, `${session.at}${path}`)).status).toBeLessThan(300)
      await host().live()
      const other = await host().begin({ project })
      await other.prompt()
      const answers: string[] = []
      for (let calls = 0; calls < 3; calls += 1) answers.push(await decisionOn(other, 'bash'))
      expect(answers).toEqual(['allow', 'allow', 'waits'])
    },
  )
})
