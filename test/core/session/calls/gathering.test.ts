import { beforeEach, describe, expect, test } from 'vitest'
import { testCaller, TestSession } from '../../../support/session.ts'

// As on Workers: what arrives together goes on together. The test says when everything has arrived.

let session: TestSession
let waits: (() => void)[]
/** How often calls have waited for others. */
let gatherings: number

beforeEach(async () => {
  session = new TestSession()
  waits = []
  gatherings = 0
  session.gather = () => {
    gatherings += 1
    return new Promise<void>((resolve) => void waits.push(resolve))
  }
  await session.create({ sandbox: 'local' })
  session.restart()
  await session.pass(0)
  await session.connect()
})

const arrived = async () => {
  waits.splice(0).forEach((resolve) => resolve())
  await session.settle()
}
const calls = async () =>
  (await session.actor.api.calls.list(testCaller, { limit: 50, after: null })).items

/** So many at once, each with its own id. */
const together = (ids: string[]) => ids.map((id) => session.call('noop', id, { text: id }))
const bodies = async (answers: Promise<{ body: string }>[]) =>
  (await Promise.all(answers)).map(({ body }) => (JSON.parse(body) as { result: string }).result)

describe('[CALL19] calls that arrive together', () => {
  test('wait once, and go on in their order', async () => {
    const answers = together(['a', 'b', 'c'])
    await session.settle()
    expect(await calls()).toEqual([])
    await arrived()
    expect(await bodies(answers)).toEqual(['a', 'b', 'c'])
    expect((await calls()).map(({ toolCallId }) => toolCallId)).toEqual(['a', 'b', 'c'])
    expect(gatherings).toBe(1)
    // Others may come again: the next one waits for them.
    const next = together(['d', 'e'])
    expect(gatherings).toBe(2)
    await arrived()
    expect(await bodies(next)).toEqual(['d', 'e'])
  })

  test('and have one id are one call', async () => {
    const answers = together(['a', 'a'])
    await arrived()
    expect((await Promise.all(answers)).map(({ replayed }) => replayed)).toEqual([false, true])
    expect(await calls()).toHaveLength(1)
  })

  test('are refused if the session is closed meanwhile', async () => {
    const answer = session.call('noop', 'a')
    const refused = expect(answer).rejects.toMatchObject({ code: 'session_closed' })
    await session.actor.api.self.close(testCaller, 'test')
    await arrived()
    await refused
    expect(await calls()).toEqual([])
  })

  test('are refused if their sandbox is replaced meanwhile', async () => {
    const answer = session.call('noop', 'a')
    const refused = expect(answer).rejects.toMatchObject({ code: 'old_generation' })
    await session.actor.api.sandbox.replace(testCaller, 'test')
    await arrived()
    await refused
    expect(await calls()).toEqual([])
  })

  test('are kept without a secret that is given meanwhile', async () => {
    const answer = session.call('noop', 'a', { text: 'a value that was given late' })
    const sealed = await session.crypto.seal('a value that was given late')
    void session.actor.api.env.submit(testCaller, [{ key: 'LATE', sealed, kind: 'secret' }])
    await arrived()
    expect((await answer).body).not.toContain('given late')
    expect((await calls())[0]?.args).toEqual({ text: '[secret:LATE]' })
  })

  test('a call that nobody joins is followed by 32 that do not wait', async () => {
    const alone = async (id: string) => {
      const answer = session.call('noop', id)
      await arrived()
      await answer
    }
    await alone('first')
    for (let n = 0; n < 32; n++) await session.call('noop', `straight ${n}`)
    expect(gatherings).toBe(1)
    await alone('looks again')
    expect(gatherings).toBe(2)
  })

  test('an answer that is known waits for nobody', async () => {
    const [first] = together(['a'])
    await arrived()
    await first
    for (let n = 0; n < 40; n++)
      expect((await session.call('noop', 'a', { text: 'a' })).replayed).toBe(true)
    expect(gatherings).toBe(1)
  })
})
