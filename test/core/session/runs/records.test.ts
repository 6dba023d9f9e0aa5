import { beforeEach, describe, expect, test } from 'vitest'
import { callerEventKinds, RunEventAdd, runEventKinds } from '../../../../src/contract/run.ts'
import { SessionCreate } from '../../../../src/contract/session.ts'
import { gatewayTools } from '../../../../src/core/session/calls/tools/registry.ts'
import { headText } from '../../../../src/core/session/runs/timeline.ts'
import { operations, RunWorld } from '../../../support/run-world.ts'
import { testCaller, testSessionId } from '../../../support/session.ts'

let world: RunWorld
let runId: string
beforeEach(async () => {
  world = await new RunWorld().begin({ gate: { ask: ['bash'] } })
  runId = (await world.createRun()).id
})
const add = (kind: RunEventAdd['kind'], data: Record<string, unknown> = {}) =>
  world.actor.api.runs.addEvent(testCaller, runId, { kind, data })
const toolPart = (tool: string) => ({
  ...{ turnId: null, sessionId: 's', messageId: 'm', partId: 'p', callId: 'c' },
  ...{ tool, input: {} },
})

describe('checkpoints', () => {
  const states: [string, {} | null][] = [
    ['null', null],
    ['false', false],
    ['an empty text', ''],
    ['unicode', 'é 漢字 🦊 \u2028 \u0000 "quoted" \\'],
    ['a lone surrogate', '\ud800x'],
    ['numbers', [0, -1, 1.5, 1e300, 5e-324, 9007199254740991, -9007199254740991]],
    ['nested', { a: [{ b: { c: [[], {}, null] } }], '': 1, 'a.b': { $ref: '#' } }],
    ['names of properties', JSON.parse('{"__proto__": {"x": 1}, "constructor": 2, "toJSON": 3}')],
    ['order', { z: 1, a: 2, m: 3 }],
  ]
  test.each(states)('[RUN6] [R1-28] %s comes back exactly as it was stored', async (_, state) => {
    const text = JSON.stringify(state)
    const saved = await world.actor.api.runs.addCheckpoint(testCaller, runId, { label: 'l', state })
    expect(JSON.stringify(saved.state)).toBe(text)
    world.restart()
    const { checkpoint, run } = await world.actor.api.runs.resume(testCaller, runId, null)
    expect(JSON.stringify(checkpoint.state)).toBe(text)
    expect([run.latestCheckpointId, run.status]).toEqual([saved.id, 'running'])
  })

  test('[RUN6] the run points to the latest, and an earlier one can be taken up by its id', async () => {
    const save = (label: string, state: number) =>
      world.actor.api.runs.addCheckpoint(testCaller, runId, { label, state })
    const [one, two] = [await save('one', 1), await save('two', 2)]
    const resumed = await world.actor.api.runs.resume(testCaller, runId, one.id)
    expect([resumed.checkpoint.state, resumed.run.latestCheckpointId]).toEqual([1, two.id])
    expect((await world.record(runId)).checkpoints.map(({ label }) => label)).toEqual([
      'two',
      'one',
    ])
    expect((await world.kinds(runId)).slice(-2)).toEqual(['run.started', 'run.resumed'])
    const another = await world.createRun()
    const resume = (id: string | null) => world.actor.api.runs.resume(testCaller, another.id, id)
    await expect(resume(null)).rejects.toMatchObject({ code: 'wrong_state' })
    await expect(resume(one.id)).rejects.toMatchObject({ code: 'not_found' })
  })

  test('[RUN6] libSQL learns of the latest with the checkpoint, without another change of the run', async () => {
    const input = { label: 'l', state: 1 }
    const { id } = await world.actor.api.runs.addCheckpoint(testCaller, runId, input)
    expect(id).toMatch(/^chk_/)
    await world.settle()
    const [run] = world.ledger.projected<{ id: string }>('run', (row) => row.id)
    expect(run).toMatchObject({ id: runId, latestCheckpointId: id })
  })

  test('[RUN6] resuming leaves a run waiting that waits for a person', async () => {
    await world.actor.api.runs.addCheckpoint(testCaller, runId, { label: 'l', state: {} })
    await world.execute(runId, operations.ask)
    const { run } = await world.actor.api.runs.resume(testCaller, runId, null)
    expect(run.status).toBe('needs-human')
  })

  test('[RUN6] 256 KiB are stored, one byte more is refused and leaves nothing', async () => {
    const state = (bytes: number) => 'ü'.repeat((bytes - 2) / 2)
    const save = (bytes: number) =>
      world.actor.api.runs.addCheckpoint(testCaller, runId, { label: 'l', state: state(bytes) })
    await save(256 * 1024)
    await expect(save(256 * 1024 + 2)).rejects.toMatchObject({ code: 'too_large' })
    expect((await world.record(runId)).checkpoints).toHaveLength(1)
  })
})

describe('timeline', () => {
  test('[RUN4] [R1-26] callers add what they know, and nothing that the control plane decides', async () => {
    for (const kind of runEventKinds) {
      const parsed = RunEventAdd.safeParse({ kind, data: {} })
      expect(parsed.success).toBe((callerEventKinds as readonly string[]).includes(kind))
    }
    const entry = await add('artifact.written', { artifactId: 'art_1', by: 'somebody' })
    expect(entry).toMatchObject({
      seq: 2,
      kind: 'artifact.written',
      data: { artifactId: 'art_1', by: testCaller.keyId },
    })
    await expect(add('memory.read', { x: 'y'.repeat(64 * 1024) })).rejects.toMatchObject({
      code: 'too_large',
    })
  })

  test('[RUN4] what OpenCode does in a turn is in the timeline of its run', async () => {
    const turn = await world.prompt('x', { runId })
    await world.emit(
      ['tool.started', toolPart('read')],
      [
        'tool.completed',
        { ...toolPart('read'), title: '', output: 'o', truncated: false, durationMs: 3 },
      ],
      ['tool.failed', { ...toolPart('bash'), error: `${'e'.repeat(1999)}🦊`, durationMs: 4 }],
    )
    await world.endTurn(turn)
    expect(await world.entries(runId, 'tool.requested')).toEqual([{ tool: 'read', callId: 'c' }])
    expect(await world.entries(runId, 'tool.completed')).toEqual([
      { tool: 'read', callId: 'c', durationMs: 3 },
    ])
    const [failed] = await world.entries(runId, 'tool.failed')
    expect(String(failed?.['error']).isWellFormed()).toBe(true)
  })

  test('[RUN4] it is read in pages, oldest first', async () => {
    for (let n = 0; n < 6; n++) await add('memory.read', { n })
    const read = (after: number | null) =>
      world.actor.api.runs.events(testCaller, runId, { limit: 3, after })
    const seqs: number[][] = []
    for (let next: number | null = null; ;) {
      const page = await read(next)
      seqs.push(page.items.map(({ seq }) => seq))
      if (page.next === null) break
      next = page.next
    }
    expect(seqs).toEqual([[1, 2, 3], [4, 5, 6], [7]])
    expect(await read(7)).toEqual({ items: [], next: null })
  })

  test('[RUN7] one answer has the newest 200 entries, and of long ones as many as fit', async () => {
    for (let n = 0; n < 250; n++) await add('memory.read', { n })
    const { events } = await world.record(runId)
    expect([events.length, events[0]?.seq, events.at(-1)?.seq]).toEqual([200, 52, 251])
    for (let n = 0; n < 60; n++) await add('memory.read', { x: 'y'.repeat(60_000) })
    const long = (await world.record(runId)).events
    expect([long.length < 60, long.at(-1)?.seq]).toEqual([true, 311])
    const pages = await world.actor.api.runs.events(testCaller, runId, { limit: 200, after: 251 })
    expect([pages.items.length < 60, pages.next]).toEqual([true, pages.items.at(-1)?.seq])
  })

  test('[RUN5] every entry is in the ledger with the signature of the head that it was', async () => {
    await add('memory.read')
    await world.settle()
    type Entry = {
      runId: string
      seq: number
      hash: string
      signature: string
      previousHash: string
    }
    const rows = world.ledger.projected<Entry>('run_event', ({ seq }) => String(seq))
    const entries = await world.timeline(runId)
    expect(rows.map(({ seq, hash }) => [seq, hash])).toEqual(
      entries.map(({ seq, hash }) => [seq, hash]),
    )
    for (const { seq, hash, signature } of rows) {
      expect(world.crypto.isSigned(headText(runId, seq, hash), signature)).toBe(true)
      expect(world.crypto.isSigned(headText(runId, seq + 1, hash), signature)).toBe(false)
    }
    expect(await world.verify(runId)).toMatchObject({ ok: true, head: { seq: 2 } })
  })

  test('[RUN5] flipping one stored byte names the entry, a cut end is noticed, a rewrite too', async () => {
    for (let n = 0; n < 4; n++) await add('memory.read', { note: `n${n}` })
    await world.settle()
    const stored = world.rowsOf<{ seq: number; data: string }>('run_events order by seq')
    for (const { seq, data } of stored) {
      const flipped = data.replace(/[a-z](?=[^a-z]*$)/, (letter) => (letter === 'x' ? 'y' : 'x'))
      world.sql.run('update run_events set data = ? where seq = ?', flipped, seq)
      const { ok, problems } = await world.verify(runId)
      expect([ok, problems.map((problem) => problem.seq)]).toEqual([false, [seq]])
      world.sql.run('update run_events set data = ? where seq = ?', data, seq)
    }
    expect((await world.verify(runId)).ok).toBe(true)
    world.sql.run('delete from run_events where seq = 5')
    expect((await world.verify(runId)).problems).toMatchObject([{ seq: null }])
  })
})

test('[RUN7] [R1-29] [R1-95] reading a run gives what was shown for it', async () => {
  const turn = await world.prompt('x', { runId })
  await world.ask('read')
  const parked = await world.ask('bash')
  await world.execute(runId, operations.deny)
  await world.execute(runId, operations.allow)
  await add('verification.started')
  for (const passed of [true, false, 'yes', undefined]) await add('verification.ended', { passed })
  await add('artifact.written', { artifactId: 'a' })
  const { evidence, approvals, attempts, run } = await world.record(runId)
  expect(evidence).toEqual({
    verifications: { started: 1, passed: 1, failed: 3 },
    artifacts: 1,
    snapshots: 0,
    toolCalls: { requested: 0, completed: 0, failed: 0 },
    decisions: { allow: 2, ask: 1, deny: 1 },
    changes: 0,
    mismatches: 0,
    lastVerification: { by: testCaller.keyId },
  })
  expect(approvals.map(({ id }) => id)).toEqual([world.approvalId(parked)])
  expect(attempts.map(({ status }) => status)).toEqual(['reserved'])
  expect(run).toMatchObject({ status: 'needs-human', waitsFor: [world.approvalId(parked)] })
  await world.endTurn(turn)
})

describe('waiting', () => {
  test('[RUN8] a run says what it waits for, shows a reason that still holds, and goes on after the last', async () => {
    await world.prompt('x', { runId })
    const asks = [await world.ask('bash'), await world.ask('bash')]
    const ids = asks.map(world.approvalId)
    const { approvalId } = await world.execute(runId, operations.ask)
    expect(await world.run(runId)).toMatchObject({
      status: 'needs-human',
      reason: 'Approval needed: bash: ls',
      waitsFor: [...ids, approvalId],
    })
    await world.resolve(ids[0] ?? '')
    await world.resolve(ids[1] ?? '', 'rejected')
    expect(await world.run(runId)).toMatchObject({
      status: 'needs-human',
      reason: 'Approval needed: shell: run: npm test',
      waitsFor: [approvalId],
    })
    await world.resolve(approvalId ?? '', 'cancelled')
    expect(await world.run(runId)).toMatchObject({ status: 'running', waitsFor: [] })
  })
})

test('[RUN11] [GATE6] a tool that ran without a decision blocks the run: nothing parked or new runs any more', async () => {
  const turn = await world.prompt('x', { runId })
  const queued = await world.prompt('y', { runId })
  const parked = await world.ask('bash')
  await world.emit(['gate.bypassed', toolPart('bash')])
  expect(await world.run(runId)).toMatchObject({
    status: 'blocked',
    reason: 'Tool "bash" ran without a decision',
    waitsFor: [],
  })
  expect(world.answerTo(parked)).toBe('deny')
  await expect(world.resolve(world.approvalId(parked))).rejects.toMatchObject({
    code: 'wrong_state',
  })
  expect(world.answerTo(await world.ask('read'))).toBe('deny')
  expect((await world.actor.api.turns.get(testCaller, queued.id)).state).toBe('aborted')
  expect(world.commands().map(({ kind }) => kind)).toContain('abort')
  // An agent that does not confirm it has no more time than for any abort.
  await world.pass(30_000)
  expect((await world.actor.api.turns.get(testCaller, turn.id)).state).toBe('aborted')
  expect((await world.verify(runId)).ok).toBe(true)
})

describe('automation', () => {
  const configuration = {
    ...{ id: `cfg_${'1'.repeat(20)}`, project: 'default', name: 'n', repository: null },
    ...{ defaultModel: null, trustProjectConfig: false, snapshotId: null, envFiles: [] },
  }
  const begin = async () => {
    world = new RunWorld(gatewayTools)
    await world.actor.api.self.create({
      sessionId: testSessionId,
      ...testCaller,
      input: SessionCreate.parse({
        ...{ configurationId: configuration.id, clientType: 'automation' },
        ...{ automationRunId: 'auto', sandbox: 'local', gate: { ask: ['bash'] } },
      }),
      configuration,
    })
    await world.pass(0)
    await world.meet()
    const { items } = await world.actor.api.runs.list(testCaller, { limit: 9, after: null })
    return items[0]?.id ?? ''
  }
  const complete = (outcome: string) => {
    const args = { run_id: 'auto', completion_id: 'c', outcome, summary: 'sum' }
    return world.call('automation.complete', 'c', args)
  }

  test.each([
    ['succeeded', 'completed', 'sum'],
    ['failed', 'failed', 'sum'],
    ['needs_human', 'blocked', 'needs_human'],
  ])(
    '[RUN10] %s ends the run as %s, and its endpoint keeps its word',
    async (outcome, status, reason) => {
      runId = await begin()
      const turn = await world.prompt()
      expect(turn.runId).toBe(runId)
      const parked = await world.ask('bash')
      const queued = await world.prompt('more')
      expect(JSON.parse((await complete(outcome)).body)).toMatchObject({ success: true })
      expect(await world.run(runId)).toMatchObject({ status, outcome: status, reason })
      expect((await world.actor.api.self.view(testCaller)).automationRun?.state).toBe(outcome)
      expect(world.answerTo(parked)).toBe('deny')
      expect((await world.actor.api.turns.get(testCaller, queued.id)).state).toBe('aborted')
      // Last words: what a person would have to be asked about is refused.
      expect(world.answerTo(await world.ask('read'))).toBe('allow')
      expect(world.answerTo(await world.ask('bash'))).toBe('deny')
      expect(world.rowsOf(`approvals where state = 'pending'`)).toEqual([])
      await world.endTurn(turn)
      expect(await world.run(runId)).toMatchObject({ status, reason })
    },
  )
})

test('[RUN4] [SEC9] known secrets are in no intent, entry, checkpoint, reason or operation', async () => {
  const secret = 'hunter2-hunter2'
  world = new RunWorld()
  await world.actor.api.self.create({
    sessionId: testSessionId,
    ...testCaller,
    input: SessionCreate.parse({ sandbox: 'local' }),
    secrets: [{ key: 'PASSWORD', sealed: await world.crypto.seal(secret), kind: 'secret' }],
  })
  await world.pass(0)
  await world.meet()
  const run = await world.createRun(`use ${secret}`)
  await world.actor.api.runs.change(testCaller, run.id, {
    status: 'running',
    phase: secret,
    reason: secret,
  })
  await world.actor.api.runs.addEvent(testCaller, run.id, {
    kind: 'memory.read',
    data: { [secret]: [secret] },
  })
  const checkpoint = { label: secret, state: { deep: { [secret]: `a${secret}b` } } }
  await world.actor.api.runs.addCheckpoint(testCaller, run.id, checkpoint)
  const { checkpoint: resumed } = await world.actor.api.runs.resume(testCaller, run.id, null)
  expect(resumed.state).toEqual({ deep: { '[secret:PASSWORD]': 'a[secret:PASSWORD]b' } })
  const ask = await world.execute(run.id, { ...operations.ask, command: `echo ${secret}` })
  await world.resolve(ask.approvalId ?? '', 'rejected', undefined, { reason: secret })
  const allowed = await world.execute(run.id, { ...operations.allow, targetPath: secret })
  await world.result(world.attemptId(allowed), { output: secret, error: secret })
  await world.finish(run.id, 'failed', secret)
  await world.settle()
  const tables = world.sql.all<{ name: string }>(
    `select name from sqlite_master where type = 'table'`,
  )
  for (const { name } of tables)
    expect(JSON.stringify(world.rowsOf(name)), name).not.toContain(secret)
  expect(JSON.stringify([...world.ledger.rows.values()])).not.toContain(secret)
  expect((await world.verify(run.id)).ok).toBe(true)
})
