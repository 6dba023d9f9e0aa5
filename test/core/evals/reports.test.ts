import { spawnSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { compareSides } from '../../../src/core/evals/compare/compare.ts'
import { renderHtmlReport } from '../../../src/core/evals/reports/html.ts'
import { escapeXml, renderJunitReport } from '../../../src/core/evals/reports/junit.ts'
import { renderMarkdownReport } from '../../../src/core/evals/reports/markdown.ts'
import { renderJsonlReport } from '../../../src/core/evals/reports/report.ts'
import { needing } from '../../support/needs.ts'
import { rowOf, sideOf } from './rows.ts'

const hostile =
  '</pre><script>alert(1)</script> | **x** @all [a](javascript:1) \u0000\u001b[31m \ud800 ]]> &'
const baseline = sideOf('a', [1, 1, 1, 1, 1])
const candidate = {
  ...sideOf('b', [1, 0.7, 1, 1, 1]),
  rows: [
    rowOf('c0', 1, {
      trace_summary: {
        event_count: 0,
        tool_names: [],
        tool_calls_by_name: {},
        error_count: 0,
        duration_ms: 1500,
      },
    }),
    rowOf('c1', 0.7, {
      transcript: '/v1/sessions/b/events',
      misses: [hostile],
      candidate_answer: hostile,
    }),
    rowOf('c2', 0, { error: `It ${hostile}`, transcript: 'javascript:alert(1)' }),
    rowOf('c3', 0.2),
  ],
}
const report = {
  dataset: `set "${hostile}"`,
  sides: [candidate],
  comparison: compareSides(baseline, candidate),
  gate: { outcome: 'fail' as const, reasons: [`Because ${hostile}`] },
}

test('[EVAL39] JSONL has one row per line, as it is', () => {
  const lines = renderJsonlReport(candidate.rows).split('\n')
  expect(lines.pop()).toBe('')
  expect(lines.map((line) => JSON.parse(line))).toEqual(candidate.rows)
})

describe('[EVAL40] JUnit XML', () => {
  const hasPython = spawnSync('python3', ['-c', 'import xml.etree.ElementTree']).status === 0
  const readXml = `
import json, sys, xml.etree.ElementTree as tree
def plain(node):
    return {"tag": node.tag, "at": node.attrib, "text": (node.text or "").strip(), "in": [plain(each) for each in node]}
print(json.dumps(plain(tree.fromstring(sys.stdin.buffer.read()))))
`
  interface Node {
    tag: string
    at: Record<string, string>
    text: string
    in: Node[]
  }

  needing(hasPython, 'python3')(
    '[EVAL40] is read by an XML parser, whatever is in the texts',
    () => {
      const read = spawnSync('python3', ['-c', readXml], { input: renderJunitReport(report) })
      expect(read.stderr.toString()).toBe('')
      const top = JSON.parse(read.stdout.toString()) as Node
      expect([top.tag, top.at['tests'], top.at['failures'], top.at['errors']]).toEqual([
        ...['testsuites', '5', '2', '2'],
      ])
      const suite = top.in[0]
      expect(suite?.in.map(({ at }) => at['name'])).toEqual(['c0', 'c1', 'c2', 'c3', 'c4'])
      const [first, second, third, fourth, fifth] = suite?.in ?? []
      expect(first?.at['time']).toBe('1.500')
      expect(first?.in.map(({ tag }) => tag)).toEqual(['system-out'])
      const [failure, output] = second?.in ?? []
      expect(failure).toMatchObject({
        tag: 'failure',
        at: { type: 'borderline', message: 'Score 0.7: borderline' },
      })
      // Nothing is lost: what XML cannot hold is shown as an escape.
      const shown = hostile
        .replace('\u0000', '\\u0000')
        .replace('\u001b', '\\u001b')
        .replace('\ud800', '\\ud800')
      expect([failure?.text, output?.text]).toEqual([shown, shown])
      expect(third?.in[0]).toMatchObject({ tag: 'error', at: { message: `It ${shown}` } })
      expect(fourth?.in[0]?.tag).toBe('failure')
      expect(fifth?.in[0]).toMatchObject({ tag: 'error', at: { message: 'There is no result' } })
    },
  )

  test('[EVAL40] control characters, halves of pairs and markup are escaped; whole pairs and line ends stay', () => {
    expect(escapeXml('a\u0008\u000b\ufffe\udc00<&>"\'😀\n\t')).toBe(
      'a\\u0008\\u000b\\ufffe\\udc00&lt;&amp;&gt;&quot;&apos;😀\n\t',
    )
    expect(renderJunitReport({ dataset: 'a\nb', sides: [] })).toContain('name="a&#10;b"')
  })
})

test('[EVAL41] [EVAL42] nothing that turns text around is in what people read', () => {
  const turned = 'passed \u2067\u200f\u061c 1.0'
  const rest = { target: 'a\u2066', misses: [turned], candidate_answer: turned }
  const rows = [rowOf('0.9\u202e', 0, rest)]
  const cases = [{ id: '0.9\u202e', repetitions: 1, required: false }]
  const sides = [{ ...candidate, target: 'a\u2066', cases, rows }]
  for (const render of [renderHtmlReport, renderMarkdownReport]) {
    const shown = render({ dataset: 'd', sides })
    expect(shown).not.toMatch(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/)
    for (const escape of ['u202e', 'u2067', 'u200f', 'u061c', 'u2066'])
      expect(shown).toContain(escape)
  }
})

describe('[EVAL41] the Markdown summary', () => {
  const text = renderMarkdownReport(report)
  test('has the numbers, the gate, what was shown and the regressions with links', () => {
    expect(text).toContain('| agent | 5 | 1 (20 %) | 0.380 | 2 |')
    expect(text).toContain('**Gate: fail.** Because ')
    expect(text).toContain('### Regressions (4)')
    expect(text).toContain('[0.700](<\u002fv1/sessions/b/events>)')
    expect(text).toContain('### Not passed (4)')
  })
  test('shows what users wrote as text: no row is broken, no link, mention or tag is made', () => {
    for (const line of text.split('\n').filter((each) => each.startsWith('|')))
      expect([5, 6]).toContain(line.replaceAll(/\\\|/g, '').split('|').length - 1)
    expect(text).not.toMatch(/<script|@all|[^\\]\*\*x|\]\(javascript|javascript:/)
  })
  test('says so if all is well', () => {
    const good = { dataset: 'd', sides: [baseline], comparison: compareSides(baseline, baseline) }
    expect(renderMarkdownReport(good)).toContain('Every attempt passed.')
    expect(renderMarkdownReport(good)).toContain('No difference is shown.')
    expect(renderMarkdownReport(good)).toContain('No case got worse.')
    expect(renderMarkdownReport(good)).not.toContain('not compared')
  })
  test('[EVAL41] [EVAL42] says how many cases of the suite were not run', () => {
    const part = { ...baseline, leftOut: [{ id: 'hard', required: true }] }
    for (const render of [renderMarkdownReport, renderHtmlReport]) {
      expect(render({ dataset: 'd', sides: [part] })).toMatch(/Not run with agent.*1 of the suite/)
      expect(render({ dataset: 'd', sides: [baseline] })).not.toContain('Not run with')
    }
  })
  test('says which cases it has not compared', () => {
    const part = { ...baseline, cases: baseline.cases.slice(1) }
    const [less, more] = [compareSides(baseline, part), compareSides(part, baseline)]
    const said = (comparison: typeof less) =>
      renderMarkdownReport({ dataset: 'd', sides: [part], comparison })
    expect(said(less)).toContain('Cases that were not compared&#58; 1 that only the baseline ran.')
    expect(said(more)).toContain('Cases that were not compared&#58; 1 that only the candidate ran.')
  })
})

describe('[EVAL42] the HTML report', () => {
  const html = renderHtmlReport(report)
  test('runs no script, asks for nothing, and holds what users wrote as text', () => {
    expect(html).toContain("default-src 'none'")
    expect(html).not.toMatch(/<script|<link|<img|<iframe|src=|url\(|@import|"javascript:/)
    const addresses = [...html.matchAll(/href="([^"]*)"/g)].map(([, address]) => address)
    expect(addresses).toContain('/v1/sessions/b/events')
    expect(addresses.filter((address) => !/^(#cases|\/v1\/)/.test(address ?? ''))).toEqual([])
    expect(html).toContain('&#60;/pre&#62;&#60;script&#62;')
  })
  test('has what did not pass on top and open', () => {
    const cases = [...html.matchAll(/<details class="case (\w+)"( open)?>/g)].map(
      ([, state, open]) => `${state}${open ?? ''}`,
    )
    expect(cases).toEqual(['borderline open', 'error open', 'fail open', 'error open', 'pass'])
  })
})
