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
  if (repetitionsOf(source) > maxRepeat)
    return { problem: `It repeats more than ${maxRepeat} times` }
  try {
    const compiled = new RE2JS(ignoreCase ? `(?i:${source})` : source)
    return { pattern: { test: (text) => compiled.test(text) } }
  } catch (error) {
    return { problem: error instanceof Error ? error.message : 'Not a regular expression' }
  }
}

/** How often its counts have the whole repeated, at most. */
function repetitionsOf(source: string): number {
  const counted = [...source.matchAll(/\{([0-9]+)(?:,([0-9]*))?\}/g)].flatMap(([, low, high]) => [
    low,
    high,
  ])
  return counted.reduce((all, count) => all * Math.max(1, Number(count ?? 1)), 1)
}

/** A message is looked at from its beginning; nobody asks for a deployment on its hundredth page. */
const maxCharacters = 16_384
/** One ability is proposed at most so often. */
export const proposeAgainMs = 10_000

type Triggered = Pick<AbilityDocument, 'triggers'>

/**
 * What is spent on the patterns of all abilities for one message: a pattern costs its length, times its repetitions, times
 * the characters that it is tried on. Thousands of plain patterns on a usual message are within it; heavy ones that are
 * not are left out, because everybody else waits meanwhile.
 */
export const triggerPatternBudget = () => ({ left: 50_000_000 })

/** Whether a message speaks of it: one of its keywords is in the text, in any case, or one of its patterns matches. */
export function matchesTriggerPattern(
  { triggers }: Triggered,
  text: string,
  budget = triggerPatternBudget(),
): boolean {
  if (triggers === undefined) return false
  const shown = text.slice(0, maxCharacters)
  const folded = shown.toLowerCase()
  if (triggers.keywords.some((keyword) => folded.includes(keyword.toLowerCase()))) return true
  return triggers.patterns.some((source) => {
    const cost = source.length * repetitionsOf(source) * shown.length
    if (cost > budget.left) return false
    budget.left -= cost
    const read = readPattern(source, { ignoreCase: true })
    return 'pattern' in read && read.pattern.test(shown)
  })
}
