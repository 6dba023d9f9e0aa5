/** One measure: ours, the baseline before and after it, and the aim as a ratio. */
export interface Row {
  measure: string
  ours: number
  base: number
  /** The same baseline measured again: its distance from `base` is the noise of this machine. */
  baseAgain: number
  unit: string
  aim: string
  /** Given where the ratio alone decides. */
  within?: (ratio: number) => boolean
}

export function printTable(rows: Row[]): void {
  if (rows.length === 0) return
  const cells = rows.map((row) => {
    const base = (row.base + row.baseAgain) / 2
    const ratio = row.ours / base
    return [
      row.measure,
      number(row.ours),
      number(base),
      row.unit,
      ratio.toFixed(2),
      (row.baseAgain / row.base).toFixed(2),
      row.aim,
      row.within ? (row.within(ratio) ? 'yes' : 'NO') : '',
    ]
  })
  printColumns([['measure', 'ours', 'baseline', 'unit', 'ratio', 'noise', 'aim', 'met'], ...cells])
}

/** The first row is the head. */
export function printColumns([head = [], ...cells]: string[][]): void {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...cells.map((row) => row[column]?.length ?? 0)),
  )
  for (const row of [head, widths.map((width) => '-'.repeat(width)), ...cells]) {
    console.log(row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  '))
  }
}

function number(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(2)
}
