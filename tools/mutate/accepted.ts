import { readFileSync } from 'node:fs'
import type { Mutant } from './mutants.ts'

/** Mutants that no test has to see, and why. They are found again by their line, not by its number. */
export interface Accepted {
  file: string
  reason: string
  mutants: Pick<Mutant, 'code' | 'was' | 'now'>[]
}

export const readAccepted = (path: string): Accepted[] =>
  JSON.parse(readFileSync(path, 'utf8')) as Accepted[]

type Place = Pick<Mutant, 'file' | 'code' | 'was' | 'now'>

/** The same change of the same line, though the line may have moved. */
export const isSame = (a: Place, b: Place): boolean =>
  a.file === b.file && a.code === b.code && a.was === b.was && a.now === b.now

export function reasonOf(accepted: readonly Accepted[], mutant: Mutant): string | null {
  const found = accepted.find(({ file, mutants }) =>
    mutants.some((other) => isSame({ file, ...other }, mutant)),
  )
  return found?.reason ?? null
}

/** Entries of these files that the code does not have any more. */
export function staleEntries(
  accepted: readonly Accepted[],
  files: readonly string[],
  mutants: readonly Mutant[],
): string[] {
  return accepted
    .filter(({ file }) => files.includes(file))
    .flatMap(({ file, mutants: entries }) =>
      entries
        .filter((entry) => !mutants.some((mutant) => isSame({ file, ...entry }, mutant)))
        .map(({ code, was, now }) => `${file}: ${was} -> ${now} in "${code}"`),
    )
}
