import type { z } from 'zod'

/** Numbers that are only shown or counted. Others, such as an exit code, mean something: with those a value is refused whole. */
const countedFields: ReadonlySet<PropertyKey> = new Set([
  ...['durationMs', 'startMs', 'cost', 'additions', 'deletions'],
  ...['input', 'output', 'reasoning', 'cacheRead', 'cacheWrite'],
])
const toldAtMost = 5

type Reported<T> =
  | { ok: true; data: T; implausible: string | null }
  | { ok: false; data?: never; implausible?: never }

/**
 * What a sandbox reports. A count or time that cannot be true is taken as 0 and told in words, since without its other
 * fields a turn would never end and a result never count; anything else of the wrong shape is refused.
 */
export function parsePlausible<T>(schema: z.ZodType<T>, value: unknown): Reported<T> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return { ok: true, data: parsed.data, implausible: null }
  const paths = parsed.error.issues.map(({ path }) => path)
  if (!paths.every((path) => isCount(value, path))) return { ok: false }
  const words = paths
    .slice(0, toldAtMost)
    .map((path) => `${path.join('.')} ${String(at(value, path))}`)
  const mended = schema.safeParse(withZeros(value, paths))
  if (!mended.success) return { ok: false }
  return { ok: true, data: mended.data, implausible: `${words.join(', ')}: taken as 0` }
}

type Path = readonly PropertyKey[]

const isCount = (value: unknown, path: Path): boolean =>
  countedFields.has(path.at(-1) ?? '') && typeof at(value, path) === 'number'

function at(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((inner, key) => (inner as Record<PropertyKey, unknown>)[key], value)
}

function withZeros(value: unknown, paths: readonly Path[]): unknown {
  const copy = JSON.parse(JSON.stringify(value)) as unknown
  for (const path of paths) {
    const owner = at(copy, path.slice(0, -1)) as Record<PropertyKey, unknown>
    owner[path.at(-1) as PropertyKey] = 0
  }
  return copy
}
