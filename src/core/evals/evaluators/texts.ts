import type { Contains, Equals, Matches, MatchesSchema } from '../../../contract/eval-evaluator.ts'
import { readPattern } from '../../abilities/patterns.ts'
import { answerOf } from '../response/answer.ts'
import { isEqual } from './equality.ts'
import { jsonOf } from './field-accuracy.ts'
import { problemsOf } from './json-schema.ts'
import { either, missed, type Scored, shareOf, shown, type Subject } from './scored.ts'

export function scoreContains({ value, ignoreCase }: Contains, { response }: Subject): Scored {
  const fold = foldOf(ignoreCase)
  const answer = fold(answerOf(response))
  return shareOf(
    value.map((part) => {
      const holds = answer.includes(fold(part))
      return { holds, says: `The answer ${holds ? 'contains' : 'does not contain'} ${shown(part)}` }
    }),
  )
}

const foldOf = (ignoreCase: boolean) => (text: string) => (ignoreCase ? text.toLowerCase() : text)

/** A text against the answer; any other value against the answer as JSON. */
export function scoreEquals({ value, ignoreCase }: Equals, { response }: Subject): Scored {
  const answer = answerOf(response)
  const fold = foldOf(ignoreCase)
  const holds =
    typeof value === 'string'
      ? fold(answer.trim()) === fold(value.trim())
      : isEqual(jsonOf(answer), value)
  return either(
    holds,
    `The answer is ${shown(value)}`,
    `Expected ${shown(value)}, the answer is ${shown(answer)}`,
  )
}

export function scoreRegex({ pattern, ignoreCase }: Matches, { response }: Subject): Scored {
  return matched(answerOf(response), pattern, ignoreCase, 'The answer')
}

export function matched(text: string, source: string, ignoreCase: boolean, what: string): Scored {
  const read = readPattern(source, { ignoreCase })
  if ('problem' in read) return missed(`Not a pattern in RE2 syntax: ${read.problem}`)
  return either(
    read.pattern.test(text),
    `${what} matches ${shown(source)}`,
    `${what} does not match ${shown(source)}`,
  )
}

export function scoreJsonSchema({ schema }: MatchesSchema, { response }: Subject): Scored {
  const value = jsonOf(answerOf(response))
  if (value === undefined) return missed('The answer is no JSON')
  const problems = problemsOf(schema, value)
  return problems.length === 0
    ? { score: 1, hits: ['The answer fits the schema'], misses: [] }
    : { score: 0, hits: [], misses: problems.slice(0, 20) }
}
