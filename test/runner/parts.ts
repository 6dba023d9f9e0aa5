import { join } from 'node:path'
import { type Check, checks } from '../../build/checks.ts'
import { binary, root } from '../../local/binaries.ts'

/** What of `npm test` runs as one process, and how much of the machine it takes. */
export interface Part extends Check {
  /** How many of its tests run at once. */
  width: number
  /** Works without waiting for anybody: it leaves the processors to those that wait with limits. */
  nice?: true
  isTests?: true
}

/** `args` without those that are the same for all. */
export const vitest = (...args: string[]): Pick<Check, 'program' | 'args'> => ({
  program: binary('node'),
  args: [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', '--passWithNoTests', ...args],
})

const tests = (width: number, ...projects: string[]): Part => ({
  name: projects.join(', '),
  ...vitest(...projects.flatMap((name) => ['--project', name]), `--maxWorkers=${width}`),
  width,
  isTests: true,
})

/** Longest first, so that none of them holds up the end alone. */
export const everything: Part[] = [
  tests(2, 'e2e'),
  tests(1, 'blackbox'),
  tests(2, 'unit'),
  tests(1, 'chaos'),
  tests(1, 'workers'),
  { ...tests(2, 'core'), nice: true },
  ...checks.map((check): Part => ({ ...check, width: 1, nice: true })),
]
