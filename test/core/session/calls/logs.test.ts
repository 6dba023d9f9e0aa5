import { beforeEach, expect, test } from 'vitest'
import { TestSession, testCaller, testSessionId } from '../../../support/session.ts'

let session: TestSession
beforeEach(async () => {
  session = new TestSession()
  await session.create()
})
const lines = () =>
  session.logs.flatMap((line) => {
    const [, level = '', message = '', fields = '{}'] =
      /^(\w+) (Tool [\w ]+) (\{.*)$/.exec(line) ?? []
    return message ? [{ level, message, ...(JSON.parse(fields) as Record<string, unknown>) }] : []
  })
const whose = {
  sessionId: testSessionId,
  organisationId: testCaller.organisationId,
  keyId: testCaller.keyId,
}

test('[CALL13] a slow call is an info line, a quick one a debug line', async () => {
  await session.call('noop', 'quick')
  const slow = session.call('slow', 'slow', { ms: 1 })
  session.now += 10_001
  await slow
  expect(lines()).toEqual([
    {
      ...{ level: 'debug', message: 'Tool call settled', tool: 'noop', toolCallId: 'quick' },
      ...{ ...whose, success: true, durationMs: 0 },
    },
    {
      ...{ level: 'info', message: 'Tool call settled', tool: 'slow', toolCallId: 'slow' },
      ...{ ...whose, success: true, durationMs: 10_001 },
    },
  ])
})

test('[CALL13] one that was put off or refused is an info line, one that threw an error line', async () => {
  await session.call('unavailable', 'later', { times: 1 }).catch(() => {})
  await session.call('refuse', 'no')
  await session.call('boom', 'bug').catch(() => {})
  expect(lines()).toMatchObject([
    {
      level: 'info',
      message: 'Tool call put off',
      toolCallId: 'later',
      code: 'storage_unavailable',
    },
    { level: 'info', message: 'Tool call settled', toolCallId: 'no', success: false },
    { level: 'error', message: 'Tool handler failed', toolCallId: 'bug', error: 'boom', ...whose },
  ])
})
