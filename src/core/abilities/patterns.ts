import type { AbilityDocument } from '../../contract/ability.ts'
import { RE2JS } from '@bufbuild/re2'

/**
 * Regular expressions that people write, in RE2 syntax: time grows with the length of the text, whatever the pattern. What
 * RE2 does not have (look-around, back-references) is refused when the pattern is read.
 */
export interface Pattern {
  test(text: string): boolean
}

export type ReadPattern = { pattern: Pattern } | { problem: string }

/** So many repetitions that its program would fill the memory are refused. */
const maxRepeat = 1000

export function readPattern(source: string, { ignoreCase = false } = {}): ReadPattern {
  const counted = [...source.matchAll(/\{([0-9]+)(?:,([0-9]*))?\}/g)].flatMap(([, low, high]) => [
    low,
    high,
  ])
  const product = counted.reduce((all, count) => all * Math.max(1, Number(count ?? 1)), 1)
  if (product > maxRepeat) return { problem: `It repeats more than ${maxRepeat} times` }
  try {
    const compiled = new RE2JS(ignoreCase ? `(?i:${source})` : source)
    return { pattern: { test: (text) => compiled.test(text) } }
  } catch (error) {
    return { problem: error instanceof Error ? error.message : 'Not a regular expression' }
  }
}

/** A message is looked at from its beginning; nobody asks for a deployment on its hundredth page. */
const maxCharacters = 16_384
/** One ability is proposed at most so often. */
export const proposeAgainMs = 10_000

type Triggered = Pick<AbilityDocument, 'triggers'>

/** Whether a message speaks of it: one of its keywords is in the text, in any case, or one of its patterns matches. */
export function matchesTriggerPattern({ triggers }: Triggered, text: string): boolean {
  if (triggers === undefined) return false
  const shown = text.slice(0, maxCharacters)
  const folded = shown.toLowerCase()
  if (triggers.keywords.some((keyword) => folded.includes(keyword.toLowerCase()))) return true
  return triggers.patterns.some((source) => {
    const read = readPattern(source, { ignoreCase: true })
    return 'pattern' in read && read.pattern.test(shown)
  })
}
