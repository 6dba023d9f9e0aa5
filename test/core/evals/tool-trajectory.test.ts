import { describe, expect, test } from 'vitest'
import type { EvalToolCall } from '../../../src/contract/eval-response.ts'
import { answered, scoreOf } from './subject.ts'

const type = 'tool_trajectory'
const calls = (...tools: (string | EvalToolCall)[]) =>
  answered(
    'x',
    tools.map((tool) => (typeof tool === 'string' ? { tool } : tool)),
  )
const read = (path: string, output?: unknown): EvalToolCall => ({
  tool: 'read',
  input: { path, limit: 5, deep: { b: 1, a: [1, 2] } },
  ...(output !== undefined && { output }),
})

test('[EVAL5] without a trace the score is 0', () => {
  const config = { type, mode: 'any_order', minimums: { read: 1 } }
  expect(scoreOf(config, answered('x'))).toEqual({
    score: 0,
    hits: [],
    misses: ['No trace available for evaluation'],
  })
  expect(scoreOf(config, calls()).misses).toEqual(['read: called 0 times, required at least 1'])
})

test('[EVAL5] any_order counts the calls of each tool', () => {
  const config = { type, mode: 'any_order', minimums: { knowledgeSearch: 2, read: 1, grep: 1 } }
  expect(scoreOf(config, calls('knowledgeSearch', 'read', 'knowledgeSearch'))).toEqual({
    score: 0.666666667,
    hits: [
      'knowledgeSearch: called 2 times, required at least 2',
      'read: called 1 time, required at least 1',
    ],
    misses: ['grep: called 0 times, required at least 1'],
  })
})

test('[EVAL5] that the calls were too many to be kept does not say that there were none', () => {
  const counts = { event_count: 2, tool_names: ['read'], tool_calls_by_name: { read: 2 } }
  const cut = { ...answered('x'), cutCalls: { ...counts, error_count: 0 } }
  for (const config of [
    { type, mode: 'exact', expected: [] },
    { type, mode: 'any_order', minimums: { read: 1 } },
  ])
    expect(scoreOf(config, cut)).toMatchObject({
      score: 0,
      misses: ['No trace available for evaluation: 2 calls are too many to be kept'],
    })
})

describe('[EVAL6] in_order', () => {
  const mode = 'in_order'
  test('finds calls with others between them, and says where', () => {
    const expected = [{ tool: 'a' }, { tool: 'b', args: 'any' }, { tool: 'c' }]
    expect(scoreOf({ type, mode, expected }, calls('x', 'a', 'x', 'b'))).toEqual({
      score: 0.666666667,
      hits: ['a: found at position 2', 'b: found at position 4'],
      misses: ['c: expected as number 3, not found'],
    })
  })

  test('a call with wrong arguments does not use up what is expected', () => {
    const expected = [{ tool: 'read', args: { path: 'b' } }, { tool: 'edit' }]
    expect(scoreOf({ type, mode, expected }, calls(read('a'), read('b'), 'edit')).score).toBe(1)
    expect(scoreOf({ type, mode, expected }, calls(read('a'), 'edit')).misses).toEqual([
      'read: expected as number 1, found only with other arguments',
    ])
  })

  test('the order counts', () => {
    const expected = [{ tool: 'a' }, { tool: 'b' }]
    expect(scoreOf({ type, mode, expected }, calls('b', 'a'))).toMatchObject({
      score: 0.5,
      misses: ['b: expected as number 2, not found'],
    })
    expect(
      scoreOf({ type, mode, expected: [{ tool: 'a' }, { tool: 'a' }] }, calls('a')).score,
    ).toBe(0.5)
  })
})

describe('[EVAL7] exact', () => {
  const mode = 'exact'
  test('compares position by position', () => {
    const expected = [{ tool: 'a' }, { tool: 'b' }, { tool: 'c' }]
    expect(scoreOf({ type, mode, expected }, calls('a', 'x'))).toEqual({
      score: 0.333333333,
      hits: ['Position 1: a'],
      misses: ['Position 2: expected b, got x', 'Position 3: expected c, got nothing'],
    })
  })

  test('each call too many is named with its place', () => {
    expect(scoreOf({ type, mode, expected: [{ tool: 'a' }] }, calls('a', 'b', 'c')).misses).toEqual(
      ['Position 2: unexpected call of b', 'Position 3: unexpected call of c'],
    )
  })

  test('a call too many costs score', () => {
    expect(scoreOf({ type, mode, expected: [{ tool: 'a' }] }, calls('a', 'b'))).toEqual({
      score: 0.5,
      hits: ['Position 1: a'],
      misses: ['Position 2: unexpected call of b'],
    })
  })

  test('nothing may be expected', () => {
    expect(scoreOf({ type, mode, expected: [] }, calls())).toMatchObject({
      score: 1,
      hits: ['No tool was called, as expected'],
    })
    expect(scoreOf({ type, mode, expected: [] }, calls('a', 'b'))).toMatchObject({
      score: 0,
      misses: ['Expected no tool calls, got 2: a, b'],
    })
  })

  test.each([
    ['a named key', { path: 'a' }, true],
    ['another value', { path: 'b' }, false],
    ['a nested object in another order of keys', { deep: { a: [1, 2], b: 1 } }, true],
    ['a nested object in part', { deep: { b: 1 } }, false],
    ['a list in another order', { deep: { a: [2, 1], b: 1 } }, false],
    ['a key that is not there', { other: null }, false],
    ['nothing', {}, true],
    ['any', 'any', true],
  ])('arguments are compared by the keys that are named: %s', (_, args, fits) => {
    const expected = [{ tool: 'read', args }]
    expect(scoreOf({ type, mode, expected }, calls(read('a')))).toMatchObject({
      score: fits ? 1 : 0,
      misses: fits ? [] : ['Position 1: expected read, got it with other arguments'],
    })
  })

  test.each([
    ['the same text', 'out', 'out', true],
    ['another text', 'out', 'other', false],
    ['none', 'out', undefined, false],
    ['an object in part', { a: 1 }, { a: 1, b: 2 }, true],
    ['anything', 'any', 'other', true],
  ])('an expected output is checked: %s', (_, output, given, fits) => {
    const expected = [{ tool: 'read', output }]
    expect(scoreOf({ type, mode, expected }, calls(read('a', given)))).toMatchObject({
      score: fits ? 1 : 0,
      misses: fits ? [] : ['Position 1: expected read, got it with another output'],
    })
  })
})
