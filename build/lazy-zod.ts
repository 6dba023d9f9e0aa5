import * as whole from 'zod/v4'

/**
 * What the Worker's bundle has in place of zod: the same schemas, made when they are first looked at. The contract has
 * thousands of them, and to make all was a third of the start of an isolate, which needs few. A schema that is not made
 * yet knows the call that makes it. Further calls in the chain do not make it, nor do parts that the call has named, such
 * as the shape of an object; everything else does. What is made then holds schemas of zod itself and nothing of this
 * file, so parsing takes the time that it took. test/http/lazy-zod.test.ts compares it with the whole.
 */

type Schema = whole.z.ZodType
type Member = (...given: unknown[]) => unknown

/** A member of zod, or of the schema before it. */
interface Call {
  before: Later | null
  name: string
  given: unknown[]
}

class Later {
  #call: Call | null
  #schema: Schema | null = null

  constructor(call: Call) {
    this.#call = call
  }

  /** null: it has been made. */
  get call(): Call | null {
    return this.#call
  }

  get schema(): Schema {
    if (this.#call === null) return this.#schema as Schema
    const { before, name, given } = this.#call
    this.#schema = memberOf(before?.schema ?? whole.z, name)(...given.map(made)) as Schema
    this.#call = null
    return this.#schema
  }
}

const memberOf = (owner: object, name: string) => (owner as Record<string, Member>)[name] as Member

const later = Symbol('later')

/** With every schema in it made: they are given alone, in lists, and by name. */
function made(given: unknown): unknown {
  if (typeof given !== 'object' || given === null) return given
  if (Array.isArray(given)) return given.map(made)
  const found = (given as { [later]?: Later })[later]
  if (found !== undefined) return found.schema
  if (Object.getPrototypeOf(given) !== Object.prototype) return given
  return Object.fromEntries(Object.entries(given).map(([name, value]) => [name, made(value)]))
}

const objects = ['looseObject', 'object', 'strictObject']
const makers = [
  ...[...objects, 'array', 'boolean', 'discriminatedUnion', 'enum', 'literal', 'number', 'string'],
  ...['partialRecord', 'preprocess', 'record', 'union', 'unknown', 'url'],
]
const wrappers = ['default', 'nullable', 'optional', 'prefault']
/** They change what is checked or said, not what the schema is made of. */
const refiners = ['describe', 'meta', 'refine', 'superRefine']
const others = [
  ...['brand', 'catch', 'catchall', 'endsWith', 'extend', 'int', 'length', 'max', 'min', 'nullish'],
  ...[
    'omit',
    'or',
    'partial',
    'pick',
    'pipe',
    'positive',
    'regex',
    'startsWith',
    'transform',
    'trim',
  ],
]
const chained = new Set([...wrappers, ...refiners, ...others])
const parsers = new Set(['parse', 'parseAsync', 'safeParse', 'safeParseAsync'])

/** What the calls themselves say of a schema. undefined: it must be made. */
const parts: Record<string, (call: Call) => unknown> = {
  shape({ before, name, given }) {
    if (before === null) return objects.includes(name) ? given[0] : undefined
    if (refiners.includes(name)) return partOf(before, 'shape')
    const shape = name === 'extend' ? partOf(before, 'shape') : undefined
    return shape && { ...shape, ...(given[0] as object) }
  },
  unwrap({ before, name }) {
    if (before === null) return undefined
    if (wrappers.includes(name)) return () => shown(before)
    return refiners.includes(name) ? partOf(before, 'unwrap') : undefined
  },
}

const partOf = ({ call }: Later, part: string) =>
  call === null ? undefined : (parts[part]?.(call) as object | undefined)

const handler: ProxyHandler<Later> = {
  get(self, name) {
    if (name === later) return self
    const early = self.call !== null && typeof name === 'string' ? earlyOf(self, name) : undefined
    return early ?? Reflect.get(self.schema, name)
  },
  has: (self, name) => Reflect.has(self.schema, name),
}

function earlyOf(self: Later, name: string): unknown {
  if (parsers.has(name)) return (...given: unknown[]) => memberOf(self.schema, name)(...given)
  if (!chained.has(name)) return Object.hasOwn(parts, name) ? partOf(self, name) : undefined
  return (...given: unknown[]) =>
    // `meta` without arguments is a question.
    given.length === 0 && name === 'meta'
      ? self.schema.meta()
      : shown(new Later({ before: self, name, given }))
}

const shown = (self: Later): Schema => new Proxy(self, handler) as unknown as Schema

const maker = (name: string) => ({
  value: (...given: unknown[]) => shown(new Later({ before: null, name, given })),
})

export * from 'zod/v4'
export const z = Object.create(whole.z, {
  ...Object.fromEntries(makers.map((name) => [name, maker(name)])),
  // It tells schemas apart by identity, so it must be given the one that was made.
  toJSONSchema: {
    value: (schema: Schema, ...given: [never]) =>
      whole.z.toJSONSchema(made(schema) as Schema, ...given),
  },
}) as typeof whole.z
