import { describe, expect, test } from 'vitest'
import { answerCarried, carryTo } from '../../../durable-objects/carried.ts'
import { remoteApi } from '../../../src/core/actor/remote.ts'

const heard: unknown[][] = []
class Files {
  async put(...args: unknown[]): Promise<void> {
    heard.push(args)
  }
  async find(name: string, limit = 10) {
    return { name, limit, none: undefined }
  }
  async count(): Promise<number> {
    return 0
  }
  async refuse(): Promise<never> {
    throw new Error('Not this one')
  }
}
const crossed: unknown[][] = []
const api = { files: new Files() }
const object = {
  async ask(call: string, bytes?: Uint8Array) {
    crossed.push([typeof call, typeof bytes])
    const answer = await answerCarried(api, call, bytes)
    crossed.push([typeof answer])
    return answer
  },
}
const remote = remoteApi(carryTo(() => object)) as { [Room in keyof typeof api]: Files }

describe('[HOST6] what crosses to an object and back', () => {
  test('is text, whatever is in it', async () => {
    crossed.length = 0
    expect(await remote.files.find('a "b"\n\u{1f600}', 3)).toEqual({
      name: 'a "b"\n\u{1f600}',
      limit: 3,
    })
    expect(await remote.files.count()).toBe(0)
    expect(crossed.flat()).toEqual([
      'string',
      'undefined',
      'string',
      'string',
      'undefined',
      'string',
    ])
  })

  test('nothing is nothing: as an answer, and as an argument that is left out', async () => {
    expect(await remote.files.put('a', null, undefined)).toBeUndefined()
    expect(heard.at(-1)).toEqual(['a', null])
    expect(await remote.files.find('a', undefined)).toEqual({ name: 'a', limit: 10 })
  })

  test('bytes stay bytes', async () => {
    await remote.files.put('a', new Uint8Array([1, 255]))
    expect(heard.at(-1)).toEqual(['a', new Uint8Array([1, 255])])
  })

  test('a refusal is thrown as it is', async () => {
    await expect(remote.files.refuse()).rejects.toThrow('Not this one')
    await expect((remote as unknown as { x: Files }).x.count()).rejects.toThrow('Nobody answers')
  })
})
