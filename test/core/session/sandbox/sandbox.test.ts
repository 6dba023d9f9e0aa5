import { beforeEach, describe, expect, test } from 'vitest'
import { AppError } from '../../../../src/contract/error.ts'
import { defaultModelId } from '../../../../src/contract/models.ts'
import { climbLadder } from '../../../../src/core/actor/ladder.ts'
import { rung as generations4 } from '../../../../src/core/session/rungs/0004.ts'
import { sessionLadder } from '../../../../src/core/session/rungs/ladder.ts'
import { sandboxSpec } from '../../../support/sandbox-spec.ts'
import { testCaller, TestSession, testSessionId } from '../../../support/session.ts'

let session: TestSession
beforeEach(async () => {
  session = new TestSession()
  await session.create({ sandbox: 'local' })
})
const state = async () => {
  const { sandbox } = await session.actor.api.self.view(testCaller)
  return sandbox.state
}
const events = (kind: string) =>
  session.sql
    .all<{ data: string }>('select data from events where kind = ? order by seq', kind)
    .map(({ data }) => JSON.parse(data) as Record<string, unknown>)
/** What the provider runs. */
const generations = () => [...session.sandboxes.running.values()].map(({ spec }) => spec.generation)
async function manual(): Promise<TestSession> {
  const made = new TestSession()
  await made.create({ sandbox: 'local', replacement: 'manual' })
  await made.pass(0)
  await made.connect()
  return made
}
const { promise: never } = Promise.withResolvers<void>()

describe('starting', () => {
  test('[BOX2] the step that repeats is written before the provider is called', async () => {
    session.sandboxes.gate = never
    await session.pass(0)
    expect([session.sandboxes.orders, await state()]).toEqual([['create 1'], 'creating'])
    expect(session.deadlines()).toHaveProperty(['sandbox.create:1'])
    // The instance dies here: the next one asks first whether anything came of it.
    session.sandboxes.gate = Promise.resolve()
    session.restart()
    await session.pass(0)
    expect([session.sandboxes.orders, await state()]).toEqual([
      ['create 1', 'get 1', 'create 1'],
      'booting',
    ])
    expect(session.sandboxes.running.size).toBe(1)
    expect(session.deadlines()).not.toHaveProperty(['sandbox.create:1'])
  })

  test('[LIFE3] a sandbox that was created by an instance that died over it is found, not created again', async () => {
    session.sandboxes.gate = never
    await session.pass(0)
    session.sandboxes.place(sandboxSpec())
    session.restart()
    session.sandboxes.gate = Promise.resolve()
    await session.pass(0)
    expect([session.sandboxes.orders, await state()]).toEqual([['create 1', 'get 1'], 'booting'])
  })

  test('[LIFE3] an answer that is lost leads to the same sandbox', async () => {
    session.sandboxes.losesAnswers = 1
    await session.pass(5000)
    expect(await state()).toBe('booting')
    expect([...session.sandboxes.running.keys()]).toHaveLength(1)
    expect((await session.actor.api.self.view(testCaller)).sandbox.generation).toBe(1)
  })

  test('[BOX2] a provider that is away is tried five times, then the sandbox has failed and says why', async () => {
    session.sandboxes.fails = 99
    await session.pass(60_000)
    expect(session.sandboxes.orders.filter((order) => order === 'create 1')).toHaveLength(5)
    const { sandbox } = await session.actor.api.self.view(testCaller)
    expect(sandbox).toMatchObject({
      state: 'failed',
      reason: 'Cannot create the sandbox: The provider is away',
      failures: [{ generation: 1, reason: 'Cannot create the sandbox: The provider is away' }],
    })
  })

  test('[BOX3] hello before the answer of the provider: still a boot deadline', async () => {
    session.sandboxes.gate = never
    await session.pass(0)
    await session.connect({ ready: false })
    expect([await state(), session.deadlines()['sandbox.boot']]).toEqual([
      'booting',
      session.now + 120_000,
    ])
  })

  test('[BOX1] not ready within 120 s: it is fenced and stopped, and the next one is tried', async () => {
    await session.pass(0)
    await session.connect({ ready: false })
    await session.pass(120_000)
    expect((await session.actor.api.self.view(testCaller)).sandbox).toMatchObject({
      state: 'booting',
      generation: 2,
      failures: [{ generation: 1, reason: 'Not ready within 120 s' }],
    })
    expect(generations()).toEqual([2])
  })

  test('[BOX3] a sandbox that ends while it boots, before its agent has called, is given up within seconds', async () => {
    await session.pass(0)
    session.sandboxes.say(1, 'exited', 'Cannot make the workspace')
    await session.pass(5000)
    expect((await session.actor.api.self.view(testCaller)).sandbox).toMatchObject({
      generation: 2,
      failures: [{ reason: 'Cannot make the workspace' }],
    })
    await session.connect({ generation: 2 })
    expect(session.deadlines()).not.toHaveProperty('sandbox.look')
  })

  const ends = () => [...session.organisation.places.values()].map(({ end }) => end?.outcome)

  test("[LIFE24] what its user has to put right fails at once, says what, and is not the provider's fault", async () => {
    await session.pass(0)
    session.sandboxes.say(1, 'exited', 'Check the ref', 'user')
    await session.pass(5000)
    expect((await session.actor.api.self.view(testCaller)).sandbox).toMatchObject({
      state: 'failed',
      generation: 1,
      reason: 'Check the ref',
      failures: [{ generation: 1, reason: 'Check the ref' }],
    })
    await session.pass(60_000)
    expect(session.sandboxes.orders.filter((order) => order.startsWith('create'))).toHaveLength(1)
    expect(ends()).toEqual(['refused'])
  })

  test('[LIFE24] an order that the provider refuses as wrong is not repeated', async () => {
    session.sandboxes.create = async () => {
      session.sandboxes.orders.push('create')
      throw new AppError('unprocessable', 'There is no template "typo"')
    }
    await session.pass(60_000)
    expect((await session.actor.api.self.view(testCaller)).sandbox).toMatchObject({
      state: 'failed',
      generation: 1,
      reason: 'Cannot create the sandbox: There is no template "typo"',
    })
    expect(session.sandboxes.orders.filter((order) => order.startsWith('create'))).toHaveLength(1)
    expect(ends()).toEqual(['refused'])
  })

  test('[LIFE24] where the host of the repository is away another sandbox is tried, and the provider is not blamed', async () => {
    await session.pass(0)
    session.sandboxes.say(1, 'exited', 'The requested URL returned error: 503', 'repository')
    await session.pass(5000)
    expect((await session.actor.api.self.view(testCaller)).sandbox).toMatchObject({ generation: 2 })
    expect(ends().slice(0, 1)).toEqual(['refused'])
  })

  test('[LIFE17] one that calls before the answer to its creation and dies while it boots is missed within seconds', async () => {
    session.sandboxes.losesAnswers = 1
    await session.pass(0)
    expect(await state()).toBe('creating')
    await session.connect({ ready: false })
    expect(await state()).toBe('booting')
    session.sandboxes.say(1, 'exited', 'killed')
    await session.cut(1)
    await session.pass(10_000)
    expect((await session.actor.api.self.view(testCaller)).sandbox).toMatchObject({
      generation: 2,
      failures: [{ reason: expect.stringContaining('did not arrive') }, { reason: 'killed' }],
    })
  })

  test('[BOX8] waiting for a place to boot does not count', async () => {
    await session.pass(0)
    session.sandboxes.say(1, 'queued')
    await session.pass(600_000)
    expect(await state()).toBe('booting')
    session.sandboxes.say(1, 'exited', 'no memory')
    await session.pass(20_000)
    expect((await session.actor.api.self.view(testCaller)).sandbox).toMatchObject({
      generation: 2,
      failures: [{ reason: 'no memory' }],
    })
  })

  test('[BOX8] one that gets its place at the last moment has all of its time from then on', async () => {
    await session.pass(0)
    session.sandboxes.say(1, 'queued')
    await session.pass(238_000)
    session.sandboxes.say(1, 'running')
    await session.pass(100_000)
    expect([await state(), generations()]).toEqual(['booting', [1]])
    await session.pass(30_000)
    expect((await session.actor.api.self.view(testCaller)).sandbox).toMatchObject({
      generation: 2,
      failures: [{ reason: 'Not ready within 120 s' }],
    })
  })
})

describe('an agent that starts again', () => {
  test('[LIFE2] does not pay for the failures of a start long ago', async () => {
    await session.pass(0)
    for (const generation of [1, 2]) {
      session.sandboxes.say(generation, 'exited', 'no')
      await session.pass(5000)
    }
    await session.connect({ generation: 3 })
    await session.pass(3_600_000 / 4)
    await session.connect({ generation: 3, ready: false })
    await session.pass(120_000)
    expect((await session.actor.api.self.view(testCaller)).sandbox).toMatchObject({
      state: 'booting',
      generation: 4,
      failures: [{ generation: 3, reason: 'Not ready within 120 s' }],
    })
  })

  test('[LIFE5] is not replaced by itself if that is left to people', async () => {
    session = await manual()
    await session.connect({ ready: false })
    await session.pass(120_000)
    expect((await session.actor.api.self.view(testCaller)).sandbox).toMatchObject({
      state: 'failed',
      generation: 1,
    })
  })
})

test('[LIFE18] a session of an earlier release goes on as it was', async () => {
  const rung = sessionLadder.indexOf(generations4)
  const old = new TestSession()
  climbLadder(old.sql, sessionLadder.slice(0, rung))
  old.sql.run(
    `insert into session (id, organisation_id, key_id, project, title, status, provider, sandbox_state, generation, gate,
       trust_project_config, marker_nonce, created_at, model)
     values (?, ?, '', 'default', '', 'open', 'local', 'requested', 3, '{"deny":[],"ask":[],"askTimeoutSeconds":600}', 0, '', 1, ?)`,
    testSessionId,
    testCaller.organisationId,
    defaultModelId,
  )
  old.sql.run(`insert into deadlines (name, at) values ('sandbox.create', 1)`)
  old.restart()
  await old.actor.api.self.close({ ...testCaller, scopes: ['admin'] }, 'x')
  const again = await old.actor.api.self.view(testCaller)
  expect(again).toMatchObject({ idleTimeoutSeconds: null, replacement: 'manual' })
  await old.pass(60_000)
  expect((await old.actor.api.self.view(testCaller)).sandbox.state).toBe('stopped')
  expect(old.deadlines()).not.toHaveProperty(['sandbox.create:3'])
})

describe('news that come while the provider is asked', () => {
  test('[BOX1] a sandbox that becomes ready just when its time is over stays', async () => {
    await session.pass(0)
    await session.connect({ ready: false })
    await session.pass(119_000)
    const { promise, resolve } = Promise.withResolvers<void>()
    session.sandboxes.gate = promise
    await session.pass(1000)
    expect(session.sandboxes.orders.at(-1)).toBe('get 1')
    await session.receive({ t: 'ready', bootMs: 1 })
    resolve()
    await session.settle()
    expect(await state()).toBe('ready')
    await session.pass(60_000)
    expect(session.deadlines()).not.toHaveProperty('sandbox.boot')
  })

  test('[BOX2] a sandbox whose agent has called stays, though its last creation failed', async () => {
    session.sandboxes.fails = 4
    await session.pass(15_000 - 1)
    const { promise, reject } = Promise.withResolvers<void>()
    session.sandboxes.gate = promise
    await session.pass(1)
    await session.connect()
    reject(new Error('The answer was lost'))
    await session.settle()
    expect(session.sandboxes.orders.filter((order) => order === 'create 1')).toHaveLength(5)
    expect(await state()).toBe('ready')
  })
})

describe('a missing link', () => {
  beforeEach(async () => {
    await session.pass(0)
    await session.connect()
  })

  test('[BOX3] makes it suspect; while the provider knows it, it stays so, and a new link makes it ready', async () => {
    await session.cut()
    expect(await state()).toBe('suspect')
    await session.pass(300_000)
    expect(await state()).toBe('suspect')
    await session.connect()
    expect(await state()).toBe('ready')
    expect(session.deadlines()).not.toHaveProperty('sandbox.check')
  })

  test('[BOX3] a provider that cannot be asked says nothing', async () => {
    await session.cut()
    session.sandboxes.fails = Infinity
    session.sandboxes.running.clear()
    await session.pass(300_000)
    expect(await state()).toBe('suspect')
    session.sandboxes.fails = 0
    await session.pass(31_000)
    expect(events('sandbox.changed').map((change) => change['state'])).toContain('lost')
  })

  test('[LIFE4] the provider is asked after 2 s, then every 10 s, and not once the agent is back', async () => {
    const before = session.sandboxes.orders.length
    const asked = () => session.sandboxes.orders.slice(before)
    await session.cut()
    await session.pass(1999)
    expect(asked()).toEqual([])
    await session.pass(1)
    expect(asked()).toEqual(['get 1'])
    await session.pass(9999)
    expect(asked()).toEqual(['get 1'])
    await session.pass(1)
    expect(asked()).toEqual(['get 1', 'get 1'])
    await session.connect()
    await session.pass(30_000)
    expect(asked()).toEqual(['get 1', 'get 1'])
  })

  test('[LIFE4] a provider that cannot be asked is asked less and less often, but at least every 30 s', async () => {
    await session.cut()
    session.sandboxes.fails = Infinity
    const before = session.sandboxes.orders.length
    await session.pass(2000 + 1000 + 2000 + 4000)
    expect(session.sandboxes.orders.length - before).toBe(4)
    await session.pass(600_000)
    const more = session.sandboxes.orders.length - before - 4
    expect(more).toBeGreaterThanOrEqual(19)
    expect(more).toBeLessThanOrEqual(22)
  })

  test('[BOX4] a true not-found loses it: the turn is interrupted and what is left is stopped', async () => {
    session = await manual()
    const turn = await session.actor.api.turns.prompt(testCaller, { text: 'x', steer: false }, null)
    await session.cut()
    session.sandboxes.running.clear()
    await session.pass(10_000)
    expect(await state()).toBe('lost')
    expect((await session.actor.api.turns.get(testCaller, turn.id)).state).toBe('interrupted')
    await session.pass(0)
    expect(session.sandboxes.orders.at(-1)).toBe('stop 1')
    await expect(
      session.actor.api.turns.prompt(testCaller, { text: 'x', steer: false }, null),
    ).rejects.toMatchObject({
      code: 'wrong_state',
    })
  })

  test('[BOX4] a lost sandbox that calls again is refused and given no turn', async () => {
    session = await manual()
    await session.actor.api.turns.prompt(testCaller, { text: 'x', steer: false }, null)
    const queued = await session.actor.api.turns.prompt(
      testCaller,
      { text: 'y', steer: false },
      null,
    )
    await session.cut()
    session.sandboxes.running.clear()
    await session.pass(10_000)
    await session.connect()
    expect(session.linked).toBe(false)
    expect([
      await state(),
      (await session.actor.api.turns.get(testCaller, queued.id)).state,
    ]).toEqual(['lost', 'queued'])
    expect(session.commands()).toEqual([])
    await expect(session.call('noop', 'x')).rejects.toMatchObject({ code: 'old_generation' })
  })
})

describe('ending', () => {
  const acts = {
    close: () => session.actor.api.self.close(testCaller, 'x'),
    replace: () => session.actor.api.sandbox.replace(testCaller, 'x'),
  }
  test.each(Object.keys(acts) as (keyof typeof acts)[])(
    '[BOX7] a sandbox that comes into being after %s is stopped all the same',
    async (act) => {
      const { promise, resolve } = Promise.withResolvers<void>()
      session.sandboxes.gate = promise
      await session.pass(0)
      await acts[act]()
      session.sandboxes.gate = Promise.resolve()
      await session.pass(0)
      resolve()
      await session.settle()
      await session.pass(60_000)
      expect(generations()).toEqual(act === 'close' ? [] : [2])
      expect(session.organisation.live()).toEqual(act === 'close' ? [] : [2])
    },
  )

  test('[SES5] a stop that fails is repeated until it is done', async () => {
    await session.pass(0)
    await session.actor.api.self.close(testCaller, 'x')
    session.sandboxes.fails = 3
    await session.pass(0)
    expect(await state()).toBe('stopping')
    await session.pass(300_000)
    expect([await state(), session.sandboxes.running.size]).toEqual(['stopped', 0])
  })

  test('[SES6] deleting stops every generation, tells libSQL, and leaves nothing', async () => {
    await session.pass(0)
    session.sandboxes.fails = 1
    await session.actor.api.sandbox.replace(testCaller, 'x')
    await session.actor.api.self.erase(testCaller)
    await expect(session.actor.api.self.view(testCaller)).rejects.toMatchObject({
      code: 'not_found',
    })
    session.ledger.away = true
    await session.pass(60_000)
    expect(session.erased).toBe(false)
    session.ledger.away = false
    await session.pass(120_000)
    expect([session.erased, session.sandboxes.running.size]).toEqual([true, 0])
    expect([...session.ledger.rows.values()].at(-1)?.kind).toBe('session.erased')
    expect(session.sql.all('select * from sqlite_master')).toEqual([])
    await expect(session.actor.api.self.view(testCaller)).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  test('[SES6] a call that ends while the last row is sent does not outlive the session', async () => {
    session = new TestSession()
    await session.create()
    let late = 0
    const { ledger } = session
    const append = ledger.append.bind(ledger)
    ledger.append = async (input) => {
      const stored = await append(input)
      if (input.rows.at(-1)?.kind === 'session.erased' && ++late <= 3)
        session.sql.run(`insert into outbox (kind, payload, created_at) values ('call', '{}', 0)`)
      return stored
    }
    await session.actor.api.self.erase(testCaller)
    await session.pass(60_000)
    expect(session.erased).toBe(true)
    expect([...ledger.rows.values()].at(-1)?.kind).toBe('session.erased')
  })

  test('[SES6] who asks of a session that is erased meanwhile is told that there is none', async () => {
    session = new TestSession()
    await session.create()
    await session.pass(10_000)
    const { ledger } = session
    const append = ledger.append.bind(ledger)
    let answer = () => {}
    ledger.append = async (input) => {
      const given = await append(input)
      if (input.rows.length === 0) await new Promise<void>((resolve) => (answer = resolve))
      return given
    }
    const asked = session.actor.api.letters.resend(testCaller, null)
    const refused = expect(asked).rejects.toMatchObject({ code: 'not_found' })
    await session.settle()
    await session.actor.api.self.erase(testCaller)
    await session.pass(60_000)
    expect(session.erased).toBe(true)
    answer()
    await refused
  })

  test('[CALL11] what nobody runs any more is unknown from the close on', async () => {
    await session.call('unavailable', 'released', { times: 9 }).catch(() => undefined)
    await session.actor.api.self.close(testCaller, 'x')
    const { items } = await session.actor.api.calls.list(testCaller, { limit: 9, after: null })
    expect(items).toMatchObject([{ toolCallId: 'released', state: 'unknown' }])
    expect((await session.actor.api.self.view(testCaller)).activeCalls).toBe(0)
  })

  test('[SES7] a closed session is deleted by itself after the retention time', async () => {
    await session.pass(0)
    await session.actor.api.self.close(testCaller, 'x')
    await session.pass(86_400_000 - 1)
    expect(session.erased).toBe(false)
    session.organisation.fails = 1
    await session.pass(120_000)
    expect(session.erased).toBe(true)
    // [SES6] its organisation keeps no claim of it either.
    expect(session.organisation.endedCreations).toEqual([testSessionId])
  })

  test('[SES7] while libSQL is away the deletion waits, and is begun once', async () => {
    await session.pass(0)
    await session.actor.api.self.close(testCaller, 'x')
    await session.pass(86_400_000 - 1000)
    session.ledger.away = true
    await session.pass(2000)
    expect(Object.keys(session.deadlines())).not.toContain('purge')
    const begun = () => session.sql.all(`select 1 from outbox where kind = 'session.erased'`).length
    const before = begun()
    await session.actor.api.self.erase(testCaller).catch(() => undefined)
    expect(begun()).toBe(before)
    session.ledger.away = false
    await session.pass(120_000)
    expect(session.erased).toBe(true)
  })
})

describe('the outbox', () => {
  beforeEach(async () => {
    session = new TestSession()
    await session.create()
  })
  const pending = async () => (await session.actor.api.self.view(testCaller)).outbox.pending

  test('[OUT4] rows that libSQL turns out to have lost are sent with the next commit, also if a mere question found out', async () => {
    await session.settle()
    const sent = session.ledger.rows.size
    expect(sent).toBeGreaterThan(0)
    session.ledger.rows.clear()
    await session.actor.api.letters.list(testCaller, { limit: 9, after: null })
    await session.actor.api.gate.setPolicy(testCaller, null)
    await session.settle()
    expect(session.ledger.rows.size).toBeGreaterThanOrEqual(sent)
  })

  test('[OUT6] twelve failed flushes in a row are followed by a thirteenth', async () => {
    await session.pass(10_000)
    session.ledger.away = true
    const before = session.ledger.appends
    await session.call('noop', 'a')
    await session.settle()
    while (session.ledger.appends < before + 12) await session.pass(1000)
    expect(await pending()).toBeGreaterThan(0)
    session.ledger.away = false
    await session.pass(31_000)
    expect(await pending()).toBe(0)
    expect(session.missingRows()).toEqual([])
  })

  test('[OUT4] rows that libSQL has lost are sent again, with the next row or after an hour', async () => {
    const stored = () =>
      session.ledger
        .projected<{ toolCallId: string; status: string }>('call', ({ toolCallId }) => toolCallId)
        .map(({ toolCallId, status }) => `${toolCallId} ${status}`)
    await session.call('noop', 'a')
    await session.pass(10_000)
    expect(stored()).toEqual(['a settled'])
    session.ledger.lose(2)
    expect(stored()).toEqual([])
    await session.call('noop', 'b')
    await session.pass(10_000)
    expect([stored(), session.missingRows()]).toEqual([['a settled', 'b settled'], []])
    session.ledger.lose(3)
    await session.pass(3_700_000)
    expect([stored(), session.missingRows()]).toEqual([['a settled', 'b settled'], []])
    expect(await pending()).toBe(0)
  })

  test('[OUT4] the look after an hour is not forgotten if it is promised anew while one is under way', async () => {
    await session.call('noop', 'a')
    await session.pass(10_000)
    const { ledger } = session
    const append = ledger.append.bind(ledger)
    const verifyAt = () => session.deadlines()['outbox.verify'] ?? 0
    let looks = 0
    ledger.append = async (input) => {
      const answer = await append(input)
      // While the answer is on its way another row is written and sent, and is to be looked for in an hour.
      if (input.rows.length === 0 && ++looks === 1) {
        await session.call('noop', 'b')
        await session.pass(10_000)
        expect(verifyAt()).toBeGreaterThan(session.now)
      }
      return answer
    }
    await session.pass(3_700_000)
    expect(looks).toBe(1)
    expect(verifyAt()).toBeGreaterThan(session.now)
    ledger.lose(1)
    await session.pass(3_700_000)
    expect([looks, session.missingRows()]).toEqual([2, []])
  })

  test('[OUT10] [SEC9] why a row was refused is shown without secrets', async () => {
    const sealed = await session.crypto.seal('hunter2hunter2')
    void session.actor.api.env.submit(testCaller, [{ key: 'TOKEN', sealed, kind: 'secret' }])
    await session.pass(10_000)
    const error = 'malformed JSON near "hunter2hunter2"'
    session.ledger.refused = [{ seq: 1, kind: 'session', error, at: session.now }]
    const { items } = await session.actor.api.letters.list(testCaller, { limit: 9, after: null })
    expect(items).toMatchObject([{ seq: 1, reason: 'malformed JSON near "[secret:TOKEN]"' }])
    session.restart()
    const again = await session.actor.api.letters.list(testCaller, { limit: 9, after: null })
    expect(again.items).toEqual(items)
  })

  test('[OUT4] an answer that comes late does not make unsent what was sent meanwhile', async () => {
    await session.pass(10_000)
    const { ledger } = session
    const append = ledger.append.bind(ledger)
    let answer = () => {}
    ledger.append = async (input) => {
      const given = await append(input)
      if (input.rows.length === 0) await new Promise<void>((resolve) => (answer = resolve))
      return given
    }
    const asking = session.actor.api.letters.list(testCaller, { limit: 9, after: null })
    await session.settle()
    await session.call('noop', 'a')
    await session.settle()
    expect(await pending()).toBe(0)
    answer()
    await asking
    expect(await pending()).toBe(0)
  })

  test('[OUT1] rows that an instance left behind are sent by the next one', async () => {
    await session.pass(10_000)
    session.ledger.away = true
    await session.call('noop', 'a')
    await session.settle()
    session.ledger.away = false
    session.restart()
    await session.settle()
    expect(await pending()).toBe(0)
  })
})
