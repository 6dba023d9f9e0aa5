import { describe, expect, test } from 'vitest'
import { cryptoSha256 } from '../../src/adapters/web-crypto.ts'
import type { Blobs } from '../../src/core/ports.ts'

const a = { organisationId: 'org_a', sessionId: 'ses_a' }
const b = { organisationId: 'org_b', sessionId: 'ses_b' }

/** What every Blobs must do. */
export function blobsSuite(name: string, open: () => Blobs): void {
  const make = async (size: number) => {
    const bytes = new Uint8Array(size)
    for (let at = 0; at < size; at += 65_536)
      crypto.getRandomValues(bytes.subarray(at, at + 65_536))
    return { bytes, hash: await cryptoSha256(bytes) }
  }
  describe(`Blobs: ${name}`, () => {
    for (const size of [0, 1, 512 * 1024, 512 * 1024 + 1, 8 * 1024 * 1024]) {
      test(`${size} bytes come back as they were put`, async () => {
        const { bytes, hash } = await make(size)
        await open().put(a, hash, bytes)
        const stored = await open().get('org_a', hash)
        expect(stored?.length).toBe(size)
        expect(await cryptoSha256(stored as Uint8Array)).toBe(hash)
      })
    }

    test('putting the same bytes twice, also at once, stores them once', async () => {
      const { bytes, hash } = await make(700_000)
      await Promise.all([open().put(a, hash, bytes), open().put(a, hash, bytes)])
      await open().put(a, hash, bytes)
      expect(await open().hold(a, [hash])).toEqual(new Map([[hash, 700_000]]))
    })

    test('many at once come back as they were put, small, large and known ones, and none of them', async () => {
      const made = await Promise.all([0, 1, 700_000, 5, 512 * 1024, 300_000].map(make))
      await open().put(a, made[1]?.hash ?? '', made[1]?.bytes ?? new Uint8Array())
      await open().putAll(a, new Map(made.map(({ hash, bytes }) => [hash, bytes])))
      await open().putAll(a, new Map())
      for (const { hash, bytes } of made) {
        const stored = await open().get('org_a', hash)
        expect(await cryptoSha256(stored as Uint8Array)).toBe(hash)
        expect(stored?.length).toBe(bytes.length)
      }
    })

    test('organisations do not see each other’s content', async () => {
      const { bytes, hash } = await make(10)
      await open().put(a, hash, bytes)
      expect(await open().get('org_b', hash)).toBeNull()
      expect(await open().hold(b, [hash])).toEqual(new Map())
    })

    test('holding names what is there and leaves out what is not', async () => {
      const { bytes, hash } = await make(10)
      await open().put(a, hash, bytes)
      expect(await open().hold(a, [hash, 'f'.repeat(64)])).toEqual(new Map([[hash, 10]]))
      expect(await open().hold(a, [])).toEqual(new Map())
    })
  })
}
