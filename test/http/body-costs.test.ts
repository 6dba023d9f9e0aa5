import { beforeAll, describe, expect, test } from 'vitest'
import { createGuardKit, type GuardKit, type Send } from '../e2e/guard-kit.ts'
import { fillPath, goodBody } from '../e2e/guards.ts'
import { loadRoutes, type Route } from '../e2e/routes.ts'
import { testOperatorKey } from '../support/app.ts'
import { useHost } from '../support/host.ts'

// Every route with a JSON body x bodies of a megabyte that cost as much as can be: many names, and lists in which
// everything is wrong. What is in them is made from the OpenAPI document, so a new route is tried as soon as it is there.

const host = useHost()
const routes = (await loadRoutes()).filter(({ takesJson }) => takesJson)
let kit: GuardKit
let document: Document

interface Schema {
  $ref?: string
  type?: string | string[]
  anyOf?: Schema[]
  oneOf?: Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  additionalProperties?: Schema | boolean
  enum?: unknown[]
  const?: unknown
  minLength?: number
}
interface Document {
  paths: Record<
    string,
    Record<string, { requestBody: { content: Record<string, { schema: Schema }> } }>
  >
  components: { schemas: Record<string, Schema> }
}
type Path = readonly (string | number)[]

beforeAll(async () => {
  const one = host()
  const send: Send = async (method, path, headers, body) => {
    const response = await one.app.app.request(path, { method, headers, body: body as string })
    const text = await response.text()
    return { status: response.status, headers: Object.fromEntries(response.headers), text }
  }
  const strangerKey = (await one.app.makeKey(await one.app.makeOrganisation(), 'admin')).secret
  kit = await createGuardKit({
    ...{ send, strangerKey, adminKey: one.key, operatorKey: testOperatorKey },
    tokenKeys: one.app.tokenKeys,
    live: () => one.live(1000),
  })
  document = (await (await one.app.app.request('/openapi.json')).json()) as Document
})

const follow = (schema: Schema | undefined): Schema =>
  schema?.$ref
    ? follow(document.components.schemas[schema.$ref.split('/').at(-1) ?? ''])
    : (schema ?? {})
const kindsOf = (schema: Schema): Schema[] =>
  [schema, ...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].map(follow)
const isOf = ({ type }: Schema, name: string): boolean => [type].flat().includes(name)

/** Every place in a body that is a list or an object. */
function placesOf(raw: Schema, path: Path = []): [Path, Schema][] {
  if (path.length > 5) return []
  return kindsOf(follow(raw)).flatMap((schema): [Path, Schema][] => [
    ...(isOf(schema, 'array') || isOf(schema, 'object') ? [[path, schema] as [Path, Schema]] : []),
    ...Object.entries(schema.properties ?? {}).flatMap(([name, inner]) =>
      placesOf(inner, [...path, name]),
    ),
    ...(schema.items ? placesOf(schema.items, [...path, 0]) : []),
  ])
}

/** Something that fits, as far as the schema says. */
function fitting(raw: Schema | undefined, depth = 0): unknown {
  const schema = follow(raw)
  if (depth > 8) return 'a'
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return schema.enum[0]
  const other = (schema.anyOf ?? schema.oneOf)?.[0]
  if (other) return fitting(other, depth + 1)
  if (schema.properties)
    return Object.fromEntries(
      (schema.required ?? []).map((name) => [name, fitting(schema.properties?.[name], depth + 1)]),
    )
  if (isOf(schema, 'array')) return []
  if (isOf(schema, 'object')) return {}
  if (isOf(schema, 'boolean')) return true
  return isOf(schema, 'string') ? 'a'.repeat(schema.minLength ?? 1) : 1
}

/** With what stands beside it on the way. */
function put(raw: Schema | undefined, base: unknown, path: Path, value: unknown): unknown {
  const [head, ...rest] = path
  if (head === undefined) return value
  const kinds = kindsOf(follow(raw))
  if (typeof head === 'number') {
    const items = kinds.find((kind) => kind.items)?.items
    const list = Array.isArray(base) ? [...(base as unknown[])] : []
    list[head] = put(items, list[head], rest, value)
    return list
  }
  const kind = kinds.find(({ properties }) => properties?.[head])
  const whole = { ...((base ?? fitting(kind)) as Record<string, unknown>) }
  return { ...whole, [head]: put(kind?.properties?.[head], whole[head], rest, value) }
}

const names = Object.fromEntries(Array.from({ length: 60_000 }, (_, n) => [`k${n}`, 0]))
const wrong = { objects: {}, numbers: 0, texts: '' }

function* bodiesFor(route: Route): Generator<[name: string, body: unknown]> {
  const written = route.path.replaceAll(/:(\w+)(\{[^}]+\})?/g, '{$1}')
  const { content } = document.paths[written]![route.method.toLowerCase()]!.requestBody
  const { schema } = content['application/json']!
  const good: unknown = JSON.parse(goodBody(kit, route.path))
  for (const [path, place] of placesOf(schema)) {
    const at = path.join('.')
    if (isOf(place, 'object')) yield [`${at}: many names`, put(schema, good, path, names)]
    if (!isOf(place, 'array')) continue
    for (const [name, item] of Object.entries(wrong)) {
      const length = Math.floor(1_000_000 / (JSON.stringify(item).length + 1))
      const list = Array.from({ length }, () => item)
      yield [`${at}: a list of ${name}`, put(schema, good, path, list)]
    }
  }
}

const visitors = {
  public: 'an admin',
  key: 'an admin',
  sandbox: 'the sandbox',
  operator: 'the operator',
} as const

async function send(route: Route, body: string) {
  const headers = {
    authorization: `Bearer ${kit.visitors[visitors[route.guard.kind]]}`,
    'content-type': 'application/json',
  }
  const before = process.threadCpuUsage()
  const answer = await kit.send(route.method, fillPath(kit, route.path), headers, body)
  const { user, system } = process.threadCpuUsage(before)
  return { ...answer, ms: (user + system) / 1000 }
}

describe('[API13] a body of a megabyte', () => {
  let usual: number
  beforeAll(async () => {
    // What such a body costs at least: to read it, and to look at each value.
    const members = routes.find(({ path, method }) => path === '/v1/members' && method === 'POST')!
    const body = `{"name":[${'{},'.repeat(330_000)}0]}`
    const times: number[] = []
    for (let time = 0; time < 5; time += 1) times.push((await send(members, body)).ms)
    usual = times.toSorted((a, b) => a - b)[2] ?? 0
  })

  test.each(routes.map((route) => [`${route.method} ${route.path}`, route] as const))(
    'costs %s no more than to read it, whatever is wrong with it',
    async (_, route) => {
      for (const [name, value] of bodiesFor(route)) {
        const body = JSON.stringify(value)
        let answer = await send(route, body)
        // Once more if something else took its time.
        if (answer.ms > usual * 5) answer = await send(route, body)
        expect([name, answer.status < 500, answer.text.length < 100_000]).toEqual([
          name,
          true,
          true,
        ])
        expect([name, answer.ms < usual * 5]).toEqual([name, true])
      }
    },
  )
})
