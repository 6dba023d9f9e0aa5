import type { Mutant } from './mutants.ts'

/** What the process that runs the tests is told, by a file. */
export interface Plan {
  root: string
  /** Files with their mutants in them, by absolute path. */
  sources: Record<string, string>
  tests: string[]
  /** Those to try, in order. */
  tries: { id: number; file: string }[]
  /** A mutant is tried with the quickest tests that meet it, as many as take so long without it. */
  budgetMs: number
  /** What has survived is tried at the end with more of them, as many as take so long. */
  lastMs: number
  /** A test may take so much longer than without a mutant. */
  limitMs: number
  /** Where it writes what it finds, a line at a time. */
  journal: string
}

/** A mutant that no test meets survives as well. */
export type Verdict = 'killed' | 'hung' | 'survived' | 'unmet'

/** A line of the journal. */
export type Entry =
  | { kind: 'red'; test: string; error: string }
  | { kind: 'measured'; tests: number; ms: number }
  | { kind: 'trying'; id: number; withinMs: number }
  | { kind: 'done'; id: number; verdict: Verdict; by: string | null; ms: number }
  | { kind: 'end' }

export interface Result {
  mutant: Mutant
  verdict: Verdict | 'accepted' | 'untried'
  /** The test that saw it. */
  by: string | null
}
