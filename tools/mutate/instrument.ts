import type { Mutant } from './mutants.ts'

/**
 * The file with all its mutants in it, of which `gantryMutant(id)` picks one while it runs. So modules are loaded once for
 * all mutants, and each test tells which of them it meets.
 */
export function instrument(source: string, mutants: readonly Mutant[]): string {
  return render(source, 0, source.length, mutants)
}

function render(source: string, start: number, end: number, mutants: readonly Mutant[]): string {
  let text = ''
  let at = start
  let rest = [...mutants].sort((a, b) => a.start - b.start || b.end - a.end)
  while (rest.length > 0) {
    const [first] = rest as [Mutant]
    const isSame = (other: Mutant) => other.start === first.start && other.end === first.end
    const inside = rest.filter((other) => other.end <= first.end && !isSame(other))
    text += source.slice(at, first.start) + choose(source, rest.filter(isSame), inside)
    at = first.end
    rest = rest.filter(({ start }) => start >= first.end)
  }
  return text + source.slice(at, end)
}

function choose(source: string, same: readonly Mutant[], inside: readonly Mutant[]): string {
  const { start, end } = same[0] as Mutant
  const statements = same.filter(({ text }) => text === null)
  const others = same.filter(({ text }) => text !== null)
  const plain = render(source, start, end, inside)
  const chosen = others.map(({ id, text }) => `gantryMutant(${id}) ? (${text}) : `).join('')
  const expression = others.length === 0 ? plain : `(${chosen}(${plain}))`
  // A block of its own, so that neither an `else` nor a line before it without a semicolon takes it.
  return statements.reduce(
    (rest, { id, instead = '' }) => `{ if (gantryMutant(${id})) { ${instead} } else { ${rest} } }`,
    expression,
  )
}
