import { globSync } from 'node:fs'
import { join } from 'node:path'
import { type Check, checks } from '../../build/checks.ts'
import { binary, root } from '../../local/binaries.ts'
import { longOnly, longToo } from '../support/long-files.ts'

/** What of `npm test` runs as one process, and how much of the machine it takes. */
export interface Part extends Check {
  /** How many of its tests run at once. */
  width: number
  /** Works without waiting for anybody: it runs beside the others from the start on, and leaves them the processors. */
  nice?: number
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
  tests(3, 'unit'),
  tests(1, 'e2e'),
  tests(1, 'blackbox'),
  tests(1, 'chaos'),
  tests(1, 'workers'),
  // Its tests have limits of time, so it gets more than what is left.
  { ...tests(2, 'core'), nice: 5 },
  ...checks.map((check): Part => ({ ...check, width: 1, nice: 15 })),
]

/** It only waits, for more than five minutes, so it waits beside the others. */
const waiting = 'test/e2e/park.test.ts'
/** They come after the one that waits, so that all chains end at about the same time. */
const afterWaiting = /\/e2e\/(evals-twelve|providers|recovery|changes-faults)\./
/** They share no server with any other. */
const alone = /^test\/(core|redteam|simulation)\//
/** After everything else: fifty sandboxes at once leave nothing of the machine to anybody else. */
export const longLast = 'test/e2e/fleet.test.ts'

const longFiles = globSync([...longOnly, ...longToo], { cwd: root }).toSorted()
const chosen = longFiles.filter(
  (file) => file !== waiting && file !== longLast && !afterWaiting.test(file),
)
/** The rest of the long run: chains that run at once, each of lists that run one after the other. */
export const longChains: string[][][] = [
  [chosen.filter((file) => file.startsWith('test/e2e/'))],
  [chosen.filter((file) => !file.startsWith('test/e2e/') && !alone.test(file))],
  [chosen.filter((file) => alone.test(file))],
  [[waiting], longFiles.filter((file) => afterWaiting.test(file))],
]
