import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type DocumentFormat, type DocumentKind, parseDocument } from '../../src/core/documents.ts'
import { random, seedsOf } from '../support/random.ts'

const Shelf = z.strictObject({
  name: z.string(),
  books: z.array(z.strictObject({ title: z.string(), pages: z.number().int() })).default([]),
})
const shelf: DocumentKind<z.infer<typeof Shelf>> = {
  schema: Shelf,
  maxBytes: 64 * 1024,
  check({ books }, report) {
    for (const [index, { pages }] of books.entries())
      if (pages < 1) report(['books', index, 'pages'], 'Must have pages')
  },
}
/** Takes whatever the reader lets through. */
const anything: DocumentKind<unknown> = { schema: z.unknown(), maxBytes: 256 * 1024 }

const errorsOf = <T>(text: string, kind: DocumentKind<T>, format: DocumentFormat = 'yaml') => {
  const parsed = parseDocument(text, format, kind)
  if (!('errors' in parsed)) throw new Error(`It was accepted: ${JSON.stringify(parsed.value)}`)
  return parsed.errors
}
const valueOf = <T>(text: string, kind: DocumentKind<T>, format: DocumentFormat = 'yaml'): T => {
  const parsed = parseDocument(text, format, kind)
  if ('errors' in parsed) throw new Error(JSON.stringify(parsed.errors))
  return parsed.value
}

describe('what is read', () => {
  test('[POL19] a value of the schema, with its defaults, from YAML and from JSON', () => {
    const value = { name: 'a', books: [{ title: 'b', pages: 3 }] }
    expect(valueOf('name: a\nbooks:\n  - { title: b, pages: 3 }\n', shelf)).toEqual(value)
    expect(valueOf(JSON.stringify(value), shelf, 'json')).toEqual(value)
    expect(valueOf('name: a', shelf)).toEqual({ name: 'a', books: [] })
    expect(valueOf('﻿name: a', shelf)).toEqual({ name: 'a', books: [] })
  })

  test('[POL19] the core schema of YAML 1.2, also under a directive that says 1.1', () => {
    const text = 'a: yes\nb: 1:30\nc: 2001-01-01\nd: 010\ne: off\n<<: { x: 1 }\n'
    const value = { a: 'yes', b: '1:30', c: '2001-01-01', d: 10, e: 'off', '<<': { x: 1 } }
    expect(valueOf(text, anything)).toEqual(value)
    expect(valueOf(`%YAML 1.1\n---\n${text}`, anything)).toEqual(value)
    expect(valueOf(`%YAML 1.2\n---\n${text}`, anything)).toEqual(value)
  })

  test('[POL19] a key named like a part of every object is a key and changes no object', () => {
    const value = valueOf('__proto__: { polluted: 1 }\n', anything) as object
    expect(Object.keys(value)).toEqual(['__proto__'])
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })
})

describe('mistakes', () => {
  test('[POL19] are told with line, column and path, in the order of the text', () => {
    const text = 'name: 3\nbooks:\n  - title: a\n    pages: many\n    colour: red\n  - {}\n'
    expect(errorsOf(text, shelf).map(({ line, column, path }) => [line, column, path])).toEqual([
      [1, 1, 'name'],
      [4, 5, 'books.0.pages'],
      [5, 5, 'books.0.colour'],
      [6, 5, 'books.1.title'],
      [6, 5, 'books.1.pages'],
    ])
  })

  test('[POL19] of meaning are told where they are', () => {
    const text = 'name: a\nbooks:\n  - title: a\n    pages: 0\n'
    expect(errorsOf(text, shelf)).toEqual([
      { line: 4, column: 5, path: 'books.0.pages', message: 'Must have pages' },
    ])
  })

  test('[POL19] are fifty at most, each of bounded length', () => {
    const many = `name: a\nbooks:\n${'  - { title: a, pages: 0 }\n'.repeat(200)}`
    expect(errorsOf(many, shelf)).toHaveLength(50)
    const long = errorsOf(`name: a\n${'k'.repeat(5000)}: 1\n`, shelf)
    expect(long[0]?.path.length).toBeLessThanOrEqual(300)
  })

  test('[POL19] of JSON have a line too', () => {
    expect(errorsOf('{\n  "name": "a",\n}', shelf, 'json')).toMatchObject([{ path: '' }])
    expect(errorsOf('name: a', shelf, 'json')).toHaveLength(1)
    expect(errorsOf('{\n  "name": "a",\n  "name": "b"\n}', shelf, 'json')[0]?.line).toBe(3)
  })
})

describe('hostile texts', () => {
  const laughs = [
    'a0: &a0 [x, x, x, x, x, x, x, x, x, x]',
    ...Array.from(
      { length: 9 },
      (_, n) => `a${n + 1}: &a${n + 1} [${Array(10).fill(`*a${n}`).join(', ')}]`,
    ),
  ].join('\n')

  const refused: [string, string, number, RegExp][] = [
    ['aliases that multiply', laughs, 1, /Anchors and aliases/],
    ['an anchor alone', 'a: 1\nb: &x 2\n', 2, /Anchors and aliases/],
    ['an alias of nothing', 'a: 1\nb: *x\n', 2, /Anchors and aliases/],
    ['a list that contains itself', 'a: &x [*x]\n', 1, /Anchors and aliases/],
    ['a map that contains itself', 'a: &x\n  b: *x\n', 2, /Anchors and aliases/],
    ['a tag of its own', 'a: 1\nb: !secret x\n', 2, /tag/i],
    ['a tag of another language', 'a: !!python/object/apply:os.system [id]\n', 1, /tag/i],
    ['a tag by its whole name', 'a: !<tag:yaml.org,2002:js/function> x\n', 1, /tag/i],
    ['a tag under another name', '%TAG ! tag:x,2000:\n---\na: !y 1\n', 3, /tag/i],
    ['bytes', 'a: !!binary aGk=\n', 1, /tag/i],
    ['a set', 'a: !!set { x }\n', 1, /tag/i],
    ['an ordered map', 'a: !!omap [x: 1]\n', 1, /tag/i],
    ['a date', 'a: !!timestamp 2001-01-01\n', 1, /tag/i],
    ['a merge', 'a: !!merge x\n', 1, /tag/i],
    ['a version of YAML that is none', '%YAML 1.3\n---\na: 1\n', 1, /version/],
    ['an unknown directive', '%RUN x\n---\na: 1\n', 1, /directive/],
    ['a key twice', 'a: 1\n"a": 2\n', 2, /unique/],
    ['a number twice, written in two ways', '1: a\n0x1: b\n', 2, /unique/],
    ['the empty key, written in two ways', '~: a\n"": b\n', 2, /unique/],
    ['a list as a key', 'x: 1\n? [a, b]\n: 2\n', 2, /Keys must be text/],
    ['a map as a key', '? { a: 1 }\n: 2\n', 1, /Keys must be text/],
    ['two documents', 'a: 1\n---\nb: 2\n', 2, /multiple documents/],
    ['a list of too many levels', `a: ${'['.repeat(60)}${']'.repeat(60)}\n`, 1, /so deeply/],
    ['an unclosed list of very many levels', `a: ${'['.repeat(100_000)}`, 1, /./],
    ['a list of very many levels', `${'['.repeat(10_000)}${']'.repeat(10_000)}`, 1, /so deeply/],
    ['a block of very many levels', `${'- '.repeat(10_000)}x`, 1, /so deeply/],
  ]
  test.each(refused)('[POL19] %s: refused', (_, text, line, message) => {
    const [first] = errorsOf(text, anything)
    expect(first).toMatchObject({ line, message: expect.stringMatching(message) })
  })

  test('[POL19] fifty levels are allowed', () => {
    expect(valueOf(`${'['.repeat(50)}${']'.repeat(50)}`, anything)).toBeInstanceOf(Array)
    expect(errorsOf(`${'['.repeat(51)}${']'.repeat(51)}`, anything)).toHaveLength(1)
  })

  test('[POL19] the size counts in bytes, before anything is parsed', () => {
    const filled = (text: string, bytes: number) => `name: a\n#${text.repeat(bytes / 2)}`
    expect(errorsOf(filled('xx', shelf.maxBytes), shelf)[0]?.message).toBe('Must be at most 64 KiB')
    expect(errorsOf(filled('ü', shelf.maxBytes), shelf)[0]?.message).toBe('Must be at most 64 KiB')
    expect(valueOf(filled('x', shelf.maxBytes), shelf).name).toBe('a')
  })

  test('[POL19] thousands of keys are read', () => {
    const text = Array.from({ length: 10_000 }, (_, n) => `k${n}: ${n}`).join('\n')
    expect(Object.keys(valueOf(text, anything) as object)).toHaveLength(10_000)
  })

  test.each(seedsOf(5, 40))('[POL19] seed %i: no text makes it throw', (seed) => {
    const next = random(seed)
    const pieces = ['a', ':', ' ', '\n', '- ', '[', ']', '{', '}', ',', '&x', '*x', '!', '!!set ']
    pieces.push('|', '>', '"', "'", '\\', '%YAML 1.1\n', '---', '...', '\t', '#', '? ', '<<', '\0')
    for (let round = 0; round < 100; round += 1) {
      const length = Math.floor(next() * 40)
      const text = Array.from({ length }, () => pieces[Math.floor(next() * pieces.length)]).join('')
      for (const format of ['yaml', 'json'] as const) {
        const parsed = parseDocument(text, format, anything)
        if ('errors' in parsed) expect(parsed.errors.length).toBeGreaterThan(0)
      }
    }
  })
})
