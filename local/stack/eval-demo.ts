// The last part of the demo: the example suite of evals with two sets of recorded answers, and how they compare. It
// needs no model and no sandbox. start.ts runs it.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { EvalCompared } from '../../src/contract/eval-compare.ts'
import type { EvalEvent, EvalGate, EvalRun } from '../../src/contract/eval-run.ts'
import { root } from '../binaries.ts'
import { createDemoApi, demoRow } from './demo.ts'

const folder = 'examples/evals'
const [before, after] = ['recorded', 'recorded-next'] as const
/** Apart from what people keep: the demo also sets a baseline. */
const project = 'demo'
const deadlineMs = 60_000

export async function runEvalDemo(options: {
  url: string
  key: string
  print: (line: string) => void
}): Promise<void> {
  const api = createDemoApi(options.url, options.key)
  const startedAt = Date.now()
  const say = (what: string, text: string, ms?: number) => options.print(demoRow(what, text, ms))
  const [baseline, candidate] = await Promise.all([before, after].map(runOf))
  if (!baseline || !candidate) throw new Error('The suite was not run')
  say('evals', `${folder}/everyday.yaml, answers as recorded`, Date.now() - startedAt)
  for (const run of [baseline, candidate]) say('', lineOf(run))
  const comparing = `/v1/evals/runs/${candidate.id}/comparison?baseline=${baseline.id}`
  const { comparison } = await api<EvalCompared>('GET', comparing)
  if (!comparison.comparable) throw new Error(`The runs were not compared: ${comparison.reason}`)
  const { cases, score } = comparison
  for (const one of cases.filter(({ change }) => change === 'regression'))
    say('', `- ${one.evalId}${one.required ? ' (required)' : ''}: ${one.misses[0] ?? ''}`)
  await api('PUT', '/v1/evals/baselines', { evalRunId: baseline.id })
  const gate = await api<EvalGate>('GET', `/v1/evals/runs/${candidate.id}/gate`)
  say('compared', `scores: ${score.verdict.replaceAll('_', ' ')}; gate: ${gate.outcome}`)
  if (baseline.passed !== baseline.attempts || gate.outcome !== 'fail')
    throw new Error('The example suite did not come out as it should')

  async function runOf(target: string): Promise<EvalRun> {
    const files = readdirSync(join(root, folder)).map((name) => ({
      path: `${folder}/${name}`,
      content: readFileSync(join(root, folder, name), 'utf8'),
    }))
    const { id } = await api<EvalRun>('POST', '/v1/evals/runs', {
      ...{ project, files, suite: `${folder}/everyday.yaml`, targets: `${folder}/targets.yaml` },
      ...{ runTargets: [target], variables: { MODEL: 'scripted' } },
    })
    for (let last = 0; ;) {
      const path = `/v1/evals/runs/${id}/events?after=${last}&limit=500&waitSeconds=20`
      const page = await api<{ items: EvalEvent[]; nextAfter: number }>('GET', path)
      last = page.nextAfter
      if (page.items.some(({ kind }) => kind === 'run.ended'))
        return await api<EvalRun>('GET', `/v1/evals/runs/${id}`)
      if (Date.now() - startedAt > deadlineMs)
        throw new Error(`The eval run ${id} is not done after ${deadlineMs / 1000} s`)
    }
  }
}

const lineOf = ({ targets, passed, attempts, score }: EvalRun): string =>
  `${(targets[0] ?? '').padEnd(16)}${passed} of ${attempts} passed, score ${(score ?? 0).toFixed(2)}`
