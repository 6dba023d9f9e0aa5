import { existsSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { root } from '../../local/binaries.ts'

export interface Counts {
  passed: number
  failed: number
  skipped: number
}

export interface FileResult extends Counts {
  file: string
  seconds: number
}

export interface Outcome extends Counts {
  files: FileResult[]
  /** Full titles; they say why. */
  skips: string[]
}

interface Assertion {
  status: string
  fullName: string
  meta?: { why?: string }
}
interface JsonReport {
  testResults: {
    name: string
    status: string
    startTime: number
    endTime: number
    assertionResults: Assertion[]
  }[]
}

export const nothing: Outcome = { passed: 0, failed: 0, skipped: 0, files: [], skips: [] }

/** What vitest's JSON reporter has written; undefined: it has not. */
export function readReport(path: string): Outcome | undefined {
  if (!existsSync(path)) return undefined
  const { testResults } = JSON.parse(readFileSync(path, 'utf8')) as JsonReport
  const files = testResults.map(resultOf)
  const skips = testResults
    .flatMap(({ assertionResults }) => assertionResults.filter(isSkipped))
    .map(({ fullName, meta }) => (meta?.why ? `${fullName} (${meta.why})` : fullName))
  return { ...sumOf(files), files, skips }
}

const isSkipped = ({ status }: Assertion): boolean => status !== 'passed' && status !== 'failed'

function resultOf(found: JsonReport['testResults'][number]): FileResult {
  const count = (status: string) =>
    found.assertionResults.filter((test) => test.status === status).length
  const failed = count('failed')
  return {
    file: relative(root, found.name),
    seconds: (found.endTime - found.startTime) / 1000,
    passed: count('passed'),
    // A file that cannot be loaded, or whose set-up fails, has no failed test of its own.
    failed: failed === 0 && found.status === 'failed' ? 1 : failed,
    skipped: found.assertionResults.filter(isSkipped).length,
  }
}

export function sumOf(counts: readonly Counts[]): Counts {
  const sum = (pick: keyof Counts) => counts.reduce((all, one) => all + one[pick], 0)
  return { passed: sum('passed'), failed: sum('failed'), skipped: sum('skipped') }
}

export const lineOf = ({ passed, failed, skipped }: Counts): string =>
  `${passed} passed, ${failed} failed${skipped === 0 ? '' : `, ${skipped} skipped`}`
