import { createHash } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { useHost } from '../support/host.ts'

const host = useHost()
let approver: string
beforeAll(async () => {
  approver = await host().newApprover()
})

const labels = { workflow: 'release', phase: 'plan', agent: 'lead', subagent: 'tester' }
const read = { category: 'read', operation: 'read-file', targetPath: 'a.txt' }
const shell = { category: 'shell', operation: 'run', command: 'npm test' }

async function begin(intent = 'do it') {
  const session = await host().begin()
  const run = await host().ok('POST', `${session.at}/runs`, { intent, ...labels })
  return { session, runId: run.id as string, at: `/v1/runs/${run.id}` }
}
type Scene = Awaited<ReturnType<typeof begin>>

const timeline = async ({ at }: Scene) => (await host().ok('GET', `${at}/events?limit=200`)).items
const entries = async (scene: Scene, kind: string) =>
  (await timeline(scene)).filter((entry: { kind: string }) => entry.kind === kind)
const execute = ({ at }: Scene, operation: object, more: object = {}) =>
  host().ok('POST', `${at}/operations`, { operation, ...more })
const operation = (id: string) => host().ok('GET', `/v1/operations/${id}`)
const resolve = (id: string, resolution = 'approved', more: object = {}) =>
  host().ok('POST', `/v1/approvals/${id}/resolve`, { resolution, ...more }, approver)

describe('a run', () => {
  test('[RUN7] [RUN17] shows workflow, phase, agent and sub-agent, in its record, its timeline and libSQL', async () => {
    const scene = await begin()
    const { run } = await host().ok('GET', scene.at)
    expect(run).toMatchObject({ ...labels, intent: 'do it', status: 'created' })
    expect((await entries(scene, 'run.created'))[0].data).toMatchObject(labels)
    const rows = await host().rows(
      'select workflow, phase, agent, subagent, intent, status from runs where id = ?',
      scene.runId,
    )
    expect(rows).toEqual([{ ...labels, intent: 'do it', status: 'created' }])
    const list = await host().ok('GET', `/v1/runs?session=${scene.session.id}`)
    expect(list.items).toMatchObject([labels])
  })

  test('[RUN5] each hash covers the one before it, and the ledger has the same', async () => {
    const scene = await begin()
    await execute(scene, shell)
    const items = await timeline(scene)
    expect(items.length).toBeGreaterThan(3)
    const hash = (text: string) => createHash('sha256').update(text).digest('hex')
    let previous = hash(`gantry timeline\n${scene.runId}`)
    const stored = scene.session.host.app.databaseOf(scene.session.id)
    const rows = stored.all<{ data: string }>(
      'select data from run_events where run_id = ? order by seq',
      scene.runId,
    )
    for (const [index, { seq, at, kind, hash: own, previousHash }] of items.entries()) {
      expect(previousHash).toBe(previous)
      expect(own).toBe(hash(`${previous}\n${seq}\n${at}\n${kind}\n${rows[index]?.data}`))
      previous = own
    }
    const ledger = await host().rows(
      'select hash, signature from run_events where run_id = ? order by seq',
      scene.runId,
    )
    expect(ledger.map((row) => row['hash'])).toEqual(
      items.map((item: { hash: string }) => item.hash),
    )
    expect(await host().ok('GET', `${scene.at}/verify`)).toMatchObject({
      ok: true,
      head: { hash: previous },
    })
  })

  test('[RUN1] a prompt’s turn is in it, and its end is the run’s', async () => {
    const session = await host().begin()
    const turn = await session.prompt({ text: 'mend the door' })
    const { run } = await host().ok('GET', `/v1/runs/${turn.runId}`)
    expect(run).toMatchObject({ intent: 'mend the door', status: 'running' })
    const part = { turnId: turn.id, sessionId: 's', messageId: 'm', partId: 'p' }
    const tool = { ...part, tool: 'bash', callId: 'c', input: {} }
    session.agent.emit('tool.started', tool)
    session.agent.emit('tool.failed', { ...tool, error: 'no', durationMs: 1 })
    session.agent.endTurn(turn.id)
    await host().live()
    const record = await host().ok('GET', `/v1/runs/${turn.runId}`)
    expect(record.evidence.toolCalls).toEqual({ requested: 1, completed: 0, failed: 1 })
    const named = await host().ok('POST', `${session.at}/runs`, { intent: 'another' })
    await host().ok('POST', `${session.at}/runs`, { intent: 'newer' })
    expect((await session.prompt({ runId: named.id })).runId).toBe(named.id)
    const rows = await host().rows('select status, outcome from runs where id = ?', turn.runId)
    expect(rows).toEqual([{ status: 'completed', outcome: 'completed' }])
    const turns = await host().rows('select state, run_id from turns where id = ?', turn.id)
    expect(turns).toEqual([{ state: 'completed', run_id: turn.runId }])
  })

  test('[RUN9] cancelling it denies what it asks and aborts what it does', async () => {
    const session = await host().begin({ gate: { ask: ['bash'] } })
    const turn = await session.prompt()
    const askId = await session.ask('bash')
    await host().ok('POST', `/v1/runs/${turn.runId}/finish`, { status: 'cancelled' })
    expect(session.agent.answerTo(askId)?.decision).toBe('deny')
    expect(session.agent.commands('abort')).toMatchObject([{ body: { turnId: turn.id } }])
    const order = session.agent.messages.map((sent) => (sent.t === 'command' ? sent.kind : sent.t))
    expect(order.indexOf('answer')).toBeLessThan(order.indexOf('abort'))
  })
})

describe('an operation', () => {
  test('[ATT1] that is allowed is one command to the sandbox, and its attempt names the decision', async () => {
    const scene = await begin()
    const { id, decision } = await execute(scene, read)
    expect(decision).toBe('allow')
    const sent = await scene.session.agent.execute({ output: 'content' })
    expect(sent).toMatchObject({ operation: read, plan: { strategy: 'workspace' } })
    await host().live()
    const [decided] = await entries(scene, 'permission-decision')
    const [attempt] = (await operation(id)).attempts
    expect(attempt).toMatchObject({
      status: 'succeeded',
      decisionSeq: decided.seq,
      pendingSeq: null,
      report: { output: 'content' },
    })
    expect(decided.data).toMatchObject({ operationId: id, rule: 'default:read' })
    const rows = await host().rows(
      'select status, operation_id from operation_attempts where id = ?',
      attempt.id,
    )
    expect(rows).toEqual([{ status: 'succeeded', operation_id: id }])
  })

  test('[ATT1] [APR1] that asks is first requested of people, then run for the one decision', async () => {
    const scene = await begin()
    const asked = await execute(scene, shell)
    const [decided] = await entries(scene, 'permission-decision')
    const requested = await entries(scene, 'permission.requested')
    const { operationHash, approvalId } = asked
    expect(requested.map((entry: { data: object }) => entry.data)).toEqual([
      {
        approvalId,
        title: expect.stringContaining('npm test'),
        operationHash,
        decisionSeq: decided.seq,
        deadlineAt: host().now + 600_000,
      },
    ])
    const pending = (await entries(scene, 'operation-execution'))[0]
    expect(pending.data).toMatchObject({ status: 'pending-approval', decisionSeq: decided.seq })
    expect((await host().ok('GET', scene.at)).run).toMatchObject({
      status: 'needs-human',
      waitsFor: [approvalId],
    })
    expect(scene.session.agent.commands('execute')).toEqual([])
    await host().live()
    const inbox = await host().ok('GET', `/v1/approvals?state=pending`)
    const shown = inbox.items.find((item: { id: string }) => item.id === approvalId)
    expect(shown).toMatchObject({ operationHash, details: { command: 'npm test' } })

    const path = `/v1/approvals/${approvalId}/resolve`
    const approve = { resolution: 'approved' }
    expect(await host().refusal('POST', path, approve)).toEqual([403, 'forbidden'])
    const other = { ...approve, operationHash: '0'.repeat(64) }
    expect(await host().refusal('POST', path, other, approver)).toEqual([409, 'wrong_state'])

    await resolve(approvalId)
    await host().ok('POST', `/v1/approvals/${approvalId}/resume`)
    await scene.session.agent.execute()
    await host().live()
    expect((await operation(asked.id)).attempts).toMatchObject([
      { status: 'succeeded', approvalId, decisionSeq: decided.seq, pendingSeq: pending.seq },
    ])
    const kinds = (await timeline(scene)).map((entry: { kind: string }) => entry.kind)
    expect(kinds.filter((kind: string) => kind.startsWith('permission'))).toEqual([
      'permission-decision',
      'permission.requested',
      'permission.approved',
    ])
  })

  test('[ATT1] that is denied leaves a blocked entry, and no approval', async () => {
    const scene = await begin()
    const denied = await execute(scene, { ...read, targetPath: '/etc/passwd' })
    expect(denied).toMatchObject({ decision: 'deny', approvalId: null, attempts: [] })
    expect((await entries(scene, 'operation-execution'))[0].data).toMatchObject({
      status: 'blocked',
    })
    expect((await host().ok('GET', `${scene.at}/approvals`)).items).toEqual([])
  })

  test('[APR6] that was approved for the session is allowed again, and named so', async () => {
    const scene = await begin()
    const { approvalId } = await execute(scene, shell)
    await resolve(approvalId, 'approved', { remember: { scope: 'session' } })
    expect(await execute(scene, shell)).toMatchObject({
      decision: 'allow',
      rule: `grant:${approvalId}`,
    })
    expect((await execute(scene, { ...shell, command: 'npm run x' })).decision).toBe('ask')
  })

  test('[ATT2] that the sandbox cannot hold asks, and says what is missing', async () => {
    const scene = await begin()
    scene.session.agent.send({ t: 'ready', bootMs: 1, enforces: [] })
    await host().live()
    expect(await execute(scene, read)).toMatchObject({
      decision: 'ask',
      rule: 'isolation',
      reason: expect.stringContaining('real-path'),
    })
  })

  test('[POL6] is decided for the run’s agent', async () => {
    const project = 'agents'
    const rules = [{ id: 'lead', match: { category: 'read', agent: 'lead' }, decision: 'deny' }]
    await host().ok('PUT', '/v1/policies', {
      ...{ project, format: 'json' },
      source: JSON.stringify({ name: 'p', rules }),
    })
    const session = await host().begin({ project })
    const decide = async (agent: string) => {
      const run = await host().ok('POST', `${session.at}/runs`, { intent: 'x', agent })
      const body = { operation: read, evaluateOnly: true }
      return (await host().ok('POST', `/v1/runs/${run.id}/operations`, body)).decision
    }
    expect([await decide('lead'), await decide('build')]).toEqual(['deny', 'allow'])
  })

  test('[ATT19] wakes a sleeping sandbox, and is carried out there', async () => {
    const session = await host().begin({ idleTimeoutSeconds: 60 })
    const run = await host().ok('POST', `${session.at}/runs`, { intent: 'later' })
    await host().live(62_000)
    expect((await session.view()).sandbox.state).toBe('stopped')
    const { id } = await host().ok('POST', `/v1/runs/${run.id}/operations`, { operation: read })
    await host().live()
    await session.meet()
    await session.agent.execute()
    await host().live()
    expect((await operation(id)).attempts).toMatchObject([{ status: 'succeeded' }])
  })

  test('[ATT16] [ATT17] a retry says in words why it may or may not be', async () => {
    const scene = await begin()
    const { id } = await execute(scene, read)
    const why = async (policy: string) => {
      const path = `/v1/operations/${id}/retry?policy=${policy}`
      const { allowed, reasonCode, reason } = await host().ok('GET', path)
      return [allowed, reasonCode, reason]
    }
    const [reserved] = (await operation(id)).attempts
    expect(await why('after-failure')).toEqual([
      false,
      'active-reservation',
      `Attempt "${reserved.id}" is reserved: abandon it, or wait for it`,
    ])
    await scene.session.agent.execute({ status: 'failed', error: 'no such file' })
    await host().live()
    expect(await why('after-failure')).toEqual([true, 'retryable', 'The latest attempt was failed'])
    expect(await why('never')).toEqual([
      false,
      'policy-never',
      'The policy "never" allows no second attempt',
    ])
    const refused = await host().call('POST', `/v1/operations/${id}/retries`, { policy: 'never' })
    expect(refused.json.error.message).toContain('allows no second attempt')
    const next = await host().ok('POST', `/v1/operations/${id}/retries`, {
      policy: 'after-failure',
    })
    expect(next).toMatchObject({ sequence: 2, dispatched: false, decisionSeq: expect.any(Number) })
    expect(scene.session.agent.commands('execute')).toHaveLength(1)
    await host().ok('POST', `/v1/attempts/${next.id}/execute`)
    await scene.session.agent.execute()
    await host().live()
    expect((await operation(id)).attempts.map((each: { status: string }) => each.status)).toEqual([
      'failed',
      'succeeded',
    ])
  })

  test('[ATT20] of ten that execute one retry at once, one reserves', async () => {
    const scene = await begin()
    const { id } = await execute(scene, read)
    await scene.session.agent.execute({ status: 'failed' })
    await host().live()
    const admit = () =>
      host().call('POST', `/v1/operations/${id}/retries`, { policy: 'after-failure' })
    const answers = await Promise.all(Array.from({ length: 10 }, admit))
    expect(answers.filter(({ status }) => status < 300)).toHaveLength(1)
    expect((await operation(id)).attempts).toHaveLength(2)
  })

  test('[ATT14] that has no result in time is suspect until a person abandons it', async () => {
    const scene = await begin()
    const { id } = await execute(scene, { ...read, timeoutMs: 1000 })
    await host().live(61_000)
    const [attempt] = (await operation(id)).attempts
    expect(attempt).toMatchObject({ status: 'reserved', suspectSince: host().now })
    expect((await host().ok('GET', scene.at)).run).toMatchObject({
      status: 'needs-human',
      waitsFor: [attempt.id],
    })
    await host().ok('POST', `/v1/attempts/${attempt.id}/abandon`, { reason: 'gave up' })
    await host().live()
    expect((await operation(id)).attempts[0]).toMatchObject({
      status: 'abandoned',
      reason: 'gave up',
    })
    expect(scene.session.agent.commands('cancel')).toMatchObject([
      { body: { attemptId: attempt.id } },
    ])
  })

  test('[ATT11] [ATT12] [ATT26] a branch is merged by one command, whose result is on record', async () => {
    const scene = await begin()
    const edit = { category: 'edit', operation: 'write-file', targetPath: 'a.txt', content: 'x' }
    const { id, approvalId } = await execute(scene, edit)
    await resolve(approvalId)
    await host().ok('POST', `/v1/approvals/${approvalId}/resume`)
    const file = {
      path: 'attempt.diff',
      size: 3,
      sha256: 'a'.repeat(64),
      contentType: 'text/plain',
    }
    await scene.session.agent.execute({ branch: 'gantry/1', files: [file] })
    await host().live()
    const { items } = await host().ok('GET', `${scene.session.at}/artifacts`)
    expect(items).toMatchObject([{ path: 'attempt.diff' }])
    const [attempt] = (await operation(id)).attempts
    const merging = host().ok('POST', `/v1/attempts/${attempt.id}/merge`)
    const command = await scene.session.agent.command('merge')
    expect(command.body).toEqual({ attemptId: attempt.id, branch: 'gantry/1' })
    scene.session.agent.result(command.id, { merged: true, commit: 'c1', conflicts: [] })
    expect(await merging).toEqual({ merged: true, commit: 'c1', conflicts: [] })
    expect((await entries(scene, 'operation-execution')).at(-1).data).toMatchObject({
      status: 'merged',
      commit: 'c1',
    })
  })
})

test('[RUN6] [RUN16] a checkpoint comes back exactly, and is the run’s latest', async () => {
  const scene = await begin()
  const body = { label: 'half', state: { deep: [1, null, 'x'] } }
  const { id } = await host().ok('POST', `${scene.at}/checkpoints`, body)
  const resumed = await host().ok('POST', `${scene.at}/resume`, {})
  expect(resumed).toMatchObject({ checkpoint: { id, ...body }, run: { latestCheckpointId: id } })
  const rows = await host().rows('select latest_checkpoint_id from runs where id = ?', scene.runId)
  expect(rows).toEqual([{ latest_checkpoint_id: id }])
})
