import { describe, expect, test } from 'vitest'
import {
  conditionHolds,
  type Known,
  readCondition,
} from '../../../src/core/abilities/conditions.ts'

const known: Known = {
  inputs: { yes: true, no: false, n: 2, text: 'abc' },
  steps: { a: { status: 'completed', output: ' out \n' } },
}

function holds(source: string): boolean {
  const read = readCondition(source)
  if ('problem' in read) throw new Error(read.problem)
  return conditionHolds(read.condition, known)
}

const problem = (source: string) => {
  const read = readCondition(source)
  return 'problem' in read ? read.problem : null
}

describe('[ABL9] a condition', () => {
  test.each([
    ['inputs.no or inputs.yes', true],
    ['inputs.no || inputs.no', false],
    ['inputs.yes and inputs.no', false],
    ['inputs.yes && inputs.yes', true],
    // "and" binds closer than "or", "not" closer than both.
    ['inputs.yes or inputs.no and inputs.no', true],
    ['(inputs.yes or inputs.no) and inputs.no', false],
    ['not inputs.no and inputs.no', false],
    ['not (inputs.no and inputs.no)', true],
    ['!inputs.no', true],
    ['not not inputs.yes', true],
    ['inputs.yes and inputs.yes and inputs.no', false],
    ['inputs.no or inputs.no or inputs.yes', true],
    ['inputs.n == 2', true],
    ['inputs.n != 2', false],
    ['inputs.n < 2', false],
    ['inputs.n <= 2', true],
    ['inputs.n > 1.5', true],
    ['inputs.n >= 2.5', false],
    ['inputs.n > -1', true],
    ['inputs.text contains "b"', true],
    ['inputs.text contains "B"', false],
    ['inputs.n contains "2"', false],
    ['inputs.text < 3', false],
    ["inputs.text == 'abc'", true],
    ['inputs.missing == null', true],
    ['steps.a.status == "completed"', true],
    ['steps.a.output == "out"', true],
    ['steps.b.output == null', true],
    ['true', true],
    ['inputs.text', false],
  ])('%s is %s', (source, expected) => {
    expect(holds(source)).toBe(expected)
  })

  test.each([
    ['', 'Expected a value at character 1'],
    ['inputs.n ==', 'Expected a value at character 12'],
    ['inputs.n == 2 3', 'Did not expect "3" at character 15'],
    ['inputs.n ==  §', 'Cannot read "§" at character 14'],
    ['(inputs.yes', 'Expected ")" at character 12'],
    ['== 2', 'Did not expect "==" at character 1'],
    ['inputs.yes "or" inputs.no', 'Did not expect "or" at character 12'],
    ['inputs.text "contains" "b"', 'Did not expect "contains" at character 13'],
    ['inputs.a.b', 'Cannot read "inputs.a.b": expected'],
    ['inputs', 'Cannot read "inputs": expected'],
    ['steps.a', 'Cannot read "steps.a": expected'],
    ['steps.a.exit', 'Cannot read "steps.a.exit": expected'],
    ['steps.a.status.x', 'Cannot read "steps.a.status.x": expected'],
    ['other.a', 'Cannot read "other.a": expected'],
    ['constructor', 'Cannot read "constructor": expected'],
    [`${'('.repeat(51)}true${')'.repeat(51)}`, 'Nested too deeply at character 52'],
    [`${'!'.repeat(51)}true`, 'Nested too deeply at character 52'],
  ])('%s is refused with its place', (source, expected) => {
    expect(problem(source)).toContain(expected)
  })

  test('may be nested fifty deep', () => {
    expect(holds(`${'('.repeat(50)}true${')'.repeat(50)}`)).toBe(true)
    expect(holds(`${'!'.repeat(50)}true`)).toBe(true)
  })
})
