import { beforeEach, describe, expect, test } from 'vitest'
import { Operation } from '../../../../src/contract/operation.ts'
import { PolicyDocument } from '../../../../src/contract/policy.ts'
import { policyFromBuiltin } from '../../../../src/core/policy/builtin-policy.ts'
import { operations, other, policyOf, RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

let world: RunWorld
let runId: string
beforeEach(async () => {
  world = await new RunWorld().begin()
  runId = (await world.createRun()).id
})
const refused = (code: string) => ({ code })
const executions = () => world.entries(runId, 'operation-execution')
const strange = { ...testCaller, organisationId: `org_${'9'.repeat(20)}` }

/** Asked for and approved by somebody else. */
async function approved(more: Record<string, unknown> = {}) {
  const asked = await world.execute(runId, { ...operations.ask, ...more })
  await world.resolve(asked.approvalId ?? '')
  return { ...asked, approvalId: asked.approvalId ?? '' }
}

describe('decisions', () => {
  test('[ATT1] [R1-30] [R1-31] deny: the decision, then a blocked execution; no approval, nothing is sent', async () => {
    const operation = await world.execute(runId, operations.deny)
    expect(operation).toMatchObject({
      decision: 'deny',
      rule: 'boundary',
      approvalId: null,
      attempts: [],
      plan: { strategy: 'denied' },
      next: ['Change the policy, or ask for something else'],
    })
    expect((await world.kinds(runId)).slice(1)).toEqual([
      'permission-decision',
      'run.started',
      'operation-execution',
    ])
    expect(await executions()).toMatchObject([{ status: 'blocked', executorInvoked: false }])
    expect([await world.actor.api.approvals.list(testCaller, null), world.executes()]).toEqual([
      [],
      [],
    ])
    expect((await world.run(runId)).status).toBe('running')
  })

  test('[ATT1] [R1-32] ask: a pending approval that points to the decision, a waiting execution, a run that needs a person', async () => {
    const operation = await world.execute(runId, operations.ask)
    const approval = await world.approval(operation.approvalId ?? '')
    expect(approval).toMatchObject({
      kind: 'operation',
      state: 'pending',
      asker: { kind: 'key', id: testCaller.keyId, owner: testCaller.owner },
      subject: operation.id,
      title: 'shell: run: npm test',
      operation: Operation.parse(operations.ask),
      operationHash: operation.operationHash,
      resumable: true,
    })
    const entries = await world.timeline(runId)
    expect(entries.find(({ seq }) => seq === approval.decisionSeq)).toMatchObject({
      kind: 'permission-decision',
      data: { decision: 'ask', operationId: operation.id, askId: null },
    })
    expect(await executions()).toMatchObject([
      {
        status: 'pending-approval',
        operationId: operation.id,
        approvalId: approval.id,
        decisionSeq: approval.decisionSeq,
        operationHash: operation.operationHash,
        executorInvoked: false,
      },
    ])
    expect(world.executes()).toEqual([])
    expect(await world.run(runId)).toMatchObject({
      status: 'needs-human',
      waitsFor: [approval.id],
    })
    expect(world.deadlines()['approval']).toBe(approval.deadlineAt)
    expect(operation.next).toEqual([`POST /v1/approvals/${approval.id}/resolve by somebody else`])
  })

  test('[ATT1] [R1-33] [R1-38] allow: one attempt is reserved and sent once, and its result is recorded', async () => {
    const operation = await world.execute(runId, operations.allow)
    const id = world.attemptId(operation)
    expect(operation).toMatchObject({
      decision: 'allow',
      approvalId: null,
      attempts: [{ sequence: 1, status: 'reserved', dispatched: true, executor: 'workspace' }],
    })
    expect(world.executes()).toMatchObject([
      { id, body: { attemptId: id, operation: operation.operation, plan: operation.plan } },
    ])
    await world.result(id, { output: 'content' })
    await world.result(id, { output: 'again' })
    const { attempts, next } = await world.operation(operation.id)
    expect(attempts).toMatchObject([
      { status: 'succeeded', report: { output: 'content' }, finishedAt: world.now },
    ])
    expect(next).toEqual([])
    expect(await executions()).toMatchObject([
      { status: 'succeeded', attemptId: id, executorInvoked: true, operationExecuted: true },
    ])
    expect(await world.actor.api.approvals.list(testCaller, null)).toEqual([])
    expect(world.deadlines()).not.toHaveProperty([`attempt:${id}`])
  })

  test('[ATT1] an operation that fails says so, and is not sent again', async () => {
    const operation = await world.execute(runId)
    await world.result(world.attemptId(operation), { status: 'failed', error: 'no such file' })
    expect(await executions()).toMatchObject([
      { status: 'failed', error: 'no such file', operationExecuted: false },
    ])
    expect((await world.operation(operation.id)).next).toEqual([
      `POST /v1/operations/${operation.id}/retries with a policy`,
    ])
    await world.cut()
    await world.meet()
    expect(world.executes()).toEqual([])
  })

  test('[ATT2] what the sandbox cannot be held to is asked for, though the policy allows it', async () => {
    await world.receive({ t: 'ready', bootMs: 1, enforces: ['output'] })
    const operation = await world.execute(runId, operations.allow)
    expect(operation).toMatchObject({
      decision: 'ask',
      rule: 'isolation',
      reason: 'The sandbox cannot enforce: real-path',
      plan: { notEnforced: ['real-path'] },
    })
    expect(world.executes()).toEqual([])
  })

  test('[ATT3] an evaluation alone executes nothing, and its approval cannot be resumed', async () => {
    const only = { evaluateOnly: true }
    expect(await world.execute(runId, operations.allow, only)).toMatchObject({
      decision: 'allow',
      evaluationOnly: true,
      attempts: [],
      next: [],
    })
    await world.execute(runId, operations.deny, only)
    const asked = await world.execute(runId, operations.ask, only)
    expect(await executions()).toEqual([])
    const id = asked.approvalId ?? ''
    expect(await world.approval(id)).toMatchObject({ state: 'pending', resumable: false })
    await world.resolve(id)
    await expect(world.resume(id)).rejects.toMatchObject(refused('wrong_state'))
    expect(world.executes()).toEqual([])
  })

  test('[ATT4] planning decides nothing and writes nothing', async () => {
    const before = world.rowsOf('outbox')
    const plan = await world.actor.api.operations.plan(testCaller, Operation.parse(operations.ask))
    expect(plan).toMatchObject({ strategy: 'process-sandbox' })
    expect(world.rowsOf('outbox')).toEqual(before)
    expect(await world.kinds(runId)).toEqual(['run.created'])
  })

  test('[ATT5] the same key gives the same operation, executed once, also after the close', async () => {
    const key = { idempotencyKey: 'k' }
    const first = await world.execute(runId, operations.allow, key)
    const others = await Promise.all(
      Array.from({ length: 5 }, () => world.execute(runId, operations.allow, key)),
    )
    expect(new Set(others.map(({ id }) => id))).toEqual(new Set([first.id]))
    expect(world.executes()).toHaveLength(1)
    for (const [operation, more] of [
      [operations.deny, key],
      [operations.allow, { ...key, evaluateOnly: true }],
    ] as const)
      await expect(world.execute(runId, operation, more)).rejects.toMatchObject(
        refused('key_conflict'),
      )
    await world.actor.api.self.close(testCaller, 'x')
    expect((await world.execute(runId, operations.allow, key)).id).toBe(first.id)
    await expect(world.execute(runId)).rejects.toMatchObject(refused('session_closed'))
  })

  test('[ATT6] without a sandbox that could do it the attempt fails with the reason, and nothing was invoked', async () => {
    const lone = new RunWorld()
    await lone.create({ sandbox: 'none' })
    const run = await lone.createRun()
    // The policy asks first, since nothing can be enforced there.
    const asked = await lone.execute(run.id, operations.allow)
    await lone.resolve(asked.approvalId ?? '')
    const resumed = await lone.resume(asked.approvalId ?? '')
    expect(resumed.attempts).toMatchObject([
      { status: 'failed', dispatched: false, report: { error: 'This session has no sandbox' } },
    ])
    expect((await lone.entries(run.id, 'operation-execution')).at(-1)).toMatchObject({
      status: 'failed',
      executorInvoked: false,
      operationExecuted: false,
    })
    const policy = policyOf({ rules: [{ match: { category: 'memory' }, decision: 'allow' }] })
    await world.actor.api.gate.setPolicy(testCaller, policy)
    expect(await world.execute(runId, { category: 'memory', operation: 'other' })).toMatchObject({
      attempts: [
        {
          status: 'failed',
          report: { error: 'There is no executor for "other" by process-sandbox' },
        },
      ],
    })
  })

  test('[POL30] a read that says no path asks', async () => {
    for (const operation of ['other', 'read-file'])
      expect(await world.execute(runId, { category: 'read', operation })).toMatchObject({
        decision: 'ask',
        rule: 'default:read',
        attempts: [],
      })
  })

  test('[POLS11] a document that extends the built-in one loosens no operation that it does not name', async () => {
    const rule = { match: { command: 'npm publish*' }, decision: 'deny' }
    const document = PolicyDocument.parse({ name: 'team', rules: [rule] })
    await world.actor.api.gate.setPolicy(testCaller, policyFromBuiltin(document, 1))
    const decide = async (command: string) => {
      const input = { category: 'shell', operation: 'run', command } as const
      return (await world.execute(runId, input)).rule
    }
    expect([await decide('npm test'), await decide('npm publish')]).toEqual([
      'default:shell',
      'team@1#0',
    ])
  })

  test('[ATT7] operations, attempts and approvals of another organisation are not there', async () => {
    const { id, approvalId } = await approved()
    const attempt = world.attemptId(await world.resume(approvalId))
    const acts = [
      () => world.execute(runId, operations.allow, { by: strange }),
      () => world.actor.api.operations.get(strange, id, 0),
      () => world.actor.api.operations.plan(strange, Operation.parse(operations.allow)),
      () => world.actor.api.operations.resume(strange, approvalId),
      () => world.actor.api.operations.abandon(strange, attempt, 'x'),
      () => world.actor.api.operations.evaluateRetry(strange, id, 'never'),
      () => world.actor.api.operations.admitRetry(strange, id, 'after-failure'),
      () => world.actor.api.operations.executeAttempt(strange, attempt),
      () => world.actor.api.operations.merge(strange, attempt),
      () => world.actor.api.operations.discard(strange, attempt),
      () => world.actor.api.approvals.revoke(strange, approvalId, { reason: 'x' }),
    ]
    for (const act of acts) await expect(act()).rejects.toMatchObject(refused('not_found'))
  })
})

describe('resume', () => {
  test('[ATT8] [R1-36] only what is approved is resumed', async () => {
    const asked = await world.execute(runId, operations.ask)
    const id = asked.approvalId ?? ''
    await expect(world.resume(id)).rejects.toMatchObject(refused('wrong_state'))
    await world.resolve(id, 'rejected')
    await expect(world.resume(id)).rejects.toMatchObject(refused('wrong_state'))
    const late = await world.execute(runId, operations.ask)
    await world.pass(600_000)
    await expect(world.resume(late.approvalId ?? '')).rejects.toThrow('it is rejected')
    const turn = await world.prompt('x', { runId })
    const policy = policyOf({ rules: [{ match: { tool: 'bash' }, decision: 'ask' }] })
    await world.actor.api.gate.setPolicy(testCaller, policy)
    const gate = world.approvalId(await world.ask('bash'))
    await world.resolve(gate)
    await expect(world.resume(gate)).rejects.toThrow('no operation waits for it')
    await world.endTurn(turn)
    expect(world.executes()).toEqual([])
  })

  test('[ATT8] [R1-37] [R1-38] the policy is not asked again: what was approved runs', async () => {
    const { id, approvalId } = await approved()
    const policy = policyOf({ rules: [{ match: { category: 'shell' }, decision: 'deny' }] })
    await world.actor.api.gate.setPolicy(testCaller, policy)
    const decisions = (await world.entries(runId, 'permission-decision')).length
    const resumed = await world.resume(approvalId)
    const [waiting] = await executions()
    expect(resumed.attempts).toMatchObject([
      { approvalId, operationId: id, status: 'reserved', sequence: 1, executor: 'process-sandbox' },
    ])
    const entry = (await world.timeline(runId)).find(
      ({ seq }) => seq === resumed.attempts[0]?.pendingSeq,
    )
    expect(entry?.data).toEqual(waiting)
    await world.result(world.attemptId(resumed))
    expect((await executions()).at(-1)).toMatchObject({
      policyReevaluated: false,
      attemptId: world.attemptId(resumed),
      approvalId,
      status: 'succeeded',
    })
    expect(await world.entries(runId, 'permission-decision')).toHaveLength(decisions)
  })

  test('[ATT9] [R1-41] any earlier attempt blocks a resume, whatever became of it', async () => {
    const ends: ((id: string) => Promise<unknown>)[] = [
      async () => {},
      (id) => world.result(id),
      (id) => world.result(id, { status: 'failed' }),
      (id) => world.result(id, { status: 'unknown' }),
      (id) => world.actor.api.operations.abandon(testCaller, id, 'x'),
    ]
    for (const end of ends) {
      const { approvalId } = await approved()
      await end(world.attemptId(await world.resume(approvalId)))
      const sent = world.executes().length
      await expect(world.resume(approvalId)).rejects.toMatchObject(refused('wrong_state'))
      expect(world.executes()).toHaveLength(sent)
    }
  })

  test('[ATT10] an approval lapses when the stored bytes change', async () => {
    const { id, approvalId } = await approved()
    const changed = JSON.stringify({ ...Operation.parse(operations.ask), command: 'rm -rf .' })
    world.sql.run('update operations set operation = ? where id = ?', changed, id)
    await expect(world.resume(approvalId)).rejects.toThrow('it has changed since')
    // Nor does it help to change the hash beside them: the approval has its own.
    world.sql.run('update operations set operation_hash = ? where id = ?', 'f'.repeat(64), id)
    await expect(world.resume(approvalId)).rejects.toThrow('it has changed since')
    expect(world.executes()).toEqual([])
  })

  test('[ATT8] a run that has ended, and a closed session, resume nothing', async () => {
    const one = await approved()
    await world.finish(runId, 'failed')
    await expect(world.resume(one.approvalId)).rejects.toMatchObject(refused('wrong_state'))
    runId = (await world.createRun()).id
    const two = await approved()
    await world.actor.api.self.close(testCaller, 'x')
    await expect(world.resume(two.approvalId)).rejects.toMatchObject(refused('session_closed'))
    await expect(world.resolve(two.approvalId, 'approved', other)).rejects.toThrow()
    expect(world.executes()).toEqual([])
  })
})

test('[ATT11] the diff of each attempt is an artifact of its own', async () => {
  const rule = { match: { category: 'edit' }, decision: 'allow' }
  await world.actor.api.gate.setPolicy(testCaller, policyOf({ rules: [rule] }))
  const edit = { category: 'edit', operation: 'write-file', targetPath: 'a', content: 'x' }
  const operation = await world.execute(runId, edit)
  const file = (letter: string) => ({
    ...{ path: 'diff.patch', size: 3, contentType: 'text/plain' },
    sha256: letter.repeat(64),
  })
  const end = (id: string, letter: string, status: 'failed' | 'succeeded') =>
    world.result(id, { status, files: [file(letter)], branch: 'b' })
  await end(world.attemptId(operation), '1', 'failed')
  const retry = await world.actor.api.operations.admitRetry(
    testCaller,
    operation.id,
    'after-failure',
  )
  await world.actor.api.operations.executeAttempt(testCaller, retry.id)
  await end(retry.id, '2', 'succeeded')
  const { items: artifacts } = await world.actor.api.artifacts.list(testCaller, {
    limit: 9,
    after: null,
  })
  expect(artifacts.map(({ sha256 }) => sha256[0])).toEqual(['1', '2'])
  expect(
    (await world.entries(runId, 'artifact.written')).map((entry) => entry['artifactId']),
  ).toEqual(artifacts.map(({ id }) => id))
})

describe('[ATT12] merge', () => {
  const edit = { category: 'edit', operation: 'write-file', targetPath: 'a', content: 'x' }
  const done = async (branch: string | null) => {
    const asked = await world.execute(runId, edit)
    await world.resolve(asked.approvalId ?? '')
    const id = world.attemptId(await world.resume(asked.approvalId ?? ''))
    await world.result(id, { branch })
    return id
  }

  test('is a step of its own, and is recorded with what came of it', async () => {
    const id = await done('gantry/1')
    const merging = world.actor.api.operations.merge(testCaller, id)
    await world.settle()
    const command = world.commands().find(({ kind }) => kind === 'merge')
    expect(command?.body).toEqual({ attemptId: id, branch: 'gantry/1' })
    const data = { merged: true, commit: 'abc', conflicts: [] }
    await world.receive({ t: 'result', commandId: command?.id ?? '', ok: true, data })
    expect(await merging).toEqual(data)
    expect((await executions()).at(-1)).toMatchObject({
      status: 'merged',
      attemptId: id,
      commit: 'abc',
      actor: testCaller.keyId,
    })
  })

  const merged = { merged: true, commit: 'abc', conflicts: [] }
  const merges = () => world.commands().filter(({ kind }) => kind === 'merge')
  const steps = async () =>
    (await executions())
      .map(({ status }) => status)
      .filter((status) => /merg|unknown/.test(String(status)))
  const begin = async (id: string) => {
    const merging = world.actor.api.operations
      .merge(testCaller, id)
      .catch((error: unknown) => error)
    await world.settle()
    return merging
  }
  const answer = (data: object = merged) =>
    world.receive({
      t: 'result',
      commandId: merges().at(-1)?.id ?? '',
      ok: true,
      data: { ...data },
    })

  test('[ATT26] whoever asked may be gone: the result is recorded, and asking again is the same merge', async () => {
    const id = await done('gantry/1')
    void begin(id)
    await world.settle()
    world.restart()
    await world.meet()
    expect(merges()).toHaveLength(1)
    await answer()
    await answer()
    expect(await steps()).toEqual(['merging', 'merged'])
    expect(await world.actor.api.operations.merge(testCaller, id)).toEqual(merged)
    world.restart()
    await world.meet()
    expect(await world.actor.api.operations.merge(other, id)).toEqual(merged)
    expect([await steps(), merges()]).toEqual([['merging', 'merged'], []])
    expect((await executions()).at(-1)).toMatchObject({ actor: testCaller.keyId, commit: 'abc' })
  })

  test('[ATT26] asked twice at once it is one command; one that did not merge may be tried again', async () => {
    const id = await done('gantry/1')
    const both = [
      world.actor.api.operations.merge(testCaller, id),
      world.actor.api.operations.merge(other, id),
    ]
    await world.settle()
    expect(merges()).toHaveLength(1)
    const conflict = { merged: false, commit: null, conflicts: ['a'] }
    await answer(conflict)
    expect(await Promise.all(both)).toEqual([conflict, conflict])
    const again = world.actor.api.operations.merge(testCaller, id)
    await world.settle()
    await answer()
    expect(await again).toEqual(merged)
    expect(await steps()).toEqual(['merging', 'not-merged', 'merging', 'merged'])
  })

  test('[ATT26] a refusal of the sandbox is recorded too', async () => {
    const id = await done('gantry/1')
    const merging = world.actor.api.operations.merge(testCaller, id)
    const refusal = expect(merging).rejects.toMatchObject({
      code: 'unprocessable',
      message: 'busy',
    })
    await world.settle()
    const commandId = merges().at(-1)?.id ?? ''
    await world.receive({ t: 'result', commandId, ok: false, error: 'busy' })
    await refusal
    expect((await executions()).at(-1)).toMatchObject({ status: 'not-merged', error: 'busy' })
  })

  describe('[ATT26] a sandbox that sleeps', () => {
    const answerNext = async (merging: Promise<unknown>) => {
      await world.meetNext()
      const commandId = merges().at(-1)?.id ?? ''
      await world.receive({ t: 'result', commandId, ok: true, data: merged }, world.generation)
      expect(await merging).toEqual(merged)
    }
    const state = async () => (await world.actor.api.self.view(testCaller)).sandbox.state
    beforeEach(async () => {
      world = await new RunWorld().begin({ idleTimeoutSeconds: 60 })
      runId = (await world.createRun()).id
    })

    test('is woken by it', async () => {
      const id = await done('gantry/1')
      await world.pass(120_000)
      expect(await state()).toBe('stopped')
      const merging = world.actor.api.operations.merge(testCaller, id)
      await world.settle()
      await answerNext(merging)
    })

    test('is woken by it also if it was just going to sleep', async () => {
      const id = await done('gantry/1')
      const { promise: held, resolve: release } = Promise.withResolvers<void>()
      const stop = world.sandboxes.stop.bind(world.sandboxes)
      world.sandboxes.stop = async (...args) => {
        await held
        return stop(...args)
      }
      await world.pass(60_000)
      expect(await state()).toBe('stopping')
      const merging = world.actor.api.operations.merge(testCaller, id)
      await world.settle()
      release()
      await world.settle()
      await answerNext(merging)
    })

    test('a failed one is 503 at once, and nothing is recorded', async () => {
      const id = await done('gantry/1')
      world.sql.run(`update session set sandbox_state = 'failed'`)
      world.restart()
      await expect(world.actor.api.operations.merge(testCaller, id)).rejects.toMatchObject({
        code: 'sandbox_unavailable',
      })
      expect(await steps()).toEqual([])
    })
  })

  test('[ATT26] if its sandbox is replaced nobody knows, and the next sandbox may be asked', async () => {
    const id = await done('gantry/1')
    const merging = begin(id)
    await world.settle()
    await world.actor.api.sandbox.replace(testCaller, 'new')
    expect(await merging).toMatchObject({ code: 'unprocessable' })
    expect((await executions()).at(-1)).toMatchObject({ status: 'unknown', step: 'merge' })
    await world.meetNext()
    const again = world.actor.api.operations.merge(testCaller, id)
    await world.settle()
    const commandId = merges().at(-1)?.id ?? ''
    await world.receive({ t: 'result', commandId, ok: true, data: merged }, 2)
    expect(await again).toEqual(merged)
    expect(await steps()).toEqual(['merging', 'unknown', 'merging', 'merged'])
  })

  test('needs a success with a branch', async () => {
    const id = await done(null)
    await expect(world.actor.api.operations.merge(testCaller, id)).rejects.toMatchObject(
      refused('wrong_state'),
    )
  })
})
