import type { EvalSide } from '../../../contract/eval-compare.ts'
import { type Attempt, reportAttempts, reportName, type Report, reportFailure } from './report.ts'

/** JUnit XML, as CI servers read it: a suite per target, a test case per attempt. */
export function renderJunitReport({ dataset, sides }: Report): string {
  const suites = sides.map((side) => suiteOf(dataset, side))
  const total = (of: (suite: Suite) => number) => suites.reduce((sum, suite) => sum + of(suite), 0)
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites ${attributes({
      name: dataset,
      tests: total(({ tests }) => tests),
      failures: total(({ failures }) => failures),
      errors: total(({ errors }) => errors),
    })}>`,
    ...suites.flatMap(({ lines }) => lines),
    '</testsuites>',
    '',
  ].join('\n')
}

interface Suite {
  tests: number
  failures: number
  errors: number
  lines: string[]
}

function suiteOf(dataset: string, side: EvalSide): Suite {
  const attempts = reportAttempts(side)
  const count = (kind: string) =>
    attempts.filter((each) => reportFailure(each)?.kind === kind).length
  const [failures, errors] = [count('failure'), count('error')]
  const name = `${dataset}.${side.target}`
  const head = attributes({ name, tests: attempts.length, failures, errors, skipped: 0 })
  return {
    tests: attempts.length,
    failures,
    errors,
    lines: [
      `  <testsuite ${head}>`,
      ...attempts.flatMap((each) => caseLines(name, each)),
      '  </testsuite>',
    ],
  }
}

function caseLines(classname: string, attempt: Attempt): string[] {
  const { row } = attempt
  const time = ((row?.trace_summary?.duration_ms ?? 0) / 1000).toFixed(3)
  const why = reportFailure(attempt)
  const said = row === null ? '' : row.candidate_answer.slice(0, maxText)
  return [
    `    <testcase ${attributes({ classname, name: reportName(attempt), time })}>`,
    ...(why === null
      ? []
      : [
          `      <${why.kind} ${attributes({ message: why.message.slice(0, 500), type: row?.verdict ?? 'missing' })}>${escapeXml((row?.misses ?? []).join('\n').slice(0, maxText))}</${why.kind}>`,
        ]),
    ...(said === '' ? [] : [`      <system-out>${escapeXml(said)}</system-out>`]),
    '    </testcase>',
  ]
}

const maxText = 10_000

const attributes = (values: Record<string, string | number>): string =>
  Object.entries(values)
    .map(
      ([key, value]) =>
        `${key}="${escapeXml(String(value)).replaceAll(/[\t\n\r]/g, (sign) => `&#${sign.charCodeAt(0)};`)}"`,
    )
    .join(' ')

const entities: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
}

/** XML 1.0 has no way to write most control characters, nor half a pair of surrogates: they are shown as \u001b. */
export const escapeXml = (text: string): string =>
  text
    .replaceAll(
      // oxlint-disable-next-line no-control-regex -- these are what must not be in it
      /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufffe\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
      (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
    )
    .replaceAll(/[&<>"']/g, (sign) => entities[sign] ?? sign)
