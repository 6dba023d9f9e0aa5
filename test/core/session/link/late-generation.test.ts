import { expect, test } from 'vitest'
import { z } from 'zod'
import { linkClose } from '../../../../src/contract/link.ts'
import { gatewayTool } from '../../../../src/core/session/calls/tools/tool.ts'
import { maxReportedMs } from '../../../../src/contract/reported.ts'
import { agentEvent } from '../../../support/agent.ts'
import { RunWorld } from '../../../support/run-world.ts'
import { testCaller, TestSession } from '../../../support/session.ts'

const held = () => Promise.withResolvers<void>()

/** Meanwhile the sandbox is replaced, and the next one is there. */
async function replace(session: TestSession): Promise<void> {
  await session.actor.api.sandbox.replace(testCaller, 'x')
  await session.pass(0)
  await session.connect({ generation: 2 })
}

async function begin(session: TestSession): Promise<TestSession> {
  await session.create({ sandbox: 'local' })
  await session.pass(0)
  await session.connect()
  return session
}

test('[LIFE15] a token that was being minted for a replaced sandbox is not given to the next one', async () => {
  const session = await begin(new TestSession())
  const minted = held()
  session.minting = minted.promise
  const renewed = session.receive({ t: 'renew' })
  await session.settle()
  await replace(session)
  minted.resolve()
  await renewed
  expect(session.sent.filter(({ t }) => t === 'token')).toEqual([])
})

test('[LIFE15] what a call of a replaced sandbox wanted from it is not asked of the next one', async () => {
  const waiting = held()
  const slow = gatewayTool({
    definition: {
      ...{ name: 'slow', aliases: [], domain: 'gateway', description: '', guidance: '' },
      args: z.strictObject({}),
      onConflict: 'refuse',
    },
    repeatable: true,
    run: async (_, call) => {
      await waiting.promise
      await call.command('diff', {})
      return { success: true, result: 'done' }
    },
  })
  const session = await begin(new TestSession([slow]))
  const answered = session.call('slow', 'one')
  await session.settle()
  await replace(session)
  waiting.resolve()
  expect(JSON.parse((await answered).body)).toEqual({
    success: false,
    result: 'The sandbox has been replaced',
  })
  expect(session.commands()).toEqual([])
})

test.each(['link.before-store', 'link.after-store'] as const)(
  '[LIFE15] what a replaced sandbox told is not acknowledged to the next one (%s)',
  async (point) => {
    const session = await begin(new TestSession())
    const going = held()
    session.holds.set(point, going.promise)
    const told = { text: 'late', reasoning: false, turnId: null }
    const part = { sessionId: 's', messageId: 'm', partId: 'p' }
    const received = session.receive({
      t: 'events',
      items: [agentEvent(1, 'message.text', { ...part, ...told })],
    })
    await session.settle()
    await replace(session)
    going.resolve()
    await received
    expect(session.sent.filter(({ t }) => t === 'ack')).toEqual([])
    const stored = await session.actor.api.log.events(testCaller, 0, 500)
    const texts = stored.filter(({ kind }) => kind === 'message.text')
    expect(texts).toHaveLength(point === 'link.before-store' ? 0 : 1)
  },
)

test('[LIFE15] [GATE14] a question of a replaced sandbox that waited for the organisation is not decided', async () => {
  const world = await new RunWorld().begin()
  await world.prompt()
  const granted = held()
  const slice = { wallMs: 1e9, toolCalls: 9, tokens: 1e9, moneyMicros: 1e9 }
  world.organisation.shared = {
    take: async () => (await granted.promise, { granted: slice, warnings: [] }),
    giveBack: async () => {},
  }
  world.sql.run(`update slice set granted = '{}'`)
  const asked = world.ask('read', { filePath: 'a.txt' })
  await world.settle()
  await replace(world)
  granted.resolve()
  await asked
  expect(world.sent.filter(({ t }) => t === 'answer')).toEqual([])
  expect(world.rowsOf('asks')).toEqual([])
  expect(await world.events('gate.decided')).toEqual([])
})

test.each([{ t: 'ready', bootMs: 1 }, { t: 'failed', reason: 'late' }, { t: 'renew' }] as const)(
  '[LIFE15] a replaced sandbox that says $t is told that it is over, and changes nothing',
  async (said) => {
    const session = await begin(new TestSession())
    await session.actor.api.sandbox.replace(testCaller, 'x')
    await session.pass(0)
    const before = await session.actor.api.self.view(testCaller)
    session.linked = true
    session.sent = []
    expect(await session.receive(said, 1)).toMatchObject({ code: linkClose.fenced })
    expect(await session.actor.api.self.view(testCaller)).toEqual(before)
    expect(session.sent).toEqual([])
  },
)

test('[LIFE15] that the socket of a replaced sandbox ends says nothing of the next one', async () => {
  const session = await begin(new TestSession())
  await session.actor.api.sandbox.replace(testCaller, 'x')
  await session.pass(0)
  const look = async () => [
    await session.actor.api.self.view(testCaller),
    await session.actor.api.log.events(testCaller, 0, 500),
    session.deadlines(),
  ]
  const before = await look()
  expect(before[0]).toMatchObject({ sandbox: { state: 'booting', generation: 2 } })
  await session.cut(1)
  expect(await look()).toEqual(before)
})

test('[EVT8] how long a boot is said to have taken is logged as far as it can be true', async () => {
  const session = new TestSession()
  await session.create({ sandbox: 'local' })
  await session.pass(0)
  await session.connect({ ready: false })
  for (const bootMs of [-5, 1e300]) await session.receive({ t: 'ready', bootMs })
  const booted = session.logs.flatMap((line) => /"bootMs":(\S+)\}/.exec(line)?.[1] ?? [])
  expect(booted.map(Number)).toEqual([0, maxReportedMs])
})

test('[LIFE15] the link of a sandbox that has given up is closed', async () => {
  const session = await begin(new TestSession())
  await session.receive({ t: 'failed', reason: 'gone' })
  expect(session.linked).toBe(false)
})
