/** How many requirements each group has: R0-01 to R0-22 and so on. */
const counts = { R0: 22, R1: 95, R2: 64, R3: 83, R4: 57 }

const range = (group: string, first: number, last: number): string[] =>
  Array.from(
    { length: last - first + 1 },
    (_, at) => `${group}-${String(first + at).padStart(2, '0')}`,
  )

export const requirements: readonly string[] = Object.entries(counts).flatMap(([group, count]) =>
  range(group, 1, count),
)

/** By the capability that will bring it. Whoever writes its rule takes it off; nothing is added. */
export const notYet: Record<string, readonly string[]> = {
  registries: [...['R1-05', 'R1-07'], ...range('R1', 82, 88), 'R1-90', 'R1-94'],
  abilities: [],
  evals: [],
}
