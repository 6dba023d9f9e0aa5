import { beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { AppError } from '../../../../src/contract/error.ts'
import { SessionCreate } from '../../../../src/contract/session.ts'
import type { ToolResult } from '../../../../src/contract/tool.ts'
import { gatewayTools } from '../../../../src/core/session/calls/tools/registry.ts'
import { type GatewayTool, gatewayTool } from '../../../../src/core/session/calls/tools/tool.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller, TestSession, testSessionId } from '../../../support/session.ts'
import { testTools } from '../../../support/tools.ts'

// A call that comes again while the first is just ending, after a restart, or from a replaced sandbox.

const [sample] = testTools as [GatewayTool]
const page = { limit: 50, after: null }
let session: TestSession
/** What the tool does when it is run next. Without one it waits for `release`. */
let next: (() => ToolResult)[]
let runs: string[]
let held: (() => void)[]
let late: unknown[]

function flexible(name: string, more: Partial<GatewayTool['definition']> = {}): GatewayTool {
  return gatewayTool({
    definition: { ...sample.definition, ...more, name },
    repeatable: name !== 'fragile',
    run: async (_, { operationId }) => {
      runs.push(operationId)
      const act = next.shift()
      if (act) return act()
      await new Promise<void>((resolve) => void held.push(resolve))
      return next.shift()?.() ?? { success: true, result: 'waited' }
    },
    ...(name === 'talkative'
      ? {
          late: (args: unknown) => {
            late.push(args)
            return { success: false, result: 'too late' }
          },
        }
      : {}),
  })
}
const throwing = (error: unknown) => () => {
  throw error
}
const away = throwing(new AppError('sandbox_unavailable', 'It is away'))
const release = async () => {
  held.splice(0).forEach((resolve) => resolve())
  await session.settle()
}

beforeEach(async () => {
  next = []
  runs = []
  held = []
  late = []
  const chosen = { callIdFrom: 'id' }
  const folded = { args: z.strictObject({ text: z.string().default('same') }) }
  session = new TestSession([
    ...[flexible('sturdy'), flexible('fragile'), flexible('chosen', chosen)],
    ...[flexible('talkative'), flexible('folded', folded)],
  ])
  await session.create({ sandbox: 'local' })
  await session.pass(0)
  await session.connect()
})
const stateOf = async (id: string) =>
  (await session.actor.api.calls.list(testCaller, page)).items.find(
    ({ toolCallId }) => toolCallId === id,
  )
const resultOf = ({ body }: { body: string }) => (JSON.parse(body) as ToolResult).result
/** Done in the moment in which the session logs that. */
function whenLogged(text: string, act: () => void): void {
  const push = session.logs.push.bind(session.logs)
  session.logs.push = (...lines) => {
    const count = push(...lines)
    if (lines.some((line) => line.includes(text))) {
      session.logs.push = push
      act()
    }
    return count
  }
}

test('[CALL3] [CALL8] one that comes as the first has just failed runs it again, and a third joins the second', async () => {
  next = [throwing(new Error('boom'))]
  let second: Promise<{ body: string }> | undefined
  whenLogged('handler failed', () => void (second = session.call('sturdy', 'x')))
  await expect(session.call('sturdy', 'x')).rejects.toMatchObject({ code: 'internal' })
  await session.settle()
  const third = session.call('sturdy', 'x')
  await session.settle()
  expect(runs).toHaveLength(2)
  await release()
  expect([await second, await third].map((answer) => answer && resultOf(answer))).toEqual([
    'waited',
    'waited',
  ])
  expect(new Set(runs).size).toBe(1)
  expect(await stateOf('x')).toMatchObject({ state: 'settled', attempts: 2 })
})

describe('again after it failed or was lost', () => {
  test('[CALL7] [CALL8] what must not run twice says why its outcome is unknown', async () => {
    next = [throwing(new Error('boom'))]
    const failing = session.call('fragile', 'failed')
    await expect(failing).rejects.toMatchObject({ code: 'internal' })
    void session.call('fragile', 'lost').catch(() => {})
    await session.settle()
    session.restart()
    expect(resultOf(await session.call('fragile', 'failed'))).toContain('it failed half-way')
    expect(resultOf(await session.call('fragile', 'lost'))).toContain('the process that ran it')
    expect(await stateOf('failed')).toMatchObject({ state: 'unknown', error: 'it failed half-way' })
    expect(runs).toHaveLength(2)
  })

  test('[CALL11] what runs again in this instance is not ended by the close', async () => {
    void session.call('sturdy', 'x').catch(() => {})
    await session.settle()
    session.restart()
    const again = session.call('sturdy', 'x')
    await session.settle()
    await session.actor.api.self.close(testCaller, 'done')
    expect((await stateOf('x'))?.state).toBe('pending')
    await release()
    expect(resultOf(await again)).toBe('waited')
  })

  test('[CALL2] libSQL learns that it runs again before it has ended', async () => {
    next = [throwing(new Error('boom'))]
    await session.call('sturdy', 'x').catch(() => {})
    await session.pass(0)
    const told = () =>
      session.ledger
        .projected<{ toolCallId: string; status: string }>('call', (row) => row.toolCallId)
        .map(({ status }) => status)
    expect(told()).toEqual(['failed'])
    void session.call('sturdy', 'x')
    await session.pass(6000)
    expect(told()).toEqual(['pending'])
  })

  test('[CALL13] how long it took until it failed is in its line', async () => {
    void session.call('sturdy', 'x').catch(() => {})
    await session.settle()
    session.now += 40
    next = [throwing(new Error('boom'))]
    await release()
    expect(session.logs.at(-1)).toMatch(/^error .*"durationMs":40/)
  })
})

test('[CALL9] [CALL11] one that was put off is released alone, and the close ends what is pending alone', async () => {
  const running = session.call('sturdy', 'running')
  await session.settle()
  next = [away, throwing(new Error('boom'))]
  for (const id of ['away', 'failed']) await session.call('sturdy', id).catch(() => {})
  const free = session.sql.all<{ id: string }>(
    `select tool_call_id as id from calls where state = 'pending' and runner is null`,
  )
  expect(free).toEqual([{ id: 'away' }])
  await session.actor.api.self.close(testCaller, 'done')
  const states = ['running', 'away', 'failed'].map(async (id) => (await stateOf(id))?.state)
  expect(await Promise.all(states)).toEqual(['pending', 'unknown', 'failed'])
  await release()
  await running
})

describe('of a replaced sandbox', () => {
  const replace = () => session.actor.api.sandbox.replace(testCaller, 'x')

  test('[CALL17] an id that the agent has chosen stays pending, also if it was running; another is answered', async () => {
    const refused = expect(session.call('chosen', 'chosen')).rejects.toMatchObject({
      code: 'sandbox_unavailable',
    })
    const answered = session.call('sturdy', 'sturdy')
    await session.settle()
    await replace()
    next = [away, away]
    await release()
    await refused
    expect(resultOf(await answered)).toBe('It is away')
    expect((await stateOf('chosen'))?.state).toBe('pending')
  })

  test('[CALL17] what has failed stays failed; a tool that is gone cannot come again', async () => {
    next = [throwing(new Error('boom')), away]
    await session.call('sturdy', 'failed').catch(() => {})
    await session.call('sturdy', 'gone').catch(() => {})
    session.sql.run(`update calls set tool = 'removed' where tool_call_id = 'gone'`)
    await replace()
    expect((await stateOf('failed'))?.state).toBe('failed')
    expect(await stateOf('gone')).toMatchObject({
      ...{ state: 'unknown', error: 'its sandbox was replaced before it settled' },
    })
  })
})

test('[CALL6] arguments are compared and kept as they were parsed', async () => {
  next = [() => ({ success: true, result: 'once' })]
  await session.call('folded', 'x')
  expect(await session.call('folded', 'x', { text: 'same' })).toMatchObject({ replayed: true })
  expect((await stateOf('x'))?.args).toEqual({ text: 'same' })
})

test('[CALL11] a tool that has a late word says it to arguments that fit, and stores nothing', async () => {
  await session.actor.api.self.close(testCaller, 'done')
  expect(await session.call('talkative', 'x', { text: 'a' })).toEqual({
    body: '{"success":false,"result":"too late"}',
    replayed: false,
  })
  await expect(session.call('talkative', 'y', { text: 1 })).rejects.toMatchObject({
    code: 'session_closed',
  })
  expect(late).toEqual([{ text: 'a' }])
  expect((await session.actor.api.calls.list(testCaller, page)).items).toEqual([])
})

test('[CALL18] what OpenCode tells of a call is kept without what does not fit, as the call is', async () => {
  const world = await new RunWorld(gatewayTools).begin()
  const { id: turnId } = await world.prompt()
  const part = { turnId, sessionId: 's', messageId: 'm', partId: 'p' }
  const input = { variables: [{ name: 'KEY' }], value: 'hunter22' }
  const tell = (tool: string, more: object) =>
    world.emit(['tool.started', { ...part, callId: 'c', tool, ...more }])
  await tell('verify', { input })
  await tell('other', { input })
  const told = await world.events('tool.started')
  expect(told.map((data) => data['input'])).toEqual([
    { variables: '[not kept: list]', value: '[not kept: text of 8 characters]' },
    input,
  ])
})

test('[RUN9] a completed automation denies what still waits in its turn, at once', async () => {
  const world = new RunWorld(gatewayTools)
  await world.actor.api.self.create({
    sessionId: testSessionId,
    ...testCaller,
    input: SessionCreate.parse({
      ...{ sandbox: 'local', clientType: 'automation', automationRunId: 'r' },
      gate: { deny: [], ask: ['bash'], askTimeoutSeconds: 600 },
    }),
    configuration: {
      ...{ id: `cfg_${'1'.repeat(20)}`, project: 'default', name: 'n', repository: null },
      ...{ defaultModel: null, trustProjectConfig: false, snapshotId: null, envFiles: [] },
    },
  })
  await world.pass(0)
  await world.meet()
  await world.prompt()
  const ask = await world.ask('bash')
  expect(world.answerTo(ask)).toBeNull()
  const args = { run_id: 'r', completion_id: 'c', outcome: 'succeeded' }
  expect((await world.call('automation.complete', 'c', args)).body).toContain('"success":true')
  expect(world.answerTo(ask)).toBe('deny')
})
