/**
 * One route as one object: its operation id, who may enter, what it takes, how it answers, what it refuses, and the
 * function that answers. Everything in it is also its entry in the OpenAPI document, so that the two cannot differ.
 *
 * `route()` is for answers in JSON, which are most: `answer` gets what was asked, typed and checked, and returns the body.
 * `rawRoute()` is for the others (downloads, streams, sockets): `respond` makes the response itself. The files in
 * routes/ are lists of these; app.ts adds them. Checks come in the order of SPEC's AUTH7: the guard, the body's bytes,
 * then query, path, headers and body by their schemas.
 */
import { createRoute, type RouteConfig, type z } from '@hono/zod-openapi'
import type { ErrorCode } from '../../contract/error.ts'
import type { Scope } from '../../contract/key.ts'
import type { OrganisationApi } from '../../core/organisation/organisation.ts'
import type { Log } from '../../core/ports.ts'
import type { SessionApi } from '../../core/session/session.ts'
import type { Caller, SandboxCaller } from '../../core/session/record/caller.ts'
import type { AppDeps } from './deps.ts'
import { type App, type AppContext, contextSessionId } from './context.ts'
import type { Entrance, Guards } from './guards.ts'
import { IdempotencyHeader, openapiJson, openapiRefusals } from './openapi.ts'
import { requestLog } from './request-log.ts'

/** What app.ts adds. The few routes that are not made by this file offer the same. */
export interface Route {
  add(app: App, deps: AppDeps, guards: Guards): void
}

/** The route has no such part. */
type Nothing = undefined
type Given<S extends z.ZodType | Nothing> = S extends z.ZodType ? z.output<S> : Nothing

interface Described<
  E extends Entrance,
  P extends z.ZodObject | Nothing,
  Q extends z.ZodObject | Nothing,
  H extends z.ZodObject | Nothing,
  B extends z.ZodType | Nothing,
  I extends boolean,
> {
  id: string
  method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  path: string
  summary: string
  description?: string
  tag: string
  guard: E
  /**
   * For a route that names no session: it shows and makes only what a limited key may see. Without this a limited key is
   * refused. Where the path leads to a session, the session obeys them itself.
   */
  limitedKeys?: 'obeyed'
  params?: P
  query?: Q
  headers?: H
  body?: B
  /** Every field of the body may be left out, and so may the body. */
  bodyMayBeMissing?: boolean
  /** It takes an Idempotency-Key. */
  idempotent?: I
  /** The refusals that are particular to it. */
  refuses: ErrorCode[]
}

/** What `answer` and `respond` get. */
export type Asked<
  E extends Entrance,
  P extends z.ZodObject | Nothing,
  Q extends z.ZodObject | Nothing,
  H extends z.ZodObject | Nothing,
  B extends z.ZodType | Nothing,
  I extends boolean,
> = {
  deps: AppDeps
  guards: Guards
  /** Each line names the request. */
  log: Log
  params: Given<P>
  query: Given<Q>
  headers: Given<H>
  body: Given<B>
} & Entered<E> &
  (I extends true ? { idempotencyKey: string | null } : unknown) &
  (Given<P> extends PathOfSession ? { session: SessionApi } : unknown)

type Entered<E extends Entrance> = E extends Scope
  ? { caller: Caller; organisation: OrganisationApi }
  : E extends 'operator'
    ? unknown
    : {
        sandbox: SandboxCaller & { expiredAt: number | null }
        sessionId: string
        session: SessionApi
      }

/** What leads to a session: its own id, or the id of something in it. */
type PathOfSession =
  | { sessionId: string }
  | { turnId: string }
  | { runId: string }
  | { approvalId: string }
  | { operationId: string }
  | { attemptId: string }
  | { executionId: string }

/** The one answer of a route that is no refusal. `T` is what `answer` returns. */
export interface Answers<T> {
  status: 200 | 201 | 202 | 204
  /** null: the answer has no body. */
  schema: z.ZodType<T> | null
  description: string
}

export const ok = <T>(schema: z.ZodType<T>, description: string): Answers<T> => ({
  ...{ status: 200, schema, description },
})
export const created = <T>(schema: z.ZodType<T>, description: string): Answers<T> => ({
  ...{ status: 201, schema, description },
})
export const accepted = <T>(schema: z.ZodType<T>, description: string): Answers<T> => ({
  ...{ status: 202, schema, description },
})
export const gone = (description: string): Answers<void> => ({
  ...{ status: 204, schema: null, description },
})

export function route<
  E extends Entrance,
  T,
  P extends z.ZodObject | Nothing = Nothing,
  Q extends z.ZodObject | Nothing = Nothing,
  H extends z.ZodObject | Nothing = Nothing,
  B extends z.ZodType | Nothing = Nothing,
  I extends boolean = false,
>(
  described: Described<E, P, Q, H, B, I> & {
    answers: Answers<T>
    /** Where what was made can be read from now on. */
    location?: (made: NoInfer<T>) => string
    answer(asked: Asked<E, P, Q, H, B, I>): NoInfer<T> | Promise<NoInfer<T>>
  },
): Route {
  const { answers, location } = described
  const { status, schema, description } = answers
  const response = schema === null ? { description } : openapiJson(schema, description)
  return rawRoute({
    ...described,
    responses: { [status]: response },
    async respond(asked, c) {
      const value = await described.answer(asked)
      if (location) c.header('location', location(value))
      return status === 204 ? c.body(null, 204) : c.json(value as object, status)
    },
  })
}

export function rawRoute<
  E extends Entrance,
  P extends z.ZodObject | Nothing = Nothing,
  Q extends z.ZodObject | Nothing = Nothing,
  H extends z.ZodObject | Nothing = Nothing,
  B extends z.ZodType | Nothing = Nothing,
  I extends boolean = false,
>(
  described: Described<E, P, Q, H, B, I> & {
    /** Of the body that `respond` reads itself. */
    uploads?: string
    responses: RouteConfig['responses']
    respond(asked: Asked<E, P, Q, H, B, I>, c: AppContext): Promise<Response>
  },
): Route {
  return {
    add(app, deps, guards) {
      const parts = { deps, guards, body: described.bodyMayBeMissing ? described.body : undefined }
      app.openapi(createRoute(configOf(described, guards)), async (c) => {
        // The class has every part; the types say which of them this route has described.
        const asked = new AskedOf(c as AppContext, parts) as unknown
        return await described.respond(asked as Asked<E, P, Q, H, B, I>, c as AppContext)
      })
    },
  }
}

type Part = z.ZodObject | Nothing
type AnyDescribed = Described<Entrance, Part, Part, Part, z.ZodType | Nothing, boolean> & {
  uploads?: string
  responses: RouteConfig['responses']
}

function configOf(described: AnyDescribed, guards: Guards): RouteConfig {
  const { id, method, path, summary, description, tag, params, query, uploads } = described
  const headers = described.idempotent ? IdempotencyHeader : described.headers
  const body = bodyOf(described)
  return {
    ...{ operationId: id, method, path, summary, tags: [tag] },
    ...(description === undefined ? {} : { description }),
    ...guards.at(described.guard, described),
    request: {
      ...(params && { params }),
      ...(query && { query }),
      ...(headers && { headers }),
      ...(body && { body }),
      ...(uploads && { body: { content: { [uploads]: { schema: binary } } } }),
    },
    responses: { ...described.responses, ...openapiRefusals(...described.refuses) },
  }
}

export const binary = { type: 'string', format: 'binary' } as const

const bodyOf = ({ body, bodyMayBeMissing = false }: AnyDescribed) =>
  body && { content: { 'application/json': { schema: body } }, required: !bodyMayBeMissing }

interface Parts {
  deps: AppDeps
  guards: Guards
  /** Its defaults are put in here: nobody has parsed a body that is missing. */
  body: z.ZodType | undefined
}

/** What was asked, part by part: a part that a route does not use costs nothing. Made for one request by `rawRoute`. */
class AskedOf {
  readonly #c: AppContext
  readonly #parts: Parts

  constructor(c: AppContext, parts: Parts) {
    this.#c = c
    this.#parts = parts
  }

  get deps(): AppDeps {
    return this.#parts.deps
  }
  get guards(): Guards {
    return this.#parts.guards
  }
  get log(): Log {
    return requestLog(this.deps.log, this.#c)
  }
  get params(): unknown {
    return this.#valid('param')
  }
  get query(): unknown {
    return this.#valid('query')
  }
  get headers(): unknown {
    return this.#valid('header')
  }
  get body(): unknown {
    const { body } = this.#parts
    const given = this.#valid('json')
    return body ? body.parse(given) : given
  }
  get idempotencyKey(): string | null {
    const { 'idempotency-key': key } = this.#valid('header') as z.output<typeof IdempotencyHeader>
    return key ?? null
  }
  get caller(): Caller {
    return this.#c.get('caller')
  }
  get organisation(): OrganisationApi {
    return this.deps.organisation(this.caller.organisationId)
  }
  get sandbox(): SandboxCaller & { expiredAt: number | null } {
    const { sessionId: _, ...sandbox } = this.#c.get('sandbox')
    return sandbox
  }
  /** That of the sandbox's token, which the guard has compared with the path. */
  get sessionId(): string {
    return this.#c.get('sandbox').sessionId
  }
  get session(): SessionApi {
    return this.deps.session(contextSessionId(this.#c) ?? this.sessionId)
  }

  /** Behind the validators of this very route. */
  #valid(target: 'param' | 'query' | 'header' | 'json'): unknown {
    return this.#c.req.valid(target as never)
  }
}
