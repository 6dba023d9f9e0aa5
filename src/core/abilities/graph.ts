import type { AbilityStep } from '../../contract/ability.ts'

type Node = Pick<AbilityStep, 'id' | 'needs'>

/**
 * The order in which steps run one after the other: what a step needs comes before it, and of what could run next the one
 * that is written first. Null: there is a cycle.
 */
export function orderStepGraph<S extends Node>(steps: readonly S[]): S[] | null {
  const waiting = new Map(steps.map((step) => [step.id, new Set(step.needs)]))
  const neededBy = new Map<string, string[]>(steps.map(({ id }) => [id, []]))
  for (const { id, needs } of steps) for (const need of new Set(needs)) neededBy.get(need)?.push(id)
  const position = new Map(steps.map(({ id }, at) => [id, at]))
  const ready = steps
    .filter(({ needs }) => needs.length === 0)
    .map(({ id }) => position.get(id) ?? 0)
  const order: S[] = []
  while (ready.length > 0) {
    const next = steps[takeSmallest(ready)]
    if (next === undefined) break
    order.push(next)
    for (const id of neededBy.get(next.id) ?? []) {
      const left = waiting.get(id)
      left?.delete(next.id)
      if (left?.size === 0) ready.push(position.get(id) ?? 0)
    }
  }
  return order.length === steps.length ? order : null
}

function takeSmallest(numbers: number[]): number {
  const at = numbers.indexOf(Math.min(...numbers))
  return numbers.splice(at, 1)[0] ?? 0
}

/** Such as [a, b, a]; null: none. Needs that name no step are left to others. */
export function findGraphCycle(steps: readonly Node[]): string[] | null {
  const needsOf = new Map(steps.map(({ id, needs }) => [id, needs]))
  const done = new Set<string>()
  for (const { id } of steps) {
    const cycle = cycleFrom(id, needsOf, done)
    if (cycle !== null) return cycle
  }
  return null
}

/** Without recursion: a chain may be as long as there are steps. */
function cycleFrom(
  start: string,
  needsOf: ReadonlyMap<string, readonly string[]>,
  done: Set<string>,
): string[] | null {
  const path: { id: string; next: number }[] = [{ id: start, next: 0 }]
  const onPath = new Set([start])
  while (path.length > 0) {
    const here = path.at(-1)
    if (here === undefined) break
    const need = done.has(here.id) ? undefined : needsOf.get(here.id)?.[here.next]
    here.next += 1
    if (need === undefined) {
      done.add(here.id)
      onPath.delete(here.id)
      path.pop()
    } else if (onPath.has(need)) {
      const ids = path.map(({ id }) => id)
      return [...ids.slice(ids.indexOf(need)), need]
    } else if (needsOf.has(need) && !done.has(need)) {
      path.push({ id: need, next: 0 })
      onPath.add(need)
    }
  }
  return null
}

/** All that must have ended before a step begins, also by way of others. */
export function graphNeeds(steps: readonly Node[], id: string): Set<string> {
  const needsOf = new Map(steps.map((step) => [step.id, step.needs]))
  const found = new Set<string>()
  const left = [...(needsOf.get(id) ?? [])]
  for (let need = left.pop(); need !== undefined; need = left.pop()) {
    if (found.has(need)) continue
    found.add(need)
    left.push(...(needsOf.get(need) ?? []))
  }
  return found
}
