import { expect, test } from 'vitest'
import type { SessionEvent } from '../../../../src/contract/events.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller } from '../../../support/session.ts'

async function watched() {
  const session = await new RunWorld().begin()
  const heard: (SessionEvent & { commandsBefore: number })[] = []
  session.watch = (events) => {
    const commandsBefore = session.commands().length
    heard.push(...events.map((event) => ({ ...event, commandsBefore })))
  }
  session.actor.watchStarted()
  return { session, heard }
}

test('[EVT2] who watches hears each event that comes from then on, once and in order', async () => {
  const { session, heard } = await watched()
  const { lastEventSeq: before } = await session.actor.api.self.view(testCaller)
  await session.endTurn(await session.prompt())
  const { lastEventSeq: last } = await session.actor.api.self.view(testCaller)
  const numbers = Array.from({ length: last - before }, (_, at) => before + 1 + at)
  expect(last).toBeGreaterThan(before)
  expect(heard.map(({ seq }) => seq)).toEqual(numbers)
})

test('[EVT2] all of what one commit appends is heard, also more than a page of it', async () => {
  const { session, heard } = await watched()
  const { lastEventSeq: before } = await session.actor.api.self.view(testCaller)
  const ids = { turnId: null, sessionId: 's', messageId: 'm', partId: 'p', reason: 'stop', cost: 0 }
  const none = { output: 0, reasoning: 0, cacheRead: 0, cacheWrite: 0 }
  // What cannot be true is told in an event of its own.
  const step = { ...ids, tokens: { ...none, input: -1 } }
  await session.emit(...Array.from({ length: 200 }, () => ['step.finished', step] as const))
  expect(heard.map(({ seq }) => seq)).toEqual(
    Array.from({ length: 400 }, (_, at) => before + 1 + at),
  )
})

test('[EVT2] a watcher hears of a turn before the sandbox hears of its prompt', async () => {
  const { session, heard } = await watched()
  await session.prompt()
  expect(heard.map(({ kind }) => kind)).toContain('turn.started')
  expect(heard.map(({ commandsBefore }) => commandsBefore)).toEqual(heard.map(() => 0))
  expect(session.commands().map(({ kind }) => kind)).toEqual(['prompt'])
})

test('[SES4] nobody watches a session of another organisation', async () => {
  const { session } = await watched()
  session.actor.checkWatcher(testCaller)
  const stranger = { organisationId: `org_${'2'.repeat(20)}` }
  expect(() => session.actor.checkWatcher(stranger)).toThrow('No such session')
})
