import { canonicalJson } from '../../../contract/canonical.ts'

/** Deep equality of JSON values; the order of keys does not count. */
export const isEqual = (one: unknown, other: unknown): boolean =>
  canonicalJson(one ?? null) === canonicalJson(other ?? null) &&
  (one === undefined) === (other === undefined)

/** The keys that `expected` names are deeply equal in `given`; further keys are not looked at. */
export function hasEqualKeys(given: unknown, expected: Record<string, unknown>): boolean {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return false
  return Object.entries(expected).every(
    ([key, value]) =>
      Object.hasOwn(given, key) && isEqual((given as Record<string, unknown>)[key], value),
  )
}

export const isRecord = (given: unknown): given is Record<string, unknown> =>
  typeof given === 'object' && given !== null && !Array.isArray(given)
