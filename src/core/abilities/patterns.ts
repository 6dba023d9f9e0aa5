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
