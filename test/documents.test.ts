import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { root } from '../local/binaries.ts'

const textOf = (file: string): string => readFileSync(join(root, file), 'utf8')
const linesOf = (file: string): string[] => textOf(file).trimEnd().split('\n')
const pages = globSync(['*.md', 'docs/*.md', 'examples/**/*.md'], { cwd: root })

test('who comes first reads little: README.md has at most 120 lines, ARCHITECTURE.md at most 150', () => {
  expect(linesOf('README.md').length).toBeLessThanOrEqual(120)
  expect(linesOf('ARCHITECTURE.md').length).toBeLessThanOrEqual(150)
})

test('every link of a page into the repository leads to a file that is there', () => {
  const broken = pages.flatMap((page) =>
    [...textOf(page).matchAll(/\]\(((?!https?:|#|mailto:)[^)#\s]+)(?:#[^)]*)?\)/g)]
      .map(([, path = '']) => path)
      .filter((path) => !existsSync(join(root, dirname(page), path)))
      .map((path) => `${page} -> ${path}`),
  )
  expect(pages.length).toBeGreaterThan(15)
  expect(broken).toEqual([])
})

describe('DECISIONS.md', () => {
  const [head = '', ...areas] = textOf('DECISIONS.md').split(/^## /m)
  const numbersIn = (text: string): number[] =>
    [...text.matchAll(/^### D(\d+) /gm)].map(([, number]) => Number(number))
  /** `D1 to D3, D98` are four. */
  const listed = new Map(
    [...head.matchAll(/^- \[([^\]]+)\]\(#[^)]+\), ((?:.|\n {2})+)/gm)].map(
      ([, area = '', numbers = '']) => [
        area,
        [...numbers.matchAll(/D(\d+)(?:\s+to\s+D(\d+))?/g)].flatMap(([, first, last = first]) =>
          Array.from({ length: Number(last) - Number(first) + 1 }, (_, at) => Number(first) + at),
        ),
      ],
    ),
  )

  test('has each decision once, by its number, in the area that the list names for it', () => {
    const found = new Map(
      areas.map((area) => [area.split('\n', 1)[0] ?? '', numbersIn(area)] as const),
    )
    expect([...listed]).toEqual([...found])
    const all = [...found.values()].flat()
    expect(all.length).toBeGreaterThan(150)
    expect(new Set(all).size).toBe(all.length)
  })

  test('is wrapped by hand, so that a change shows what has changed', () => {
    expect(linesOf('DECISIONS.md').filter((line) => line.length > 130)).toEqual([])
  })

  test('has every decision that a page or a file of code names', () => {
    const all = new Set([...listed.values()].flat())
    // Choices that came with the requirements.
    const given = new Set([30, 33, 34])
    const code = globSync('{src,local,sandbox-agent,durable-objects,build,test}/**/*.ts', {
      cwd: root,
    })
    const unknown = [...pages, ...code].flatMap((file) =>
      [...textOf(file).matchAll(/[([ ]D(\d+)[)\],. ]/g)]
        .map(([, number]) => Number(number))
        .filter((number) => !all.has(number) && !given.has(number))
        .map((number) => `${file}: D${number}`),
    )
    expect(unknown).toEqual([])
  })
})
