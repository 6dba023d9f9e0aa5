import { beforeEach, describe, expect, test } from 'vitest'
import type { Budget } from '../../../../src/contract/budget.ts'
import { TestDeployment } from '../../../support/organisation.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

let world: RunWorld
let runId: string
let deployment: TestDeployment
const begin = async (budget: Budget = {}) => {
  deployment = new TestDeployment()
  world = new RunWorld()
  world.organisation.shared = {
    take: (claim) => deployment.org.api.budgets.take(claim),
    giveBack: (...said) => deployment.org.api.budgets.giveBack(...said),
  }
  await world.begin({ budget })
  runId = (await world.createRun()).id
}
beforeEach(() => begin())
const used = async () => (await world.actor.api.budget.view(testCaller)).used
const notices = async () => (await world.events('agent.notice')).map(({ message }) => message)
const correct = (tokens: number, key: string | null = null, reason = 'a wrong count') =>
  world.actor.api.budget.correct(testCaller, { used: { tokens }, reason }, key)

describe('[EVT8] numbers that cannot be true', () => {
  const absurd = [1e300, Number.MAX_SAFE_INTEGER, 10_000_001, -5]
  test.each(absurd)('%d tokens count as 0, and the log says so', async (input) => {
    const turn = await world.prompt()
    await world.step(turn, { input, output: 7 })
    expect((await used()).tokens).toBe(7)
    const [event] = await world.events('step.finished')
    expect(event?.['tokens']).toMatchObject({ input: 0, output: 7 })
    expect(await notices()).toEqual([
      `Event "step.finished" reports what cannot be true: tokens.input ${input}: taken as 0`,
    ])
    expect((await world.actor.api.turns.get(testCaller, turn.id)).tokens).toEqual({
      input: 0,
      output: 7,
    })
  })

  test('a number beyond all numbers neither ends the link nor comes again', async () => {
    const turn = await world.prompt()
    const tokens = '{"input":1e999,"output":1,"reasoning":0,"cacheRead":0,"cacheWrite":0}'
    const part = `"turnId":"${turn.id}","sessionId":"s","messageId":"m","partId":"p","reason":"stop"`
    const item = `{"seq":1,"at":1,"kind":"step.finished","data":{${part},"cost":-1,"tokens":${tokens}}}`
    const end = await world.actor.receive(1, `{"t":"events","items":[${item}]}`)
    expect([end, (await used()).tokens]).toEqual([null, 1])
    expect(world.sent.at(-1)).toEqual({ t: 'ack', seq: 1 })
  })

  test('a turn whose diff counts absurd lines ends like any other', async () => {
    const turn = await world.prompt()
    const file = { path: 'a', status: 'added', additions: 1e300, deletions: -1 }
    const diff = { patch: 'p', files: [file], truncated: false }
    await world.emit([
      'turn.ended',
      { turnId: turn.id, state: 'completed', reason: null, text: null, diff },
    ])
    expect((await world.actor.api.turns.get(testCaller, turn.id)).state).toBe('completed')
    expect(await notices()).toHaveLength(1)
  })

  test('the longest step that can be true counts in full', async () => {
    await world.step(await world.prompt(), { input: 10_000_000 })
    expect([(await used()).tokens, await notices()]).toEqual([10_000_000, []])
  })

  test('a result with an absurd time counts; with an absurd exit code nobody knows how it ended', async () => {
    const one = world.attemptId(await world.execute(runId))
    await world.result(one, { durationMs: -3 })
    const two = world.attemptId(await world.execute(runId))
    await world.result(two, { exitCode: 1e300 })
    const { attempts } = await world.record(runId)
    expect(attempts.map(({ status, suspectSince }) => [status, suspectSince !== null])).toEqual([
      ['reserved', true],
      ['succeeded', false],
    ])
    expect(await notices()).toEqual([
      'A result reports what cannot be true: durationMs -3: taken as 0',
    ])
  })
})

describe('[BUD11] the organisation', () => {
  const claim = (number: number, tokens: number) =>
    deployment.org.api.budgets.take({
      ...{ sessionId: 'ses_x', project: 'default', number },
      spent: { wallMs: 0, toolCalls: 1, tokens, moneyMicros: 0 },
    })

  test.each([1e300, Infinity, NaN])(
    'does not count %d tokens that a session says it used, and notes it',
    async (tokens) => {
      await deployment.org.api.budgets.set(null, { tokens: 1_000_000 }, 'key')
      await claim(1, 0)
      expect(await claim(2, tokens)).toMatchObject({ granted: { tokens: 100_000 } })
      await deployment.org.api.budgets.giveBack('ses_x', 2, {
        ...{ wallMs: 0, toolCalls: 2, tokens, moneyMicros: 0 },
      })
      expect((await deployment.org.api.budgets.view(null)).used).toMatchObject({
        tokens: 0,
        toolCalls: 3,
      })
      await deployment.pass(60_000)
      expect(deployment.actions().map(({ action }) => action)).toContain('budget.implausible')
    },
  )
})

describe('[BUD12] a correction', () => {
  test('puts right what was counted for a session, and what waited goes on', async () => {
    await begin({ tokens: 100 })
    await world.step(await world.prompt(), { input: 5000 })
    expect((await world.run(runId)).status).toBe('needs-human')
    const { correction, spent } = await correct(30)
    expect([spent, correction.before.tokens, correction.after.tokens]).toEqual([[], 5000, 30])
    expect((await world.run(runId)).status).toBe('running')
    expect(await world.entries(runId, 'budget.corrected')).toEqual([correction])
    expect(await world.events('budget.corrected')).toEqual([correction])
    expect(correction).toMatchObject({ actor: testCaller.keyId, reason: 'a wrong count' })
  })

  test('[SEC9] is kept without the secrets that its reason names', async () => {
    const sealed = await world.crypto.seal('hunter2hunter2')
    void world.actor.api.env.submit(testCaller, [{ key: 'TOKEN', sealed, kind: 'secret' }])
    const { correction } = await correct(1, null, 'counted with hunter2hunter2')
    expect(correction.reason).toBe('counted with [secret:TOKEN]')
    expect(await world.entries(runId, 'budget.corrected')).toEqual([correction])
  })

  test('with a key is made once, also after more was used and after a restart', async () => {
    await world.step(await world.prompt(), { input: 500 })
    const first = await correct(10, 'k')
    await world.step(null, { input: 5 })
    world.restart()
    const again = await correct(10, 'k')
    expect([again.correction, again.used.tokens]).toEqual([first.correction, 15])
    expect(await world.events('budget.corrected')).toHaveLength(1)
    await expect(correct(11, 'k')).rejects.toMatchObject({ code: 'key_conflict' })
    expect((await correct(10, 'another')).used.tokens).toBe(10)
  })

  test('leaves the other measures, and the running clock goes on from now', async () => {
    await world.prompt()
    await world.pass(4000)
    await world.actor.api.budget.correct(
      testCaller,
      { used: { wallSeconds: 1, moneyUsd: 0.5 }, reason: 'x' },
      null,
    )
    await world.pass(2000)
    expect(await used()).toMatchObject({ wallSeconds: 3, moneyUsd: 0.5, toolCalls: 0 })
  })

  test('never makes the organisation count less than it was told, nor more than was used', async () => {
    await deployment.org.api.budgets.set(null, { tokens: 1_000_000 }, 'key')
    await world.step(await world.prompt(), { input: 150_000 })
    await world.ask('read', { filePath: 'a' })
    const told = (await deployment.org.api.budgets.view(null)).used.tokens
    expect(told).toBe(150_000)
    await correct(100)
    await world.step(null, { input: 250_000 })
    await world.ask('read', { filePath: 'a' })
    expect((await deployment.org.api.budgets.view(null)).used.tokens).toBe(told + 250_000)
  })

  test('of the organisation lets its sessions go on, once per key, and is an action on record', async () => {
    await deployment.org.api.budgets.set(null, { tokens: 1000 }, 'key')
    await world.step(await world.prompt(), { input: 5000 })
    const asked = await world.ask('read', { filePath: 'a' })
    expect([world.answerTo(asked), (await world.run(runId)).status]).toEqual([null, 'needs-human'])
    const sent = { used: { tokens: 10 }, reason: 'the vendor counted twice' }
    const first = await deployment.org.api.budgets.correct(sent, 'key_a', 'k')
    expect(first).toMatchObject({ used: { tokens: 10 }, spent: [] })
    deployment.crash()
    expect(await deployment.org.api.budgets.correct(sent, 'key_b', 'k')).toEqual(first)
    await expect(
      deployment.org.api.budgets.correct({ ...sent, reason: 'other' }, 'key_a', 'k'),
    ).rejects.toMatchObject({ code: 'key_conflict' })
    await world.pass(10_000)
    expect([world.answerTo(asked), (await world.run(runId)).status]).toEqual(['allow', 'running'])
    await deployment.pass(60_000)
    expect(deployment.actions().filter(({ action }) => action === 'budget.corrected')).toEqual([
      expect.objectContaining({
        actor: 'key_a',
        reason: 'organisation: tokens 5000 to 10: the vendor counted twice',
      }),
    ])
  })

  test('of a project leaves the organisation', async () => {
    const sent = { project: 'web', used: { toolCalls: 9 }, reason: 'x' }
    expect((await deployment.org.api.budgets.correct(sent, 'k', null)).used.toolCalls).toBe(9)
    expect((await deployment.org.api.budgets.view(null)).used.toolCalls).toBe(0)
  })

  test('heals a session whose count an earlier release has spoilt, and its organisation', async () => {
    await begin({ tokens: 1000 })
    world.sql.run('update budget set tokens = 1e300')
    await world.ask('read', { filePath: 'a' })
    expect((await deployment.org.api.budgets.view(null)).used.tokens).toBe(0)
    await correct(5)
    await world.step(await world.prompt(), { input: 200_000 })
    await world.actor.api.budget.set(testCaller, {})
    await world.ask('read', { filePath: 'a' })
    expect([
      (await used()).tokens,
      (await deployment.org.api.budgets.view(null)).used.tokens,
    ]).toEqual([200_005, 200_000])
  })

  test('of a closed session or one of another organisation is refused', async () => {
    const stranger = { ...testCaller, organisationId: `org_${'9'.repeat(20)}` }
    const sent = { used: { tokens: 1 }, reason: 'x' }
    await expect(world.actor.api.budget.correct(stranger, sent, null)).rejects.toMatchObject({
      code: 'not_found',
    })
    await world.actor.api.self.close(testCaller, 'x')
    await expect(correct(1)).rejects.toMatchObject({ code: 'session_closed' })
  })
})

test('[BUD13] what every question looks up has an index', () => {
  const plan = (query: string) =>
    world.sql.all<{ detail: string }>(`explain query plan ${query}`).map(({ detail }) => detail)
  const open = `status not in ('completed', 'failed', 'blocked', 'cancelled')`
  expect(plan(`select * from approvals where subject = 'x' and state = 'pending'`)).toEqual([
    expect.stringContaining('approvals_by_subject'),
  ])
  expect(plan(`select * from runs where ${open} order by n desc limit 1`)).toEqual([
    expect.stringContaining('runs_open'),
  ])
})

test('[BUD13] a session has at most 1000 open runs', async () => {
  const { n, ...row } = world.rowsOf<{ n: number; id: string }>('runs')[0] ?? { n: 0, id: '' }
  const columns = Object.keys(row)
  const insert = `insert into runs (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`
  for (let count = 1; count < 1000; count++)
    world.sql.run(insert, ...Object.values({ ...row, id: `run ${count}` }))
  await expect(world.createRun()).rejects.toMatchObject({ code: 'wrong_state' })
  await world.finish(runId)
  await world.createRun()
  expect(n).toBe(1)
})

describe('[BUD13] many open runs', () => {
  const waiting = async () =>
    world.rowsOf<{ status: string }>(`runs where status = 'needs-human'`).length

  test('wait and go on fifty to a commit, the newest first', async () => {
    await begin({ tokens: 100 })
    for (let n = 0; n < 119; n++) await world.createRun(`run ${n}`)
    const newest = (await world.createRun('newest')).id
    const turn = await world.prompt('go', { runId: newest })
    await world.step(turn, { input: 100 })
    expect([await waiting(), (await world.run(newest)).status]).toEqual([50, 'needs-human'])
    world.restart()
    await world.pass(0)
    expect(await waiting()).toBe(121)
    await correct(0)
    expect(await waiting()).toBe(71)
    await world.pass(0)
    expect(await waiting()).toBe(0)
    expect(world.deadlines()).not.toHaveProperty('budget.runs')
  })

  test('a budget that is there again before all have heard that it was spent leaves none waiting', async () => {
    await begin({ tokens: 100 })
    for (let n = 0; n < 120; n++) await world.createRun(`run ${n}`)
    await world.step(await world.prompt(), { input: 100 })
    await correct(0)
    await world.pass(0)
    expect(await waiting()).toBe(0)
  })
})
