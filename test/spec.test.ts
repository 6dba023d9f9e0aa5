import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { root } from '../local/binaries.ts'

/** Areas and the numbers of their rules, as SPEC.md has them. */
function rulesOf(text: string): Set<string> {
  return new Set(
    text.split(/^## /m).flatMap((area) => {
      const name = /^([A-Z0-9]+): /.exec(area)?.[1]
      return [...area.matchAll(/^(\d+)\. /gm)].map((rule) => `${name}${rule[1]}`)
    }),
  )
}

/** Requirements (R2-27) and choices (D34) of the mission are not rules of ours. */
const cited = /\[((?!D\d)[A-Z][A-Z0-9]*?[A-Z]|E2B|[A-CE-Z])(\d+)\]/g

test('every rule that a test cites is in SPEC.md', () => {
  const rules = rulesOf(readFileSync(join(root, 'SPEC.md'), 'utf8'))
  expect(rules.size).toBeGreaterThan(300)
  const unknown = globSync('test/**/*.ts', { cwd: root }).flatMap((file) =>
    [...readFileSync(join(root, file), 'utf8').matchAll(cited)]
      .map(([, area, number]) => `${area}${number}`)
      .filter((rule) => !rules.has(rule))
      .map((rule) => `${file}: ${rule}`),
  )
  expect(unknown).toEqual([])
})
