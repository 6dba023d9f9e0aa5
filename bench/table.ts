/** What a ratio must keep, or the figure itself where nothing is compared. */
export type Aim = { most: number } | { least: number }

/** One measure: ours, and the baseline before and after it if there is one. */
export interface Row {
  measure: string
  ours: number
  base?: number
  /** The same baseline measured again: its distance from `base` is the noise of this machine. */
  baseAgain?: number
  unit: string
  aim?: Aim
}

/** Of several runs, each measure as it was in the run with the median figure. */
export function medianRows(runs: readonly Row[][]): Row[] {
  const [first = []] = runs
  return first.map(({ measure }) => {
    const same = runs.flatMap((rows) => rows.filter((row) => row.measure === measure))
    const sorted = same.toSorted((a, b) => figureOf(a) - figureOf(b))
    return sorted[Math.floor(sorted.length / 2)] as Row
  })
}

export function printTable(rows: readonly Row[]): void {
  if (rows.length === 0) return
  const head = ['measure', 'ours', 'baseline', 'unit', 'ratio', 'noise', 'aim', 'met']
  printColumns([head, ...rows.map(cellsOf)])
}

function cellsOf(row: Row): string[] {
  const base = baseOf(row)
  const noise = row.baseAgain !== undefined && row.base ? row.baseAgain / row.base : undefined
  return [
    row.measure,
    number(row.ours),
    base === undefined ? '' : number(base),
    row.unit,
    base === undefined ? '' : figureOf(row).toFixed(2),
    noise?.toFixed(2) ?? '',
    row.aim ? aimText(row.aim) : '',
    row.aim ? (isMet(row.aim, figureOf(row)) ? 'yes' : 'NO') : '',
  ]
}

const baseOf = ({ base, baseAgain }: Row) =>
  base === undefined ? undefined : (base + (baseAgain ?? base)) / 2

function figureOf(row: Row): number {
  const base = baseOf(row)
  return base === undefined ? row.ours : row.ours / base
}

const isMet = (aim: Aim, figure: number) =>
  'most' in aim ? figure <= aim.most : figure >= aim.least
const aimText = (aim: Aim) => ('most' in aim ? `<= ${aim.most}` : `>= ${aim.least}`)

/** The first row is the head. */
export function printColumns([head = [], ...cells]: string[][]): void {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...cells.map((row) => row[column]?.length ?? 0)),
  )
  for (const row of [head, widths.map((width) => '-'.repeat(width)), ...cells]) {
    console.log(row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
  }
}

const number = (value: number) => (value >= 100 ? value.toFixed(0) : value.toFixed(2))

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
}
