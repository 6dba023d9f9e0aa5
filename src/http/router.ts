/**
 * hono's routers, one for each group of paths that begin alike, such as those under `/v1/runs`. A group's router is made
 * when its first request comes, so that a start does not pay for every route of the Api, and most groups are simple
 * enough for hono's quick router, which does not take all of them at once. app.ts gives it to hono.
 */
import type { Result, Router } from 'hono/router'
import { RegExpRouter } from 'hono/router/reg-exp-router'
import { SmartRouter } from 'hono/router/smart-router'
import { TrieRouter } from 'hono/router/trie-router'

interface Added<T> {
  method: string
  path: string
  handler: T
  /** null: it is in every group. */
  group: string | null
}

export class GroupedRouter<T> implements Router<T> {
  readonly name = 'GroupedRouter'
  readonly #added: Added<T>[] = []
  readonly #groups = new Set<string>()
  readonly #routers = new Map<string | null, Router<T>>()

  add(method: string, path: string, handler: T): void {
    const first = groupOf(path)
    const group = /[:*{]/.test(first) ? null : first
    this.#added.push({ method, path, handler, group })
    if (group !== null) this.#groups.add(group)
    // Made before it was added: it does not know the route.
    this.#routers.clear()
  }

  match(method: string, path: string): Result<T> {
    const asked = groupOf(path)
    // One for all that nobody has added: callers must not make more of them.
    const group = this.#groups.has(asked) ? asked : null
    let router = this.#routers.get(group)
    if (router === undefined) {
      router = this.#routerOf(group)
      this.#routers.set(group, router)
    }
    return router.match(method, path)
  }

  #routerOf(group: string | null): Router<T> {
    const router = new SmartRouter<T>({ routers: [new RegExpRouter(), new TrieRouter()] })
    for (const each of this.#added)
      if (each.group === null || each.group === group)
        router.add(each.method, each.path, each.handler)
    return router
  }
}

/** The first word of the path; below `/v1` the first two. */
function groupOf(path: string): string {
  const from = path.startsWith('/v1/') ? 4 : 1
  const end = path.indexOf('/', from)
  return end === -1 ? path.slice(1) : path.slice(1, end)
}
