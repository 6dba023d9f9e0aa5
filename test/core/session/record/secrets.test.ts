import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { SessionCreate } from '../../../../src/contract/session.ts'
import { gatewayTool } from '../../../../src/core/session/calls/tools/tool.ts'
import type { SealedValue } from '../../../../src/core/session/record/secrets.ts'
import { agentEvent } from '../../../support/agent.ts'
import { testCaller, TestSession, testSessionId } from '../../../support/session.ts'

const sealed = async ({ crypto }: TestSession, key: string, value: string) => ({
  key,
  kind: 'secret' as const,
  sealed: await crypto.seal(value),
})
const everything = (session: TestSession) =>
  JSON.stringify([
    session.sql.all('select * from session'),
    session.sql.all('select * from events'),
    session.sql.all('select * from calls'),
    session.sql.all('select * from turns'),
    session.sql.all('select * from outbox'),
    [...session.ledger.rows.values()],
    session.logs,
  ])

/** Answers with what it was told to, once it is let go. */
function slowTool() {
  const { promise: gate, resolve: letGo } = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const runs: string[] = []
  const tool = gatewayTool({
    definition: {
      name: 'slow_answer',
      aliases: [],
      domain: 'gateway',
      args: z.strictObject({ fail: z.boolean().default(false) }),
      description: '',
      guidance: '',
      onConflict: 'refuse',
    },
    repeatable: false,
    async run({ fail }, { operationId }) {
      runs.push(operationId)
      begun.resolve()
      await gate
      if (fail) throw new Error('broke over value-given-late')
      return { success: true, result: 'saw value-given-late' }
    },
  })
  return { tool, letGo, begun: begun.promise, runs }
}

async function createWith(session: TestSession, input: object, secrets: SealedValue[] = []) {
  await session.actor.api.self.create({
    sessionId: testSessionId,
    ...testCaller,
    input: SessionCreate.parse({ sandbox: 'local', ...input }),
    secrets,
  })
}

describe('a secret that is given while something is under way', () => {
  test.each([false, true])(
    '[CALL2] [SEC9] a call that runs is still settled, once and without it (handler fails: %s)',
    async (fail) => {
      const slow = slowTool()
      const session = new TestSession([slow.tool])
      await session.create()
      const answer = session.call('slow_answer', 'a', { fail }).catch((error: unknown) => error)
      await slow.begun
      await session.actor.api.env.submit(testCaller, [
        await sealed(session, 'LATE', 'value-given-late'),
      ])
      slow.letGo()
      await answer
      const again = await session.call('slow_answer', 'a', { fail })
      expect(slow.runs).toHaveLength(1)
      expect(again.body).toContain(fail ? 'Outcome unknown' : 'saw [secret:LATE]')
      expect(everything(session)).not.toContain('value-given-late')
    },
  )

  test('[SEC9] one that comes while others are being opened is known as well', async () => {
    const session = new TestSession()
    await createWith(session, {}, [await sealed(session, 'ONE', 'the-first-value')])
    const late = await sealed(session, 'TWO', 'the-second-value')
    // Begins to open the first; the second arrives before that is done.
    const closing = session.actor.api.turns.prompt(testCaller, { text: 'x', steer: false }, null)
    void session.actor.api.env.submit(testCaller, [late])
    await closing
    await session.actor.api.turns.prompt(
      testCaller,
      { text: 'the-second-value', steer: false },
      null,
    )
    expect(everything(session)).not.toContain('the-second-value')
  })
})

test('[SEC9] what a caller writes at creation is stored without the values of its session', async () => {
  const session = new TestSession()
  await createWith(
    session,
    {
      title: 'fix aaaa-secret-aaaa',
      system_prompt: 'use aaaa-secret-aaaa and tok-tok-tok',
      repository: { url: 'https://git.test/a/b', token: 'tok-tok-tok' },
    },
    [await sealed(session, 'A', 'aaaa-secret-aaaa')],
  )
  await session.settle()
  const rows = JSON.stringify([...session.ledger.rows.values()])
  expect(everything(session) + rows).not.toMatch(/aaaa-secret-aaaa|tok-tok-tok/)
  const { title } = await session.actor.api.self.view(testCaller)
  expect(title).toBe('fix [secret:A]')
})

test('[SEC9] what a provider says of a sandbox is stored without secrets', async () => {
  const session = new TestSession()
  await createWith(session, {}, [await sealed(session, 'A', 'aaaa-secret-aaaa')])
  await session.pass(0)
  session.sandboxes.say(1, 'exited', 'Last words: aaaa-secret-aaaa')
  await session.pass(6000)
  const { sandbox } = await session.actor.api.self.view(testCaller)
  expect(sandbox.failures).toMatchObject([{ reason: 'Last words: [secret:A]' }])
  expect(everything(session)).not.toContain('aaaa-secret-aaaa')
})

test('[EVT5] [SEC9] the number of an event is no secret, whatever its digits', async () => {
  const session = new TestSession()
  await createWith(session, {}, [await sealed(session, 'PIN', '100001')])
  await session.pass(0)
  await session.connect()
  session.sql.run('insert into agent_cursors (generation, seq) values (1, 100000)')
  const items = [agentEvent(100_001, 'agent.notice', { message: 'm' })]
  await session.receive({ t: 'events', items })
  expect(session.sent.at(-1)).toEqual({ t: 'ack', seq: 100_001 })
})

describe('a link of a session with secrets, just after it woke', () => {
  async function woken() {
    const session = new TestSession()
    await createWith(session, {}, [await sealed(session, 'A', 'aaaa-secret-aaaa')])
    await session.pass(0)
    await session.connect()
    session.restart()
    session.linked = session.greeted = true
    return session
  }

  test('[EVT5] messages are taken in the order in which they came', async () => {
    const session = await woken()
    const batch = (seq: number) => ({
      t: 'events',
      items: [agentEvent(seq, 'agent.notice', { message: `${seq}` })],
    })
    await Promise.all([1, 2, 3].map((n) => session.actor.receive(1, JSON.stringify(batch(n)))))
    expect(session.sent.at(-1)).toEqual({ t: 'ack', seq: 3 })
  })

  test('[SES9] one that waits behind a replacement changes nothing', async () => {
    const session = await woken()
    const replaced = session.actor.api.sandbox.replace(testCaller, 'test')
    const end = session.actor.receive(1, JSON.stringify({ t: 'ready', bootMs: 1 }))
    await replaced
    expect(await end).toMatchObject({ code: 4403 })
    const { sandbox } = await session.actor.api.self.view(testCaller)
    expect(sandbox).toMatchObject({ generation: 2, state: 'replacing' })
  })
})

test('[LINK5] whoever asks for a new token gets one of its own generation', async () => {
  const session = new TestSession()
  await session.create({ sandbox: 'local' })
  await session.actor.api.sandbox.replace(testCaller, 'test')
  expect(JSON.parse(await session.actor.newToken(1))).toMatchObject({ token: 'token of 1' })
})

test('[LINK2] a message that cannot be stored ends the link, so that it is sent again', async () => {
  const session = new TestSession()
  await createWith(session, {})
  await session.pass(0)
  await session.connect()
  session.sql.run('alter table events rename to away')
  const items = [agentEvent(1, 'agent.notice', { message: 'm' })]
  expect(await session.receive({ t: 'events', items })).toMatchObject({ code: 4500 })
  session.sql.run('alter table away rename to events')
  await session.connect()
  await session.receive({ t: 'events', items })
  expect(session.sent.at(-1)).toEqual({ t: 'ack', seq: 1 })
})

describe('evidence', () => {
  const sandbox = { organisationId: testCaller.organisationId, generation: 1 }
  const bytes = (text: string) => new TextEncoder().encode(text)

  test('[SEC9] an upload that holds a secret, also encoded, is refused by name; others pass', async () => {
    const session = new TestSession()
    await createWith(session, {}, [await sealed(session, 'API_KEY', 'value-of-the-key')])
    await session.actor.api.agent.admitUpload(sandbox, 'a', bytes('all tests passed'))
    for (const text of ['log: value-of-the-key', `b64 ${btoa('value-of-the-key')}`]) {
      await expect(
        session.actor.api.agent.admitUpload(sandbox, 'b', bytes(text)),
      ).rejects.toMatchObject({
        code: 'unprocessable',
        message: 'Secret "API_KEY" is in the file',
      })
    }
    await expect(
      session.actor.api.agent.admitUpload({ ...sandbox, generation: 2 }, 'c', bytes('x')),
    ).rejects.toMatchObject({ code: 'old_generation' })
  })

  test('[SEC8] a session refuses more values than it can look for', async () => {
    const session = new TestSession()
    await createWith(session, {})
    const large = await sealed(session, 'A', 'x'.repeat(8000))
    const many = Array.from({ length: 40 }, (_, n) => ({ ...large, key: `KEY_${n}` }))
    await expect(session.actor.api.env.submit(testCaller, many)).rejects.toMatchObject({
      code: 'too_large',
    })
    expect(session.sql.all('select key from env_values')).toEqual([])
  })
})

test('[TOOL10] of two values for one key the session keeps the first, unless it is to be replaced', async () => {
  const session = new TestSession()
  await session.create()
  const seal = (value: string) => sealed(session, 'A_KEY', value)
  const held = async () =>
    (await session.actor.api.agent.env({ ...testCaller, generation: 1 })).values
  // Sealed before either is given: which of two is sealed first is nobody's promise.
  const values = [await seal('first-value'), await seal('second-value')]
  await Promise.all(values.map((value) => session.actor.api.env.submit(testCaller, [value])))
  expect(await held()).toEqual({ A_KEY: 'first-value' })
  await session.actor.api.env.submit(testCaller, [await seal('third-value')], true)
  expect(await held()).toEqual({ A_KEY: 'third-value' })
  const events = await session.actor.api.log.events(testCaller, 0, 100)
  expect(events.filter(({ kind }) => kind === 'env.submitted').map(({ data }) => data)).toEqual([
    { keys: ['A_KEY'] },
    { keys: [] },
    { keys: ['A_KEY'] },
  ])
})
