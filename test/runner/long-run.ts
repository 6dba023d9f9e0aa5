import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../../local/binaries.ts'
import { type FileResult, lineOf, sumOf } from './reports.ts'

const path = join(root, 'docs', 'long-run.md')

const header = `# The long run

Written by \`npm run test:long\`: the last result of each file. Committed with the change that it was run for.

| file | cases | seconds | result | date | commit |
|---|---|---|---|---|---|
`

/** Puts the results into docs/long-run.md, in place of those that the same files had, and says so. */
export function writeLongRun(results: readonly FileResult[]): string {
  const before = existsSync(path) ? readFileSync(path, 'utf8') : ''
  const rows = new Map(
    [...before.matchAll(/^\| (test\/\S+) \|.*$/gm)].map(([row, file = '']) => [file, row]),
  )
  for (const result of results) rows.set(result.file, rowOf(result))
  const kept = [...rows].filter(([file]) => existsSync(join(root, file)))
  const lines = kept.toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([, row]) => row)
  writeFileSync(path, `${header}${lines.join('\n')}\n`)
  return `docs/long-run.md: ${results.length} of ${lines.length} rows are new (${lineOf(sumOf(results))})`
}

function rowOf(result: FileResult): string {
  const { file, passed, failed, skipped, seconds } = result
  const date = new Date().toISOString().slice(0, 10)
  return `| ${file} | ${passed + failed + skipped} | ${seconds.toFixed(0)} | ${lineOf(result)} | ${date} | ${commit()} |`
}

/** With a mark if something is not committed yet. */
function commit(): string {
  try {
    const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' })
    const changed = git('status', '--porcelain', '--untracked-files=no').trim() !== ''
    return `${git('rev-parse', '--short', 'HEAD').trim()}${changed ? '+' : ''}`
  } catch {
    return '-'
  }
}
