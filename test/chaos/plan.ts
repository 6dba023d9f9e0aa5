import { type CrashPointName, crashPoints } from '../../src/core/crash-points.ts'
import type { Random } from './random.ts'

/** worker: the control plane's process. sqld: the libSQL server. both: at once. */
export type Victim = 'worker' | 'sqld' | 'both'

export interface Strike {
  /** null: at no particular point, after a while. */
  point: CrashPointName | null
  victim: Victim
  /** Hits of the point that are let pass first, or milliseconds to wait. */
  skip: number
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

export const victimsOf = (point: CrashPointName): Victim[] =>
  nearLibsql.includes(point) ? ['worker', 'sqld', 'both'] : ['worker']

const randomVictims: readonly Victim[] = ['worker', 'worker', 'worker', 'worker', 'sqld', 'both']

/** Each point with each of its victims, then kills between any two steps, in an order that the seed decides. */
export function createPlan(random: Random, kills: number): Strike[] {
  const matrix = crashPoints.flatMap((point) =>
    victimsOf(point).map((victim): Strike => ({ point, victim, skip: 0 })),
  )
  const strikes: Strike[] = []
  while (countKills(strikes) < kills) {
    strikes.push(...matrix.map((strike) => ({ ...strike, skip: random.below(3) })))
    strikes.push(...matrix.map(() => ({ point: null, victim: random.pick(randomVictims), skip: random.below(120) })))
  }
  // The first round of the matrix always takes place; what comes after it fills up to the number.
  const [first, rest] = [strikes.slice(0, matrix.length), strikes.slice(matrix.length)]
  return [...random.shuffle(first), ...random.shuffle(rest)]
}

export const killsOf = ({ victim }: Strike) => (victim === 'both' ? 2 : 1)
const countKills = (strikes: Strike[]) => strikes.reduce((sum, strike) => sum + killsOf(strike), 0)
