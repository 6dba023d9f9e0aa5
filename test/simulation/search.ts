import { type Failure, runSchedule } from './schedule.ts'
import { shrink } from './shrink.ts'
import { scheduleOf, type Step } from './steps.ts'

/** A seed whose schedule breaks a rule, with the shortest schedule that breaks it too. */
export interface Found {
  seed: number
  tried: number
  failure: Failure
  steps: readonly Step[]
}

/** Tries one seed after the other. Null: every one of them kept all rules. */
export async function search(seeds: Iterable<number>): Promise<Found | null> {
  let tried = 0
  for (const seed of seeds) {
    tried += 1
    const steps = scheduleOf(seed)
    const failure = await runSchedule(steps)
    if (failure) return { seed, tried, ...(await shrink(steps, failure)) }
  }
  return null
}

/** For whoever has to mend it. */
export function describe({ seed, tried, failure, steps }: Found): string {
  const lines = steps.map(({ kind, n }, index) => `${String(index + 1).padStart(4)}  ${kind} ${n}`)
  return [
    `Seed ${seed} (number ${tried}) breaks a rule: ${failure.detail}`,
    `Its shortest schedule has ${steps.length} steps:`,
    ...lines,
    `Repeat it: npm run simulate -- --seed ${seed}`,
  ].join('\n')
}
