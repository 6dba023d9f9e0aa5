import type {
  AbilityInput,
  InputProblem,
  InputProblemCode,
  InputValues,
} from '../../contract/ability.ts'
import { canonicalJson } from '../../contract/canonical.ts'
import { readPattern } from './patterns.ts'

export type CheckedInputs = { values: InputValues } | { problems: InputProblem[] }

/** What an execution was given, against what the ability asks for. Defaults are filled in. Nothing starts with a problem. */
export function checkInputs(
  specified: Readonly<Record<string, AbilityInput>>,
  given: InputValues,
): CheckedInputs {
  const unknown = Object.keys(given)
    .filter((name) => !Object.hasOwn(specified, name))
    .map((name) => problem(name, 'UNKNOWN_INPUT', 'There is no such input'))
  const values: Record<string, unknown> = {}
  const wrong: InputProblem[] = []
  for (const [name, input] of Object.entries(specified)) {
    const value = (Object.hasOwn(given, name) ? given[name] : undefined) ?? input.default
    if (value === undefined || value === null) {
      if (input.required) wrong.push(problem(name, 'MISSING_INPUT', `Required: ${kindOf(input)}`))
      continue
    }
    const found = checkInputValue(input, value)
    if (found === null) values[name] = value
    else wrong.push(problem(name, ...found))
  }
  const problems = [...unknown, ...wrong]
  return problems.length > 0 ? { problems } : { values }
}

const problem = (name: string, code: InputProblemCode, message: string): InputProblem => ({
  path: `inputs.${name}`,
  code,
  message,
})

const kindOf = ({ type, description }: AbilityInput): string =>
  description === undefined ? type : `${type}, ${description}`

/** The value itself is in no message: it may be a secret. */
export function checkInputValue(
  input: AbilityInput,
  value: unknown,
): [InputProblemCode, string] | null {
  const type = Array.isArray(value) ? 'array' : typeof value
  if (type !== input.type) return ['TYPE_MISMATCH', `Expected ${input.type}, not ${type}`]
  if (input.enum && !input.enum.some((one) => canonicalJson(one) === canonicalJson(value)))
    return ['ENUM_MISMATCH', `Expected one of ${input.enum.join(', ')}`]
  if (typeof value === 'string') return checkText(input, value)
  if (typeof value === 'number') return checkNumber(input, value)
  return Array.isArray(value) ? checkLength(input, value.length, 'entries') : null
}

function checkText(input: AbilityInput, value: string): [InputProblemCode, string] | null {
  const read = input.pattern === undefined ? null : readPattern(input.pattern)
  if (read !== null && (!('pattern' in read) || !read.pattern.test(value)))
    return ['PATTERN_MISMATCH', `Must match ${input.pattern}`]
  return checkLength(input, Array.from(value).length, 'characters')
}

function checkLength(
  { minLength, maxLength }: AbilityInput,
  length: number,
  unit: string,
): [InputProblemCode, string] | null {
  if (minLength !== undefined && length < minLength)
    return ['MIN_LENGTH', `Must have at least ${minLength} ${unit}, has ${length}`]
  if (maxLength !== undefined && length > maxLength)
    return ['MAX_LENGTH', `Must have at most ${maxLength} ${unit}, has ${length}`]
  return null
}

function checkNumber({ min, max }: AbilityInput, value: number): [InputProblemCode, string] | null {
  if (min !== undefined && value < min) return ['MIN_VALUE', `Must be at least ${min}`]
  if (max !== undefined && value > max) return ['MAX_VALUE', `Must be at most ${max}`]
  return null
}
