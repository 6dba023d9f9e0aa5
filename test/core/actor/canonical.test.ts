import { expect, test } from 'vitest'
import { canonicalJson } from '../../../src/contract/canonical.ts'

test('[CALL] the order of keys does not count, at any depth', () => {
  const a = { b: 1, a: { d: [1, { y: 1, x: 2 }], c: null }, 10: 1, 9: 2 }
  const b = { 9: 2, 10: 1, a: { c: null, d: [1, { x: 2, y: 1 }] }, b: 1 }
  expect(canonicalJson(a)).toBe(canonicalJson(b))
})

test('[CALL] everything else counts', () => {
  const values = [
    1,
    '1',
    true,
    null,
    [],
    {},
    [1, 2],
    [2, 1],
    { a: 1 },
    { a: '1' },
    { a: [1] },
    'é',
    'e\u0301',
  ]
  expect(new Set(values.map(canonicalJson)).size).toBe(values.length)
})

test('a key named __proto__ is a key like any other', () => {
  const value = JSON.parse('{"__proto__":{"x":1}}') as unknown
  expect(canonicalJson(value)).toBe('{"__proto__":{"x":1}}')
})
