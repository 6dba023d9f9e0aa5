import { describe, expect, test } from 'vitest'
import { evalCaller, evalCase, EvalWorld, type ScriptedSession } from '../../support/eval-world.ts'

const oc = { name: 'oc', provider: 'opencode', workers: 4 }
const recorded = (responses: object) => ({ name: 'r', provider: 'replay', workers: 4, responses })

async function working(more: object = {}, cases = [evalCase('a')], asked: object = {}) {
  const world = new EvalWorld()
  await world.create(cases, [{ ...oc, ...more }], asked)
  await world.live(100)
  return { world, session: world.sessions[0]! }
}
const errorOf = async (world: EvalWorld, n = 0) => (await world.results())[n]?.error

describe('an attempt', () => {
  test('[EVR12] is a session with one prompt, a result and an end', async () => {
    const { world, session } = await working()
    expect(session.prompts).toMatchObject([
      { text: 'Do a', caller: { evalRunId: 'evl_1' }, key: 'eval evl_1 1.0 prompt' },
    ])
    expect((await world.attempts())[0]).toMatchObject({ state: 'working', sessionId: 'ses_0' })
    session.usedUsd = 0.25
    session.answer('hello')
    await world.live(100)
    expect(await world.results()).toMatchObject([
      {
        ...{ eval_id: 'a', score: 1, verdict: 'pass', candidate_answer: 'hello', attempt: 0 },
        ...{ dataset: 'd', transcript: '/v1/sessions/ses_0/events' },
        trace_summary: { duration_ms: 500, cost_usd: 0.25 },
      },
    ])
    expect(session.prompts).toHaveLength(1)
    expect(session.closed).toEqual(['The eval attempt has ended'])
    expect(await world.view()).toMatchObject({
      ...{ status: 'completed', passed: 1, errors: 0, score: 1, done: 1, costUsd: 0.25 },
      ...{ running: 0, pending: 0, attempts: 1, reason: null },
    })
    expect(await world.events('run.ended')).toMatchObject([{ data: { status: 'completed' } }])
    expect(await world.events('attempt.ended')).toMatchObject([
      { data: { n: 1, evalCaseId: 'a', target: 'oc', score: 1, verdict: 'pass', error: null } },
    ])
  })

  test('[EVR12] has what its target says, and a log under the name of its try', async () => {
    const { world, session } = await working(
      {
        ...{ model: 'm', reasoning_effort: 'deep', agent: 'x', profile: 'y', system_prompt: 'z' },
        ...{ skills: ['s'], ability: 'a', sandbox: 'e2b', secrets: ['K'], permissions: 'always' },
        ...{ log_dir: 'logs//', name: 'o/c' },
      },
      [evalCase('a b', { workspace: { repository: { url: 'https://x.example/y', commit: 'c' } } })],
      { budget: { moneyUsd: 2 } },
    )
    expect(session.input).toMatchObject({
      ...{ project: 'p', title: 'Eval a b (o/c)', replacement: 'manual', sandbox: 'e2b' },
      ...{ model: 'm', reasoningEffort: 'deep', agent: { name: 'x' }, profile: { name: 'y' } },
      ...{ system_prompt: 'z', skills: [{ name: 's' }], abilities: ['a'] },
      ...{ budget: { moneyUsd: 2 }, repository: { url: 'https://x.example/y', ref: 'c' } },
    })
    const logFile = expect.stringMatching(
      /^logs\/1970-01-01T00-16-40-000Z_o_c_a_b_[0-9a-f]{8}\.log$/,
    )
    expect(session.terms).toEqual({
      ...{ evalRunId: 'evl_1', permissions: 'always', secrets: ['K'], policy: null, files: [] },
      logFile,
    })
    expect(await world.events('log.published')).toMatchObject([
      {
        data: {
          ...{ filePath: session.terms.logFile, targetName: 'o/c', evalCaseId: 'a b', attempt: 0 },
          url: 'https://g.example/v1/sessions/ses_0/events',
        },
      },
    ])
  })

  test('[EVR8] [EVR13] without a log, money and files there is none of them', async () => {
    for (const [more, asked] of [
      [{ stream_logs: false }, {}],
      [{}, { streamLogs: false }],
    ] as const) {
      const { world, session } = await working(more, [evalCase('a')], asked)
      expect(session.terms).toMatchObject({ logFile: null, permissions: 'reject', secrets: [] })
      expect(session.input).not.toHaveProperty('budget')
      expect(await world.events('log.published')).toEqual([])
    }
  })

  test('[EVR14] that is blocked is aborted and says what to allow', async () => {
    const { world, session } = await working()
    session.facts.blocked = { title: 'rm -rf x', reason: 'asks' }
    await world.live(3100)
    expect(await errorOf(world)).toBe(
      "OpenCode permission was blocked: rm -rf x (asks). Set permissions of target 'oc' to once or always to allow it.",
    )
    expect(session.aborted).toEqual(['The eval target rejected a permission'])
    const ended = await working()
    ended.session.facts.blocked = { title: 'x', reason: 'y' }
    ended.session.answer('hello')
    await ended.world.live(100)
    expect(await errorOf(ended.world)).toContain('permission was blocked')
    expect(ended.session.aborted).toEqual([])
  })

  test.each([
    ['failed', 'was failed: it broke'],
    ['aborted', 'was aborted: it broke'],
  ])('[EVR12] whose turn was %s is an error', async (state, says) => {
    const { world, session } = await working()
    session.turn = { ...session.turn, state, reason: 'it broke', startedAt: 1, endedAt: 2 }
    await world.live(100)
    expect(await errorOf(world)).toBe(`OpenCode turn ${says}`)
    const other = await working()
    other.session.turn = { ...session.turn, reason: null }
    await other.world.live(100)
    expect(await errorOf(other.world)).toBe(`OpenCode turn was ${state}: no reason given`)
  })

  test.each(['failed', 'lost'])('[EVR18] whose sandbox %s says why', async (state) => {
    const start = 'OpenCode could not be started: no room. Look at the sandbox provider "local"'
    const { world, session } = await working()
    session.sandbox = { state, reason: 'no room.', provider: 'local' }
    await world.live(3100)
    expect(await errorOf(world)).toContain(start)
    // Its turn ended with it, before it had begun.
    const queued = await working()
    queued.session.sandbox = session.sandbox
    queued.session.turn = { ...session.turn, state: 'failed', reason: 'gone' }
    await queued.world.live(100)
    expect(await errorOf(queued.world)).toContain(start)
    const begun = await working()
    begun.session.sandbox = session.sandbox
    begun.session.turn = { ...session.turn, state: 'failed', reason: 'gone', startedAt: 1 }
    await begun.world.live(100)
    expect(await errorOf(begun.world)).toBe('OpenCode turn was failed: gone')
  })

  test('[EVR18] whose turn failed in a sandbox that is there names the turn', async () => {
    const { world, session } = await working()
    session.turn = { ...session.turn, state: 'failed', reason: 'no model' }
    await world.live(100)
    expect(await errorOf(world)).toBe('OpenCode turn was failed: no model')
  })

  test('[EVR22] what its agent notices is told once, if the run is verbose', async () => {
    const { world, session } = await working({}, [evalCase('a')], { verbose: true })
    session.emit('agent.notice', { message: 'no log' })
    session.emit('message.delta', { text: 'x' })
    session.answer('hello')
    await world.live(100)
    expect(await world.events('attempt.warned')).toMatchObject([
      { data: { n: 1, message: 'no log' } },
    ])
    const quiet = await working()
    quiet.session.emit('agent.notice', { message: 'no log' })
    quiet.session.answer('hello')
    await quiet.world.live(100)
    expect(await quiet.world.events('attempt.warned')).toEqual([])
  })

  test('[EVAL4] [EVR12] its workspace is not named, and of each call only so much text is kept', async () => {
    const { world, session } = await working()
    const call = (n: number) => ({
      ...{ sessionId: 'oc', messageId: 'm', partId: `c${n}`, callId: `c${n}`, tool: 'read' },
      ...{ input: { path: '/w/a' }, output: 'x'.repeat(n < 2 ? 20_001 - n : 10) },
    })
    for (let n = 0; n < 501; n += 1) session.emit('tool.completed', call(n))
    session.answer('hello from /w/a')
    await world.live(100)
    const [row] = await world.results()
    expect(row).toMatchObject({ candidate_answer: 'hello from $WORKSPACE/a' })
    expect(row!.tool_calls).toHaveLength(501)
    expect(row!.tool_calls!.slice(0, 2)).toMatchObject([
      { input: { path: '$WORKSPACE/a' }, output: `${'x'.repeat(20_000)}…` },
      { output: 'x'.repeat(20_000) },
    ])
    const failed = await working()
    failed.session.turn = { ...failed.session.turn, state: 'failed', reason: '/w/a is gone' }
    await failed.world.live(100)
    expect(await errorOf(failed.world)).toContain('$WORKSPACE/a is gone')
  })
})

test('[EVR12] [EVAL5] a turn with more events than are looked at fails, since its end is not known', async () => {
  const { world, session } = await working()
  const call = { sessionId: 'oc', messageId: 'm', partId: 'p', callId: 'c', tool: 'read' }
  for (let n = 0; n < 20_000; n += 1) session.emit('message.delta', { text: 'x' })
  for (let n = 0; n < 20_000; n += 1) session.emit('tool.started', { ...call, input: {} })
  session.answer('hello')
  await world.live(100)
  expect(await errorOf(world)).toBe('OpenCode turn has more than 20000 events')
})

describe('time', () => {
  test('[EVR12] of an attempt begins with its turn, and a time-out ends it', async () => {
    const { world, session } = await working({ timeout_seconds: 5 })
    await world.live(60_000)
    expect(await errorOf(world)).toBeUndefined()
    session.turn = { ...session.turn, state: 'running', startedAt: world.now }
    await world.live(4900)
    expect((await world.attempts())[0]!.state).toBe('working')
    await world.live(3100)
    expect(await errorOf(world)).toBe('OpenCode timed out after 5s')
    expect(session.aborted).toEqual(['The eval attempt took too long'])
  })

  test('[EVR17] a time-out is tried again in another session, and what it cost is counted', async () => {
    const { world, session } = await working({ timeout_seconds: 5, max_retries: 1 })
    session.usedUsd = 0.5
    session.turn = { ...session.turn, state: 'running', startedAt: world.now }
    await world.live(8100)
    expect(await world.events('attempt.retried')).toMatchObject([
      { data: { n: 1, attempt: 1, reason: 'OpenCode timed out after 5s' } },
    ])
    const [, again] = world.sessions
    expect([again!.key, session.closed.length]).toEqual(['eval evl_1 1.1 session', 1])
    expect(again!.terms.logFile).toContain('_attempt-2_')
    expect((await world.events('attempt.started')).map(({ data }) => data['attempt'])).toEqual([
      0, 1,
    ])
    again!.usedUsd = 0.25
    again!.turn = { ...again!.turn, state: 'running', startedAt: world.now }
    await world.live(8100)
    expect(await errorOf(world)).toBe('OpenCode timed out after 5s')
    expect(await world.view()).toMatchObject({ costUsd: 0.75, errors: 1, status: 'completed' })
    expect((await world.attempts())[0]).toMatchObject({ attempt: 1, sessionId: 'ses_1' })
    expect(world.sessions).toHaveLength(2)
  })

  test('[EVR17] what fails otherwise is not', async () => {
    const { world, session } = await working({ max_retries: 3 })
    session.turn = { ...session.turn, state: 'failed', reason: 'x', startedAt: 1 }
    await world.live(1000)
    expect([(await world.results()).length, world.sessions.length]).toEqual([1, 1])
  })

  test('[EVR8] of a run that is over ends all that has no result', async () => {
    const { world, session } = await working(
      { workers: 1 },
      [evalCase('a'), evalCase('b'), evalCase('c')],
      {
        budget: { seconds: 30 },
      },
    )
    session.answer('hello')
    await world.live(1000)
    expect((await world.attempts()).map(({ state }) => state)).toEqual([
      'done',
      'working',
      'pending',
    ])
    await world.live(29_500)
    expect(await world.view()).toMatchObject({
      status: 'stopped',
      reason: "The run's time is over",
    })
    expect((await world.results()).map((row) => row?.error)).toEqual([
      undefined,
      "The run's time is over",
      "The run's time is over",
    ])
    expect(world.sessions[1]!.aborted).toEqual(["The run's time is over"])
    const quick = new EvalWorld()
    await quick.create([evalCase('a')], [recorded({ a: 'hello' })], { budget: { seconds: 30 } })
    await quick.live(60_000)
    expect(await quick.view()).toMatchObject({ status: 'completed', reason: null })
  })
})

describe('what fails and may pass', () => {
  test('[EVR6] is tried again, six times, and then it is an error', async () => {
    const world = new EvalWorld()
    let times = 0
    world.beforeSession = () => {
      times += 1
      throw new Error('not yet')
    }
    await world.create([evalCase('a')], [oc])
    await world.live(3_600_000)
    expect([times, await errorOf(world)]).toEqual([7, 'not yet'])
  })

  test('[EVR6] a refusal is an error at once', async () => {
    const world = new EvalWorld()
    let times = 0
    world.beforeSession = () => {
      times += 1
      throw Object.assign(new Error('There is no agent'), { code: 'unprocessable' })
    }
    await world.create([evalCase('a')], [oc])
    await world.live(10_000)
    expect([times, await errorOf(world)]).toEqual([1, 'There is no agent'])
  })

  test('[EVR6] a policy that cannot be read fails its own attempt', async () => {
    const { world } = await working({ policy: 'rules: 3' })
    await world.live(3_600_000)
    expect(await errorOf(world)).toContain("The policy of target 'oc' cannot be read")
  })
})

describe('how many at once', () => {
  const cases = ['a', 'b', 'c', 'd', 'e'].map((id) => evalCase(id))
  const states = async (world: EvalWorld) =>
    (await world.attempts()).map(({ target, state }) => `${target} ${state}`)

  test('[EVR1] each target has its own limit, and the run has one for all', async () => {
    const world = new EvalWorld()
    const targets = [
      { ...oc, workers: 2 },
      { ...oc, name: 'other', workers: 3 },
    ]
    await world.create(cases, targets, { workers: 4 })
    await world.live(100)
    const begun = () => states(world).then((all) => all.filter((one) => one.endsWith('working')))
    expect((await begun()).toSorted()).toEqual([
      ...['oc working', 'oc working', 'other working', 'other working'],
    ])
    world.sessions[0]!.answer('hello')
    await world.live(100)
    expect(await begun()).toHaveLength(4)
    expect(world.sessions).toHaveLength(5)
  })

  test('[EVR8] what is left of the money is shared by those that begin', async () => {
    const world = new EvalWorld()
    await world.create(cases.slice(0, 3), [{ ...oc, workers: 2 }], { budget: { moneyUsd: 1 } })
    await world.live(100)
    const shares = () => world.sessions.map(({ input }) => input.budget?.moneyUsd)
    expect(shares()).toEqual([0.5, 0.5])
    world.sessions[0]!.usedUsd = 0.2
    world.sessions[0]!.answer('hello')
    await world.live(100)
    expect(shares()).toEqual([0.5, 0.5, 0.3])
    for (const session of world.sessions.slice(1)) session.answer('hello')
    await world.live(1000)
    expect(await world.view()).toMatchObject({ status: 'completed', costUsd: 0.2 })
  })

  test('[EVR8] if nothing is left, what runs ends first; then the run is stopped', async () => {
    const world = new EvalWorld()
    await world.create(cases.slice(0, 3), [{ ...oc, workers: 2 }], { budget: { moneyUsd: 1 } })
    await world.live(100)
    world.sessions[0]!.usedUsd = 0.5
    world.sessions[0]!.answer('hello')
    await world.live(1000)
    expect(world.sessions).toHaveLength(2)
    expect(await world.view()).toMatchObject({ status: 'running', pending: 1, running: 1 })
    world.sessions[1]!.usedUsd = 0.5
    world.sessions[1]!.answer('hello')
    await world.live(1000)
    expect(await world.view()).toMatchObject({
      ...{ status: 'stopped', reason: "The run's budget is spent", done: 3, passed: 2, errors: 1 },
    })
  })
})

describe('whatever happens', () => {
  const ids = ['a', 'b', 'c']
  const file = { name: 'made', type: 'file_exists', paths: ['x'] }
  const cases = ids.map((id) =>
    evalCase(id, { execution: { evaluators: [{ type: 'contains', value: 'hello' }, file] } }),
  )
  /** Everything goes on by itself, a little later each time it is looked at. */
  const play = (session: ScriptedSession, now: number) => {
    const { turn } = session
    if (turn.state === 'queued') session.turn = { ...turn, state: 'running', startedAt: now }
    else if (turn.state === 'running') session.answer('hello', turn.startedAt, now)
  }
  const target = { ...oc, workers: 2, timeout_seconds: 60 }
  const steps = 14

  async function told(world: EvalWorld) {
    const results = await world.results()
    expect(results.map((row) => row?.eval_id)).toEqual(ids)
    for (const kind of ['attempt.started', 'attempt.ended']) {
      const numbers = (await world.events(kind)).map(({ data }) => data['n'])
      expect(new Set(numbers).size).toBe(numbers.length)
    }
    expect(await world.events('attempt.ended')).toHaveLength(3)
    expect(await world.events('run.ended')).toHaveLength(1)
    for (const session of world.sessions) {
      expect(session.prompts.length).toBeLessThanOrEqual(2)
      expect(new Set(session.prompts.map(({ key }) => key)).size).toBeLessThanOrEqual(1)
      expect(session.closed.length).toBeGreaterThan(0)
    }
    return results
  }

  test.each(Array.from({ length: steps }, (_, at) => at))(
    '[EVR7] a cancel after step %i leaves one result for each case and every session closed',
    async (at) => {
      const world = new EvalWorld()
      await world.create(cases, [target])
      for (let step = 0; step < steps; step += 1) {
        if (step === at) await world.actor.api.runs.cancel(evalCaller, 'Enough')
        await world.live(step % 3 === 0 ? 0 : 60)
        for (const session of world.sessions) play(session, world.now)
      }
      await world.live(60_000)
      const results = await told(world)
      const view = await world.view()
      expect(['cancelled', 'completed']).toContain(view.status)
      for (const row of results) expect([undefined, 'Enough']).toContain(row?.error)
      if (at === 0) expect(results.map((row) => row?.error)).toEqual(['Enough', 'Enough', 'Enough'])
      expect(view.hash).toMatch(/^[0-9a-f]{64}$/)
    },
  )

  test.each(Array.from({ length: steps }, (_, at) => at))(
    '[EVR6] a death after step %i changes nothing but the time',
    async (at) => {
      const world = new EvalWorld()
      await world.create(cases, [target])
      for (let step = 0; step < steps; step += 1) {
        if (step === at) world.restart()
        await world.live(step % 3 === 0 ? 0 : 60)
        for (const session of world.sessions) play(session, world.now)
      }
      // Whatever the dead one was at work on is taken up when its lease is over.
      for (let step = 0; step < 12; step += 1) {
        await world.live(12_000)
        for (const session of world.sessions) play(session, world.now)
      }
      await world.live(12_000)
      const results = await told(world)
      expect(results.map((row) => row?.score)).toEqual([1, 1, 1])
      expect(world.sessions).toHaveLength(3)
      expect(await world.view()).toMatchObject({ status: 'completed', passed: 3 })
    },
  )
})

describe('a run', () => {
  test('[EVR1] tells libSQL what it is and each result, with what every attempt had tried', async () => {
    const world = new EvalWorld()
    world.tried = [{ kind: 'agent', name: 'x', sha256: 'a'.repeat(64) }]
    await world.create([evalCase('a'), evalCase('b')], [oc])
    await world.live(100)
    world.tried = [{ kind: 'agent', name: 'x', sha256: 'b'.repeat(64) }]
    for (const session of world.sessions) session.answer('hello')
    await world.live(10_000)
    const runs = world.ledger.projected<{ id: string; status: string }>('eval_run', () => 'run')
    const { hash } = await world.view()
    expect(runs).toMatchObject([
      {
        ...{ project: 'p', memberId: 'mbr_1', dataset: 'd', digest: 'digest', targets: '["oc"]' },
        ...{ status: 'completed', reason: null, attempts: 2, passed: 2, errors: 0, score: 1, hash },
        tried: `[{"target":"oc","kind":"agent","name":"x","sha256":"${'a'.repeat(64)}"}]`,
      },
    ])
    const rows = world.ledger.projected<{ n: number }>('eval_result', ({ n }) => String(n))
    expect(rows).toMatchObject([
      { n: 1, evalId: 'a', target: 'oc', repetition: 0, sessionId: 'ses_0', verdict: 'pass' },
      { n: 2, evalId: 'b', score: 1, error: null },
    ])
  })

  test('[EVR1] is the same run if it is made again, and another one has another hash', async () => {
    const world = new EvalWorld()
    const make = () => world.create([evalCase('a')], [recorded({ a: 'hello' })])
    await make()
    await make()
    await world.live(1000)
    await make()
    expect(await world.events('run.started')).toMatchObject([{ data: { attempts: 1 } }])
    expect(await world.results()).toHaveLength(1)
    const other = new EvalWorld()
    await other.create([evalCase('a')], [recorded({ a: 'no' })])
    await other.live(1000)
    expect((await other.view()).hash).not.toBe((await world.view()).hash)
  })

  test('[EVR5] whoever waits for an event is woken by it, or told when the time is over', async () => {
    const world = new EvalWorld()
    await world.create([evalCase('a')], [oc])
    await world.live(100)
    const last = (await world.view()).lastEventSeq
    const waiting = world.actor.api.runs.events(evalCaller, last, 10, 20_000)
    world.sessions[0]!.answer('hello')
    await world.live(100)
    expect((await waiting).map(({ kind }) => kind)[0]).toBe('attempt.ended')
    const idle = new EvalWorld()
    await idle.create([evalCase('a')], [oc])
    await idle.live(100)
    const none = idle.actor.api.runs.events(evalCaller, 99, 10, 5000)
    await idle.live(6000)
    expect(await none).toEqual([])
    // Nothing comes any more.
    expect(await world.actor.api.runs.events(evalCaller, 99, 10, 20_000)).toEqual([])
  })

  test('[EVR3] [EVR7] is not there for others; only its member or an admin ends it', async () => {
    const { world } = await working()
    const { runs, erasing } = world.actor.api
    const other = { ...evalCaller, organisationId: 'org_2' }
    const limited = { ...evalCaller, limits: { projects: ['q'] } }
    for (const caller of [other, limited])
      await expect(runs.view(caller)).rejects.toMatchObject({ code: 'not_found' })
    const member = { ...evalCaller, memberId: 'mbr_2', scopes: ['write' as const] }
    await expect(runs.cancel(member, '')).rejects.toMatchObject({ code: 'forbidden' })
    await expect(erasing.erase(member)).rejects.toMatchObject({ code: 'forbidden' })
    expect(await runs.view(member)).toMatchObject({ status: 'running' })
    const admin = { ...member, scopes: ['admin' as const], owner: 'root' }
    expect(await runs.cancel(admin, '')).toMatchObject({ reason: 'Cancelled by root' })
    await world.live(1000)
    expect(await errorOf(world)).toBe('Cancelled by root')
  })

  test('[EVR9] that is deleted is gone with its sessions, once what worked has ended', async () => {
    const { world, session } = await working({ workers: 1 }, [evalCase('a'), evalCase('b')])
    session.answer('hello')
    await world.live(100)
    await world.actor.api.erasing.erase(evalCaller)
    await expect(world.view()).rejects.toMatchObject({ code: 'not_found' })
    await world.live(10_000)
    expect(world.isErased).toBe(true)
    expect(world.sessions.map(({ erased }) => erased)).toEqual([1, 1])
    expect([...world.ledger.rows.values()].at(-1)).toMatchObject({ kind: 'session.erased' })
  })

  test('[EVR9] that has been over for long enough is gone by itself', async () => {
    const world = new EvalWorld()
    await world.create([evalCase('a')], [recorded({ a: 'hello' })])
    await world.live(86_000_000)
    expect(world.isErased).toBe(false)
    await world.live(1_000_000)
    expect(world.isErased).toBe(true)
  })

  test('[EVR9] a session that is gone already does not hold it up', async () => {
    const { world, session } = await working()
    session.isGone = true
    await world.actor.api.runs.cancel(evalCaller, 'x')
    await world.actor.api.erasing.erase(evalCaller)
    await world.live(60_000)
    expect([world.isErased, session.closed]).toEqual([true, []])
  })
})
