import { describe, expect, test } from 'vitest'
import { roomsApi, type RoomOf } from '../../../src/core/actor/room.ts'
import { answerRemote, remoteApi } from '../../../src/core/actor/remote.ts'

interface TurnsApi {
  prompt(text: string): string
}

class Turns implements RoomOf<TurnsApi> {
  readonly api: TurnsApi = this
  readonly #own = 'own'
  readonly deadlines = { kept: () => {} }

  prompt(text: string): string {
    return `${this.#own} ${text}`
  }
}

interface Api {
  turns: { prompt(text: string): Promise<string> }
  pools: { view(): Promise<string> }
}

const pools: RoomOf<{ view(): string }> = { api: { view: () => 'a plain one' } }
// `outbox` offers nothing to callers.
const api = roomsApi({ turns: new Turns(), pools, outbox: { deadlines: { outbox: () => {} } } })
const remote = remoteApi(async (...call) => answerRemote(api, ...call)) as Api

describe('[HOST6] an actor that lives elsewhere', () => {
  test('answers by its rooms, be they of a class or plain', async () => {
    expect(await remote.turns.prompt('hello')).toBe('own hello')
    expect(await remote.pools.view()).toBe('a plain one')
  })

  test('is no promise, and neither is a room of it: one that is resolved with it would wait for ever', () => {
    expect([Reflect.get(remote, 'then'), Reflect.get(remote.turns, 'then')]).toEqual([
      undefined,
      undefined,
    ])
  })

  test.each([
    ['turns', 'constructor'],
    ['turns', 'deadlines'],
    ['turns', 'api'],
    ['pools', 'api'],
    ['outbox', 'deadlines'],
    ['turns', 'toString'],
    ['pools', 'toString'],
    ['toString', 'call'],
    ['__proto__', 'hasOwnProperty'],
    ['nothing', 'prompt'],
  ])('is not asked for what it does not offer: %s.%s', (room, method) => {
    expect(() => answerRemote(api, room, method, [])).toThrow(`Nobody answers "${room}.${method}"`)
  })
})
