import { describe, expect, test } from 'vitest'
import { SessionCreate } from '../../../../src/contract/session.ts'
import { type Pin, pinFor, pinsOf } from '../../../../src/core/session/pins/pins.ts'
import { testCaller, TestSession, testSessionId } from '../../../support/session.ts'
import { WarmWorld } from '../../../support/warm-world.ts'

const session = () => new TestSession()
const pin = (given: Partial<Pin> = {}) =>
  pinFor(session().crypto, {
    ...{ kind: 'memory', name: 'reviewer', id: 'mem_1', revision: 3, content: 'Look twice' },
    ...given,
  })

const create = (of: TestSession, pins: Pin[], more = {}) =>
  of.actor.api.self.create({
    ...{ sessionId: testSessionId, ...testCaller, pins, ...more },
    input: SessionCreate.parse({}),
  })

describe('what a session began with', () => {
  test('[PIN1] the view names it in order, and the content stays in the session, also in its next instance', async () => {
    const of = session()
    const skill = await pin({ kind: 'skill', name: 'zeta', id: 'skl_9' })
    const given = [await pin(), skill, await pin({ kind: 'skill', name: 'alpha', id: 'skl_1' })]
    const { pins } = await create(of, given)
    expect(pins.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
      ...['memory reviewer', 'skill zeta', 'skill alpha'],
    ])
    expect(pins[0]).toEqual({
      ...{ kind: 'memory', name: 'reviewer', id: 'mem_1', revision: 3 },
      sha256: await of.crypto.sha256('Look twice'),
    })
    of.restart()
    expect((await of.actor.api.self.view(testCaller)).pins).toEqual(pins)
    expect(pinsOf(of.sql, 'memory')).toEqual([given[0]])
    expect(pinsOf(of.sql, 'skill')).toEqual(given.slice(1))
  })

  test('[PIN1] a session that took nothing has no pins, and the same creation again adds none', async () => {
    const plain = session()
    expect((await plain.create()).pins).toEqual([])
    const of = session()
    await create(of, [await pin()])
    expect((await create(of, [await pin({ revision: 4 })])).pins).toMatchObject([{ revision: 3 }])
  })

  test('[PIN3] values of its secrets are not in what is kept, and the hash is that of the registry', async () => {
    const of = session()
    const sealed = await of.crypto.seal('correct-horse-battery')
    const given = await pin({ content: 'Log in with correct-horse-battery' })
    await create(of, [given], { secrets: [{ key: 'PASSWORD', sealed, kind: 'secret' }] })
    const [kept] = pinsOf(of.sql, 'memory')
    expect(kept?.content).toMatch(/^Log in with \[/)
    expect(kept?.content).not.toContain('correct-horse')
    expect(kept?.sha256).toBe(given.sha256)
  })

  test.each([
    ['rows', 501, 1],
    ['characters', 3, 1_000_000],
  ])('[PIN4] too many %s are refused, and there is no session', async (_, count, length) => {
    const one = await pin({ content: 'x'.repeat(length) })
    const pins = Array.from({ length: count }, (_, at) => ({ ...one, id: `mem_${at}` }))
    const of = session()
    await expect(create(of, pins)).rejects.toMatchObject({ code: 'unprocessable' })
    await expect(of.actor.api.self.view(testCaller)).rejects.toMatchObject({ code: 'not_found' })
    expect((await create(of, pins.slice(1))).pins).toHaveLength(count - 1)
  })
})

describe('a warm pool', () => {
  const filled = async () => {
    const world = new WarmWorld()
    world.size = 1
    await world.fill()
    return world
  }

  test('[PIN2] gives nothing to a creation with pins, and keeps what it has for others', async () => {
    const world = await filled()
    const pins = [await pin()]
    expect(await world.claim('ses_pinned', {}, false, { pins })).toBeNull()
    expect(await world.claim('ses_plain')).toMatchObject({ status: 'open', pins: [] })
  })

  test('[PIN2] a warm session that is asked to be one with pins does not fit', async () => {
    const world = await filled()
    const [, warm] = world.sessions()[0] ?? []
    const pinned = { ...world.createOf('ses_pinned'), pins: [await pin()] }
    expect(await warm?.actor.api.warm.adopt(pinned)).toBeNull()
  })
})
