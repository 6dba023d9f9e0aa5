import { describe, expect, test } from 'vitest'
import { AbilityInput, type InputValues, type StepStatus } from '../../../src/contract/ability.ts'
import { parseDuration } from '../../../src/core/abilities/durations.ts'
import { graphNeeds, findGraphCycle, orderStepGraph } from '../../../src/core/abilities/graph.ts'
import { checkInputs } from '../../../src/core/abilities/inputs.ts'
import { readPattern } from '../../../src/core/abilities/patterns.ts'
import { fillPlaceholders } from '../../../src/core/abilities/scripts/placeholders.ts'
import {
  checkCondition,
  conditionHolds,
  readCondition,
} from '../../../src/core/abilities/conditions.ts'
import { random } from '../../support/random.ts'

describe('conditions', () => {
  const inputs = {
    env: { type: 'string' },
    count: { type: 'number' },
    dry: { type: 'boolean' },
    list: { type: 'array' },
    map: { type: 'object' },
    'with-hyphen': { type: 'string' },
  } as const
  const steps = new Set(['unit-tests', 'later'])
  const before = new Set(['unit-tests'])
  const known = {
    inputs: { env: 'production', count: 3, dry: false, 'with-hyphen': 'x' } satisfies InputValues,
    steps: { 'unit-tests': { status: 'failed' as StepStatus, output: ' 2 tests failed\n' } },
  }

  test.each([
    ['inputs.env == "production"', true],
    ["inputs.env == 'production'", true],
    ['inputs.env=="staging"', false],
    ['inputs.env != "staging"', true],
    ['"production" == inputs.env', true],
    ['inputs.count == 3', true],
    ['inputs.count != 3', false],
    ['inputs.count < 3', false],
    ['inputs.count <= 3', true],
    ['inputs.count > 2.5', true],
    ['inputs.count >= 4', false],
    ['inputs.count > -1', true],
    ['inputs.dry', false],
    ['not inputs.dry', true],
    ['!inputs.dry', true],
    ['!!inputs.dry', false],
    ['inputs.dry == false', true],
    ['inputs.with-hyphen == "x"', true],
    ['steps.unit-tests.status == "failed"', true],
    ['steps.unit-tests.status != "completed"', true],
    ['steps.unit-tests.output contains "tests failed"', true],
    ['steps.unit-tests.output contains "passed"', false],
    ['steps.unit-tests.output == "2 tests failed"', true],
    ['inputs.dry or inputs.count == 3', true],
    ['inputs.dry || inputs.count == 4', false],
    ['inputs.count == 3 and not inputs.dry', true],
    ['inputs.count == 3 && inputs.dry', false],
    ['inputs.dry and inputs.dry or inputs.count == 3', true],
    ['inputs.dry and (inputs.dry or inputs.count == 3)', false],
    ['not inputs.dry and inputs.count == 4', false],
    ['not (inputs.dry and inputs.count == 4)', true],
    ['inputs.missing == null', true],
    ['true', true],
    ['false', false],
  ])('[ABL9] %s is %s', (source, expected) => {
    const read = readCondition(source)
    expect(read).toHaveProperty('condition')
    expect('condition' in read && conditionHolds(read.condition, known)).toBe(expected)
  })

  test.each([
    ['', 'Expected a value at character 1 of the condition'],
    ['inputs.env ==', 'Expected a value at character 14 of the condition'],
    ['inputs.env = "x"', 'Cannot read "= "x"" at character 12 of the condition'],
    ['inputs.env === "x"', 'Cannot read "= "x"" at character 14 of the condition'],
    ['inputs.env == "x" && ', 'Expected a value at character 22 of the condition'],
    ['(inputs.dry', 'Expected ")" at character 12 of the condition'],
    ['inputs.dry)', 'Did not expect ")" at character 11 of the condition'],
    ['inputs.env == "a" "b"', 'Did not expect "b" at character 19 of the condition'],
    ['inputs.env == "a\\"', 'Cannot read ""a\\"" at character 15 of the condition'],
    ['inputs.env.length == 1', /^Cannot read "inputs\.env\.length"/],
    ['steps.a.error == "x"', /^Cannot read "steps\.a\.error"/],
    ['env == "x"', /^Cannot read "env"/],
    ['runs.a.status == "failed"', /^Cannot read "runs\.a\.status"/],
    ['steps.a.status.b == "failed"', /^Cannot read "steps\.a\.status\.b"/],
    ['steps.a == "failed"', /^Cannot read "steps\.a"/],
    ['inputs.env "==" "x"', 'Did not expect "==" at character 12 of the condition'],
    ['process.exit()', /^Cannot read "process\.exit"/],
    ['inputs.count + 1 == 2', 'Cannot read "+ 1 == 2" at character 14 of the condition'],
    ['always()', /^Cannot read "always"/],
  ])('[ABL9] %s cannot be read', (source, problem) => {
    const read = readCondition(source)
    expect('problem' in read ? read.problem : '').toMatch(problem)
  })

  test.each([
    ['inputs.other == "x"', 'There is no input "other"'],
    ['steps.none.status == "failed"', 'There is no step "none"'],
    ['steps.later.status == "failed"', 'Step "later" may not have ended by then: add it to needs'],
    [
      'not (inputs.dry or steps.later.output contains "x")',
      'Step "later" may not have ended by then: add it to needs',
    ],
    [
      'steps.unit-tests.status == "succeeded"',
      'A status is completed, failed or skipped, never "succeeded"',
    ],
    ['inputs.count == "3"', 'Compares number with string, which are never equal'],
    ['inputs.env > 3', '">" compares numbers'],
    ['inputs.count contains "3"', '"contains" compares texts'],
    ['inputs.list == "a"', 'Lists and objects cannot be compared'],
    ['inputs.map == "a"', 'Lists and objects cannot be compared'],
    ['inputs.env', 'Expected a comparison, or an input that is true or false'],
    ['"text"', 'Expected a comparison, or an input that is true or false'],
  ])('[ABL9] %s is refused where it stands', (source, problem) => {
    const read = readCondition(source)
    expect(
      'condition' in read && checkCondition(read.condition, { inputs, steps, before }),
    ).toEqual([problem])
  })

  test('[ABL9] what is in order has no problem', () => {
    const read = readCondition(
      'inputs.dry and (inputs.env == null or steps.unit-tests.output contains inputs.env)',
    )
    expect(
      'condition' in read && checkCondition(read.condition, { inputs, steps, before }),
    ).toEqual([])
  })
})

describe('inputs', () => {
  const input = (given: Record<string, unknown>) => AbilityInput.parse(given)

  test.each<[string, Record<string, unknown>, InputValues, string | null]>([
    ['a required one is missing', { required: true }, {}, 'MISSING_INPUT'],
    ['a required one is null', { required: true }, { x: null }, 'MISSING_INPUT'],
    ['a required one has a default', { required: true, default: 'd' }, {}, null],
    ['the empty text is a value', { required: true }, { x: '' }, null],
    ['text for a number', { type: 'number' }, { x: '3' }, 'TYPE_MISMATCH'],
    ['a list for an object', { type: 'object' }, { x: [] }, 'TYPE_MISMATCH'],
    ['an object', { type: 'object' }, { x: {} }, null],
    ['a list', { type: 'array' }, { x: [1] }, null],
    ['true', { type: 'boolean' }, { x: true }, null],
    ['a pattern', { pattern: '^v\\d+$' }, { x: 'v1' }, null],
    ['no match', { pattern: '^v\\d+$' }, { x: '1' }, 'PATTERN_MISMATCH'],
    ['one of the list', { enum: ['a', 'b'] }, { x: 'b' }, null],
    ['none of the list', { enum: ['a', 'b'] }, { x: 'c' }, 'ENUM_MISMATCH'],
    ['too short', { minLength: 2 }, { x: 'a' }, 'MIN_LENGTH'],
    ['short enough', { minLength: 1, maxLength: 1 }, { x: '😀' }, null],
    ['too long', { maxLength: 1 }, { x: 'ab' }, 'MAX_LENGTH'],
    ['a list that is too long', { type: 'array', maxLength: 1 }, { x: [1, 2] }, 'MAX_LENGTH'],
    ['too small', { type: 'number', min: 1 }, { x: 0 }, 'MIN_VALUE'],
    ['too large', { type: 'number', max: 1 }, { x: 2 }, 'MAX_VALUE'],
    ['in between', { type: 'number', min: 1, max: 1 }, { x: 1 }, null],
  ])('[ABL8] %s', (_, spec, given, code) => {
    const checked = checkInputs({ x: input(spec) }, given)
    expect('problems' in checked ? checked.problems.map((one) => one.code) : null).toEqual(
      code === null ? null : [code],
    )
  })

  test('[ABL8] defaults are filled in, what nobody asks for is refused, and no message has the value', () => {
    const spec = { x: input({ default: 'd' }), y: input({ type: 'number' }) }
    expect(checkInputs(spec, {})).toEqual({ values: { x: 'd' } })
    const checked = checkInputs(spec, { y: 'hunter2', z: 'hunter2' })
    expect(checked).toMatchObject({
      problems: [{ path: 'inputs.z', code: 'UNKNOWN_INPUT' }, { path: 'inputs.y' }],
    })
    expect(JSON.stringify(checked)).not.toContain('hunter2')
  })
})

test.each([
  ['500ms', 500],
  ['30s', 30_000],
  ['5m', 300_000],
  ['1h', 3_600_000],
  ['2m30s', 150_000],
  ['250', 250],
  [1500, 1500],
  ['24h', 86_400_000],
  ['24h1ms', null],
  ['0s', null],
  ['5', 5],
  ['5 m', null],
  ['m', null],
  ['1d', null],
  ['-1s', null],
  ['', null],
])('[ABL4] %s is %s ms', (text, ms) => {
  expect(parseDuration(text)).toBe(ms)
})

test('[ABL10] values are put into texts as they are, and other braces stay', () => {
  const filling = {
    inputs: { a: '$& {{inputs.b}}', n: 3, list: [1, 'x'], 'h-y': 'h' },
    steps: { 'unit-tests': { status: 'completed' as const, output: '\n out \n' } },
    ask: 'please',
  }
  expect(
    fillPlaceholders('{{inputs.a}}|{{ inputs.n }}|{{inputs.list}}|{{inputs.h-y}}', filling),
  ).toBe('$& {{inputs.b}}|3|[1,"x"]|h')
  expect(
    fillPlaceholders('{{steps.unit-tests.output}}|{{steps.none.output}}|{{input}}', filling),
  ).toBe('out||please')
  expect(fillPlaceholders('{{other}} {{ inputs }} {inputs.a} {{inputs.none}}', filling)).toBe(
    '{{other}} {{ inputs }} {inputs.a} ',
  )
})

describe('order', () => {
  const node = (id: string, ...needs: string[]) => ({ id, needs })
  const ids = (steps: { id: string }[] | null) => steps?.map(({ id }) => id).join(' ')

  test('[ABL11] what is needed comes first, then what is written first', () => {
    expect(ids(orderStepGraph([node('a'), node('b'), node('c')]))).toBe('a b c')
    expect(ids(orderStepGraph([node('a', 'c'), node('b'), node('c')]))).toBe('b c a')
    expect(
      ids(orderStepGraph([node('d', 'b', 'c'), node('b', 'a'), node('c', 'a'), node('a')])),
    ).toBe('a b c d')
    expect(orderStepGraph([node('a', 'b'), node('b', 'a')])).toBeNull()
    expect([...graphNeeds([node('a'), node('b', 'a'), node('c', 'b')], 'c')].toSorted()).toEqual([
      'a',
      'b',
    ])
  })

  test('[ABL11] of random graphs every order keeps all needs, and a cycle is found if there is none', () => {
    const next = random(7)
    const below = (count: number) => Math.floor(next() * count)
    for (let round = 0; round < 300; round += 1) {
      const count = 1 + below(12)
      const steps = Array.from({ length: count }, (_, at) =>
        node(`s${at}`, ...new Set(Array.from({ length: below(3) }, () => `s${below(count)}`))),
      )
      const order = orderStepGraph(steps)
      expect(order === null).toBe(findGraphCycle(steps) !== null)
      const place = new Map(order?.map(({ id }, at) => [id, at]))
      for (const { id, needs } of order ?? [])
        for (const need of needs) expect(place.get(need)).toBeLessThan(place.get(id) ?? -1)
    }
  })
})

test('[ABL7] patterns are matched in linear time', () => {
  const read = readPattern('^(a+)+$')
  expect('pattern' in read && read.pattern.test(`${'a'.repeat(100_000)}b`)).toBe(false)
  expect('pattern' in read && read.pattern.test('aaa')).toBe(true)
  const quiet = readPattern('Deploy', { ignoreCase: true })
  expect('pattern' in quiet && quiet.pattern.test('please DEPLOY now')).toBe(true)
})
