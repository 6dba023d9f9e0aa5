import { type CrashPointName, crashPoints } from '../../src/core/actor/crash-points.ts'
import type { Random } from './random.ts'

/** worker: the control plane's process. sqld: the libSQL server. both: at once. */
export type Victim = 'worker' | 'sqld' | 'both'

/** One field of the crash matrix. */
export interface Cell {
  point: CrashPointName
  victim: Victim
}

/** Where libSQL's death is met in the middle of something. */
const nearLibsql: readonly CrashPointName[] = [
  'call.begun',
  'call.ran',
  'outbox.before-send',
  'outbox.after-send',
  'ledger.before-write',
  'ledger.after-write',
  'erase.drained',
]

export const matrix: readonly Cell[] = crashPoints.flatMap((point) =>
  (nearLibsql.includes(point) ? (['worker', 'sqld', 'both'] as const) : (['worker'] as const)).map(
    (victim) => ({
      point,
      victim,
    }),
  ),
)

export type Strike =
  /** At the next hit of one of the cells that were struck least, after some others. */
  | { at: 'point'; skip: number }
  /** Between any two steps. */
  | { at: 'time'; waitMs: number; victim: Victim }

const anyVictim: readonly Victim[] = ['worker', 'sqld', 'both', 'both']

/** Without end: the matrix, with kills at any time in between. */
export function* createPlan(random: Random): Generator<Strike, never> {
  for (;;) {
    yield { at: 'point', skip: random.below(3) }
    yield { at: 'time', waitMs: random.below(100), victim: random.pick(anyVictim) }
  }
}
