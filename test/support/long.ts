import { test } from 'vitest'

/** `npm run test:long`: what is repeated more often, or takes too long for every run. */
export const isLong = process.env['GANTRY_LONG'] === '1'

const nothing = () => undefined

/** A test that only the long run has. */
export const longTest = (isLong ? test : Object.assign(nothing, { each: () => nothing })) as Pick<
  typeof test,
  'each'
> &
  ((title: string, run: () => Promise<void> | void, timeout?: number) => void)

/** All of them in the long run, else one, another one with each commit. */
export const someOf = <T>(items: readonly T[]): readonly T[] => {
  if (isLong) return items
  const at = Number(process.env['GANTRY_SEED'] ?? 0) % items.length
  return items.slice(at, at + 1)
}
