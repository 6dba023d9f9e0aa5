import { beforeEach, expect, test } from 'vitest'
import { maxEventBytes } from '../../../../src/contract/agent-events.ts'
import type { AgentEvent } from '../../../../src/contract/link.ts'
import { agentEvent, notice } from '../../../support/agent.ts'
import { testCaller, TestSession } from '../../../support/session.ts'

let session: TestSession
beforeEach(async () => {
  session = new TestSession()
  await session.create()
  await session.connect()
})

async function deliver(...items: AgentEvent[]): Promise<number | undefined> {
  session.sent = []
  await session.receive({ t: 'events', items })
  return session.sent.flatMap((message) => (message.t === 'ack' ? message.seq : [])).at(-1)
}
const stored = async () => {
  const events = await session.actor.api.log.events(testCaller, 0, 500)
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1))
  return events.filter(({ kind }) => kind === 'agent.notice').map(({ data }) => data['message'])
}

test('[EVT5] repeats are dropped, a gap ends the delivery, and the acknowledgement says where to go on', async () => {
  expect(await deliver(notice(1), notice(2))).toBe(2)
  expect(await deliver(notice(2), notice(3))).toBe(3)
  expect(await deliver(notice(5), notice(6))).toBe(3)
  expect(await deliver(notice(4), notice(6))).toBe(4)
  expect(await deliver(notice(1))).toBe(4)
  expect(await stored()).toEqual([1, 2, 3, 4].map((n) => `event ${n}`))
})

test('[EVT5] numbers are per generation', async () => {
  await deliver(notice(1, 'old'))
  await session.actor.api.sandbox.replace(testCaller, 'x')
  await session.connect({ generation: 2 })
  expect(session.sent).toContainEqual({ t: 'welcome', protocol: 1, ackedSeq: 0 })
  await session.receive({ t: 'events', items: [notice(1, 'new')] }, 2)
  expect(await stored()).toEqual(['old', 'new'])
})

test('[EVT5] what was acknowledged is there after a restart, and is not stored again', async () => {
  await deliver(notice(1), notice(2))
  session.restart()
  await session.connect()
  expect(session.sent).toContainEqual({ t: 'welcome', protocol: 1, ackedSeq: 2 })
  await deliver(notice(1), notice(2), notice(3))
  expect(await stored()).toEqual(['event 1', 'event 2', 'event 3'])
})

test('[EVT3] a wrong shape keeps its number and becomes a notice; unknown fields are dropped', async () => {
  const wrong = agentEvent(1, 'message.text', { text: 5 })
  const extra = agentEvent(2, 'agent.notice', { message: 'm', more: true })
  expect(await deliver(wrong, extra)).toBe(2)
  const events = await session.actor.api.log.events(testCaller, 0, 500)
  expect(events.at(-2)?.data['message']).toContain('"message.text" of the wrong shape')
  expect(events.at(-1)?.data).toEqual({ message: 'm' })
})

test('[EVT3] an event that is too large for a row becomes a notice', async () => {
  expect(await deliver(notice(1, 'x'.repeat(maxEventBytes)), notice(2))).toBe(2)
  expect(await stored()).toEqual([expect.stringContaining('too large'), 'event 2'])
})

test('[LINK6] an event of an unknown kind is not of the protocol', async () => {
  const end = await session.receive({
    t: 'events',
    items: [agentEvent(1, 'no.such.kind' as never, {})],
  })
  expect(end?.code).toBe(4400)
  expect(await stored()).toEqual([])
})

test('[LINK4] an old generation and a closed session are told 4403 and store nothing', async () => {
  expect((await session.receive({ t: 'events', items: [notice(1)] }, 2))?.code).toBe(4403)
  await session.actor.api.self.close(testCaller, 'x')
  expect((await session.receive({ t: 'events', items: [notice(1)] }))?.code).toBe(4403)
  expect(await stored()).toEqual([])
})

test('[EVT1] a page of very long events is shorter than asked for, and the next one goes on', async () => {
  const long = 'x'.repeat(200_000)
  for (let n = 1; n <= 60; n += 4)
    await deliver(...[n, n + 1, n + 2, n + 3].map((seq) => notice(seq, long)))
  const seen: number[] = []
  for (let page = await session.actor.api.log.events(testCaller, 0, 500); page.length > 0;) {
    expect(JSON.stringify(page).length).toBeLessThan(5 * 1024 * 1024)
    seen.push(...page.map(({ seq }) => seq))
    page = await session.actor.api.log.events(testCaller, seen.at(-1) ?? 0, 500)
  }
  const { lastEventSeq } = await session.actor.api.self.view(testCaller)
  expect(seen).toEqual(Array.from({ length: lastEventSeq }, (_, index) => index + 1))
})
