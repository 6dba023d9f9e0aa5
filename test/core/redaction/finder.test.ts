import { expect, test } from 'vitest'
import { createSecretFinder } from '../../../src/core/redaction/finder.ts'
import { formsOf } from '../../../src/core/redaction/forms.ts'
import { random } from '../../support/random.ts'

const secrets = [
  { name: 'API_TOKEN', value: 'sk-Zq9+/x8 "é&<~7:' },
  { name: 'SHORT', value: 'aaaaab' },
  { name: 'LONG', value: 'k3y/'.repeat(900) },
]
const begin = createSecretFinder(secrets)
const find = (text: string | Buffer) => begin().push(Buffer.from(text as string))

test('[SNAP3] every form of a value is found, wherever the pieces are cut', () => {
  for (const { name, value } of secrets.slice(0, 2)) {
    const { plain, wrapped } = formsOf(value)
    for (const form of [...plain, ...wrapped]) {
      const bytes = Buffer.from(`..${form}..`)
      for (let cut = 0; cut <= bytes.length; cut++) {
        const search = begin()
        const found = search.push(bytes.subarray(0, cut)) ?? search.push(bytes.subarray(cut))
        expect(found, form).toBe(name)
      }
      const search = begin()
      const found = [...bytes].map((byte) => search.push(Uint8Array.of(byte)))
      expect(found.find(Boolean), form).toBe(name)
    }
  }
})

test('[SNAP3] a long value is found by its beginning, also encoded and broken into lines', () => {
  const value = secrets[2]?.value ?? ''
  expect(find(`x${value}`)).toBe('LONG')
  expect(find(value.slice(0, 2000))).toBe('LONG')
  const lines = Buffer.from(`u:${value}`).toString('base64').replaceAll(/.{60}/g, '$&\n')
  expect(find(lines)).toBe('LONG')
})

test('[SNAP3] what only resembles a value is not found', () => {
  for (const text of ['', 'aaaaa', 'aaaa ab', 'aaaaac', 'sk-Zq9+/x8 "é&<~7', 'k3y/k3y']) {
    expect(find(text), text).toBeNull()
  }
  expect(createSecretFinder([{ name: 'TINY', value: 'abc' }])().push(Buffer.from('abc'))).toBeNull()
})

test('[SNAP3] the search agrees with a plain one on random bytes of a small alphabet', () => {
  const next = random(7)
  const text = (length: number) =>
    Array.from({ length }, () => 'ab'[Math.floor(next() * 2)]).join('')
  for (let round = 0; round < 300; round++) {
    const known = Array.from({ length: 3 }, (_, index) => ({
      name: String(index),
      value: text(6 + Math.floor(next() * 4)),
    }))
    const content = text(40)
    const found = createSecretFinder(known)().push(Buffer.from(content))
    const backwards = Array.from(content).toReversed().join('')
    const has = ({ value }: { value: string }) =>
      content.includes(value) || backwards.includes(value)
    expect(found !== null).toBe(known.some(has))
    if (found !== null) expect(has(known[Number(found)] ?? { value: '?' })).toBe(true)
  }
})
