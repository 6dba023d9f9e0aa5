import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { root } from '../local/binaries.ts'
import { longOnly } from './support/long-files.ts'
import { notYet, requirements } from './support/requirements.ts'

const spec = readFileSync(join(root, 'SPEC.md'), 'utf8')

/** Areas and the numbers of their rules, as SPEC.md has them. */
const rules = new Set(
  spec.split(/^## /m).flatMap((area) => {
    const name = /^([A-Z0-9]+): /.exec(area)?.[1]
    return [...area.matchAll(/^(\d+)\. /gm)].map(([, number]) => `${name}${number}`)
  }),
)

/** Requirements (R2-27) and choices (D34) of the mission are not rules of ours. */
const citation = /\[((?!D\d)[A-Z][A-Z0-9]*?[A-Z]|E2B|[A-CE-Z])(\d+)\]/g
const citedIn = (text: string): string[] =>
  [...text.matchAll(citation)].map(([, area, number]) => `${area}${number}`)

const textOf = (file: string): string => readFileSync(join(root, file), 'utf8')
const filesOf = (...patterns: string[]): string[] =>
  patterns.flatMap((pattern) => globSync(pattern, { cwd: root }))

describe('rules', () => {
  test('a rule says enough for a stranger to test it, and a line no more than can be read', () => {
    const lines = spec.slice(spec.indexOf('\n## SES: ')).split('\n')
    const short = lines
      .filter((line) => /^\d+\. /.test(line))
      .filter((line) => line.replaceAll(/\s*\((R\d|long run)[^)]*\)/g, '').length < 64)
    expect(short).toEqual([])
    expect(lines.filter((line) => line.length > 1000)).toEqual([])
  })

  test('every rule that a test cites is in SPEC.md', () => {
    expect(rules.size).toBeGreaterThan(300)
    const unknown = filesOf('test/**/*.ts').flatMap((file) =>
      citedIn(textOf(file))
        .filter((rule) => !rules.has(rule))
        .map((rule) => `${file}: ${rule}`),
    )
    expect(unknown).toEqual([])
  })

  test('every rule is cited by a test that `npm test` runs', () => {
    const onlyLong = new Set(filesOf(...longOnly))
    const suites = filesOf('test/suites/**/*.ts', 'test/e2e/{guards,bad-input}.ts')
    const everyRun = filesOf('test/**/*.test.ts').filter((file) => !onlyLong.has(file))
    const cited = new Set(
      [...everyRun, ...suites].flatMap((file) => citedIn(withoutLong(textOf(file)))),
    )
    expect([...rules].filter((rule) => !cited.has(rule))).toEqual([])
  })
})

/** Without the titles of tests that only the long run has. */
const withoutLong = (text: string): string =>
  text.replaceAll(/(if \(isLong\)\s+test|longTest)\(\s*(['"`]).*?\2/gs, '')

describe('requirements', () => {
  /** By a rule; `R2-42 to R2-44` are three. */
  const cited = new Set(
    [...spec.matchAll(/R(\d)-(\d+)(?: to R\d-(\d+))?/g)].flatMap(
      ([, group, first = '', last = first]) =>
        numbers(Number(first), Number(last)).map((number) => `R${group}-${number}`),
    ),
  )
  const pending = Object.values(notYet).flat()
  /** Lower it when something is taken off the list. */
  const mostPending = 11

  test('every one is met by a rule, or stands in the list of what is not built yet', () => {
    const known = new Set([...cited, ...pending])
    expect(requirements.filter((id) => !known.has(id))).toEqual([])
  })

  test('the list of what is not built yet only shrinks', () => {
    expect(pending.filter((id) => cited.has(id))).toEqual([])
    expect(pending.filter((id) => !requirements.includes(id))).toEqual([])
    expect(new Set(pending).size).toBe(pending.length)
    expect(pending.length).toBeLessThanOrEqual(mostPending)
  })
})

function numbers(first: number, last: number): string[] {
  return Array.from({ length: last - first + 1 }, (_, at) => String(first + at).padStart(2, '0'))
}
