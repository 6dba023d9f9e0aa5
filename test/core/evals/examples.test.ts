import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { root } from '../../../local/binaries.ts'
import { GateRule } from '../../../src/contract/eval-compare.ts'
import { compareSides } from '../../../src/core/evals/compare/compare.ts'
import { decidePromotion } from '../../../src/core/evals/compare/promotion.ts'
import { checkEvalFiles } from '../../../src/core/evals/files/check.ts'
import { replayed } from './replayed.ts'

const folder = 'examples/evals'
const files = globSync(`${folder}/*`, { cwd: root }).map((path) => ({
  path,
  content: readFileSync(join(root, path), 'utf8'),
}))
const check = (suite: string) =>
  checkEvalFiles({
    files,
    suite: `${folder}/${suite}`,
    targets: `${folder}/targets.yaml`,
    variables: { MODEL: 'scripted' },
  })

describe('[EVAL44] examples/evals', () => {
  test.each(['everyday.yaml', 'opencode.yaml'])('%s has no mistake', (name) => {
    const checked = check(name)
    expect(checked.problems).toEqual([])
    expect(checked.targets.map(({ name: each }) => each)).toEqual([
      ...['recorded', 'recorded-next', 'opencode'],
    ])
  })

  const { suite, targets } = check('everyday.yaml')
  if (suite === null) throw new Error('The example cannot be read')
  const baseline = replayed(suite, targets[0], 'a')
  const candidate = replayed(suite, targets[1], 'b')

  test('the recorded answers pass', () => {
    expect(baseline.rows).toHaveLength(12)
    expect(baseline.rows.filter(({ verdict }) => verdict !== 'pass')).toEqual([])
  })

  test('the next ones lost three cases, which is not shown to be worse, but one is required', () => {
    const comparison = compareSides(baseline, candidate)
    if (!comparison.comparable) throw new Error(comparison.reason)
    expect(comparison.passes).toMatchObject({ onlyBaseline: 3, onlyCandidate: 0, pValue: 0.125 })
    expect(comparison.score.verdict).toBe('no_difference_shown')
    expect(comparison.cases.slice(0, 3).map(({ evalId, change }) => [evalId, change])).toEqual([
      ['read-before-edit', 'regression'],
      ['commit-message', 'regression'],
      ['explain-encoding', 'regression'],
    ])
    expect(decidePromotion(GateRule.parse({}), candidate, baseline)).toMatchObject({
      outcome: 'fail',
      reasons: ['The required case "read-before-edit" did not pass', expect.anything()],
    })
  })
})
