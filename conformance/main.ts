import { parseArgs } from 'node:util'
import { cases } from './cases/index.ts'
import { type Result, runCases } from './run.ts'

const usage = `Usage: npm run conformance -- --url <deployment> --key <admin key> [--only <case>]… [--timeout <seconds>]

Drives a deployment through the callback contract as a black box. The key can also be in GANTRY_KEY.`

const { values } = parseArgs({
  options: {
    url: { type: 'string' },
    key: { type: 'string' },
    only: { type: 'string', multiple: true },
    timeout: { type: 'string', default: '20' },
    help: { type: 'boolean', default: false },
  },
})
const { url, key = process.env['GANTRY_KEY'], only, timeout } = values
const unknown = only?.find((name) => cases.every((each) => each.name !== name))
if (values.help || !url || !key || !(Number(timeout) > 0)) fail(usage)
if (unknown !== undefined)
  fail(`There is no case "${unknown}". Cases: ${cases.map(({ name }) => name).join(', ')}`)

const results = await runCases({
  url: url.replace(/\/+$/, ''),
  key,
  timeoutMs: Number(timeout) * 1000,
  ...(only ? { only } : {}),
})
console.log(table(results))
const failed = results.filter(({ passed }) => !passed).length
console.log(`\n${results.length - failed} passed, ${failed} failed`)
process.exitCode = failed === 0 ? 0 : 1

function fail(text: string): never {
  console.error(text)
  process.exit(2)
}

function table(rows: Result[]): string {
  const cells = rows.map(({ name, rule, passed, seen }) => [
    name,
    rule,
    passed ? 'pass' : 'FAIL',
    seen.replaceAll('\n', ' '),
  ])
  const lines = [['case', 'rule', 'result', 'seen'], ...cells]
  const widths = [0, 1, 2].map((at) => Math.max(...lines.map((line) => line[at]?.length ?? 0)))
  return lines
    .map((line) => line.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  '))
    .join('\n')
}
