import { expect, test } from 'vitest'
import type { UpMessage } from '../../../../src/contract/link.ts'
import { agentEvent, notice, question } from '../../../support/agent.ts'
import { prompt, readySession, sandboxOf, vanish } from '../../../support/lifecycle.ts'
import { testCaller, type TestSession } from '../../../support/session.ts'

const { organisationId } = testCaller
const old = { organisationId, generation: 1 }

/** Everything that the session has ever written. */
function dump(session: TestSession): Record<string, object[]> {
  const tables = session.sql.all<{ name: string }>(
    `select name from sqlite_master where type = 'table' order by name`,
  )
  return Object.fromEntries(
    tables.map(({ name }) => [name, session.sql.all(`select * from ${name}`)]),
  )
}

/** All that a sandbox can say, said once while it is the session's. */
class Sandbox {
  readonly said: UpMessage[] = []
  readonly calls: [tool: string, id: string, args: Record<string, unknown>][] = []
  readonly session: TestSession

  constructor(session: TestSession) {
    this.session = session
  }

  async say(message: UpMessage): Promise<void> {
    this.said.push(message)
    await this.session.receive(message)
  }

  async call(tool: string, id: string, args: Record<string, unknown> = {}): Promise<void> {
    this.calls.push([tool, id, args])
    await this.session.call(tool, id, args)
  }

  async live(): Promise<void> {
    await this.say({ t: 'hello', protocols: [1], agent: 'test', boot: 'b', ready: false })
    await this.say({ t: 'ready', bootMs: 1 })
    const { id: turnId } = await prompt(this.session)
    await this.say({ t: 'result', commandId: turnId, ok: true, data: { sent: true } })
    await this.say(question(`ask_${'1'.repeat(20)}`, 'read'))
    await this.say({ t: 'events', items: [notice(1), notice(2)] })
    await this.call('noop', 'one')
    await this.call('refuse', 'two')
    const end = { turnId, state: 'completed', reason: null, text: 'done', diff: null }
    await this.say({ t: 'events', items: [agentEvent(3, 'turn.ended', end)] })
    await this.say({ t: 'renew' })
  }

  /** What it would have said had it gone on. */
  readonly unsaid: UpMessage[] = [
    { t: 'hello', protocols: [1], agent: 'test', boot: 'b', ready: true },
    { t: 'failed', reason: 'x' },
    { t: 'events', items: [notice(4)] },
    { t: 'result', commandId: 'anything', ok: true, data: {} },
    question(`ask_${'2'.repeat(20)}`, 'bash'),
  ]

  /** Each is refused: the link with its code, a request with its error. */
  async replay(): Promise<void> {
    const { session } = this
    for (const message of [...this.said, ...this.unsaid]) {
      const end = await session.actor.receive(1, JSON.stringify(message))
      expect(end, message.t).toMatchObject({ code: 4403 })
      await session.settle()
    }
    const { actor } = session
    const doors: (() => Promise<unknown>)[] = [
      ...this.calls.map(
        ([tool, id, args]) =>
          () =>
            session.call(tool, id, args),
      ),
      () => session.call('noop', 'three'),
      () => actor.api.agent.authorise(old),
      () => actor.api.agent.manifest(old),
      () => actor.api.agent.admitUpload(old, 'a', new Uint8Array(3)),
      () => actor.api.agent.env(old),
    ]
    for (const door of doors) await expect(door()).rejects.toMatchObject({ code: 'old_generation' })
    actor.linkClosed(1)
    await session.settle()
  }
}

const ends: Record<string, (session: TestSession) => Promise<void>> = {
  'replaced by its owner': async (session) => {
    await session.actor.api.sandbox.replace(testCaller, 'x')
    await session.pass(0)
    await session.connect({ generation: 2 })
  },
  'lost and replaced': async (session) => {
    await vanish(session)
    await session.connect({ generation: 2 })
  },
  'put to sleep': async (session) => {
    await session.pass(30 * 60_000)
    expect((await sandboxOf(session)).state).toBe('stopped')
  },
  'put to sleep and woken': async (session) => {
    await session.pass(30 * 60_000)
    await prompt(session)
    await session.pass(0)
    await session.connect({ generation: 2 })
  },
}

test.each(Object.entries(ends))(
  '[LIFE15] a sandbox that was %s and says everything again is refused, and nothing changes',
  async (_, end) => {
    const session = await readySession()
    const zombie = new Sandbox(session)
    await zombie.live()
    await end(session)
    await session.pass(60_000)
    const linked = session.linked
    const before = dump(session)
    const orders = [...session.sandboxes.orders]
    await zombie.replay()
    expect(dump(session)).toEqual(before)
    expect(session.sandboxes.orders).toEqual(orders)
    expect(session.linked).toBe(linked)
    // And twice.
    await zombie.replay()
    expect(dump(session)).toEqual(before)
  },
)

test('[LIFE15] what the old one has sent just before it is replaced, and arrives after it, changes nothing', async () => {
  const session = await readySession()
  const text = JSON.stringify({ t: 'events', items: [notice(1)] } satisfies UpMessage)
  const late = session.actor.receive(1, text)
  const replaced = session.actor.api.sandbox.replace(testCaller, 'x')
  await Promise.all([late, replaced])
  const stored = session.sql.all(`select 1 from events where kind = 'agent.notice'`)
  const cursor = session.sql.all<{ seq: number }>('select seq from agent_cursors')
  // Either it came in time, whole, or not at all.
  expect(cursor.length).toBe(stored.length)
  expect((await sandboxOf(session)).generation).toBe(2)
})
