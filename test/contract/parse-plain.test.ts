import { isDeepStrictEqual } from 'node:util'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { UpMessage } from '../../src/contract/link.ts'
import { parsePlain } from '../../src/contract/parse-plain.ts'
import { ToolCallback } from '../../src/contract/tool.ts'
import { gatewayTools } from '../../src/core/session/calls/tools/registry.ts'
import { random } from '../support/random.ts'
import { samplesOf } from '../support/samples.ts'

const hash = 'a'.repeat(64)
const messages = [
  { t: 'hello', protocols: [1, 2], agent: '1.0', boot: 'b', ready: true },
  { t: 'ready', bootMs: 1.5 },
  { t: 'failed', reason: 'no room' },
  {
    t: 'events',
    items: [{ seq: 1, at: 2, kind: 'message.delta', data: { text: 'x', nested: { a: [1] } } }],
  },
  { t: 'result', commandId: 'c', ok: true, data: { files: [] } },
  { t: 'result', commandId: 'c', ok: false, error: 'gone' },
  {
    ...{
      t: 'ask',
      askId: `ask_${'0'.repeat(20)}`,
      tool: 'bash',
      callId: 'call_1',
      input: { a: 1 },
    },
    ...{ opencodeSessionId: 'ses_1', shortened: false, realPaths: ['/a'], inputHash: hash },
  },
  { t: 'renew' },
  { t: 'alive', turnId: 'trn_1' },
]
const callbacks = [
  { tool_call_id: 'call_1', args: {} },
  { tool_call_id: 'é', args: { a: null } },
  { tool_call_id: 'call_1' },
]

/** A value in its place that fits, nearly fits, or does not. */
const odd = [
  ...[undefined, null, '', 'x', 'x'.repeat(201), 'x'.repeat(5000), '\u0000', '\ud800', 0, -1, 1.5],
  ...[
    NaN,
    Infinity,
    2 ** 60,
    true,
    [],
    ['x'],
    [null],
    {},
    { a: 1 },
    hash,
    'hello',
    'message.delta',
  ],
  JSON.parse('{"__proto__":{"a":1},"b":2}') as unknown,
  { constructor: 'x' },
]

/** Some field of it, at any depth, is gone, is new, or is something else. */
function changed(value: unknown, next: () => number): unknown {
  const pick = <T>(items: readonly T[]) => items[Math.floor(next() * items.length)] as T
  if (typeof value !== 'object' || value === null || next() < 0.2) return pick(odd)
  if (Array.isArray(value)) {
    if (next() < 0.2) return [...(value as unknown[]), ...(value as unknown[])]
    return value.map((each: unknown) => (next() < 0.5 ? each : changed(each, next)))
  }
  const fields = Object.entries(value)
  const [name] = fields.length > 0 ? pick(fields) : ['none']
  if (next() < 0.2) return Object.fromEntries(fields.filter(([each]) => each !== name))
  if (next() < 0.1) return { ...value, [pick(['more', '__proto__', 'toString'])]: pick(odd) }
  return { ...value, [name]: changed((value as Record<string, unknown>)[name], next) }
}

const keysOf = (value: unknown) => Object.keys((value as object | null | undefined) ?? {})

function expectSame(schema: z.ZodType, value: unknown): void {
  const [ours, theirs] = [parsePlain(schema, value), schema.safeParse(value)]
  const isSame =
    ours.success === theirs.success &&
    isDeepStrictEqual(ours.data, theirs.data) &&
    isDeepStrictEqual(keysOf(ours.data), keysOf(theirs.data))
  if (!isSame) expect(ours, JSON.stringify(value)).toStrictEqual(theirs)
}

test.each([
  ['what a sandbox says', UpMessage, messages],
  ['a tool callback', ToolCallback, callbacks],
] as const)('%s is read as its schema reads it, whatever it is', (_, schema, samples) => {
  const next = random(1)
  for (let n = 0; n < 3000; n += 1) {
    let value: unknown = samples[n % samples.length]
    for (let times = Math.floor(next() * 3); times > 0; times -= 1) value = changed(value, next)
    expectSame(schema, value)
  }
})

const used: [string, z.ZodType][] = [
  ['what a sandbox says', UpMessage],
  ['a tool callback', ToolCallback],
  ...gatewayTools.map(({ definition: { name, args } }): [string, z.ZodType] => [name, args]),
]

test.each(used)('so are samples of %s', (_, schema) => {
  const samples = samplesOf(schema, random(2))
  // Of the largest there are thousands.
  const step = Math.ceil(samples.length / 300)
  for (let n = 0; n < samples.length; n += step) expectSame(schema, samples[n])
})

test('what is as it should be does not reach the schema', () => {
  const asked: unknown[] = []
  const heard = (schema: z.ZodType): z.ZodType => {
    const safeParse = (value: unknown) => (asked.push(value), schema.safeParse(value))
    return Object.create(schema, { safeParse: { value: safeParse } }) as z.ZodType
  }
  const [up, callback] = [heard(UpMessage), heard(ToolCallback)]
  for (const message of messages) expect(parsePlain(up, message).data).toEqual(message)
  expect(asked).toEqual([])
  asked.length = 0
  for (const each of callbacks) parsePlain(callback, each)
  expect(asked).toEqual(callbacks.slice(2))
})

test('what it does not understand is left to the schema', () => {
  const transformed = z.object({ a: z.string().transform((text) => text.length) })
  expect(parsePlain(transformed, { a: 'abc' }).data).toEqual({ a: 3 })
  expect(parsePlain(z.object({ a: z.string().trim() }), { a: ' b ' }).data).toEqual({ a: 'b' })
  expect(parsePlain(z.looseObject({ a: z.string() }), { a: 'a', b: 1 }).data).toEqual({
    a: 'a',
    b: 1,
  })
  expect(parsePlain(z.email(), 'no').success).toBe(false)
  expect(parsePlain(z.coerce.number(), '3').data).toBe(3)
  const filled = z.object({ a: z.string().default('x').optional(), b: z.number().nullable() })
  expect(parsePlain(filled, { b: null })).toEqual(filled.safeParse({ b: null }))
  const both = z.object({ a: z.number(), b: z.number() }).refine(({ a, b }) => a < b)
  expect(parsePlain(both, { a: 1, b: 2 }).success).toBe(true)
  expect(parsePlain(both, { a: 2, b: 1 }).success).toBe(false)
})
