import { type Failure, runSchedule } from './schedule.ts'
import type { Step } from './steps.ts'

/** So many schedules are tried at most to find the shortest one. */
const maxTries = 600

/**
 * The shortest schedule that still breaks the same rule: halves are taken away, then quarters, then single steps, as long as
 * what is left fails. Steps carry their own numbers, so what is left does the same as before where it can.
 */
export async function shrink(
  steps: readonly Step[],
  failure: Failure,
  run: (steps: readonly Step[]) => Promise<Failure | null> = runSchedule,
): Promise<{ steps: readonly Step[]; failure: Failure }> {
  let best = { steps: steps.slice(0, failure.at + 1), failure }
  let tries = 0
  const fails = async (shorter: readonly Step[]): Promise<boolean> => {
    tries += 1
    const found = await run(shorter)
    if (found?.rule !== failure.rule) return false
    best = { steps: shorter.slice(0, found.at + 1), failure: found }
    return true
  }
  for (
    let size = Math.ceil(best.steps.length / 2);
    size >= 1;
    size = size === 1 ? 0 : Math.ceil(size / 2)
  )
    for (let from = 0; from < best.steps.length && tries < maxTries;) {
      const without = [...best.steps.slice(0, from), ...best.steps.slice(from + size)]
      if (!(await fails(without))) from += size
    }
  return best
}
