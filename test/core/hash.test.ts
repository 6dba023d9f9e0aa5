import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { bytesOf, hashText } from '../../src/core/hash.ts'

const texts = [
  '',
  'a',
  'plain text',
  'é',
  'a\u007f\u0080',
  'half \ud800',
  '𝄞 clef',
  'x'.repeat(5000),
]

test.each(texts)('%j is hashed as its UTF-8', (text) => {
  expect(hashText(text)).toBe(createHash('sha256').update(text).digest('hex'))
  expect(bytesOf(text)).toEqual(new Uint8Array(Buffer.from(text)))
})
