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

test('[CALL] whether the keys are in order already makes no difference, nor does what is no plain JSON', () => {
  const pairs: [unknown, unknown, string][] = [
    [{ a: 1, b: [{ c: 2, d: 3 }] }, { b: [{ d: 3, c: 2 }], a: 1 }, '{"a":1,"b":[{"c":2,"d":3}]}'],
    [{ 9: 1, 10: 2, a: 3 }, { a: 3, 10: 2, 9: 1 }, '{"9":1,"10":2,"a":3}'],
    [{ a: undefined, b: [undefined] }, { b: [undefined], a: undefined }, '{"b":[null]}'],
    [{ a: new Date(0), b: 1 }, { b: 1, a: new Date(0) }, '{"a":"1970-01-01T00:00:00.000Z","b":1}'],
    [{ toJSON: () => ({ b: 1, a: 2 }) }, { toJSON: () => ({ a: 2, b: 1 }) }, '{"a":2,"b":1}'],
  ]
  for (const [one, other, text] of pairs)
    expect([canonicalJson(one), canonicalJson(other)]).toEqual([text, text])
})
