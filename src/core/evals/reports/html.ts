import type { CaseComparison, EvalSide } from '../../../contract/eval-compare.ts'
import type { EvaluatorResult, ResultRow } from '../../../contract/eval-result.ts'
import { summarise } from '../compare/sides.ts'
import { safeAddress } from './markdown.ts'
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
import { style } from './style.ts'

/**
 * The whole report in one file: it asks for nothing else, runs no script, and says so to the browser. Cases are
 * disclosures, so that the keyboard opens them; what did not pass is on top and open.
 */
export function renderHtmlReport(report: Report): string {
  const { dataset, sides, comparison, gate } = report
  const title = `Evals: ${dataset}`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="referrer" content="no-referrer">
<title>${text(title)}</title>
<style>${style}</style>
</head>
<body>
<a class="skip" href="#cases">Skip to the cases</a>
<header><h1>${text(title)}</h1>${gate ? gateLine(gate) : ''}</header>
<main>
${summaryTable(sides)}
${sides.flatMap((side) => reportLeftOut(side).map((line) => `<p>${text(line)}</p>`)).join('')}
${comparison ? comparisonSection(comparison) : ''}
<section id="cases" aria-label="Cases">
<p class="filter"><input type="checkbox" id="only-failed"><label for="only-failed">Only what did not pass</label></p>
${sides.map((side) => sideSection(side)).join('\n')}
</section>
</main>
</body>
</html>
`
}

const text = (given: string): string =>
  reportText(given)
    .replaceAll('\0', '\\u0000')
    .replaceAll(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)

const shortened = (given: string, most = 4000): string =>
  given.length > most ? `${given.slice(0, most)}… (${given.length - most} more characters)` : given

const gateLine = ({ outcome, reasons }: NonNullable<Report['gate']>): string =>
  `<section class="gate ${outcome}" aria-label="Gate"><strong>Gate: ${outcome}</strong><ul>${items(reasons)}</ul></section>`

const items = (given: readonly string[]): string =>
  given.map((each) => `<li>${text(shortened(each, 1000))}</li>`).join('')

function summaryTable(sides: readonly EvalSide[]): string {
  const rows = sides.map((side) => {
    const { cases, passed, score, errors, missing, passAtK, passPowK } = summarise(side)
    const last = passAtK.length
    const repeated =
      last > 1
        ? `${percent(passAtK[last - 1] ?? 0, 1)} of pass@${last}, ${percent(passPowK[last - 1] ?? 0, 1)} of pass^${last}`
        : '–'
    return `<tr><th scope="row">${text(side.target)}</th><td>${cases}</td><td>${passed} (${percent(passed, cases)})</td><td>${score.toFixed(3)}</td><td>${errors + missing}</td><td>${repeated}</td></tr>`
  })
  return `<table><caption>Targets</caption><thead><tr>${['target', 'cases', 'passed', 'score', 'errors', 'repetitions'].map((name) => `<th scope="col">${name}</th>`).join('')}</tr></thead><tbody>${rows.join('')}</tbody></table>`
}

function comparisonSection(comparison: NonNullable<Report['comparison']>): string {
  const head = `<h2>Comparison</h2><p>${text(reportVerdict(comparison))}</p>`
  if (!comparison.comparable) return `<section aria-label="Comparison">${head}</section>`
  const evaluators = comparison.evaluators.map(
    ({ name, cases, difference, interval, verdict }) =>
      `<tr><th scope="row">${text(name)}</th><td>${cases}</td><td>${signed(difference)}</td><td>${interval ? `${signed(interval.low)} to ${signed(interval.high)}` : '–'}</td><td>${verdict.replaceAll('_', ' ')}</td></tr>`,
  )
  const changed = comparison.cases.filter(({ change }) => change !== 'same').slice(0, maxCases)
  return `<section aria-label="Comparison">${head}
<table><caption>By evaluator</caption><thead><tr><th scope="col">evaluator</th><th scope="col">cases</th><th scope="col">difference</th><th scope="col">interval</th><th scope="col">verdict</th></tr></thead><tbody>${evaluators.join('')}</tbody></table>
<table><caption>Cases that changed, regressions first</caption><thead><tr><th scope="col">case</th><th scope="col">change</th><th scope="col">baseline</th><th scope="col">candidate</th><th scope="col">why</th></tr></thead><tbody>${changed.map(changedRow).join('')}</tbody></table></section>`
}

const changedRow = ({
  evalId,
  required,
  change,
  baseline,
  candidate,
  misses,
}: CaseComparison): string =>
  `<tr class="${change}"><th scope="row">${text(evalId)}${required ? ' <span class="tag">required</span>' : ''}</th><td>${change}</td><td>${linked(baseline)}</td><td>${linked(candidate)}</td><td>${text(shortened(misses[0] ?? '', 300))}</td></tr>`

const linked = ({ score, transcript }: CaseComparison['baseline']): string =>
  transcript === null ? score.toFixed(3) : link(transcript, score.toFixed(3))

function link(address: string, label: string): string {
  const safe = safeAddress(address)
  return safe === null ? text(label) : `<a href="${text(safe)}">${text(label)}</a>`
}

const maxCases = 1000

function sideSection(side: EvalSide): string {
  const attempts = reportAttempts(side)
  const failed = attempts.filter((attempt) => reportFailure(attempt) !== null)
  const passed = attempts.filter((attempt) => reportFailure(attempt) === null)
  const shown = [...failed, ...passed].slice(0, maxCases)
  const left = attempts.length - shown.length
  return `<h2>${text(side.target)}</h2>
${shown.map((attempt) => attemptBlock(attempt)).join('\n')}
${left > 0 ? `<p>${left} more passed or are in the other outputs.</p>` : ''}`
}

function attemptBlock(attempt: Attempt): string {
  const why = reportFailure(attempt)
  const { row } = attempt
  const state = why === null ? 'pass' : why.kind === 'error' ? 'error' : (row?.verdict ?? 'fail')
  return `<details class="case ${state}"${why === null ? '' : ' open'}><summary><span class="mark">${state}</span> ${text(reportName(attempt))} <span class="score">${row === null ? '' : row.score.toFixed(3)}</span></summary>
${why?.kind === 'error' ? `<p class="error">${text(shortened(why.message))}</p>` : ''}${row === null ? '' : rowBody(row)}</details>`
}

function rowBody(row: ResultRow): string {
  const {
    tool_calls_by_name: calls = {},
    duration_ms: ms,
    cost_usd: cost,
  } = row.trace_summary ?? {}
  const tools = Object.entries(calls).map(([name, count]) => `${name} × ${count}`)
  const facts = [
    ...(tools.length > 0 ? [`Tools: ${tools.join(', ')}`] : []),
    ...(ms === undefined ? [] : [`${ms} ms`]),
    ...(cost === undefined ? [] : [`$${cost.toFixed(4)}`]),
  ]
  return `${row.evaluator_results.map(evaluatorBlock).join('')}
<p class="facts">${text(facts.join(' · '))} ${row.transcript === undefined ? '' : link(row.transcript, 'Transcript')}</p>
${row.candidate_answer === '' ? '' : `<pre tabindex="0" aria-label="Answer">${text(shortened(row.candidate_answer))}</pre>`}`
}

const evaluatorBlock = ({
  name,
  type,
  score,
  verdict,
  required,
  hits,
  misses,
  reasoning,
}: EvaluatorResult): string =>
  `<section class="evaluator ${verdict}"><h3>${text(name)} <small>${text(type)}${required ? ', required' : ''}</small> <span class="score">${score.toFixed(3)}</span></h3><ul class="misses">${items(misses)}</ul><ul class="hits">${items(hits)}</ul>${reasoning === undefined ? '' : `<p>${text(shortened(reasoning, 2000))}</p>`}</section>`
