/** JSON with sorted keys: two values are equal exactly if their texts are. */
export function canonicalJson(value: unknown): string {
  // Most inputs of tools are in order, and JSON is ten times as quick if nobody looks on.
  if (isInOrder(value)) return JSON.stringify(value)
  return JSON.stringify(value, (_key, item: unknown) =>
    item !== null && typeof item === 'object' && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
      : item,
  )
}

/** Of plain JSON alone: what an object of a class becomes, it decides itself. */
function isInOrder(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return typeof value !== 'function'
  if (Array.isArray(value)) return !('toJSON' in value) && value.every(isInOrder)
  if (Object.getPrototypeOf(value) !== Object.prototype || 'toJSON' in value) return false
  let before: string | undefined
  for (const [key, item] of Object.entries(value)) {
    if ((before !== undefined && key < before) || !isInOrder(item)) return false
    before = key
  }
  return true
}
