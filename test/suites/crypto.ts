import { describe, expect, test } from 'vitest'
import { idAlphabet } from '../../src/contract/ids.ts'
import type { Crypto } from '../../src/core/ports.ts'

/** What every Crypto must do. */
export function cryptoSuite(name: string, open: () => Crypto): void {
  describe(`Crypto: ${name}`, () => {
    test('sha256 is the known one, for text and for bytes', async () => {
      const abc = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
      expect(await open().sha256('abc')).toBe(abc)
      expect(await open().sha256(new TextEncoder().encode('abc'))).toBe(abc)
    })

    test('random uses every letter of the alphabet about equally', () => {
      const text = open().random(64_000)
      expect(text).toHaveLength(64_000)
      const counts = Map.groupBy(text, (letter) => letter)
      expect([...counts.keys()].sort().join('')).toBe(idAlphabet.split('').sort().join(''))
      for (const letters of counts.values())
        expect(Math.abs(letters.length - 2000)).toBeLessThan(400)
    })

    test('a sealed text opens again, and no two seals are equal', async () => {
      const port = open()
      const text = 'a secret \u{1f511}'
      const [a, b] = [await port.seal(text), await port.seal(text)]
      expect(a).not.toBe(b)
      expect(a).not.toContain('secret')
      expect([await port.unseal(a), await port.unseal(b)]).toEqual([text, text])
    })

    test('a seal of today is current', async () => {
      expect(open().isCurrent(await open().seal('text'))).toBe(true)
    })

    test('a seal that was changed does not open', async () => {
      const sealed = await open().seal('text')
      const at = sealed.length - 6
      const changed = sealed.slice(0, at) + (sealed[at] === 'A' ? 'B' : 'A') + sealed.slice(at + 1)
      await expect(open().unseal(changed)).rejects.toThrow()
      await expect(open().unseal('v2.a.b')).rejects.toThrow('unknown form')
    })
  })
}
