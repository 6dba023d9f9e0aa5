import { expect, test } from 'vitest'
import { linkClose } from '../../../src/contract/link.ts'
import { gatewayTool } from '../../../src/core/session/calls/tools/tool.ts'
import { agentEvent } from '../../support/agent.ts'
import { RunWorld } from '../../support/run-world.ts'
import { testCaller, TestSession } from '../../support/session.ts'
import { testTools } from '../../support/tools.ts'

test('[CALL11] a call that ran when its session was closed is unknown once its object has died', async () => {
  const [sample] = testTools
  if (!sample) throw new Error('No tool')
  const run = () => new Promise<never>(() => {})
  const definition = { ...sample.definition, name: 'endless' }
  const session = new TestSession([gatewayTool({ definition, repeatable: true, run })])
  await session.create()
  void session.call('endless', 'c1')
  await session.settle()
  await session.actor.api.self.close(testCaller, 'done')
  expect((await session.actor.api.self.view(testCaller)).activeCalls).toBe(1)
  session.restart()
  expect((await session.actor.api.self.view(testCaller)).activeCalls).toBe(0)
  const { items } = await session.actor.api.calls.list(testCaller, { limit: 9, after: null })
  expect(items.map(({ state }) => state)).toEqual(['unknown'])
})

test('[CALL11] and it says so also if its sandbox was replaced before the close', async () => {
  const [sample] = testTools
  if (!sample) throw new Error('No tool')
  const definition = { ...sample.definition, name: 'endless' }
  const run = () => new Promise<never>(() => {})
  const world = await new RunWorld([gatewayTool({ definition, repeatable: true, run })]).begin()
  void world.call('endless', 'c1').catch(() => null)
  await world.settle()
  await world.actor.api.sandbox.replace(testCaller, 'x')
  await world.actor.api.self.close(testCaller, 'done')
  world.restart()
  const { items } = await world.actor.api.calls.list(testCaller, { limit: 9, after: null })
  expect(items).toMatchObject([
    { state: 'unknown', error: expect.stringContaining('the session was closed before') },
  ])
})

test('[LIFE17] a link that died with the object is looked after at once by the next one', async () => {
  const world = await new RunWorld().begin()
  expect(world.deadlines()).not.toHaveProperty(['sandbox.check'])
  world.restart()
  expect((await world.actor.api.self.view(testCaller)).sandbox.state).toBe('suspect')
  expect(world.deadlines()).toHaveProperty(['sandbox.check'])
})

test('[EVT5] what cannot be stored ends the link, so that it is sent again and stored once', async () => {
  const world = await new RunWorld().begin()
  const items = [agentEvent(1, 'agent.notice', { message: 'kept' })]
  const before = { ...world.sql }
  world.sql.run = () => {
    throw new Error('database or disk is full')
  }
  const end = await world.receive({ t: 'events', items })
  Object.assign(world.sql, before)
  expect(end).toMatchObject({ code: linkClose.broke })
  expect(await world.events('agent.notice')).toEqual([])
  await world.connect()
  for (let times = 0; times < 2; times++) await world.receive({ t: 'events', items })
  expect(await world.events('agent.notice')).toEqual([{ message: 'kept' }])
})

test('[LINK3] the end of a link that another one has followed is not the end of the link', async () => {
  const world = await new RunWorld().begin()
  await world.meet()
  world.actor.linkClosed(1)
  expect((await world.actor.api.self.view(testCaller)).sandbox.state).toBe('ready')
  expect(await world.events('link.disconnected')).toEqual([])
})

test('[LINK2] a command that was sent on one link is sent again on the next', async () => {
  const world = await new RunWorld().begin()
  const { id } = await world.prompt()
  expect(world.commands().map((command) => command.id)).toEqual([id])
  for (let times = 0; times < 2; times++) {
    await world.connect()
    expect(world.commands().map((command) => command.id)).toEqual([id])
  }
})

test('[LIFE15] what a call of one sandbox still wants is not asked of the next', async () => {
  const [sample] = testTools
  if (!sample) throw new Error('No tool')
  let goOn = () => {}
  const held = new Promise<void>((resolve) => (goOn = resolve))
  const collecting = gatewayTool({
    definition: { ...sample.definition, name: 'collecting' },
    repeatable: true,
    run: async (_, call) => {
      await held
      await call.command('collect', { folder: '.' } as never)
      return { success: true, result: 'done' }
    },
  })
  const world = await new RunWorld([collecting]).begin()
  const called = world.call('collecting', 'c1').catch(() => null)
  await world.settle()
  await world.actor.api.sandbox.replace(testCaller, 'x')
  await world.meetNext()
  goOn()
  await world.settle()
  expect(world.commands().filter(({ kind }) => kind === 'collect')).toEqual([])
  await called
})

test('[HOST8] an instance that cannot write its first words arms nothing', async () => {
  const world = await new RunWorld().begin()
  world.ledger.away = true
  await world.prompt()
  const armedAt = -1
  world.armedAt = armedAt
  const before = { ...world.sql }
  world.sql.run = () => {
    throw new Error('database or disk is full')
  }
  expect(() => world.restart()).toThrow('disk is full')
  expect(world.armedAt).toBe(armedAt)
  Object.assign(world.sql, before)
  world.restart()
  expect(world.armedAt).toBeGreaterThan(0)
})
