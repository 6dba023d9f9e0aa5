import { beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { AppError } from '../../../../src/contract/error.ts'
import { maxArgsBytes, type ToolResult } from '../../../../src/contract/tool.ts'
import { type GatewayTool, gatewayTool } from '../../../../src/core/session/calls/tools/tool.ts'
import { testCaller, TestSession } from '../../../support/session.ts'
import { testTools } from '../../../support/tools.ts'

// Calls through a whole session: what the sandbox is answered, what is stored, told and logged.

const page = { limit: 50, after: null }
const [sample] = testTools as [GatewayTool]
let runs: string[]
let held: (() => void)[]

/** The function of a tool is counted; whoever waits is let go by `release`. */
function tool(
  name: string,
  more: Partial<GatewayTool['definition']> & { repeatable?: boolean },
  run: () => ToolResult | Promise<ToolResult> = () => ({ success: true, result: name }),
): GatewayTool {
  const { repeatable = true, ...definition } = more
  return gatewayTool({
    definition: { ...sample.definition, ...definition, name },
    repeatable,
    run: () => {
      runs.push(name)
      return run()
    },
  })
}
const wait = () => new Promise<void>((resolve) => void held.push(resolve))
const release = () => held.splice(0).forEach((resolve) => resolve())
let refusal: unknown = null
const limit = 256 * 1024
/** Its answer has so many characters. */
const long = (length: number) => {
  const empty = JSON.stringify({ success: true, result: '' }).length
  return () => ({ success: true, result: 'x'.repeat(length - empty) })
}
const Nested = z.strictObject({
  list: z.array(z.strictObject({ n: z.number() })),
  text: z.string().optional(),
})
const tools = (): GatewayTool[] => [
  ...testTools,
  tool('held', {}, async () => {
    await wait()
    return { success: true, result: `run ${runs.length}` }
  }),
  tool('other', { repeatable: false }),
  tool('nested', { args: Nested }),
  tool('never', { args: z.strictObject({}).refine(() => false, 'No') }),
  tool('chosen', { callIdFrom: 'id', args: Nested }),
  tool('longest', {}, long(limit)),
  tool('too_long', {}, long(limit + 1)),
  tool('refusing', {}, async () => {
    if (refusal) throw refusal
    return { success: true, result: 'at last' }
  }),
]

let session: TestSession
beforeEach(async () => {
  runs = []
  held = []
  refusal = null
  session = new TestSession(tools())
  await session.create({ sandbox: 'local' })
  await session.pass(0)
  await session.connect()
})
const answerOf = ({ body }: { body: string }) => JSON.parse(body) as ToolResult
const list = async () => (await session.actor.api.calls.list(testCaller, page)).items
const oneOf = async (tool: string, id = 'x') =>
  (await list()).find((call) => call.tool === tool && call.toolCallId === id)
const eventsOf = async (kind: string) =>
  (await session.actor.api.log.events(testCaller, 0, 500))
    .filter((event) => event.kind === kind)
    .map(({ data }) => data)

describe('one id', () => {
  test('[CALL3] [CALL4] while it runs others join it, later ones are answered from the record, and each is told which', async () => {
    const first = session.call('held', 'x')
    await session.settle()
    const second = session.call('held', 'x')
    await session.settle()
    release()
    const body = '{"success":true,"result":"run 1"}'
    expect(await first).toEqual({ body, replayed: false })
    expect(await second).toEqual({ body, replayed: true })
    expect(await session.call('held', 'x')).toEqual({ body, replayed: true })
    // An instance that has seen no replay for long does not look first, and finds it all the same.
    for (let n = 0; n < 20; n++) await session.call('noop', `new ${n}`)
    expect(await session.call('held', 'x')).toEqual({ body, replayed: true })
    expect(runs).toEqual(['held'])
  })

  test('[CALL5] of two tools is two calls', async () => {
    await session.call('noop', 'x', { text: 'a' })
    expect(answerOf(await session.call('other', 'x'))).toEqual({ success: true, result: 'other' })
    expect(answerOf(await session.call('noop', 'x', { text: 'a' })).result).toBe('a')
    expect(answerOf(await session.call('other', 'x')).result).toBe('other')
    expect(runs).toEqual(['other'])
    expect((await list()).map((call) => call.tool)).toEqual(['noop', 'other'])
    // The end of one is not the end of the other.
    const waits = session.call('held', 'x')
    await session.settle()
    await session.call('nested', 'x', { list: [] })
    expect((await oneOf('held'))?.state).toBe('pending')
    release()
    await waits
    const [first] = await eventsOf('call.started')
    const { operationId } = (await oneOf('noop')) ?? {}
    expect(first).toEqual({ tool: 'noop', toolCallId: 'x', operationId, attempt: 1 })
  })

  test('[OUT2] calls that libSQL could not hear of at once are told together, each with its own row', async () => {
    session.ledger.away = true
    for (const id of ['a', 'b', 'c']) await session.call('noop', id, { text: id })
    session.ledger.away = false
    await session.pass(60_000)
    const told = session.ledger.projected<{ toolCallId: string; output: string }>(
      'call',
      (row) => row.toolCallId,
    )
    expect(told.map(({ toolCallId, output }) => [toolCallId, JSON.parse(output).result])).toEqual([
      ['a', 'a'],
      ['b', 'b'],
      ['c', 'c'],
    ])
  })

  test('[CALL6] with other arguments is refused or answered, and told; only that call counts it', async () => {
    await session.call('noop', 'y')
    await session.call('noop', 'x', { text: 'a' })
    await session.call('refuse', 'x')
    await expect(session.call('noop', 'x', { text: 'b' })).rejects.toMatchObject({
      code: 'call_conflict',
      message: 'tool_call_id "x" was used for "noop" with other arguments',
    })
    expect(await session.call('refuse', 'x', { text: 'b' })).toEqual({
      body: '{"success":false,"result":"tool_call_id \\"x\\" was used for \\"refuse\\" with other arguments"}',
      replayed: false,
    })
    expect(await eventsOf('call.conflict')).toEqual([
      { tool: 'noop', toolCallId: 'x' },
      { tool: 'refuse', toolCallId: 'x' },
    ])
    const conflicts = (await list()).map((call) => [call.tool, call.toolCallId, call.conflicts])
    expect(conflicts).toEqual([
      ['noop', 'y', 0],
      ['noop', 'x', 1],
      ['refuse', 'x', 1],
    ])
  })

  test('[CALL9] that was put off is released alone: what runs beside it keeps its runner', async () => {
    refusal = new AppError('storage_unavailable', 'Not now')
    const beside = [session.call('held', 'x'), session.call('held', 'y')]
    await session.settle()
    session.now += 7
    await expect(session.call('refusing', 'x')).rejects.toMatchObject({
      code: 'storage_unavailable',
    })
    const runners = session.sql.all<{ tool: string; free: number }>(
      'select tool, runner is null as free from calls order by n',
    )
    expect(runners).toEqual([
      { tool: 'held', free: 0 },
      { tool: 'held', free: 0 },
      { tool: 'refusing', free: 1 },
    ])
    const before = await oneOf('refusing')
    expect(before).toMatchObject({ state: 'pending', attempts: 1, response: null, error: null })
    refusal = null
    expect(answerOf(await session.call('refusing', 'x')).result).toBe('at last')
    expect(await oneOf('refusing')).toMatchObject({
      ...{ state: 'settled', attempts: 2, operationId: before?.operationId },
    })
    expect((await oneOf('held'))?.attempts).toBe(1)
    release()
    await Promise.all(beside)
    expect(session.logs.filter((line) => line.includes('put off'))).toEqual([
      expect.stringMatching(/^info .*"toolCallId":"x".*"durationMs":0/),
    ])
    const ended = await eventsOf('call.ended')
    expect(ended).toContainEqual(
      expect.objectContaining({ tool: 'held', state: 'settled', success: true, durationMs: 7 }),
    )
  })
})

describe('what a tool throws', () => {
  test('[CALL8] a refusal that cannot be repeated is the answer, a bug is 500 and kept in short', async () => {
    refusal = new AppError('wrong_state', 'It is too late')
    expect(answerOf(await session.call('refusing', 'x'))).toEqual({
      success: false,
      result: 'It is too late',
    })
    refusal = new Error('b'.repeat(3000))
    session.now += 5
    await expect(session.call('refusing', 'bug')).rejects.toMatchObject({
      code: 'internal',
      message: 'Tool "refusing" failed unexpectedly',
    })
    expect(await oneOf('refusing', 'bug')).toMatchObject({
      ...{ state: 'failed', error: 'b'.repeat(2000), response: null, settledAt: session.now },
    })
    refusal = 'no error at all'
    await expect(session.call('refusing', 'text')).rejects.toMatchObject({ code: 'internal' })
    expect((await oneOf('refusing', 'text'))?.error).toBe('no error at all')
    expect((await oneOf('refusing', 'bug'))?.error).toBe('b'.repeat(2000))
    expect((await eventsOf('call.ended')).map(({ state, success }) => [state, success])).toEqual([
      ['settled', false],
      ['failed', null],
      ['failed', null],
    ])
  })

  test('[CALL12] an answer of 256 Ki characters is the longest; a longer one is a bug of the tool', async () => {
    expect((await session.call('longest', 'x')).body).toHaveLength(limit)
    await expect(session.call('too_long', 'x')).rejects.toMatchObject({ code: 'internal' })
    expect(await oneOf('too_long')).toMatchObject({
      ...{ state: 'failed', error: `The answer has ${limit + 1} characters` },
    })
  })
})

describe('before anything runs', () => {
  test('[CALL1] who is no sandbox of this session, and what is no tool, is refused and leaves nothing', async () => {
    await expect(session.call('nothing', 'x')).rejects.toMatchObject({ code: 'unknown_tool' })
    for (const [name, args] of [
      ['noop', {}],
      ['chosen', { list: 1 }],
      ['noop', { text: 'x'.repeat(maxArgsBytes) }],
    ] as const)
      await expect(session.call(name, 'x', args, 2)).rejects.toMatchObject({
        code: 'old_generation',
      })
    const elsewhere = { ...testCaller, organisationId: `org_${'2'.repeat(20)}` }
    await expect(session.actor.api.calls.list(elsewhere, page)).rejects.toMatchObject({
      code: 'not_found',
    })
    expect(await list()).toEqual([])
  })

  test('[CALL12] arguments that are too large are refused, and the refusal says where', async () => {
    await expect(
      session.call('noop', 'x', { text: 'x'.repeat(maxArgsBytes) }),
    ).rejects.toMatchObject({
      code: 'too_large',
      details: [{ path: 'args', message: `At most ${maxArgsBytes} bytes` }],
    })
    expect(await list()).toEqual([])
  })

  test('[CALL10] [CALL18] arguments that do not fit are named, and kept without what does not', async () => {
    const wrong = {
      list: [{ n: 'abcd' }, { n: null }, { n: [1] }, { n: { a: 1 } }, { n: true }, {}],
      text: 'fits',
      more: 'secret beside',
    }
    const answer = answerOf(await session.call('nested', 'x', wrong))
    expect(answer.success).toBe(false)
    expect(answer.result).toMatch(/^Invalid arguments: list\.0\.n: .*string, list\.1\.n: /)
    expect(answer.result).toContain('more: Unknown field; known are ')
    expect((await oneOf('nested'))?.args).toEqual({
      list: [
        { n: '[not kept: text of 4 characters]' },
        { n: null },
        { n: '[not kept: list]' },
        { n: '[not kept: object]' },
        { n: '[not kept: boolean]' },
        {},
      ],
      text: 'fits',
      more: '[not kept: text of 13 characters]',
    })
    expect(answerOf(await session.call('never', 'x')).result).toBe('Invalid arguments: args: No')
    expect((await oneOf('never'))?.args).toBe('[not kept: object]')
    // They are compared as they were sent.
    expect(await session.call('nested', 'x', wrong)).toMatchObject({ replayed: true })
    await expect(session.call('nested', 'x', { ...wrong, more: 'other' })).rejects.toMatchObject({
      code: 'call_conflict',
    })
    expect(runs).toEqual([])
  })

  test('[TOOL14] an id that the agent has chosen stays free if its arguments do not fit', async () => {
    const wrong = await session.call('chosen', 'x', { list: 1 })
    expect([answerOf(wrong).success, wrong.replayed]).toEqual([false, false])
    expect(await list()).toEqual([])
    expect(answerOf(await session.call('chosen', 'x', { list: [] })).success).toBe(true)
  })
})

test('[CALL11] a closed session replays, refuses new ids whatever they bring, and what was pending is unknown', async () => {
  refusal = new AppError('storage_unavailable', 'Not now')
  await session.call('noop', 'x')
  for (const id of ['1', '2']) await session.call('refusing', id).catch(() => {})
  const running = session.call('held', 'x')
  await session.settle()
  session.now += 3
  await session.actor.api.self.close(testCaller, 'done')
  expect(await session.call('noop', 'x')).toMatchObject({ replayed: true })
  for (const [name, args] of [
    ['noop', {}],
    ['nested', { list: 1 }],
  ] as const)
    await expect(session.call(name, 'new', args)).rejects.toMatchObject({ code: 'session_closed' })
  const lost = { state: 'unknown', error: 'the session was closed before it settled' }
  expect(await oneOf('refusing', '1')).toMatchObject(lost)
  expect(await oneOf('refusing', '2')).toMatchObject({ ...lost, settledAt: session.now })
  // What still runs here is settled by its own result.
  expect((await oneOf('held'))?.state).toBe('pending')
  release()
  await running
  expect((await oneOf('held'))?.state).toBe('settled')
  const states = (await eventsOf('call.ended')).map(({ toolCallId, state, success }) => [
    ...[toolCallId, state, success],
  ])
  expect(states).toEqual([
    ['x', 'settled', true],
    ['1', 'unknown', false],
    ['2', 'unknown', false],
    ['x', 'settled', true],
  ])
})

test('[CALL13] the request that brought a call is in its line; ten seconds are not slow yet', async () => {
  const sandbox = { organisationId: testCaller.organisationId, generation: 1 }
  const bring = (toolCallId: string, more: { requestId?: string }) =>
    session.actor.api.calls.call({ ...sandbox, ...more }, { tool: 'held', toolCallId, args: {} })
  const calls = [bring('a', { requestId: 'req_1' }), bring('b', {})]
  await session.settle()
  session.now += 10_000
  release()
  await Promise.all(calls)
  const lines = session.logs.filter((line) => line.includes('Tool call settled'))
  expect(lines).toHaveLength(2)
  expect(lines[0]).toMatch(/^debug .*"requestId":"req_1"/)
  expect(lines[1]).not.toContain('requestId')
})
