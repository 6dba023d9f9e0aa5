/**
 * Gives the objects of the contract their names in the OpenAPI document: a schema is called there as it is exported. Done
 * here, in place, because the contract knows nothing but zod. Routes that describe a body of their own name it with
 * `named`, lists with `listOf`; kit/openapi.ts makes the document with `hoisted`.
 */
import { z } from '@hono/zod-openapi'
import * as approval from '../../contract/approval.ts'
import * as artifact from '../../contract/artifact.ts'
import * as budget from '../../contract/budget.ts'
import * as configuration from '../../contract/configuration.ts'
import * as diff from '../../contract/diff.ts'
import * as env from '../../contract/env.ts'
import { ErrorBody } from '../../contract/error.ts'
import { eventKinds, SessionEvent as StoredEvent } from '../../contract/events.ts'
import * as key from '../../contract/key.ts'
import * as killSwitch from '../../contract/kill-switch.ts'
import * as limits from '../../contract/limits.ts'
import * as manifest from '../../contract/manifest.ts'
import * as modelList from '../../contract/model-list.ts'
import * as operation from '../../contract/operation.ts'
import { page } from '../../contract/page.ts'
import * as patch from '../../contract/patch.ts'
import * as permission from '../../contract/permission.ts'
import * as policy from '../../contract/policy.ts'
import * as policyCheck from '../../contract/policy-check.ts'
import * as policyReplay from '../../contract/policy-replay.ts'
import * as provider from '../../contract/provider.ts'
import * as run from '../../contract/run.ts'
import * as secret from '../../contract/secret.ts'
import * as session from '../../contract/session.ts'
import * as shutdown from '../../contract/shutdown.ts'
import * as status from '../../contract/status.ts'
import * as storedPolicy from '../../contract/stored-policy.ts'
import * as token from '../../contract/token.ts'
import * as tool from '../../contract/tool.ts'
import * as turn from '../../contract/turn.ts'
import * as warmPool from '../../contract/warm-pool.ts'
import * as webhook from '../../contract/webhook.ts'

const path = '#/components/schemas/'

const modules: Record<string, unknown>[] = [
  ...[approval, artifact, budget, configuration, diff, env, key, killSwitch, limits, manifest],
  ...[modelList, operation, patch, permission, policy, policyCheck, policyReplay, provider, run],
  ...[secret, session, shutdown, status, storedPolicy, token, tool, turn, warmPool, webhook],
]

const names = new Map<z.ZodType, string>()

/** Where the generator finds the name and passes it on, to be taken out of the document by `hoisted`. */
const mark = 'x-name'

/** The same schema has one name, wherever it is exported again. */
export function named<S extends z.ZodType>(name: string, schema: S): S {
  if (names.has(schema)) return schema
  names.set(schema, name)
  z.globalRegistry.add(schema, { ...schema.meta(), [mark]: name })
  return schema
}

for (const module of modules)
  for (const [name, schema] of Object.entries(module))
    if (schema instanceof z.ZodObject) named(name, schema)
named('Error', ErrorBody)

// The text of a policy document is described like the document itself. JSON is YAML, too.
for (const source of [storedPolicy.PolicyPut.shape.source, storedPolicy.StoredPolicy.shape.source])
  z.globalRegistry.add(source, {
    ...source.meta(),
    contentMediaType: 'application/yaml',
    contentSchema: { $ref: `${path}PolicyDocument` },
  })

const lists = new Map<z.ZodType, z.ZodType>()

/** One page of a list, named after what is in it. */
export function listOf<S extends z.ZodType>(item: S): ReturnType<typeof page<S>> {
  const known = lists.get(item) as ReturnType<typeof page<S>> | undefined
  if (known) return known
  const list = page(item)
  const name = names.get(item)
  if (name !== undefined) named(`${name}Page`, list)
  lists.set(item, list)
  return list
}

/** As callers get them, with what each kind has: that of `session.created` is called SessionCreatedEvent. */
export const SessionEvent = named('SessionEvent', eventUnion())

function eventUnion() {
  const { seq, at } = StoredEvent.shape
  const kinds = Object.entries(eventKinds)
  const schemas = kinds.map(([kind, data]) =>
    named(eventName(kind), z.object({ seq, at, kind: z.literal(kind), data })),
  )
  const mapping = Object.fromEntries(kinds.map(([kind]) => [kind, path + eventName(kind)]))
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
export function hoisted(document: object): { document: object; schemas: Record<string, object> } {
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
    const reference = { $ref: path + name }
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
