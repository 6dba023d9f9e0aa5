import { describe, expect, test } from 'vitest'
import { hunksOf, withoutHunks } from '../../../src/core/evidence/texts/hunks.ts'
import { random as seeded } from '../../support/random.ts'

const lines = (...all: (string | number)[]) => all.map((line) => `${line}\n`).join('')
const shown = (before: string, after: string) =>
  hunksOf('f', before, after).map((hunk) => [
    ...[hunk.before.first, hunk.before.lines.join(''), hunk.after.first, hunk.after.lines.join('')],
  ])

describe('[CHG17] hunks', () => {
  test('are runs of lines that differ, and close ones are one', () => {
    const before = lines(1, 2, 3, 4, 5, 6, 7, 8, 9)
    expect(shown(before, before)).toEqual([])
    expect(shown(before, lines(1, 'x', 3, 4, 5, 6, 7, 'y', 9))).toEqual([
      [1, '2\n', 1, 'x\n'],
      [7, '8\n', 7, 'y\n'],
    ])
    expect(shown(before, lines(1, 'x', 3, 4, 'y', 6, 7, 8, 9))).toEqual([
      [1, '2\n3\n4\n5\n', 1, 'x\n3\n4\ny\n'],
    ])
    expect(shown(before, lines(0, 1, 2, 3, 4, 6, 7, 8, 9, 10))).toEqual([
      [0, '', 0, '0\n'],
      [4, '5\n', 5, ''],
      [9, '', 9, '10\n'],
    ])
    // One is the beginning, or the end, of the other, also where lines repeat.
    expect(shown(lines(1, 2), lines(1, 2, 3, 4))).toEqual([[2, '', 2, '3\n4\n']])
    expect(shown(lines(1, 2, 3, 4), lines(3, 4))).toEqual([[0, '1\n2\n', 0, '']])
    expect(shown(lines('a', 'a'), lines('a', 'a', 'a'))).toEqual([[2, '', 2, 'a\n']])
    expect(shown(lines('a', 'b', 'a'), lines('a'))).toEqual([[1, 'b\na\n', 1, '']])
    // The same lines are kept, not others as many.
    expect(shown(lines('p', 1, 2, 3, 4, 5, 'q'), lines('P', 2, 3, 4, 5, 1, 'Q'))).toEqual([
      [0, 'p\n1\n', 0, 'P\n'],
      [6, 'q\n', 5, '1\nQ\n'],
    ])
    expect(shown('a', 'a\n')).toEqual([[0, 'a', 0, 'a\n']])
    expect(shown('', 'a\n')).toEqual([[0, '', 0, 'a\n']])
  })

  test('keep their name while other places change, and lose it with their own lines', () => {
    const before = lines(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    const idOf = (after: string, at: number) => hunksOf('f', before, after)[at]?.id
    const alone = idOf(lines(1, 2, 3, 4, 5, 6, 7, 8, 9, 'x', 11, 12), 0)
    expect(alone).toMatch(/^hnk_[0-9a-f]{40}$/)
    expect(idOf(lines('new', 1, 'y', 3, 4, 5, 6, 7, 8, 9, 'x', 11, 12), 1)).toBe(alone)
    expect(idOf(lines(1, 2, 3, 4, 5, 6, 7, 8, 9, 'z', 11, 12), 0)).not.toBe(alone)
    const [other] = hunksOf('g', before, lines(1, 2, 3, 4, 5, 6, 7, 8, 9, 'x', 11, 12))
    expect(other?.id).not.toBe(alone)
  })

  test('that look alike, with the same lines around them, are not stable', () => {
    const part = ['a', 'b', 'c', 1, 'd', 'e', 'f']
    const changed = ['a', 'b', 'c', 2, 'd', 'e', 'f']
    const hunks = hunksOf('f', lines(...part, ...part, 9), lines(...changed, ...changed, 'x'))
    expect(hunks.map(({ stable }) => stable)).toEqual([false, false, true])
  })

  test.each([1, 2, 3, 4])(
    'one by one or all of them lead back to the text before (seed %i)',
    (seed) => {
      const random = seeded(seed)
      const word = () => `${Math.floor(random() * 6)}`
      for (let round = 0; round < 200; round += 1) {
        const before = Array.from({ length: Math.floor(random() * 40) }, word)
        const after = before.flatMap((line) =>
          random() < 0.8 ? [line] : random() < 0.5 ? [] : [word(), word()],
        )
        const [was, is] = [lines(...before), lines(...after)]
        const hunks = hunksOf('f', was, is)
        const all = new Set(hunks.map(({ id }) => id))
        expect(withoutHunks(is, hunks, all)).toBe(was)
        expect(withoutHunks(is, hunks, new Set())).toBe(is)
        for (const { id, stable } of hunks) {
          if (!stable) continue
          const left = withoutHunks(is, hunks, new Set([id]))
          expect(hunksOf('f', was, left).length).toBeLessThanOrEqual(hunks.length)
        }
      }
    },
  )

  test('of texts that have little in common are one', () => {
    const before = lines(...Array.from({ length: 3000 }, (_, at) => `a${at}`))
    const after = lines(...Array.from({ length: 3000 }, (_, at) => `b${at}`))
    const hunks = hunksOf('f', lines('top') + before, lines('top') + after)
    expect(hunks).toHaveLength(1)
    expect(withoutHunks(lines('top') + after, hunks, new Set([hunks[0]?.id ?? '']))).toBe(
      lines('top') + before,
    )
  })
})
