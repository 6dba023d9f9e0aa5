import type { MatchesSchema } from '../../../contract/eval-evaluator.ts'
import { readPattern, type ReadPattern } from '../../abilities/patterns.ts'
import { jsonOfAnswer, responseAnswer } from '../response/answer.ts'
import { isEqual, isRecord } from './equality.ts'
import { type Scored, scoredMiss, scoredText, type Subject } from './scored.ts'

/**
 * The part of JSON Schema (2020-12) that says what one value is: no references, no formats, patterns in RE2 syntax.
 * A keyword that is not here is refused when the file is read: a schema that is half understood would pass too much.
 */

type Schema = Record<string, unknown> | boolean
type Check = (
  value: unknown,
  limit: unknown,
  at: string,
  schema: Record<string, unknown>,
) => string[]

const types: Record<string, (value: unknown) => boolean> = {
  string: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === 'boolean',
  null: (value) => value === null,
  array: Array.isArray,
  object: isRecord,
}

const annotations = ['$schema', '$id', '$comment', 'title', 'description', 'default', 'examples']

const number =
  (holds: (value: number, limit: number) => boolean, words: string): Check =>
  (value, limit, at) =>
    typeof value !== 'number' || holds(value, Number(limit))
      ? []
      : [`${at}: ${scoredText(value)} is not ${words} ${Number(limit)}`]

/** Of a text in characters, not in UTF-16 units. */
const sizeOf = (value: unknown): number | null =>
  typeof value === 'string' ? Array.from(value).length : Array.isArray(value) ? value.length : null

const size =
  (kind: 'string' | 'array' | 'object', least: boolean): Check =>
  (value, limit, at) => {
    if (types[kind]?.(value) !== true) return []
    const count = kind === 'object' ? Object.keys(value as object).length : (sizeOf(value) ?? 0)
    const holds = least ? count >= Number(limit) : count <= Number(limit)
    return holds ? [] : [`${at}: has ${count}, ${least ? 'at least' : 'at most'} ${Number(limit)}`]
  }

const checks: Record<string, Check> = {
  type: (value, limit, at) => {
    const names = Array.isArray(limit) ? limit.map(String) : [String(limit)]
    return names.some((name) => types[name]?.(value))
      ? []
      : [`${at}: ${scoredText(value)} is not ${names.join(' or ')}`]
  },
  const: (value, limit, at) =>
    isEqual(value, limit) ? [] : [`${at}: ${scoredText(value)} is not ${scoredText(limit)}`],
  enum: (value, limit, at) =>
    (limit as unknown[]).some((each) => isEqual(value, each))
      ? []
      : [`${at}: ${scoredText(value)} is none of ${scoredText(limit)}`],
  minimum: number((value, limit) => value >= limit, 'at least'),
  maximum: number((value, limit) => value <= limit, 'at most'),
  exclusiveMinimum: number((value, limit) => value > limit, 'more than'),
  exclusiveMaximum: number((value, limit) => value < limit, 'less than'),
  multipleOf: number(
    (value, limit) => Math.abs(value / limit - Math.round(value / limit)) < 1e-9,
    'a multiple of',
  ),
  minLength: size('string', true),
  maxLength: size('string', false),
  minItems: size('array', true),
  maxItems: size('array', false),
  minProperties: size('object', true),
  maxProperties: size('object', false),
  pattern: (value, limit, at) => {
    const read = readPattern(String(limit))
    return typeof value !== 'string' || ('pattern' in read && read.pattern.test(value))
      ? []
      : [`${at}: ${scoredText(value)} does not match ${scoredText(limit)}`]
  },
  uniqueItems: (value, limit, at) =>
    limit === true &&
    Array.isArray(value) &&
    value.some((item, index) => value.slice(0, index).some((other) => isEqual(item, other)))
      ? [`${at}: has the same item twice`]
      : [],
  items: (value, limit, at) =>
    Array.isArray(value)
      ? value.flatMap((item, index) => jsonSchemaProblems(limit as Schema, item, `${at}[${index}]`))
      : [],
  required: (value, limit, at) =>
    isRecord(value)
      ? (limit as string[])
          .filter((key) => !Object.hasOwn(value, key))
          .map((key) => `${at}: has no ${key}`)
      : [],
  properties: (value, limit, at) =>
    isRecord(value)
      ? Object.entries(limit as Record<string, Schema>).flatMap(([key, schema]) =>
          Object.hasOwn(value, key) ? jsonSchemaProblems(schema, value[key], `${at}.${key}`) : [],
        )
      : [],
  additionalProperties: (value, limit, at, { properties }) =>
    isRecord(value)
      ? Object.keys(value)
          .filter((key) => !isRecord(properties) || !Object.hasOwn(properties, key))
          .flatMap((key) =>
            limit === false
              ? [`${at}: must not have ${key}`]
              : jsonSchemaProblems(limit as Schema, value[key], `${at}.${key}`),
          )
      : [],
  allOf: (value, limit, at) =>
    (limit as Schema[]).flatMap((schema) => jsonSchemaProblems(schema, value, at)),
  anyOf: (value, limit, at) =>
    fitting(limit, value).length > 0 ? [] : [`${at}: fits none of anyOf`],
  oneOf: (value, limit, at) =>
    fitting(limit, value).length === 1
      ? []
      : [`${at}: fits ${fitting(limit, value).length} of oneOf`],
  not: (value, limit, at) =>
    jsonSchemaProblems(limit as Schema, value, at).length > 0
      ? []
      : [`${at}: fits what it must not`],
}

const fitting = (schemas: unknown, value: unknown): Schema[] =>
  (schemas as Schema[]).filter((schema) => jsonSchemaProblems(schema, value).length === 0)

/** One sentence per mistake of the value. The schema was read by `readSchema`. */
function jsonSchemaProblems(schema: Schema, value: unknown, at = 'answer'): string[] {
  if (typeof schema === 'boolean') return schema ? [] : [`${at}: must not be there`]
  return Object.entries(schema).flatMap(
    ([keyword, limit]) => checks[keyword]?.(value, limit, at, schema) ?? [],
  )
}

const isTypeName = (given: unknown) => typeof given === 'string' && Object.hasOwn(types, given)
const isCount = (given: unknown) => Number.isInteger(given) && Number(given) >= 0
const isNumber = (given: unknown) => typeof given === 'number' && Number.isFinite(given)
const isTexts = (given: unknown) =>
  Array.isArray(given) && given.every((each) => typeof each === 'string')

/** What a keyword's value must be; those that hold schemas are gone into below. */
const forms: Record<string, (given: unknown) => boolean> = {
  type: (given) => isTypeName(given) || (Array.isArray(given) && given.every(isTypeName)),
  enum: Array.isArray,
  minimum: isNumber,
  maximum: isNumber,
  exclusiveMinimum: isNumber,
  exclusiveMaximum: isNumber,
  multipleOf: (given) => isNumber(given) && Number(given) > 0,
  minLength: isCount,
  maxLength: isCount,
  minItems: isCount,
  maxItems: isCount,
  minProperties: isCount,
  maxProperties: isCount,
  pattern: (given) => typeof given === 'string',
  uniqueItems: (given) => typeof given === 'boolean',
  required: isTexts,
  properties: isRecord,
  allOf: Array.isArray,
  anyOf: Array.isArray,
  oneOf: Array.isArray,
}

/** What is wrong with a schema, by path. */
export function jsonSchemaMistakes(
  schema: unknown,
  read: (pattern: string) => ReadPattern = readPattern,
  path: readonly PropertyKey[] = [],
): { path: readonly PropertyKey[]; message: string }[] {
  if (typeof schema === 'boolean') return []
  if (!isRecord(schema)) return [{ path, message: 'Must be a schema' }]
  return Object.entries(schema).flatMap(([keyword, given]) => {
    const here = [...path, keyword]
    if (annotations.includes(keyword)) return []
    if (!Object.hasOwn(checks, keyword))
      return [{ path: here, message: 'There is no such keyword, or it is not supported' }]
    if (forms[keyword]?.(given) === false)
      return [{ path: here, message: `Not a value of ${keyword}` }]
    if (keyword === 'pattern') {
      const pattern = read(String(given))
      return 'problem' in pattern ? [{ path: here, message: pattern.problem }] : []
    }
    return innerSchemas(keyword, given).flatMap(([key, inner]) =>
      jsonSchemaMistakes(inner, read, key === null ? here : [...here, key]),
    )
  })
}

function innerSchemas(keyword: string, given: unknown): [PropertyKey | null, unknown][] {
  if (['items', 'additionalProperties', 'not'].includes(keyword)) return [[null, given]]
  if (keyword === 'properties') return Object.entries(given as object)
  if (['allOf', 'anyOf', 'oneOf'].includes(keyword)) return [...(given as unknown[]).entries()]
  return []
}

export function scoreJsonSchema({ schema }: MatchesSchema, { response }: Subject): Scored {
  const value = jsonOfAnswer(responseAnswer(response))
  if (value === undefined) return scoredMiss('The answer is no JSON')
  const problems = jsonSchemaProblems(schema, value)
  return problems.length === 0
    ? { score: 1, hits: ['The answer fits the schema'], misses: [] }
    : { score: 0, hits: [], misses: problems.slice(0, 20) }
}
