import { summarise } from '../compare/sides.ts'
import {
  type Attempt,
  reportAttempts,
  reportLeftOut,
  reportName,
  percent,
  type Report,
  reportText,
  signed,
  reportVerdict,
  reportFailure,
} from './report.ts'

/** A summary for a pull request or a job's page. What users and candidates wrote is shown as text, never as markup. */
export function renderMarkdownReport(report: Report): string {
  const { dataset, sides, comparison, gate } = report
  return [
    `## Evals: ${plain(dataset)}`,
    '',
    '| target | cases | passed | score | errors |',
    '|---|---|---|---|---|',
    ...sides.map((side) => {
      const { cases, passed, score, errors, missing } = summarise(side)
      return `| ${plain(side.target)} | ${cases} | ${passed} (${percent(passed, cases)}) | ${score.toFixed(3)} | ${errors + missing} |`
    }),
    '',
    ...sides.flatMap((side) => reportLeftOut(side).flatMap((line) => [plain(line), ''])),
    ...(gate ? [`**Gate: ${gate.outcome}.** ${gate.reasons.map(plain).join('. ')}.`, ''] : []),
    ...(comparison ? comparisonLines(comparison) : []),
    ...failureLines(
      sides.flatMap((side) =>
        reportAttempts(side).map((attempt) => ({ side: side.target, attempt })),
      ),
    ),
  ].join('\n')
}

const maxLines = 50

function comparisonLines(comparison: NonNullable<Report['comparison']>): string[] {
  const sentence = [plain(reportVerdict(comparison)), '']
  if (!comparison.comparable) return sentence
  const lost = comparison.cases.filter(({ change }) => change === 'regression')
  if (lost.length === 0) return [...sentence, 'No case got worse.', '']
  return [
    ...sentence,
    `### Regressions (${lost.length})`,
    '',
    '| case | baseline | candidate | difference | why |',
    '|---|---|---|---|---|',
    ...lost
      .slice(0, maxLines)
      .map(
        ({ evalId, required, baseline, candidate, difference, misses }) =>
          `| ${plain(evalId)}${required ? ' (required)' : ''} | ${linked(baseline)} | ${linked(candidate)} | ${signed(difference)} | ${plain(misses[0] ?? '')} |`,
      ),
    ...more(lost.length),
    '',
  ]
}

const linked = ({ score, transcript }: { score: number; transcript: string | null }): string => {
  const address = transcript === null ? null : safeAddress(transcript)
  return address === null ? score.toFixed(3) : `[${score.toFixed(3)}](<${address}>)`
}

/** A page or a path of ours; nothing that could run. */
export const safeAddress = (address: string): string | null =>
  /^(https?:\/\/|\/(?!\/))[^\s<>"'`\\]*$/.test(address) ? address : null

const more = (count: number): string[] =>
  count > maxLines ? [`| … and ${count - maxLines} more | | | | |`] : []

function failureLines(all: readonly { side: string; attempt: Attempt }[]): string[] {
  const failed = all.filter(({ attempt }) => reportFailure(attempt) !== null)
  if (failed.length === 0) return ['Every attempt passed.', '']
  return [
    `### Not passed (${failed.length})`,
    '',
    '| case | target | what | why |',
    '|---|---|---|---|',
    ...failed
      .slice(0, maxLines)
      .map(
        ({ side, attempt }) =>
          `| ${plain(reportName(attempt))} | ${plain(side)} | ${plain(reportFailure(attempt)?.message ?? '')} | ${plain(attempt.row?.misses[0] ?? '')} |`,
      ),
    ...(failed.length > maxLines ? [`| … and ${failed.length - maxLines} more | | | |`] : []),
    '',
  ]
}

/** One line in which nothing is markup, a mention or a link. */
const plain = (text: string): string =>
  reportText(text)
    .slice(0, 300)
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/[\\`*_{}[\]()#+!|~$]/g, '\\$&')
    .replaceAll(/[&<>@:]/g, (sign) => `&#${sign.charCodeAt(0)};`)
