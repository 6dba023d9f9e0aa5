import { type Amounts, type Measure, measures, noAmounts } from '../../../contract/budget.ts'
import type { Sql } from '../../ports.ts'

interface Slice {
  number: number
  granted: Amounts
  since: Amounts
}

export function sliceHasHeadroom(
  slice: Slice,
  used: Amounts,
  which: readonly Measure[] = measures,
): boolean {
  const spent = difference(used, slice.since)
  return slice.number > 0 && which.every((one) => spent[one] < slice.granted[one])
}

export interface SliceRow {
  number: number
  granted: string
  since: string
}

export function loadSlice(sql: Sql): Slice {
  return sliceOf(sql.all<SliceRow>('select * from slice')[0])
}

export function sliceOf(row: SliceRow | undefined): Slice {
  return {
    number: row?.number ?? 0,
    granted: { ...noAmounts, ...(JSON.parse(row?.granted ?? '{}') as Amounts) },
    since: { ...noAmounts, ...(JSON.parse(row?.since ?? '{}') as Amounts) },
  }
}

export function saveSlice(sql: Sql, { number, granted, since }: Slice): void {
  sql.run(
    'update slice set number = ?, granted = ?, since = ?',
    number,
    JSON.stringify(granted),
    JSON.stringify(since),
  )
}

const combine = (one: Amounts, other: Amounts, sign: 1 | -1): Amounts =>
  Object.fromEntries(
    measures.map((measure) => [measure, one[measure] + sign * other[measure]]),
  ) as Amounts
export const sum = (one: Amounts, other: Amounts) => combine(one, other, 1)
export const difference = (one: Amounts, other: Amounts) => combine(one, other, -1)
