import type { z } from 'zod'

/** What a value becomes, or `unsure`: then the schema has to say. */
type Reader = (value: unknown) => unknown
const unsure = Symbol('unsure')

/**
 * `schema.safeParse`, in a fraction of its time for what is as it should be. zod is quick where it may make code from
 * text, which Workers refuse. So of schemas of the usual parts a reader is put together when they are first used. It
 * only says yes: whatever it does not understand or would refuse is left to the schema, and so is every message. Objects
 * that may have any fields are passed on as they are, not copied.
 */
export function parsePlain<T extends z.ZodType>(
  schema: T,
  value: unknown,
): z.ZodSafeParseResult<z.output<T>> {
  let reader = known.get(schema)
  if (reader === undefined) {
    reader = readerOf(schema) ?? leaveIt
    known.set(schema, reader)
  }
  const data = reader(value)
  return data === unsure ? schema.safeParse(value) : { success: true, data: data as z.output<T> }
}

const known = new WeakMap<z.ZodType, Reader>()
const leaveIt: Reader = () => unsure

/** What zod keeps of a schema, as far as it is looked at here. */
interface Part {
  _zod: { def: Def }
}
interface Def {
  type: string
  checks?: { _zod: { def: CheckDef } }[]
  /** Of numbers and strings that are more than that. */
  check?: string
  coerce?: boolean
  shape?: Record<string, Part>
  catchall?: Part
  element?: Part
  innerType?: Part
  keyType?: Part
  valueType?: Part
  entries?: Record<string, unknown>
  values?: unknown[]
  discriminator?: string
  options?: Part[]
  unionFallback?: boolean
}
interface CheckDef {
  check: string
  format?: string
  pattern?: RegExp
  minimum?: number
  maximum?: number
  value?: number
  inclusive?: boolean
  fn?: (value: unknown) => unknown
  when?: unknown
}

const defOf = ({ _zod: { def } }: Part): Def => def

/** undefined: not of the usual parts. */
function readerOf(part: Part): Reader | undefined {
  const def = defOf(part)
  const reader = readers[def.type]?.(def)
  const checks = (def.checks ?? []).map(({ _zod: { def: check } }) => checkOf(check))
  if (reader === undefined || def.check !== undefined || def.coerce === true) return undefined
  if (checks.length === 0) return reader
  if (!checks.every((check) => check !== undefined)) return undefined
  return (value) => {
    const read = reader(value)
    return read !== unsure && checks.every((check) => check(read)) ? read : unsure
  }
}

const isType =
  (type: string): (() => Reader) =>
  () =>
  (value) =>
    typeof value === type ? value : unsure

const readers: Record<string, (def: Def) => Reader | undefined> = {
  unknown: () => (value) => (value === undefined ? unsure : value),
  string: isType('string'),
  boolean: isType('boolean'),
  number: () => (value) => (Number.isFinite(value) ? value : unsure),
  literal: ({ values = [] }) => oneOf(values),
  enum: ({ entries = {} }) => oneOf(Object.values(entries)),
  // Where there is nothing the schema says what that becomes.
  optional: innerReader,
  default: innerReader,
  nullable(def) {
    const reader = innerReader(def)
    return reader && ((value) => (value === null ? null : reader(value)))
  },
  array({ element }) {
    const reader = element && readerOf(element)
    return reader && ((value) => (Array.isArray(value) ? readAll(value, reader) : unsure))
  },
  record({ keyType, valueType }) {
    const isOfAll = isPlainPart(keyType, 'string') && isPlainPart(valueType, 'unknown')
    return isOfAll
      ? (value) => (isObject(value) && !hasPrototype(value) ? value : unsure)
      : undefined
  },
  object: objectReader,
  union({ discriminator, options = [], unionFallback }) {
    if (discriminator === undefined || unionFallback === true) return undefined
    return unionReader(discriminator, options)
  },
}

function innerReader({ innerType }: Def): Reader | undefined {
  return innerType && readerOf(innerType)
}

function oneOf(values: unknown[]): Reader {
  const set = new Set(values)
  return (value) => (set.has(value) ? value : unsure)
}

function readAll(values: unknown[], reader: Reader): unknown {
  const read = values.map(reader)
  return read.includes(unsure) ? unsure : read
}

function isPlainPart(part: Part | undefined, type: string): boolean {
  if (part === undefined) return false
  const def = defOf(part)
  return def.type === type && (def.checks ?? []).length === 0
}

function objectReader({ shape = {}, catchall }: Def): Reader | undefined {
  // Strict ones refuse other fields; all else that may be said of them is not known here.
  if (catchall !== undefined && defOf(catchall).type !== 'never') return undefined
  const isStrict = catchall !== undefined
  const fields: { name: string; reader: Reader; mayBeMissing: boolean }[] = []
  for (const [name, part] of Object.entries(shape)) {
    const reader = readerOf(part)
    if (reader === undefined || name === '__proto__') return undefined
    fields.push({ name, reader, mayBeMissing: mayBeMissing(defOf(part)) })
  }
  return (value) => {
    if (!isObject(value)) return unsure
    const read: Record<string, unknown> = {}
    let found = 0
    for (const { name, reader, mayBeMissing } of fields) {
      if (mayBeMissing && !(name in value)) continue
      const field = reader(value[name])
      if (field === unsure) return unsure
      read[name] = field
      found += 1
    }
    return isStrict && Object.keys(value).length !== found ? unsure : read
  }
}

/** What stands in for it, if anything does, is for the schema to say. */
const mayBeMissing = ({ type, innerType }: Def): boolean =>
  type === 'optional' && innerType !== undefined && !('innerType' in defOf(innerType))

function unionReader(discriminator: string, options: Part[]): Reader | undefined {
  const byName = new Map<unknown, Reader>()
  for (const option of options) {
    const reader = readerOf(option)
    const named = defOf(option).shape?.[discriminator]
    const { type, values = [] } = named === undefined ? { type: '' } : defOf(named)
    // One that is not understood is left to the schema, the others are not.
    if (type === 'literal') for (const value of values) byName.set(value, reader ?? leaveIt)
    else return undefined
  }
  return (value) =>
    isObject(value) ? (byName.get(value[discriminator]) ?? leaveIt)(value) : unsure
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A field of this name, which JSON may have, is dropped by zod. */
const hasPrototype = (value: object) => Object.hasOwn(value, '__proto__')

type Check = (value: unknown) => boolean

function checkOf(def: CheckDef): Check | undefined {
  // Those of a length say that they are for what has one, which is known here.
  const isAlways = def.when === undefined || def.check.endsWith('_length')
  return isAlways ? checks[def.check]?.(def) : undefined
}

const lengthOf = (value: unknown) => (value as string | unknown[]).length

const checks: Record<string, (def: CheckDef) => Check | undefined> = {
  min_length:
    ({ minimum = 0 }) =>
    (value) =>
      lengthOf(value) >= minimum,
  max_length:
    ({ maximum = 0 }) =>
    (value) =>
      lengthOf(value) <= maximum,
  greater_than:
    ({ value: least = 0, inclusive }) =>
    (value) =>
      (value as number) > least || (inclusive === true && value === least),
  number_format: ({ format }) => (format === 'safeint' ? Number.isSafeInteger : undefined),
  string_format({ format, pattern }) {
    if (format !== 'regex' || pattern === undefined || pattern.global || pattern.sticky)
      return undefined
    return (value) => pattern.test(value as string)
  },
  custom: ({ fn }) => fn && ((value) => fn(value) === true),
}
