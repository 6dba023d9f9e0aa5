import { expect, test } from 'vitest'
import { z } from 'zod'
import { gatewayTool } from '../../../../src/core/session/calls/tools/tool.ts'
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
