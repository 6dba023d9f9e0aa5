import { AppError } from '../../contract/error.ts'
import type { EvalSide } from '../../contract/eval-compare.ts'
import type { EvalReportQuery } from '../../contract/eval-report.ts'
import type { EvalRunApi } from '../eval-run/eval-run.ts'
import { compareSides } from '../evals/compare/compare.ts'
import { renderHtmlReport } from '../evals/reports/html.ts'
import { renderJunitReport } from '../evals/reports/junit.ts'
import { renderMarkdownReport } from '../evals/reports/markdown.ts'
import { renderJsonlReport, type Report } from '../evals/reports/report.ts'
import type { Caller } from '../session/record/caller.ts'
import { loadEvalSides } from './eval-sides.ts'

type Runs = Pick<EvalRunApi, 'runs'>

const forms = {
  html: { contentType: 'text/html; charset=utf-8', ending: 'html', render: renderHtmlReport },
  junit: {
    contentType: 'application/xml; charset=utf-8',
    ending: 'xml',
    render: renderJunitReport,
  },
  markdown: {
    contentType: 'text/markdown; charset=utf-8',
    ending: 'md',
    render: renderMarkdownReport,
  },
  jsonl: {
    contentType: 'application/jsonl; charset=utf-8',
    ending: 'jsonl',
    render: ({ sides }: Report) => renderJsonlReport(sides.flatMap(({ rows }) => rows)),
  },
} as const

/** What came of a run as one file; with a baseline also how it differs from that. The caller must see both runs. */
export async function reportEvalRun(
  caller: Caller,
  run: Runs,
  baseline: Runs | null,
  { format, target, baselineTarget = target }: EvalReportQuery,
): Promise<{ text: string; contentType: string; fileName: string }> {
  const {
    run: { dataset },
    sides: all,
  } = await loadEvalSides(run, caller)
  const sides = all.filter(({ cases }) => cases.length > 0)
  const chosen = target === undefined ? sides : sides.filter((side) => side.target === target)
  const [first] = chosen
  if (first === undefined) throw new AppError('unprocessable', `The run has no target "${target}"`)
  const comparison =
    baseline === null ? null : await compare(caller, baseline, chosen, baselineTarget)
  const { contentType, ending, render } = forms[format]
  return {
    text: render({ dataset, sides: chosen, comparison }),
    contentType,
    fileName: `${first.runId}.${ending}`,
  }
}

async function compare(
  caller: Caller,
  baseline: Runs,
  sides: readonly EvalSide[],
  target: string | undefined,
) {
  const [candidate, another] = sides
  if (candidate === undefined || another !== undefined)
    throw new AppError('unprocessable', 'Name the target that is compared: the run has several')
  const wanted = target ?? candidate.target
  const before = (await loadEvalSides(baseline, caller)).sides.find(
    (side) => side.target === wanted,
  )
  if (before === undefined)
    throw new AppError(
      'unprocessable',
      `The baseline has no target "${wanted}": name it as baselineTarget`,
    )
  return compareSides(before, candidate)
}
