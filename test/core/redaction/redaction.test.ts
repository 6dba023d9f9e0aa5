import { describe, expect, test } from 'vitest'
import { minSecretLength } from '../../../src/core/redaction/forms.ts'
import { createRedactor } from '../../../src/core/redaction/redaction.ts'
import { random } from '../../support/random.ts'

const token = { name: 'API_TOKEN', value: 'sk-Zq9+/x8 "é&<~7:' }
const other = { name: 'DB_PASSWORD', value: 'correct-horse-battery' }
const redactor = createRedactor([token, other])
const label = '[secret:API_TOKEN]'
const base64 = (text: string) => Buffer.from(text).toString('base64')
const hexOf = (byte: number) => byte.toString(16).padStart(2, '0')
const base64url = (text: string) => Buffer.from(text).toString('base64url')

describe('forms of a value', () => {
  test.each([
    ['as it is', token.value],
    ['JSON', JSON.stringify(token.value).slice(1, -1)],
    ['JSON in JSON', JSON.stringify(JSON.stringify(token.value).slice(1, -1)).slice(1, -1)],
    ['JSON with ASCII only', 'sk-Zq9+/x8 \\"\\u00e9&<~7:'],
    ['JSON with escaped HTML', 'sk-Zq9+/x8 \\"é\\u0026\\u003c~7:'],
    ['JSON with escaped slashes', 'sk-Zq9+\\/x8 \\"é&<~7:'],
    ['encodeURIComponent', encodeURIComponent(token.value)],
    [
      'lower-case percent',
      encodeURIComponent(token.value).replaceAll(/%../g, (x) => x.toLowerCase()),
    ],
    ['encodeURI', encodeURI(token.value)],
    ['form', new URLSearchParams({ v: token.value }).toString().slice(2)],
    [
      'every byte',
      [...Buffer.from(token.value)].map((b) => `%${b.toString(16).padStart(2, '0')}`).join(''),
    ],
    ['base64', base64(token.value)],
    ['base64 without padding', base64(token.value).replaceAll('=', '')],
    ['base64url', base64url(token.value)],
    ['base64 in a URL', encodeURIComponent(base64(token.value))],
    ['[SEC11] hex', Buffer.from(token.value).toString('hex')],
    ['[SEC11] hex in capitals', Buffer.from(token.value).toString('hex').toUpperCase()],
    ['[SEC11] hex in lines', Buffer.from(token.value).toString('hex').replaceAll(/.{20}/g, '$&\n')],
    ['[SEC11] hex with spaces', [...Buffer.from(token.value)].map(hexOf).join(' ')],
    ['[SEC11] hex with colons', [...Buffer.from(token.value)].map(hexOf).join(':')],
    ['[SEC11] escapes', [...Buffer.from(token.value)].map((b) => `\\x${hexOf(b)}`).join('')],
    ['[SEC11] reversed', Array.from(token.value).toReversed().join('')],
    ['[SEC11] spaced', Array.from(token.value).join(' ')],
    ['[SEC11] with dashes', Array.from(token.value).join('-')],
    ['[SEC11] with commas', Array.from(token.value).join(',')],
  ])('%s', (_name, form) => {
    expect(redactor.redactText(`a ${form} b`)).toBe(`a ${label} b`)
  })

  test.each([0, 1, 2, 3, 4, 5, 20])(
    'base64 at offset %i of something longer, both alphabets',
    (offset) => {
      for (const encode of [base64, base64url]) {
        const text = encode(`${'u'.repeat(offset)}${other.value}${'tail'.repeat(3)}`)
        const redacted = redactor.redactText(text)
        expect(redacted).toContain('[secret:DB_PASSWORD]')
        // At most the shared letter at either end is left of it.
        expect(
          text.length - (redacted.length - '[secret:DB_PASSWORD]'.length),
        ).toBeGreaterThanOrEqual(Math.floor((other.value.length * 8) / 6) - 1)
      }
    },
  )

  test('base64 that is wrapped at 76 characters', () => {
    const long = { name: 'LONG', value: 'k3y/'.repeat(60) }
    const wrapped = base64(`prefix:${long.value}`).replaceAll(/.{76}/g, '$&\n')
    const redacted = createRedactor([long]).redactText(wrapped)
    expect(redacted).toMatch(/^\w{9,10}\[secret:LONG\][\w=]{0,3}$/)
  })

  test('a trimmed value, other line ends, and single lines of a long one', () => {
    const lines = [
      '-----BEGIN KEY-----',
      'MIIEvQIBADANBgkqhkiG',
      '9w0BAQEFAASCBKcwggSj',
      '-----END KEY-----',
    ]
    const pem = createRedactor([{ name: 'PEM', value: `${lines.join('\n')}\n` }])
    expect(pem.redactText(`x${lines.join('\n')}y`)).toBe('x[secret:PEM]y')
    expect(pem.redactText(lines.join('\r\n'))).toBe('[secret:PEM]')
    expect(pem.redactText(lines.map((line) => `+  ${line}`).join('\n'))).toBe(
      '+  -----BEGIN KEY-----\n+  [secret:PEM]\n+  [secret:PEM]\n+  -----END KEY-----',
    )
  })
})

describe('which value wins', () => {
  test('the longest', () => {
    const both = createRedactor([
      { name: 'SHORT', value: 'abcdef' },
      { name: 'LONG', value: 'abcdefghij' },
    ])
    expect(both.redactText('abcdefghij abcdefgh')).toBe('[secret:LONG] [secret:SHORT]gh')
  })

  test('values that overlap leave nothing readable', () => {
    const both = createRedactor([
      { name: 'A', value: 'abcdef123' },
      { name: 'B', value: 'def123xyz000' },
    ])
    expect(both.redactText('<abcdef123xyz000>')).toBe('<[secret:B]>')
  })

  test('one value with two names carries the first', () => {
    const twice = createRedactor([
      { name: 'A', value: 'same-value' },
      { name: 'B', value: 'same-value' },
    ])
    expect(twice.redactText('same-value')).toBe('[secret:A]')
  })

  test.each([
    ['x'.repeat(minSecretLength - 1), false],
    ['x'.repeat(minSecretLength), true],
    ['', false],
  ])('"%s" is searched: %s', (value, searched) => {
    const text = `<${value}>`
    const redacted = createRedactor([{ name: 'S', value }]).redactText(text)
    expect(redacted).toBe(searched ? '<[secret:S]>' : text)
  })

  test('a value is a literal, never an expression', () => {
    const odd = createRedactor([{ name: 'ODD', value: '(a+)+$[.*' }])
    expect(odd.redactText('aaaaaaa (a+)+$[.* b')).toBe('aaaaaaa [secret:ODD] b')
  })
})

describe('JSON', () => {
  test('strings, keys and whole numbers at any depth', () => {
    const pin = createRedactor([other, { name: 'PIN', value: '123456' }])
    const value = {
      a: [{ [other.value]: `x${other.value}` }],
      n: 123456,
      at: 1234567,
      ok: true,
      z: null,
    }
    expect(pin.redactJson(value)).toEqual({
      a: [{ '[secret:DB_PASSWORD]': 'x[secret:DB_PASSWORD]' }],
      n: '[secret:PIN]',
      at: 1234567,
      ok: true,
      z: null,
    })
  })

  test('what has nothing to hide is the same object', () => {
    const value = { a: [1, 'b', { c: null }] }
    expect(redactor.redactJson(value)).toBe(value)
  })

  test('a key named __proto__ stays a key', () => {
    const value: unknown = JSON.parse(`{"__proto__":"${other.value}"}`)
    expect(JSON.stringify(redactor.redactJson(value))).toBe('{"__proto__":"[secret:DB_PASSWORD]"}')
  })
})

describe('streams', () => {
  test('text is held back only while it may become a value', () => {
    const stream = redactor.stream()
    expect(stream.push('hello corr')).toBe('hello ')
    expect(stream.push('idor ')).toBe('corridor ')
    expect(stream.push('correct-horse-')).toBe('')
    expect(stream.push('battery.')).toBe('[secret:DB_PASSWORD].')
    expect(stream.push('correct')).toBe('')
    expect(stream.flush()).toBe('correct')
  })

  test('after a flush nothing is remembered', () => {
    const stream = redactor.stream()
    const given = stream.push('correct-horse-') + stream.flush()
    expect(given + stream.push('battery') + stream.flush()).toBe('correct-horse-battery')
  })

  test('random texts in random pieces are what the whole text gives, and never leak', () => {
    const next = random(20_261_116)
    const pick = <T>(items: readonly T[]) => items[Math.floor(next() * items.length)]!
    for (let round = 0; round < 600; round++) {
      const alphabet = pick(['ab', 'abc+/', 'aé"\\ \n%', 'ABCDab01'])
      const word = (max: number) =>
        Array.from({ length: Math.ceil(next() * max) }, () => pick(alphabet.split(''))).join('')
      const secrets = Array.from({ length: 1 + Math.floor(next() * 4) }, (_, index) => ({
        name: `S${index}`,
        value: `${word(8)}#${word(12)}`.padEnd(minSecretLength, '#'),
      }))
      const encodings = [
        (text: string) => text,
        (text: string) => JSON.stringify(text),
        encodeURIComponent,
        base64,
        base64url,
        (text: string) => base64(`${word(4)}${text}${word(4)}`),
        (text: string) => text.slice(0, -1),
      ]
      const text = Array.from({ length: 8 }, () =>
        next() < 0.5 ? word(6) : pick(encodings)(pick(secrets).value),
      ).join('')
      const built = createRedactor(secrets)
      const whole = built.redactText(text)
      const stream = built.stream()
      let given = ''
      for (let at = 0; at < text.length;) {
        const size = Math.floor(next() * next() * 20)
        given += stream.push(text.slice(at, at + size))
        at += size
      }
      expect(given + stream.flush()).toBe(whole)
      const forms = secrets.flatMap(({ value }) => [
        value,
        JSON.stringify(value).slice(1, -1),
        encodeURIComponent(value),
        base64(value),
      ])
      expect(forms.filter((form) => whole.includes(form))).toEqual([])
    }
  })
})

test('a megabyte is searched for fifty secrets in time that grows with its length', () => {
  const secrets = Array.from({ length: 50 }, (_, index) => ({
    name: `S${index}`,
    value: `sk-${index}-${'0123456789abcdef'.repeat(3)}`,
  }))
  const many = createRedactor(secrets)
  const text = 'sk-some ordinary text 0123456789 with numbers\n'.repeat(23_000)
  const before = process.threadCpuUsage()
  expect(many.redactText(text)).toBe(text)
  expect(process.threadCpuUsage(before).user / 1000).toBeLessThan(15_000)
})
