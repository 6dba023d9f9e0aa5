import type { Contains, Equals, Matches } from '../../../contract/eval-evaluator.ts'
import { readPattern } from '../../abilities/patterns.ts'
import { jsonOfAnswer, responseAnswer } from '../response/answer.ts'
import { isEqual } from './equality.ts'
import {
  scoredEither,
  scoredMiss,
  type Scored,
  scoredShare,
  scoredText,
  type Subject,
} from './scored.ts'

export function scoreTextContains({ value, ignoreCase }: Contains, { response }: Subject): Scored {
  const fold = foldOf(ignoreCase)
  const answer = fold(responseAnswer(response))
  return scoredShare(
    value.map((part) => {
      const holds = answer.includes(fold(part))
      return {
        holds,
        says: `The answer ${holds ? 'contains' : 'does not contain'} ${scoredText(part)}`,
      }
    }),
  )
}

const foldOf = (ignoreCase: boolean) => (text: string) => (ignoreCase ? text.toLowerCase() : text)

/** A text against the answer; any other value against the answer as JSON. */
export function scoreTextEquals({ value, ignoreCase }: Equals, { response }: Subject): Scored {
  const answer = responseAnswer(response)
  const fold = foldOf(ignoreCase)
  const holds =
    typeof value === 'string'
      ? fold(answer.trim()) === fold(value.trim())
      : isEqual(jsonOfAnswer(answer), value)
  return scoredEither(
    holds,
    `The answer is ${scoredText(value)}`,
    `Expected ${scoredText(value)}, the answer is ${scoredText(answer)}`,
  )
}

export function scoreTextRegex({ pattern, ignoreCase }: Matches, { response }: Subject): Scored {
  return scoreTextMatch(responseAnswer(response), pattern, ignoreCase, 'The answer')
}

export function scoreTextMatch(
  text: string,
  source: string,
  ignoreCase: boolean,
  what: string,
): Scored {
  const read = readPattern(source, { ignoreCase })
  if ('problem' in read) return scoredMiss(`Not a pattern in RE2 syntax: ${read.problem}`)
  return scoredEither(
    read.pattern.test(text),
    `${what} matches ${scoredText(source)}`,
    `${what} does not match ${scoredText(source)}`,
  )
}
