/**
 * Gives schemas their names in the OpenAPI document, in place, because the contract knows nothing but zod. The routes of
 * a noun name what its file of the contract exports with `nameSchemas`, a body of their own with `namedSchema`, lists with
 * `listSchema`; kit/openapi.ts makes the document with `hoistedSchemas`.
 */
import { z } from '@hono/zod-openapi'
import { ErrorBody } from '../../contract/error.ts'
import { eventKinds, SessionEvent as StoredEvent } from '../../contract/events.ts'
import { page } from '../../contract/page.ts'

/** Where the document keeps what has a name. */
export const schemasPath = '#/components/schemas/'

const names = new Map<z.ZodType, string>()
/** The pages of items. */
const lists = new Map<z.ZodType, z.ZodType>()

/** Where the generator finds the name and passes it on, to be taken out of the document by `hoistedSchemas`. */
const mark = 'x-name'

/** In order. Few isolates are ever asked for the document, and in the Worker a look at a schema makes it. */
const waiting: (() => void)[] = []

/** What is to be done with schemas for the document alone. */
export function beforeOpenApi(work: () => void): void {
  waiting.push(work)
}

/** Called when the document is made. */
export function prepareOpenApi(): void {
  for (const work of waiting.splice(0)) work()
}

/** The same schema has one name, wherever it is exported again. A list of it gets its own, too. */
export function namedSchema<S extends z.ZodType>(name: string, schema: S): S {
  beforeOpenApi(() => giveName(name, schema))
  return schema
}

function giveName(name: string, schema: z.ZodType): void {
  if (names.has(schema)) return
  names.set(schema, name)
  schema.register(z.globalRegistry, { ...schema.meta(), [mark]: name })
  const list = lists.get(schema)
  if (list) giveName(`${name}Page`, list)
}

/** Every object that these modules of the contract export, called as it is exported. */
export function nameSchemas(...modules: Record<string, unknown>[]): void {
  beforeOpenApi(() => {
    for (const [name, schema] of modules.flatMap((module) => Object.entries(module)))
      if (schema instanceof z.ZodObject) giveName(name, schema)
  })
}

namedSchema('Error', ErrorBody)

/** One page of a list, named after what is in it. */
export function listSchema<S extends z.ZodType>(item: S): ReturnType<typeof page<S>> {
  const known = lists.get(item) as ReturnType<typeof page<S>> | undefined
  if (known) return known
  const list = page(item)
  lists.set(item, list)
  return list
}

/** As callers get them, with what each kind has: that of `session.created` is called SessionCreatedEvent. */
export const SessionEvent = namedSchema('SessionEvent', eventUnion())

function eventUnion() {
  const { seq, at } = StoredEvent.shape
  const kinds = Object.entries(eventKinds)
  const schemas = kinds.map(([kind, data]) =>
    namedSchema(eventName(kind), z.object({ seq, at, kind: z.literal(kind), data })),
  )
  const mapping = Object.fromEntries(kinds.map(([kind]) => [kind, schemasPath + eventName(kind)]))
  return z
    .union(schemas as [(typeof schemas)[number], ...typeof schemas])
    .meta({ discriminator: { propertyName: 'kind', mapping } })
}

function eventName(kind: string): string {
  return `${kind.replaceAll(/(?:^|\.)(\w)/g, (_, letter: string) => letter.toUpperCase())}Event`
}

/**
 * The document with each named schema once, among its components, and references in its place. The generator could do
 * this itself, but writes "or null" for a name as `allOf` of the name and of null, which nothing satisfies.
 */
export function hoistedSchemas(document: object): {
  document: object
  schemas: Record<string, object>
} {
  const schemas: Record<string, object> = {}
  const visit = (node: unknown): unknown => {
    if (Array.isArray(node)) return node.map(visit)
    if (typeof node !== 'object' || node === null) return node
    const seen = Object.fromEntries(
      Object.entries(node).map(([key, value]) => [key, key === mark ? value : visit(value)]),
    )
    const { [mark]: name, type, description, default: fallback, ...shape } = seen
    if (typeof name !== 'string') return seen
    const isNullable = Array.isArray(type)
    schemas[name] ??= { ...(type ? { type: isNullable ? type[0] : type } : {}), ...shape }
    const reference = { $ref: schemasPath + name }
    return {
      ...(isNullable ? { oneOf: [reference, { type: 'null' }] } : reference),
      ...(description === undefined ? {} : { description }),
      ...(fallback === undefined ? {} : { default: fallback }),
    }
  }
  const visited = visit(document) as object
  return { document: visited, schemas: sorted(schemas) }
}

const sorted = (schemas: Record<string, object>) =>
  Object.fromEntries(Object.entries(schemas).toSorted(([a], [b]) => (a < b ? -1 : 1)))
