import { expect, test } from 'vitest'
import { idAlphabet } from '../../../src/contract/ids.ts'
import { jitteredBackoffMs, jitteredRetryMs } from '../../../src/core/actor/jitter.ts'

const drawing = (letter: string) => ({ random: (length: number) => letter.repeat(length) })
const attempts = [0, 1, 2, 3, 4, 5, 6, 100]

test('[LIFE4] tries come 1 s apart, then ever more rarely up to 30 s', () => {
  const seconds = attempts.map((attempt) => jitteredBackoffMs(attempt) / 1000)
  expect(seconds).toEqual([1, 2, 4, 8, 16, 30, 30, 30])
})

test('[LIFE4] each has a jitter of its own, and none is more than 45 s after the one before', () => {
  for (const attempt of attempts) {
    const [first, last] = [idAlphabet.at(0) ?? '', idAlphabet.at(-1) ?? '']
    const shortest = jitteredRetryMs(attempt, drawing(first))
    const longest = jitteredRetryMs(attempt, drawing(last))
    expect(shortest).toBe(jitteredBackoffMs(attempt))
    expect(longest).toBeGreaterThan(shortest * 1.4)
    expect(longest).toBeLessThan(45_000)
  }
})
