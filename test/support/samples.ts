import type { z } from 'zod'

type Def = z.core.$ZodTypes['_zod']['def']

const ids = (prefix: string) => [20, 30, 38].map((length) => `${prefix}_${'0'.repeat(length)}`)

/** Right for some schema, wrong for the others, or on the edge of a limit. */
const odd: unknown[] = [
  ...[undefined, null, true, '1', [], {}, [1], { a: 1 }],
  ...[0, 1, -1, 1.5, 99, 100, 600_001, 2 ** 53, Number.NaN],
  ...['', 'a', 'a b', '\u0000', 'a\nb', '\ud800', 'f'.repeat(64), 'F'.repeat(64)],
  ...[51, 101, 201, 1001, 4001, 4097].map((length) => 'a'.repeat(length)),
  ...['https://example.com/a', 'ftp://example.com', 'https://'],
]
const leaves: unknown[] = [
  ...odd,
  ...['ses', 'org', 'key', 'trn', 'run', 'apr', 'opr', 'att'].flatMap(ids),
  ...['chk', 'cfg', 'snp', 'art', 'whk', 'dlv', 'ask'].flatMap(ids),
]

/** Values that the schema takes, and each of them again with one place of it wrong. */
export function samplesOf(schema: z.ZodType, random: () => number): unknown[] {
  const def = defOf(schema)
  const count = def.type === 'union' ? def.options.length * 3 : 3
  const right = Array.from({ length: count }, () => sampleOf(schema, random))
  return right.flatMap((value) => [value, ...spoiled(value)])
}

const defOf = (schema: z.core.$ZodType) => (schema as unknown as { def: Def }).def

function sampleOf(schema: z.core.$ZodType, random: () => number): unknown {
  const pick = <T>(values: readonly T[]) => values[Math.floor(random() * values.length)] as T
  const inner = (part: z.core.$ZodType) => sampleOf(part, random)
  const def = defOf(schema)
  switch (def.type) {
    case 'object': {
      const fields = Object.entries(def.shape).map(([key, part]) => [key, inner(part)])
      return Object.fromEntries(fields)
    }
    case 'array':
      return [inner(def.element)]
    case 'record':
      return { [String(inner(def.keyType))]: inner(def.valueType) }
    case 'union':
      return inner(pick(def.options))
    case 'optional':
    case 'default':
      return random() < 0.2 ? undefined : inner(def.innerType)
    case 'nullable':
      return random() < 0.2 ? null : inner(def.innerType)
    case 'enum':
      return pick(Object.values(def.entries))
    case 'literal':
      return pick(def.values)
    default:
      return pick(leaves.filter((value) => (schema as z.ZodType).safeParse(value).success))
  }
}

function spoiled(value: unknown): unknown[] {
  if (Array.isArray(value)) {
    const longer = Array.from({ length: 201 }, () => value[0])
    return [...odd, longer, ...spoiled(value[0]).map((item) => [item])]
  }
  if (typeof value !== 'object' || value === null) return odd
  const inner = Object.entries(value).flatMap(([key, part]) => [
    Object.fromEntries(Object.entries(value).filter(([other]) => other !== key)),
    ...spoiled(part).map((wrong) => ({ ...value, [key]: wrong })),
  ])
  return [...odd, { ...value, unexpected: 1 }, ...inner]
}
