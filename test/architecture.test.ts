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
import { architectureSection, ticked, walks } from './support/walks.ts'

const textOf = (file: string): string => readFileSync(join(root, file), 'utf8')

describe('the walks', () => {
  test('there are four', () => {
    expect(walks.map(({ title }) => title)).toEqual([
      'A tool callback',
      'A gate question',
      'A start',
      'An event',
    ])
  })

  for (const { title, counts, steps } of walks) {
    test(`${title}: every file that it names is there, and as many as it says`, () => {
      const files = steps.at(-1)?.files ?? []
      expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([])
      expect(files.length).toBe(counts.reduce((sum, count) => sum + count, 0))
    })

    test(`${title}: every function that it names is in a file that it has named by then`, () => {
      const strangers = steps.flatMap(({ names, files }) => {
        const text = files.map(textOf).join('\n')
        return names.filter((word) => !new RegExp(`(^|[^\\w#])${word}\\b`).test(text))
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
    [...architectureSection('Deadlines').matchAll(/^\| (`.+?) \|/gm)].flatMap(([, cell = '']) => {
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
