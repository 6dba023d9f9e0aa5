import { crashPoints } from '../../src/core/actor/crash-points.ts'

export interface Report {
  seed: number
  kills: number
  struck: Map<string, number>
  hits: Map<string, number>
  counts: Record<string, number>
  /** Empty: the run has passed. */
  problems: string[]
}

const maxShown = 40

/** The table of points, the numbers, the verdict. */
export function printReport(report: Report): string {
  const columns = ['worker', 'sqld', 'both'] as const
  const cells = (name: string) =>
    columns.map((victim) => String(report.struck.get(`${name} ${victim}`) ?? '-').padStart(8))
  const row = (name: string, hits: string) =>
    `${name.padEnd(22)}${hits.padStart(8)}${cells(name).join('')}`
  const { problems } = report
  return [
    `${' '.repeat(30)}  killed:`,
    `${'crash point'.padEnd(22)}${'hits'.padStart(8)}${columns.map((name) => name.padStart(8)).join('')}`,
    ...crashPoints.map((point) => row(point, String(report.hits.get(point) ?? 0))),
    row('any time', '-'),
    '',
    ...Object.entries(report.counts).map(
      ([name, count]) => `${name.padEnd(22)}${String(count).padStart(8)}`,
    ),
    '',
    ...problems.slice(0, maxShown).map((problem) => `  ! ${problem}`),
    ...(problems.length > maxShown ? [`  ! and ${problems.length - maxShown} more`] : []),
    `Seed ${report.seed}, ${report.kills} kills: ${problems.length === 0 ? 'every promise held' : `${problems.length} problems`}`,
  ].join('\n')
}
