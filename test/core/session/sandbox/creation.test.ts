import { beforeEach, describe, expect, test } from 'vitest'
import { runningIn, sandboxOf } from '../../../support/lifecycle.ts'
import { sandboxSpec } from '../../../support/sandbox-spec.ts'
import { testCaller, TestSession } from '../../../support/session.ts'

let session: TestSession
beforeEach(async () => {
  session = new TestSession()
  await session.create({ sandbox: 'local' })
})
const state = async () => (await sandboxOf(session)).state
const generations = () => runningIn(session)
const { promise: never } = Promise.withResolvers<void>()

describe('a runner that is lost over a creation', () => {
  test('[LIFE20] however often its runner is lost, looking costs no try: it is found after the seventh', async () => {
    const reserved = () => session.organisation.reserved
    session.sandboxes.gate = never
    await session.pass(0)
    session.sandboxes.place(sandboxSpec())
    for (let lost = 0; lost < 7; lost += 1) {
      session.restart()
      await session.pass(0)
    }
    expect([await state(), reserved()]).toEqual(['creating', 1])
    session.sandboxes.gate = Promise.resolve()
    session.restart()
    await session.pass(0)
    expect([await state(), reserved(), generations()]).toEqual(['booting', 1, [1]])
    expect(session.sandboxes.orders.filter((order) => order === 'create 1')).toHaveLength(1)
  })

  test('[LIFE20] what the fifth and last creation has made is found, though its runner was lost', async () => {
    session.sandboxes.fails = 4
    await session.pass(15_000 - 1)
    session.sandboxes.gate = never
    await session.pass(1)
    expect(session.sandboxes.orders.filter((order) => order === 'create 1')).toHaveLength(5)
    session.sandboxes.place(sandboxSpec())
    session.sandboxes.gate = Promise.resolve()
    session.sandboxes.fails = 1
    session.restart()
    await session.pass(0)
    expect(await state()).toBe('creating')
    await session.pass(60_000)
    expect([await state(), generations()]).toEqual(['booting', [1]])
  })

  test('[LIFE20] a provider that cannot be asked after a lost runner is asked again, and nothing is made', async () => {
    session.sandboxes.gate = never
    await session.pass(0)
    session.restart()
    session.sandboxes.gate = Promise.resolve()
    session.sandboxes.fails = 3
    await session.pass(2000)
    expect([await state(), generations()]).toEqual(['creating', []])
    expect((await session.actor.api.self.view(testCaller)).sandbox.reason).toBe(
      'Cannot look for the sandbox: The provider is away',
    )
    await session.pass(20_000)
    expect([await state(), generations()]).toEqual(['booting', [1]])
  })
})

describe('a creation that is no longer wanted', () => {
  const acts = {
    close: () => session.actor.api.self.close(testCaller, 'x'),
    erase: () => session.actor.api.self.erase(testCaller),
    replace: () => session.actor.api.sandbox.replace(testCaller, 'x'),
  }
  test.each(Object.keys(acts) as (keyof typeof acts)[])(
    '[LIFE19] after %s a place is not given back while its creation is under way, which may come true between stop and answer',
    async (act) => {
      const creation = Promise.withResolvers<void>()
      session.sandboxes.gate = creation.promise
      await session.pass(0)
      const stop = Promise.withResolvers<void>()
      session.sandboxes.gate = stop.promise
      await acts[act]()
      await session.pass(0)
      expect(session.sandboxes.orders.at(-1)).toBe('stop 1')
      session.sandboxes.gate = Promise.resolve()
      stop.resolve()
      await session.settle()
      expect(session.organisation.live()).toContain(1)
      await session.pass(20_000)
      expect(session.organisation.live()).toContain(1)
      creation.resolve()
      await session.settle()
      expect(generations()).toContain(1)
      await session.pass(60_000)
      expect(generations()).toEqual(act === 'replace' ? [2] : [])
      expect(session.organisation.live()).toEqual(generations())
    },
  )

  test('[LIFE23] a session that was closed is deleted also if its provider is there no more', async () => {
    await session.pass(0)
    await session.actor.api.self.close(testCaller, 'x')
    await session.pass(1000)
    expect(await state()).toBe('stopped')
    session.sandboxes.fails = Infinity
    await session.pass(86_400_000 + 60_000)
    expect(session.erased).toBe(true)
  })

  test('[LIFE19] a creation that was to be tried again is not, once the next sandbox is asked for', async () => {
    const asked: number[] = []
    session.sandboxes.create = ({ generation }) => {
      asked.push(generation)
      return generation === 1 ? Promise.reject(new Error('away')) : new Promise(() => {})
    }
    await session.pass(0)
    await session.actor.api.sandbox.replace(testCaller, 'another')
    await session.pass(10_000)
    expect([asked, await state()]).toEqual([[1, 2], 'creating'])
    const told = session.logs.filter((line) => line.includes('Cannot start the sandbox'))
    expect(told).toEqual([
      expect.stringMatching(
        /^warn .*"generation":1,"attempt":0,"error":"Cannot create the sandbox: away"/,
      ),
    ])
    expect(session.deadlines()).not.toHaveProperty('sandbox.create:1')
  })

  test('[LIFE19] a creation that comes true while its stop is under way is stopped again', async () => {
    const creation = Promise.withResolvers<void>()
    session.sandboxes.gate = creation.promise
    await session.pass(0)
    const { sandboxes } = session
    const stop = sandboxes.stop.bind(sandboxes)
    session.sandboxes.gate = Promise.resolve()
    // The provider has found nothing to stop, and is about to say so.
    session.sandboxes.stop = async (...order) => {
      await stop(...order)
      creation.resolve()
      await new Promise(setImmediate)
      await new Promise(setImmediate)
    }
    await session.actor.api.self.close(testCaller, 'x')
    await session.pass(0)
    session.sandboxes.stop = stop
    await session.pass(60_000)
    expect([await state(), generations(), session.organisation.live()]).toEqual(['stopped', [], []])
  })
})
