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
