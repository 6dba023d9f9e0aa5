import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { root } from '../../local/binaries.ts'
import { EvaluatorConfig } from '../../src/contract/eval-evaluator.ts'
import { Target } from '../../src/contract/eval-target.ts'
import type { EvalChecked } from '../../src/contract/eval-suite.ts'
import { ResultRow } from '../../src/contract/eval-result.ts'
import { replayed } from '../core/evals/replayed.ts'
import { createTestApp, type TestApp } from '../support/app.ts'
import { useLibsql } from '../support/libsql.ts'

const libsql = useLibsql()
const page = readFileSync(join(root, 'docs/evals.md'), 'utf8')
/** Each block that begins with the name of its file. */
const files = [...page.matchAll(/```(?:yaml|text)\n# (\S+)\n(.*?)```/gs)].map(
  ([, path = '', content = '']) => ({ path, content }),
)

let app: TestApp
let key: string
beforeAll(async () => {
  app = createTestApp({ db: libsql.db })
  key = (await app.makeKey(await app.makeOrganisation(), 'read')).secret
})

test('[EVAL44] the files of docs/evals.md are read, score as the page says, and are held to its rule', async () => {
  expect(files.map(({ path }) => path)).toEqual([
    ...['evals/sums.yaml', 'evals/numbers.txt', 'evals/targets.yaml'],
  ])
  const body = { files, suite: 'evals/sums.yaml', targets: 'evals/targets.yaml' }
  const { json } = await app.call('POST', '/v1/evals/validate', key, {
    ...body,
    variables: { MODEL: 'scripted' },
  })
  expect(json.problems).toEqual([])
  const { suite, targets } = json as EvalChecked
  if (suite === null) throw new Error('The page cannot be read')
  const sides = targets
    .filter(({ provider }) => provider === 'replay')
    .map((target) => replayed(suite, target, `run-${target.name}`))
  const rows = sides.flatMap((side) =>
    side.rows.map(
      ({ eval_id: id, target, score, verdict, misses }) =>
        `| \`${id}\` | \`${target}\` | ${score} | ${verdict} |${misses[0] === undefined ? '' : ` ${misses[0]}`} |`,
    ),
  )
  const table = /\| case \| target \|.*?\n\|[-|]+\n(.*?)\n\n/s.exec(page)?.[1]?.split('\n')
  expect(rows).toEqual(table)

  const rule = JSON.parse(/```json\n(.*?)```/s.exec(page)?.[1] ?? '')
  const [baseline, candidate] = sides
  const compared = await app.call('POST', '/v1/evals/compare', key, { baseline, candidate, rule })
  expect(compared.json.comparison).toMatchObject({ comparable: true, score: { losses: 2 } })
  expect(compared.json.gate).toMatchObject({
    outcome: 'fail',
    reasons: expect.arrayContaining(['The score is 0.5, below 0.8']),
  })
})

test('[EVAL44] docs/evals.md names every provider, setting, evaluator and field of a result', () => {
  const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  const settings = Target.options.flatMap((option) => [
    option.shape.provider.value,
    ...Object.keys(option.shape),
  ])
  const evaluators = EvaluatorConfig.options.flatMap((option) => [
    option.shape.type.value,
    ...Object.keys(option.shape),
  ])
  const named = [...settings, ...evaluators, ...Object.keys(ResultRow.shape)].map(snake)
  const known = new Set(page.match(/[a-z][a-z_]*/g))
  expect([...new Set(named)].filter((name) => !known.has(name))).toEqual([])
})
