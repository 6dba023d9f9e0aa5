import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { root } from '../local/binaries.ts'
import { Kernel } from '../src/core/actor/kernel.ts'
import { EvalRunActor } from '../src/core/eval-run/eval-run.ts'
import type { EvalRunPorts } from '../src/core/eval-run/record/ports.ts'
import { TestDeployment } from './support/organisation.ts'
import { TestSession } from './support/session.ts'
import { memorySql } from './support/sql.ts'

const textOf = (file: string): string => readFileSync(join(root, file), 'utf8')
const page = textOf('ARCHITECTURE.md')
const section = (from: string, to: string): string =>
  page.slice(page.indexOf(`## ${from}`), page.indexOf(`## ${to}`))
const ticked = (text: string): string[] =>
  [...text.matchAll(/`([^`]+)`/g)].map(([, inside = '']) => inside)

interface Walk {
  title: string
  counts: number[]
  items: string[]
}

const walks: Walk[] = section('Four walks', 'Deadlines')
  .split(/^(?=\*\*A)/m)
  .slice(1)
  .map((text) => {
    const [head = '', ...items] = text.split(/^(?=\d+\. )/m)
    const [, title = ''] = /\*\*(.+?)\*\*/.exec(head) ?? []
    return { title, counts: [...head.matchAll(/(\d+) /g)].map(([, n]) => Number(n)), items }
  })

/** By their paths, in their order; a name alone is that of a file that the walk has named before. */
function filesOf(items: readonly string[]): string[] {
  const files: string[] = []
  for (const name of items.flatMap(ticked).filter((inside) => inside.endsWith('.ts')))
    files.push(
      name.includes('/') ? name : (files.find((file) => file.endsWith(`/${name}`)) ?? name),
    )
  return [...new Set(files)]
}

describe('the walks', () => {
  test('there are four', () => {
    expect(walks.map(({ title }) => title)).toEqual([
      'A tool callback',
      'A gate question',
      'A start',
      'An event',
    ])
  })

  for (const { title, counts, items } of walks) {
    test(`${title}: every file that it names is there, and as many as it says`, () => {
      const files = filesOf(items)
      expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([])
      expect(files.length).toBe(counts.reduce((sum, count) => sum + count, 0))
    })

    test(`${title}: every function that it names is in a file that it has named by then`, () => {
      const strangers = items.flatMap((item, at) => {
        const text = filesOf(items.slice(0, at + 1))
          .map(textOf)
          .join('\n')
        const isThere = (word: string) => new RegExp(`(^|[^\\w#])${word}\\b`).test(text)
        return ticked(item)
          .filter((inside) => !inside.endsWith('.ts'))
          .flatMap((inside) => inside.replace('(…)', '').split('.'))
          .filter((word) => !isThere(word))
      })
      expect(strangers).toEqual([])
    })
  }

  test('a callback passes at most 18 files to its stored answer, a gate question at most 24', () => {
    expect(walks[0]?.counts[0]).toBeLessThanOrEqual(18)
    expect(walks[1]?.counts[0]).toBeLessThanOrEqual(24)
  })
})

describe('the table of deadlines', () => {
  const actors = {
    session: () => new TestSession(),
    organisation: () => new TestDeployment().org,
    // Until it is asked something it uses nothing else.
    'eval run': () =>
      new EvalRunActor({
        sql: memorySql(),
        crypto: { random: String },
      } as unknown as EvalRunPorts),
  }
  type Actor = keyof typeof actors

  /** The names of the table, without their arguments, by the actors that its rows name. */
  const listed = Map.groupBy(
    [...section('Deadlines', 'How to add').matchAll(/^\| (`.+?) \|/gm)].flatMap(([, cell = '']) => {
      const of = /\((.+)\)/.exec(cell)?.[1] ?? 'session'
      const owners = of.startsWith('all') ? Object.keys(actors) : [of]
      return owners.flatMap((owner) =>
        ticked(cell).map((name) => ({ owner, name: name.split(':', 1)[0] ?? '' })),
      )
    }),
    ({ owner }) => owner,
  )

  test.each(Object.keys(actors) as Actor[])(
    'has every deadline that a room of %s meets, and no other',
    (actor) => {
      const enter = vi.spyOn(Kernel.prototype, 'enter')
      onTestFinished(() => enter.mockRestore())
      actors[actor]()
      const met = enter.mock.calls.flatMap(([, names]) => [...names])
      const names = new Set(listed.get(actor)?.map(({ name }) => name))
      expect(met.length).toBeGreaterThan(5)
      expect(met.sort()).toEqual([...names].sort())
    },
  )
})
