import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { reasonOf, staleEntries } from '../../tools/mutate/accepted.ts'
import { instrument } from '../../tools/mutate/instrument.ts'
import { mutantsOf } from '../../tools/mutate/mutants.ts'
import { ownMutant } from '../../tools/mutate/own.ts'
import { runMutants } from '../../tools/mutate/run.ts'
import { onlyCalls, testsFor } from '../../tools/mutate/sources.ts'
import { sqlEdits } from '../../tools/mutate/sql.ts'

const changes = (source: string) =>
  mutantsOf('a.ts', source, (name) => name === 'pure').map(({ was, now }) => `${was} -> ${now}`)

test.each<[string, string[]]>([
  ['if (a) b()', ['a -> true', 'a -> false', 'b() -> ']],
  ['const x = a && b', ['a && b -> a', 'a && b -> b']],
  ['const x = a ?? b', ['a ?? b -> a', 'a ?? b -> b']],
  ['const x = a < b', ['a < b -> a <= b', 'a < b -> a >= b']],
  ['const x = a === 1', ['a === 1 -> a !== 1']],
  ['const x = a + 1', ['a + 1 -> a - 1']],
  ['const x = !a', ['!a -> a']],
  ['const x = a?.b', ['a?.b -> a.b']],
  ['const x = a?.[0]', ['a?.[0] -> a[0]']],
  ['const x = [true]', ['[true] -> []', 'true -> false']],
  ["const x = { a: 'b' }", ["{ a: 'b' } -> {}", "'b' -> ''"]],
  ['function f() { return g(1) }', ['g(1) -> undefined']],
  ['const x = a.some(f)', ['a.some(f) -> a.every(f)']],
  ['const x = a.filter(f)', ['a.filter(f) -> a']],
  ['const x = a.toString()', []],
  ['const x = (a + 1) * b', ['(a + 1) * b -> (a + 1) / b', 'a + 1 -> a - 1']],
  ['const x = pure(sql, a)', ['pure(sql, a) -> undefined', 'pure(sql, a) -> a']],
  ['while (a) b()', ['a -> false', 'b() -> ']],
  // Nobody tests these: words for people, types, crash points.
  ["const x = new Error('It is away')", []],
  ["type A = 'b' | 'c'", []],
  ["await kernel.crash('call.begun')", []],
  ["import { a } from 'b'", []],
])('%s has its mutants', (source, expected) => {
  expect(changes(source)).toEqual(expected)
})

test('SQL is changed piece by piece, and every value keeps its place', () => {
  const sql = `update a set n = n + 1, at = ? where id = ? and (gone is null or gone > ?) returning n`
  const edits = sqlEdits(sql)
  expect(edits.map(({ was, now }) => `${was.trim()} -> ${now.trim()}`)).toEqual([
    'n = n + 1 -> n = iif(1, n, n + 1)',
    '+ 1 -> + 0',
    'at = ? -> at = iif(1, at, ?)',
    'id = ? -> (id = ? or 1)',
    '= -> <>',
    '(gone is null or gone > ?) -> ((gone is null or gone > ?) or 1)',
    '> -> >=',
    'is null -> is not null',
    'gone > ? -> (gone > ? and 0)',
    '> -> >=',
  ])
  for (const { at, was } of edits) expect(sql.slice(at, at + was.length)).toBe(was)
  const ordered = sqlEdits('select max(n) from a order by n desc limit ?')
  expect(ordered.map(({ was, now }) => `${was} -> ${now}`)).toEqual([
    'max( -> min(',
    'order by n desc -> ',
    'desc -> ',
    'limit ? -> limit ? + 1000',
  ])
})

test.each<[source: string, was: string, now: string, becomes: string]>([
  ["say(a + 1, 'b')", 'a + 1', 'a', "say((gantryMutant(1) ? (a) : (a + 1)), 'b')"],
  ['if (a > 1) b()', '> 1', '> 2', 'if ((gantryMutant(1) ? (a > 2) : (a > 1))) b()'],
  ['const x = await f()', 'await f()', 'f()', 'const x = (gantryMutant(1) ? (f()) : (await f()))'],
  // A line that begins with a bracket would go on with the line before.
  ['a()\nb()', 'b()', '', 'a()\n{ if (gantryMutant(1)) {  } else { b() } }'],
  ['a?.b.c(1)', '.b', '.d', '{ if (gantryMutant(1)) { a?.d.c(1) } else { a?.b.c(1) } }'],
  [
    'function f() { a(); b() }',
    'a(); b()',
    'b(); a()',
    'function f() { if (gantryMutant(1)) { { b(); a() } } else { { a(); b() } } }',
  ],
])(
  'a change of one’s own is one of the smallest place around it: %s',
  (source, was, now, becomes) => {
    const mutant = { ...ownMutant(source, { file: 'a.ts', was, now }), id: 1 }
    expect(instrument(source, [mutant]).replaceAll(/\s+/g, ' ')).toBe(
      becomes.replaceAll(/\s+/g, ' '),
    )
  },
)

test('a change of one’s own must be of one place', () => {
  const own = (was: string) => () => ownMutant('a(); a(b)', { file: 'a.ts', was, now: '' })
  expect(own('c')).toThrow('Cannot find in a.ts: c')
  expect(own('a(')).toThrow('More than once in a.ts: a(')
  expect(own('')).toThrow('Cannot find')
})

test('a file with all its mutants in it does what it did, until one is chosen', () => {
  const source = `let said = ''
    if (on) say('a')
    else say('b')
    function say(word) { said += word ?? 'none' }`
  const mutants = mutantsOf('a.ts', source, () => false).map((mutant, index) => ({
    ...mutant,
    id: index + 1,
  }))
  const text = `${instrument(source, mutants)}; return said`
  // oxlint-disable-next-line no-new-func, typescript/no-implied-eval -- The text is what is tested.
  const program = new Function('on', 'gantryMutant', text) as (
    on: boolean,
    chosen: unknown,
  ) => string
  const run = (on: boolean, was?: string, now?: string) => {
    const chosen = mutants.find((mutant) => mutant.was === was && mutant.now === now)?.id
    return program(on, (id: number) => id === chosen)
  }
  expect([run(true), run(false)]).toEqual(['a', 'b'])
  expect(run(false, 'on', 'true')).toBe('a')
  expect([run(true, `say('a')`, ''), run(false, `say('a')`, '')]).toEqual(['', 'b'])
  expect(run(true, `word ?? 'none'`, `'none'`)).toBe('none')
})

const fixture = 'test/runner/fixtures/mutate/counter.ts'
const keptFixture = 'test/runner/fixtures/mutate/kept.ts'
const textOf = (file: string) => readFileSync(join(root, file), 'utf8')
const fixtureMutants = (file = fixture, firstId = 1) =>
  mutantsOf(file, textOf(file), () => false).map((mutant, index) => ({
    ...mutant,
    id: firstId + index,
  }))

test('a run finds what no test sees, and is not stopped by what never ends', async () => {
  const mutants = fixtureMutants()
  const kept = fixtureMutants(keptFixture, 100).filter(({ was }) => was === "'hello'")
  const results = await runMutants({
    root,
    byFile: new Map([
      [fixture, { source: textOf(fixture), mutants }],
      [keptFixture, { source: textOf(keptFixture), mutants: kept }],
    ]),
    tries: [...mutants, ...kept],
    tests: ['test/runner/fixtures/mutate/counter-checks.ts'],
    limitMs: 500,
    budgetMs: 3000,
    lastMs: 0,
  })
  const verdictOf = (verdict: string) =>
    results
      .filter((result) => result.verdict === verdict)
      .map(({ mutant }) => `${mutant.line}: ${mutant.was} -> ${mutant.now}`)
  expect(verdictOf('survived')).toEqual([
    '12: list.length > 3 -> list.length >= 3',
    "14: 'two' -> ''",
  ])
  expect(verdictOf('hung')).toEqual(['7: at -= 1 -> ', '7: at -= 1 -> at += 1'])
  expect(results).toHaveLength(mutants.length + 1)
  expect(results.find(({ mutant }) => mutant.was === "'one'")).toMatchObject({
    verdict: 'killed',
    by: expect.stringContaining('has names'),
  })
})

test('an accepted mutant is found by its line, and one that is gone is told', () => {
  const mutants = fixtureMutants()
  const [border] = mutants.filter(({ now }) => now === 'list.length >= 3')
  if (!border) throw new Error('No border')
  const { code, was, now } = border
  const accepted = [
    {
      file: fixture,
      reason: 'why',
      mutants: [
        { code, was, now },
        { code, was, now: 'old' },
      ],
    },
  ]
  expect(reasonOf(accepted, border)).toBe('why')
  expect(reasonOf(accepted, { ...border, file: 'other.ts' })).toBeNull()
  expect(staleEntries(accepted, [fixture], mutants)).toEqual([
    `${fixture}: ${was} -> old in "${code}"`,
  ])
  expect(staleEntries(accepted, [], mutants)).toEqual([])
})

test('tests are those of the mirrored folder and those that import the file', () => {
  const tests = testsFor(root, ['src/core/session/calls/rows.ts'])
  expect(tests).toContain('test/core/session/calls/logs.test.ts')
  expect(tests).toContain('test/core/session/calls/calls.test.ts')
  expect(tests).not.toContain('test/core/session/gate/gate.test.ts')
  const onlyCall = onlyCalls(root)
  expect(['describeCalls', 'appendEvent'].map(onlyCall)).toEqual([true, false])
})
